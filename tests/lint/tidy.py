#!/usr/bin/env python3
"""clang-tidy of one file, unless it was clean before, with all that it includes.

    tidy.py FILE.c FLAG ... [-- CLANG_FLAG ...]

Prints what clang-tidy says where the file is not clean, and exits 1. A clean one
leaves an empty file in the cache, named by the hash of all that was looked at:
clang-tidy's version and options, the flags, the file and each header, the system's
too. So what one copy of the sources has found clean is not looked at again in another.
What was not asked for in thirty days goes.

MLTUNE_TIDY_CACHE: the folder (~/.cache/mltune-tidy); empty: none.
"""
import hashlib
import os
import pathlib
import subprocess
import sys
import time

KEPT_S = 30 * 24 * 3600


def cache_folder():
    """None: no cache."""
    name = os.environ.get("MLTUNE_TIDY_CACHE")
    if name is None:
        name = os.path.expanduser("~/.cache/mltune-tidy")
    if not name:
        return None
    try:
        os.makedirs(name, exist_ok=True)
    except OSError:
        return None
    return pathlib.Path(name)


def included(source, flags):
    """All files that the compiler reads. None: one is missing, and clang-tidy will
    say which."""
    asked = subprocess.run(["gcc", *flags, "-M", "-MT", "x", source],
                           capture_output=True, text=True, check=False)
    if asked.returncode:
        return None
    return asked.stdout.replace("\\\n", " ").split()[1:]


def key_of(source, flags, more):
    """None: there is none."""
    files = included(source, flags)
    if files is None:
        return None
    digest = hashlib.sha256()
    version = subprocess.run(["clang-tidy", "--version"], capture_output=True,
                             check=False).stdout
    for part in [version, *(f.encode() for f in [source, *flags, "--", *more])]:
        digest.update(b"%d:" % len(part) + part)
    for name in [".clang-tidy", __file__, *files]:
        text = pathlib.Path(name).read_bytes()
        digest.update(b"%d:" % len(text) + text)
    return digest.hexdigest()


def forget_old(folder):
    oldest = time.time() - KEPT_S
    for entry in folder.iterdir():
        if entry.stat().st_mtime < oldest:
            entry.unlink(missing_ok=True)


def main():
    source, *flags = sys.argv[1:]
    at = flags.index("--") if "--" in flags else len(flags)
    flags, more = flags[:at], flags[at + 1:]
    folder = cache_folder()
    key = key_of(source, flags, more) if folder else None
    if key and (folder / key).exists():
        (folder / key).touch()
        return 0
    done = subprocess.run(["clang-tidy", "--quiet", source, "--", *flags, *more],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          check=False)
    if done.returncode:
        sys.stdout.buffer.write(done.stdout)
        return 1
    if key:
        (folder / key).touch()
        forget_old(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
