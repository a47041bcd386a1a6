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


def users_of(root):
    """The files that reach into each struct, by the struct's (file, line), and
    a list of what is wrong."""
    binary = os.environ.get("CLANG_QUERY", "clang-query")
    flags = ["-std=gnu11", "-I.", "-Iinclude", "-D_GNU_SOURCE", "-DMLT_DEBUG",
             '-DMLT_VERSION="0"', "-Wno-everything"]
    flags += subprocess.run(["pkg-config", "--cflags", *PACKAGES], text=True,
                            capture_output=True, check=False).stdout.split()
    paths = [path.relative_to(root) for folder in FOLDERS
             for path in sorted(pathlib.Path(root, folder).rglob("*.c"))]
    users = collections.defaultdict(set)
    wrong = []
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for path, places, error in pool.map(
                lambda p: ask(root, p, flags, binary), paths):
            if places is None:
                wrong.append(f"{path}:0: clang cannot read it: "
                             f"{error.strip()[:200]}")
            for place in places or ():
                users[place].add(path)
    if not users:
        wrong.append("fanin: found no struct in use: wrong folder, or no "
                     "clang-query?")
    return users, wrong


def name_of(root, place):
    """The name of the struct at @place; "": it has none."""
    text = pathlib.Path(root, place[0]).read_text().split("\n")[place[1] - 1]
    name = re.search(r"struct (\w+)", text)
    return name.group(1) if name else ""


def main():
    root = os.path.realpath(sys.argv[1] if len(sys.argv) > 1 else ".")
    limit = int(sys.argv[2]) if len(sys.argv) > 2 else LIMIT
    users, wrong = users_of(root)
    for place, files in sorted(users.items()):
        name = name_of(root, place)
        if len(files) >= limit and name and name not in VALUES:
            wrong.append(f"{place[0]}:{place[1]}: {len(files)} files reach "
                         f"into struct {name}; fewer than {limit} may")
    for line in wrong:
        print(line)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
