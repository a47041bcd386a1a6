"""Which version this is: what `make install` and `make wheel` wrote beside it;
in a source tree the project's, which stands in its Makefile alone."""
import pathlib
import re


def version() -> str:
    try:
        from . import _built
        return _built.VERSION
    except ImportError:
        pass
    above = pathlib.Path(__file__).resolve().parents
    try:
        text = (above[3] / "Makefile").read_text(encoding="utf-8")
        return re.search(r"^VERSION := (\S+)$", text, re.M)[1]  # type: ignore
    except (OSError, IndexError, TypeError):
        return "unknown"
