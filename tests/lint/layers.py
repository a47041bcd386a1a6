#!/usr/bin/env python3
"""Checks what the compiler cannot: who includes whom, who is pure, what is left.

Rules (docs/architecture.md): folders depend one way; in the pure folders only
files ending _io.c or _io.h touch clock, socket, file, thread and process; no
shell is ever called; no word of unfinished work stays behind.

Usage: layers.py [ROOT]     prints one line a violation, exit 1 if there is any.
"""
import pathlib
import re
import sys

# A folder may include headers of these folders (and of itself).
MAY_INCLUDE = {
    "base": {"base"},
    "branches": {"base", "branches"},
    "ps": {"base", "branches", "ps"},
    "apps": {"base", "apps"},
    "searchers": {"base", "searchers"},
    "tuner": {"base", "searchers", "tuner"},
    "api": {"base", "searchers", "tuner", "api"},
    "cli": {"base", "branches", "ps", "apps", "searchers", "tuner", "api", "cli"},
}
PURE = {"branches", "ps", "searchers", "tuner"}
IMPURE_HEADERS = re.compile(
    r"<(pthread|threads|time|unistd|fcntl|poll|signal|semaphore|spawn|sched|"
    r"dirent|glob|dlfcn|zmq|sqlite3|microhttpd|sys/(?!types)[a-z_]+|netinet/.*|"
    r"arpa/.*|netdb)\.h>|\"base/\w+_io\.h\"")
IMPURE_CALLS = re.compile(
    r"(?<!->)(?<!\.)\b(fopen|fdopen|freopen|open|openat|socket|fork|execve|time|clock|"
    r"clock_gettime|gettimeofday|rand|srand|random|getenv|printf|fprintf|puts)"
    r"\s*\(")
SHELL = re.compile(r"\b(system|popen|execlp|execvp)\s*\(")
UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")
INCLUDE = re.compile(r'^\s*#\s*include\s+([<"][^>"]+[>"])')


def strip_comments(text):
    """Comments and string contents away, line numbers kept."""
    pattern = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', re.S)

    def blank(match):
        word = match.group(0)
        if word.startswith('"'):
            return '""'
        return "\n" * word.count("\n")

    return pattern.sub(blank, text)


def check_file(path, folder, root, complain):
    text = path.read_text(errors="replace")
    shell_file = path.stem.endswith("_io")
    for number, line in enumerate(text.splitlines(), 1):
        if UNFINISHED.search(line):
            complain(path, number, "word of unfinished work")
        match = INCLUDE.match(line)
        if not match:
            continue
        name = match.group(1)
        if name.startswith('"'):
            inner = name.strip('"')
            target = inner.split("/")[0]
            if "/" not in inner:
                complain(path, number, f"{name}: write the path from the root")
            elif target != "mltune" and folder in MAY_INCLUDE and \
                    target not in MAY_INCLUDE[folder]:
                complain(path, number, f"{folder} may not include {name}")
        if folder in PURE and not shell_file and IMPURE_HEADERS.match(name):
            complain(path, number, f"pure file includes {name}")
    for number, line in enumerate(strip_comments(text).splitlines(), 1):
        if SHELL.search(line):
            complain(path, number, "no shell: use posix_spawn with an argv")
        if folder in PURE and not shell_file and path.suffix == ".c":
            match = IMPURE_CALLS.search(line)
            if match:
                complain(path, number, f"pure file calls {match.group(1)}")
    if path.suffix == ".c" and (path.with_suffix(".h")).exists():
        first = next((INCLUDE.match(l).group(1) for l in text.splitlines()
                      if INCLUDE.match(l)), "")
        own = f'"{path.relative_to(root).with_suffix(".h").as_posix()}"'
        if first != own:
            complain(path, 1, f"own header first: {own}")


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    count = 0

    def complain(path, number, message):
        nonlocal count
        count += 1
        print(f"{path.relative_to(root)}:{number}: {message}")

    files = 0
    for folder in [*MAY_INCLUDE, "include", "tests"]:
        for path in sorted((root / folder).rglob("*.[ch]")):
            files += 1
            check_file(path, folder, root, complain)
    if files == 0:
        print("layers: found no source file: wrong folder?")
        count += 1
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
