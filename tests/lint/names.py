#!/usr/bin/env python3
"""Three facts about names that the compiler does not see.

No two types share a name: each `struct x {`, `union x {` and `enum x {` of the
product stands in one file. No function is there for tests alone: each one that
is not static is called, or its address taken, in the product. FOR_TESTS has
those that may be, with the reason; functions of the installed interface
(include/mltune) are for users. No function that a header declares is for its own
file alone: such a one is static.

Usage: names.py [ROOT]     prints one line a violation, exit 1 if there is any.
"""
import collections
import pathlib
import re
import sys

FOLDERS = ("api", "apps", "base", "branches", "cli", "include", "ps",
           "searchers", "tuner")
# Programs of their own.
APART = ("apps/direct/", "apps/examples/", "apps/plugins/")
FOR_TESTS = {
    "mem_fail_at": "lets an allocation fail",
    "mem_failed": "the same",
    "mem_fail_left": "the same, after a while",
    "mem_outstanding": "finds what was not released",
    "disk_replace": "lets the disk fail",
    "store_check": "invariants of a whole store, too dear for the product",
    "data_stream_memory": "readers get bytes of a test, or of a fuzzer",
    "gen_bow_topics": "the truth behind made data",
    "mf_train_plain": "plain reference of a fast kernel",
    "mf_squared_error_plain": "the same",
    "mlr_train_plain": "the same",
    "nn_dropout_keeps": "the same",
}
TYPE = re.compile(r"\b(struct|union|enum)\s+(\w+)\s*\{")
FUNCTION = re.compile(r"^(?!static\b|typedef\b|else\b|return\b)[A-Za-z_][\w \t*]*?"
                      r"\**\b(\w+)\([^;{}]*\)\s*\{", re.M)


def bare(text):
    """Without comments and what stands in quotes."""
    text = re.sub(r"/\*.*?\*/|//[^\n]*", " ", text, flags=re.S)
    return re.sub(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'', '""', text)


def sources(root):
    """{path from the root: text} of the product."""
    return {p.relative_to(root).as_posix(): bare(p.read_text(errors="replace"))
            for folder in FOLDERS
            for p in sorted((root / folder).rglob("*.[ch]"))
            if not p.relative_to(root).as_posix().startswith(APART)}


def repeated_types(files):
    found = collections.defaultdict(list)
    for path, text in files.items():
        for kind, name in TYPE.findall(text):
            found[name].append(f"{path} ({kind})")
    for name, places in sorted(found.items()):
        if len(places) > 1:
            yield f"{name}: two types have this name: {', '.join(places)}"


def uncalled(files):
    """Functions that nothing of the product names but their own lines."""
    words = collections.Counter()
    for path, text in files.items():
        if path.endswith(".c") or path.startswith("include/"):
            words.update(re.findall(r"\w+", text))
        else:  # macros may call; declarations do not
            for macro in re.findall(r"^#define(?:.*\\\n)*.*$", text, re.M):
                words.update(re.findall(r"\w+", macro))
            for body in re.findall(r"\{[^{}]*\}", text):
                words.update(re.findall(r"\w+", body))
    interface = "\n".join(t for p, t in files.items()
                          if p.startswith("include/"))
    for path, text in files.items():
        if not path.endswith(".c"):
            continue
        for name in FUNCTION.findall(text):
            # Once where it is defined.
            if words[name] > 1 or name == "main" or name in interface:
                continue
            yield name, path


def words_of(path, text):
    """Words by which a file may call: of a header macros and bodies alone."""
    if path.endswith(".c") or path.startswith("tests/"):
        return set(re.findall(r"\w+", text))
    parts = re.findall(r"^#define(?:.*\\\n)*.*$", text, re.M) + \
        re.findall(r"\{[^{}]*\}", text)
    return {w for part in parts for w in re.findall(r"\w+", part)}


def private(files, tests):
    """Functions that headers declare and only their own file names."""
    users = collections.defaultdict(set)
    declared = set()
    for path, text in {**files, **tests}.items():
        for word in words_of(path, text):
            users[word].add(path)
        if path.endswith(".h") and path in files:
            declared.update(re.findall(r"\b(\w+)\s*\(", text))
    interface = "\n".join(t for p, t in files.items()
                          if p.startswith("include/"))
    for path, text in files.items():
        for name in FUNCTION.findall(text) if path.endswith(".c") else ():
            if users[name] == {path} and name in declared and \
                    name not in interface:
                yield name, path


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    files = sources(root)
    wrong = list(repeated_types(files))
    idle = dict(uncalled(files))
    tests = {p.relative_to(root).as_posix(): bare(p.read_text(errors="replace"))
             for p in sorted((root / "tests").rglob("*.[ch]"))}
    wrong += [f"{path}: {name} is for this file alone: make it static"
              for name, path in private(files, tests) if name not in idle]
    wrong += [f"{path}: {name} is called by nothing of the product"
              for name, path in idle.items() if name not in FOR_TESTS]
    if root.resolve() == pathlib.Path(__file__).resolve().parents[2]:
        wrong += [f"{name} is in FOR_TESTS, but the product calls it"
                  for name in FOR_TESTS if name not in idle]
    print("\n".join(wrong), end="\n" if wrong else "")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
