#!/usr/bin/env python3
"""Counts what docs/results.md says of the house, folder by folder.

Lines of C (all, and those with code), files above LONG_FILE lines, the length
of functions from their name to the closing brace, asserts a thousand lines of
code, and the struct into which most files reach (fanin.py).
Two trees are shown side by side: before and now.

Usage: figures.py BEFORE [NOW]     prints a table in Markdown.
"""
import pathlib
import re
import statistics
import sys

import fanin

FOLDERS = ("base", "branches", "ps", "apps", "searchers", "tuner", "api", "cli")
LONG_FILE = 500
ASSERT = re.compile(r"\bassert\s*\(")
COMMENT_OR_TEXT = re.compile(r'/\*.*?\*/|//[^\n]*|("(?:\\.|[^"\\\n])*")', re.S)


def code_of(text):
    """The lines of @text that hold more than comment and space."""
    bare = COMMENT_OR_TEXT.sub(
        lambda m: m.group(1) or "\n" * m.group(0).count("\n"), text)
    return [line for line in bare.split("\n") if line.strip()]


def lengths_of(text):
    """Lines of every function of @text, from its name to its end. clang-format
    puts a function's braces at the beginning of lines of their own, and nothing
    else there."""
    begun = None
    for number, line in enumerate(text.split("\n")):
        if line == "{":
            first = begun
        elif line == "}":
            yield number - first + 1
        if line and line[0] not in " {}*#":
            begun = number


def ninth_tenth(values):
    return sorted(values)[int(0.9 * (len(values) - 1))]


def figures(root, folders, structs):
    """The cells of one row."""
    paths = [p for folder in folders
             for p in sorted((root / folder).rglob("*.[ch]"))]
    texts = [p.read_text(errors="replace") for p in paths]
    code = [code_of(text) for text in texts]
    lines = sum(text.count("\n") for text in texts)
    dense = sum(map(len, code))
    asserts = sum(len(ASSERT.findall(line)) for file in code for line in file)
    lengths = [n for text in texts for n in lengths_of(text)]
    files, name = max((count, name) for folder, count, name in structs
                      if folder in folders)
    return [f"{lines:,}", f"{dense:,}",
            str(sum(text.count("\n") > LONG_FILE for text in texts)),
            f"{statistics.median(lengths):g} / {ninth_tenth(lengths)}",
            f"{1000 * asserts / dense:.1f}", f"{files} (`{name}`)"]


def structs_of(root):
    """A list of (folder, files that reach into it, name)."""
    users, failed = fanin.users_of(str(root))
    if failed:
        sys.exit("\n".join(failed))
    return [(place[0].split("/")[0], len(files), fanin.name_of(root, place))
            for place, files in users.items()
            if fanin.name_of(root, place) not in fanin.VALUES]


def main():
    roots = [pathlib.Path(root).resolve() for root in sys.argv[1:3]]
    if not roots:
        sys.exit(__doc__.strip())
    structs = [structs_of(root) for root in roots]
    head = ["folder", "lines of C", "with code", f"files above {LONG_FILE}",
            "functions: median / p90", "asserts a thousand", "largest fan-in"]
    print("| " + " | ".join(head) + " |")
    print("|---" * len(head) + "|")
    for folders in [(folder,) for folder in FOLDERS] + [FOLDERS]:
        rows = [figures(root, folders, known)
                for root, known in zip(roots, structs)]
        cells = [" → ".join(cell) for cell in zip(*rows)]
        name = f"`{folders[0]}`" if len(folders) == 1 else "all"
        print(f"| {name} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
