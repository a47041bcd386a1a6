#!/usr/bin/env python3
"""Lists of the statuses of a run that other languages have agree with C's.

tuner/history/record.h names the statuses; tuner/history/record_names.c says which
are an end, and which of those are resumed. The page (api/web) and the Python
package have lists of their own, since neither asks for them at run time.

Usage: statuses.py [ROOT]     prints one line a difference, exit 1 if there is any.
"""
import pathlib
import re
import sys

# Of runs in a service's queue, beside those of RUN_STATUS_LIST.
QUEUED = {"queued", "held"}


def text_between(root, path, begin, end):
    """What stands between two texts in a file; they must be there."""
    text = (root / path).read_text()
    at = text.find(begin)
    to = text.find(end, at + len(begin))
    if at < 0 or to < 0:
        raise SystemExit(f"{path}: '{begin} ... {end}' is not there: "
                         "has it moved? (tests/lint/statuses.py)")
    return text[at + len(begin):to]


def quoted(text):
    return set(re.findall(r'"(\w+)"', text))


def constants(text):
    return {w.lower() for w in re.findall(r"\bRUN_(\w+)", text)}


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    names = "tuner/history/record_names.c"
    every = set(re.findall(r"X\(\w+, (\w+)\)", text_between(
        root, "tuner/history/record.h", "#define RUN_STATUS_LIST(X)",
        "enum run_status")))
    ends = constants(text_between(root, names, "bool run_status_is_end(", "\n}"))
    resumes = constants(text_between(root, names, "bool run_status_resumes(",
                                     "\n}"))
    lists = [
        ("an end", ends, "api/web/text.js", quoted(text_between(
            root, "api/web/text.js", "export const ENDED = ", ";"))),
        ("an end", ends, "apps/python/mltune/client.py", quoted(text_between(
            root, "apps/python/mltune/client.py", "\nENDED = ", "\n"))),
        ("resumed", resumes, "api/web/control.js", quoted(text_between(
            root, "api/web/control.js", "const again = ", ";"))),
        ("a status", every | QUEUED, "api/web/text.js", set(re.findall(
            r"(\w+):", text_between(root, "api/web/text.js",
                                    "export const STATUS_CLASS = ", ";")))),
        ("in a queue", QUEUED, "api/web/text.js", quoted(text_between(
            root, "api/web/text.js", "export const QUEUED = ", ";"))),
    ]
    wrong = [f"{path}: {', '.join(sorted(theirs))} are called {what}; "
             f"in C it is {', '.join(sorted(ours))}"
             for what, ours, path, theirs in lists if ours != theirs]
    print("\n".join(wrong), end="\n" if wrong else "")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
