#!/usr/bin/env python3
"""No member of JSON is lost without a word.

jansson's setters return -1 where there is no memory. Whoever drops that writes,
sends or prints an object that lacks a member, and nobody knows. So their result
is used (json_whole), or cast to void, with the reason beside it. Its copies drop
members themselves, so only json_copied makes some.

Usage: dropped.py [ROOT]     prints one line a violation, exit 1 if there is any.
"""
import pathlib
import re
import sys

FOLDERS = ("api", "apps", "base", "branches", "cli", "ps", "searchers", "tuner")
# Programs of their own, as users write them.
APART = ("apps/direct/", "apps/examples/", "apps/plugins/")
SETTER = re.compile(r"\bjson_(?:object_(?:set|update)|array_(?:append|insert|"
                    r"set|extend))\w*\s*\(")
COPY = re.compile(r"\bjson_(?:deep_)?copy\s*\(")
COPIES = "base/json/json.c"  # json_copied and json_copied_members
ASIDE = re.compile(r'/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.S)


def bare(text):
    """@text with blanks in place of comments and strings."""
    return ASIDE.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), text)


def is_statement(before):
    before = before.rstrip()
    return not before.endswith("(void)") and (
        before.endswith((";", "{", "}", ")")) or
        re.search(r"\belse$", before) is not None)


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    wrong = False
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*.c")):
            name = path.relative_to(root).as_posix()
            if name.startswith(APART):
                continue
            text = bare(path.read_text(encoding="utf-8", errors="replace"))
            for found in COPY.finditer(text) if name != COPIES else ():
                line = text.count("\n", 0, found.start()) + 1
                print(f"{name}:{line}: json_copied instead: this copy lacks "
                      "what it finds no memory for, and nobody hears of it")
                wrong = True
            for found in SETTER.finditer(text):
                if is_statement(text[:found.start()]):
                    line = text.count("\n", 0, found.start()) + 1
                    print(f"{name}:{line}: {found[0].rstrip(' (')}: nobody "
                          "hears of it where there is no memory")
                    wrong = True
    return wrong


if __name__ == "__main__":
    sys.exit(main())
