#!/usr/bin/env python3
"""Checks that no struct is reached into by twenty files or more.

A file reaches into a struct that reads or writes a member of it, as clang sees
it (clang-query); who only makes one, by an initializer, does not. Counted are
the product's files, not the tests. A struct that more need is to be asked by
functions, or is two structs.

Usage: fanin.py [ROOT [LIMIT]]   prints one line a violation, exit 1 if there is any.
"""
import collections
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys

LIMIT = 20  # files
# Values that are read as they are: an error and its sentence.
VALUES = {"fault"}
FOLDERS = ("base", "branches", "ps", "searchers", "tuner", "api", "cli", "apps")
PACKAGES = ("libmicrohttpd gnutls jansson libzmq sqlite3 zlib liblzma").split()
MATCH = ("match memberExpr(isExpansionInMainFile(), member(fieldDecl(hasAncestor("
         "recordDecl(hasParent(translationUnitDecl())).bind(\"struct\")))))")
BOUND = re.compile(r'^(\S+?):(\d+):\d+: note: "struct" binds here', re.M)


def ask(root, path, flags, binary):
    """Where the structs are that @path reaches into."""
    done = subprocess.run([binary, "-c", "set bind-root false", "-c", "set output diag",
                           "-c", MATCH, str(path), "--", *flags],
                          cwd=root, capture_output=True, text=True, check=False)
    if "error:" in done.stderr:
        return path, None, done.stderr
    places = set()
    for place, line in BOUND.findall(done.stdout):
        file = os.path.relpath(os.path.join(root, place), root)
        if not file.startswith(".."):
            places.add((file, int(line)))
    return path, places, ""


def main():
    root = os.path.realpath(sys.argv[1] if len(sys.argv) > 1 else ".")
    limit = int(sys.argv[2]) if len(sys.argv) > 2 else LIMIT
    binary = os.environ.get("CLANG_QUERY", "clang-query")
    flags = ["-std=gnu11", "-I.", "-Iinclude", "-D_GNU_SOURCE", "-DMLT_DEBUG",
             '-DMLT_VERSION="0"', "-Wno-everything"]
    flags += subprocess.run(["pkg-config", "--cflags", *PACKAGES], text=True,
                            capture_output=True, check=False).stdout.split()
    paths = [path.relative_to(root) for folder in FOLDERS
             for path in sorted(pathlib.Path(root, folder).rglob("*.c"))]
    users = collections.defaultdict(set)
    bad = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for path, places, error in pool.map(
                lambda p: ask(root, p, flags, binary), paths):
            if places is None:
                print(f"{path}:0: clang cannot read it: {error.strip()[:200]}")
                bad += 1
            for place in places or ():
                users[place].add(path)
    if not users:
        print("fanin: found no struct in use: wrong folder, or no clang-query?")
        return 1
    for (file, line), files in sorted(users.items()):
        text = pathlib.Path(root, file).read_text().split("\n")[line - 1]
        name = re.search(r"struct (\w+)", text)
        if len(files) >= limit and name and name.group(1) not in VALUES:
            print(f"{file}:{line}: {len(files)} files reach into struct "
                  f"{name.group(1)}; fewer than {limit} may")
            bad += 1
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
