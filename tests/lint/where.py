#!/usr/bin/env python3
"""The tables "Where is ...?", "Two ways ..." and "Translations, ..." of
docs/architecture.md are true, and "Attacks ..." and "Bytes ..." of
docs/failures.md.

Each of their rows names, in its last cells, a file and the functions in it:
| question | `path/file.c` | `function`, `other` |
The file exists and has every function: defines it, or, a header, declares it.
Of "Translations, ..." each row is one: a path begins with a bold word, another
side of it with *wire*, and no side has more than TRANSLATIONS_MAX.
Of "Bytes ..." each row names its fuzz target, (`NAME`) at the end of its first
cell: each of tests/fuzz has a row, and calls one of the row's functions.

Usage: where.py [ROOT]     prints one line a violation, exit 1 if there is any.
"""
import pathlib
import re
import sys

PAGES = {"architecture.md": '"Where is ...?"', "failures.md": '"Attacks ..."'}
HEADING = re.compile(r"^#+ (Where is \.\.\.\?|Two ways through the house|"
                     r"Translations, path by path|"
                     r"Attacks, and the tests that repeat them|"
                     r"Bytes from outside, and what fuzzes them)\s*$")
FUZZED = re.compile(r"^#+ Bytes from outside, and what fuzzes them\s*$")
TRANSLATIONS = re.compile(r"^#+ Translations, path by path\s*$")
TRANSLATIONS_MAX = 2


def rows(text):
    """Yields (line number, file, functions) of the table under the heading."""
    inside = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("#"):
            inside = bool(HEADING.match(line))
        elif inside and line.startswith("|"):
            cells = [c.strip() for c in line.strip().strip("|").split("|")]
            if set("".join(cells)) <= set("-: ") or "`" not in line:
                continue
            if len(cells) != 3:
                yield number, None, None
                continue
            yield number, cells[1].strip("`"), re.findall(r"`([\w.]+)`",
                                                          cells[2])


def crowded_sides(text):
    """Yields the lines of translations that are too many on their side."""
    inside, count = False, 0
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("#"):
            inside = bool(TRANSLATIONS.match(line))
        elif inside and re.match(r"\|.*`", line):
            begins = line.startswith(("| **", "| *wire*"))
            count = 1 if begins else count + 1
            if count > TRANSLATIONS_MAX:
                yield number


def fuzzed(text):
    """Yields (line number, target, functions) of the rows of "Bytes ..."."""
    inside = False
    for number, line in enumerate(text.splitlines(), 1):
        row = re.match(r"\| .*?\(`(\w+)`\) \|[^|]*\|(.*)\|$", line)
        if line.startswith("#"):
            inside = bool(FUZZED.match(line))
        elif inside and line.startswith("| ") and not line.startswith("| bytes"):
            yield (number, row[1] if row else None,
                   re.findall(r"`(\w+)`", row[2]) if row else [])


def wrong_targets(root):
    """Yields the line and what is wrong with its target; targets without one."""
    page = root / "docs" / "failures.md"
    folder = root / "tests" / "fuzz"
    shared = "".join(f.read_text() for f in sorted(folder.glob("*.h")))
    unnamed = {f.stem.removeprefix("fuzz_") for f in folder.glob("fuzz_*.c")}
    for number, target, functions in fuzzed(page.read_text()):
        source = folder / f"fuzz_{target}.c"
        unnamed.discard(target)
        if not source.is_file():
            yield number, f"no such fuzz target: {target}"
        elif not any(f"{f}(" in source.read_text() + shared for f in functions):
            yield number, f"fuzz_{target}.c calls none of the row's functions"
    for target in sorted(unnamed):
        yield 0, f"no row for the fuzz target {target}"


def holds(text, function, header):
    """True where a line begins a definition (in a header a declaration), or
    the name is a table's, a macro's or a struct's."""
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    # JavaScript: members taken out of an argument, and a default.
    text = re.sub(r"\{[\w, ]*\}( = \{\})?\)", ")", text)
    text = text.replace(" = {})", ")")
    name = re.escape(function)
    end = r"[^;{}]*\)\s*(MLT_\w+\s*)?[;{]" if header else r"[^;{}]*\)\s*{"
    return bool(re.search(rf"^([\w][\w \t*]*\b)?{name}\({end}", text, re.M) or
                re.search(rf"^(static )?const [\w ]+\b{name}(\[\w*\])? = ",
                          text, re.M) or
                re.search(rf"^#define {name}\b|^struct {name} {{", text, re.M))


def has_test(text, name):
    """True where Python's class, of "Class.test", has that function, or that
    class without functions of its own is there (they are inherited)."""
    kind, _, test = name.partition(".")
    body = re.search(rf"^class {kind}\b.*?(?=^[\w@]|\Z)", text, re.M | re.S)
    if not body or not test:
        return bool(body)
    return f"    def {test}(self" in body[0]


def wrong_rows(root, page):
    """Yields the line and what is wrong with it; counts the rows."""
    for number, name, functions in rows(page.read_text()):
        path = root / name if name else None
        message = None
        if not name:
            message = "three cells are wanted: question, file, functions"
        elif not path.is_file():
            message = f"no such file: {name}"
        elif not functions:
            message = "no function is named"
        else:
            text = path.read_text()
            missing = [f for f in functions if not (
                has_test(text, f) if path.suffix == ".py" else
                holds(text, f, path.suffix == ".h"))]
            if missing:
                message = f"{name} does not hold {', '.join(missing)}"
        yield number, message


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    page = root / "docs" / "architecture.md"
    wrong = 0
    for name in PAGES:
        if not (root / "docs" / name).is_file():
            continue
        count = 0
        for number, message in wrong_rows(root, root / "docs" / name):
            count += 1
            if message:
                print(f"docs/{name}:{number}: {message}")
                wrong += 1
        if count == 0:
            print(f"docs/{name}: no table under {PAGES[name]}")
            wrong += 1
    if (root / "docs" / "failures.md").is_file():
        for number, message in wrong_targets(root):
            print(f"docs/failures.md:{number}: {message}")
            wrong += 1
    for number in crowded_sides(page.read_text()):
        print(f"docs/architecture.md:{number}: more than {TRANSLATIONS_MAX} "
              "translations on this side of the wire")
        wrong += 1
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
