#!/usr/bin/env python3
"""What the documents point at is there.

* Each relative link in a *.md leads to a file, and its anchor to a heading.
* Each path in backticks that begins with one of our folders is there; `*`
  stands for any part of a name, and a path with NAME in it is a pattern to
  follow.
* Each page named in a source file (docs/NAME.md) is there.
* Each page (README.md and CONTRIBUTING.md, too) links to docs/glossary.md.

Usage: links.py [ROOT]     prints one line a violation, exit 1 if there is any.
"""
import pathlib
import re
import sys

LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
FOLDERS = ("api", "apps", "base", "branches", "cli", "deploy", "docs",
           "include", "ps", "searchers", "tests", "tuner")
PATH = re.compile(r"`((?:%s)/[\w./*-]*)`" % "|".join(FOLDERS))
PAGE = re.compile(r"\bdocs/[\w/-]+\.md\b")
SOURCES = {".c", ".h", ".py", ".sh", ".mk", ".js", ".awk"}
# Reports of measurements, kept as they were written; their README.md links.
REPORTS = "docs/results/"
ENTRANCES = ("README.md", "CONTRIBUTING.md")
NOT_OURS = {"build", ".git", ".mltune", "__pycache__", "node_modules"}


def files(root, suffixes):
    for path in sorted(root.rglob("*")):
        inner = path.relative_to(root)
        if path.suffix in suffixes and path.is_file() and \
                not NOT_OURS & set(inner.parts):
            yield path


def without_code(text):
    """Fenced blocks blanked, line numbers kept."""
    return re.sub(r"^\s*```.*?^\s*```\s*?$",
                  lambda m: "\n" * m.group(0).count("\n"), text,
                  flags=re.S | re.M)


def slugs(text):
    """The anchors of a page's headings, as GitHub makes them."""
    seen, out = {}, set()
    for line in without_code(text).splitlines():
        match = re.match(r"#{1,6}\s+(.*?)\s*#*$", line)
        if not match:
            continue
        title = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", match.group(1))
        title = re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
        count = seen.get(title, 0)
        seen[title] = count + 1
        out.add(f"{title}-{count}" if count else title)
    return out


def check_page(root, path, complain):
    text = without_code(path.read_text())
    targets = set()
    for number, line in enumerate(text.splitlines(), 1):
        for target in LINK.findall(line):
            if re.match(r"[a-z]+:", target):
                continue
            name, _, anchor = target.partition("#")
            there = (path.parent / name).resolve() if name else path
            targets.add(there)
            if not there.exists():
                complain(path, number, f"leads nowhere: {target}")
            elif anchor and there.suffix == ".md" and \
                    anchor not in slugs(there.read_text()):
                complain(path, number, f"no such heading: {target}")
        for name in PATH.findall(line):
            if "NAME" not in name and \
                    not any(root.glob(name.rstrip("/"))):
                complain(path, number, f"no such file: {name}")
    name = path.relative_to(root).as_posix()
    glossary = (root / "docs" / "glossary.md").resolve()
    report = name.startswith(REPORTS) and path.name != "README.md"
    page = name in ENTRANCES or name.startswith("docs/") and not report
    if page and path.resolve() != glossary and glossary not in targets:
        complain(path, 0, "does not link to docs/glossary.md")


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
    count = pages = 0

    def complain(path, number, message):
        nonlocal count
        count += 1
        print(f"{path.relative_to(root)}:{number}: {message}")

    for path in files(root, {".md"}):
        pages += 1
        check_page(root, path, complain)
    for path in files(root, SOURCES):
        for number, line in enumerate(path.read_text(errors="replace")
                                      .splitlines(), 1):
            for name in PAGE.findall(line):
                if not (root / name).exists() and "tests/lint/" not in \
                        path.as_posix():
                    complain(path, number, f"no such page: {name}")
    if pages == 0:
        print("links: found no page: wrong folder?")
        count += 1
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
