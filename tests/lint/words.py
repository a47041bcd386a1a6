#!/usr/bin/env python3
"""Sentences above 30 words in the documents: a sign that a reader gets lost. Lines
above 180 characters: a terminal folds them anywhere.

Looks at README.md, CONTRIBUTING.md, docs/*.md, docs/http/*.md and
docs/results/*.md. A list item, a cell of a table and a heading end a sentence, code
counts as one word. A row of a table, and code, may be as long as they are.

Usage: words.py [ROOT]    lists such sentences and lines, exit 1 if there is any.
"""
import pathlib
import re
import sys

WORDS_MAX = 30
LINE_MAX = 180
BLOCK = re.compile(r"^\s*([-*+]|\d+\.)\s+|^\s*#+\s+|^\s*>\s?")
# A sentence ends at . ! or ? before a blank.
END = re.compile(r"(?<=[.!?])[\"”)*_]*\s+")
ABBREVIATION = re.compile(r"\b(e\.g|i\.e|etc|cf|al|vs|eq|Fig|No)\.$")


def blocks(text):
    """Yields (line number, text) of paragraphs, items, cells and headings."""
    fenced, start, gathered = False, 0, []

    def flush():
        if gathered:
            yield start, " ".join(gathered)
            gathered.clear()

    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("```"):
            yield from flush()
            fenced = not fenced
            continue
        if fenced:
            continue
        if line.lstrip().startswith("|"):
            yield from flush()
            for cell in re.split(r"(?<!\\)\|", line.strip().strip("|")):
                yield number, cell.strip()
            continue
        if not line.strip() or BLOCK.match(line):
            yield from flush()
        if line.strip():
            if not gathered:
                start = number
            gathered.append(BLOCK.sub("", line).strip())
    yield from flush()


def sentences(text):
    text = re.sub(r"``?[^`]+``?", "`c`", text)
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    parts, held = [], ""
    for part in END.split(text):
        held = f"{held} {part}".strip()
        if not ABBREVIATION.search(held):
            parts.append(held)
            held = ""
    return parts + ([held] if held else [])


def long_sentences(text):
    for number, block in blocks(text):
        for sentence in sentences(block):
            words = [w for w in sentence.split() if re.search(r"[\w`]", w)]
            if len(words) > WORDS_MAX:
                yield number, len(words), sentence


def long_lines(text):
    fenced = False
    for number, line in enumerate(text.splitlines(), 1):
        fenced ^= line.lstrip().startswith("```")
        if not fenced and line[:1] != "|" and len(line) > LINE_MAX:
            yield number, len(line)


def pages(root):
    for path in [root / "README.md", root / "CONTRIBUTING.md",
                 *sorted((root / "docs").glob("*.md")),
                 *sorted((root / "docs" / "http").glob("*.md")),
                 *sorted((root / "docs" / "results").glob("*.md"))]:
        if path.exists():
            yield path


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    wrong = looked_at = 0
    for path in pages(root):
        looked_at += 1
        name = path.relative_to(root).as_posix()
        for number, count, sentence in long_sentences(path.read_text()):
            print(f"{name}:{number}: {count} words, more than {WORDS_MAX}: "
                  f"{sentence}")
            wrong += 1
        for number, length in long_lines(path.read_text()):
            print(f"{name}:{number}: a line of {length} characters, more than "
                  f"{LINE_MAX}")
            wrong += 1
    if looked_at == 0:
        print("words: found no page: wrong folder?")
        wrong += 1
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
