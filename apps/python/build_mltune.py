#!/usr/bin/python3
"""Wheel and sdist of the Python package.

    build_mltune.py wheel FOLDER      mltune-VERSION-py3-none-any.whl
    build_mltune.py sdist FOLDER      mltune-VERSION.tar.gz

The standard library alone, no network. Also pip's back end (PEP 517), so that
`pip install apps/python` and `pip install mltune-VERSION.tar.gz` work where
nothing can be fetched. The version is that of the Makefile of the source tree,
or of the sdist's PKG-INFO. The same files make the same bytes.
"""
import base64
import csv
import gzip
import hashlib
import io
import os
import pathlib
import re
import sys
import tarfile
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
NAME = "mltune"
LICENSE = "Apache-2.0"
# The first moment that a zip can name: times would make each build another.
WHEN = (1980, 1, 1, 0, 0, 0)
WHEN_S = 315532800


def version():
    """The project's version, which stands in the Makefile alone."""
    for place, line in ((HERE / "PKG-INFO", r"^Version: (.+)$"),
                        (HERE.parent.parent / "Makefile",
                         r"^VERSION := (\S+)$")):
        if place.exists():
            found = re.search(line, place.read_text(encoding="utf-8"), re.M)
            if found:
                return found[1]
    raise SystemExit("build_mltune.py: neither PKG-INFO nor the project's "
                     "Makefile says which version this is")


def field(name):
    """A text of pyproject.toml; tomllib comes with Python 3.11 only."""
    text = (HERE / "pyproject.toml").read_text(encoding="utf-8")
    return re.search(rf'^{name} = "(.*)"$', text, re.M)[1]


def words(line):
    return re.findall(r'"([^"]+)"', line)


def license_text():
    for place in (HERE / "LICENSE", HERE.parent.parent / "LICENSE"):
        if place.exists():
            return place.read_bytes()
    raise SystemExit("build_mltune.py: LICENSE is not there")


def metadata():
    text = (HERE / "pyproject.toml").read_text(encoding="utf-8")
    needed = words(re.search(r"^dependencies = (.*)$", text, re.M)[1])
    extras = re.findall(r"^(\w+) = \[(.*)\]$",
                        text.split("[project.optional-dependencies]")[1], re.M)
    lines = ["Metadata-Version: 2.1", f"Name: {NAME}", f"Version: {version()}",
             f"Summary: {field('description')}", f"License: {LICENSE}",
             f"Requires-Python: {field('requires-python')}"]
    lines += [f"Requires-Dist: {n}" for n in needed]
    for extra, packages in extras:
        lines.append(f"Provides-Extra: {extra}")
        lines += [f'Requires-Dist: {p} ; extra == "{extra}"'
                  for p in words(packages)]
    return "\n".join(lines) + "\n"


def modules():
    """The package's files, [(name, bytes)], its version among them."""
    found = [(f"{NAME}/{p.relative_to(HERE / NAME).as_posix()}",
              p.read_bytes())
             for p in sorted((HERE / NAME).rglob("*"))
             if (p.suffix == ".py" or p.name == "py.typed") and
             p.name != "_built.py"]
    found.append((f"{NAME}/_built.py",
                  f'VERSION = "{version()}"\n'.encode()))
    return sorted(found)


def finish(path, write):
    """@write writes the file under another name; it appears when it is whole.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".tmp")
    try:
        with open(part, "wb") as file:
            write(file)
        os.replace(part, path)
    finally:
        if part.exists():
            part.unlink()
    return path


def digest(data):
    return "sha256=" + base64.urlsafe_b64encode(
        hashlib.sha256(data).digest()).rstrip(b"=").decode()


def wheel(folder):
    info = f"{NAME}-{version()}.dist-info"
    files = modules() + [
        (f"{info}/METADATA", metadata().encode()),
        (f"{info}/WHEEL", b"Wheel-Version: 1.0\nGenerator: mltune\n"
                          b"Root-Is-Purelib: true\nTag: py3-none-any\n"),
        (f"{info}/LICENSE", license_text()),
        (f"{info}/top_level.txt", f"{NAME}\n".encode())]
    record = io.StringIO()
    rows = csv.writer(record, lineterminator="\n")
    for name, data in files:
        rows.writerow([name, digest(data), len(data)])
    rows.writerow([f"{info}/RECORD", "", ""])
    files.append((f"{info}/RECORD", record.getvalue().encode()))

    def write(out):
        with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, data in files:
                entry = zipfile.ZipInfo(name, WHEN)
                entry.external_attr = 0o100644 << 16
                entry.compress_type = zipfile.ZIP_DEFLATED
                archive.writestr(entry, data)
    return finish(pathlib.Path(folder) /
                  f"{NAME}-{version()}-py3-none-any.whl", write)


def sdist(folder):
    base = f"{NAME}-{version()}"
    files = [f for f in modules() if not f[0].endswith("/_built.py")]
    files += [("PKG-INFO", metadata().encode()), ("LICENSE", license_text())]
    files += [(n, (HERE / n).read_bytes())
              for n in ("pyproject.toml", "build_mltune.py")]

    def write(out):
        with gzip.GzipFile("", "wb", 9, out, 0) as packed, \
                tarfile.open(fileobj=packed, mode="w",
                             format=tarfile.PAX_FORMAT) as archive:
            for name, data in sorted(files):
                entry = tarfile.TarInfo(f"{base}/{name}")
                entry.size, entry.mtime, entry.mode = len(data), WHEN_S, 0o644
                archive.addfile(entry, io.BytesIO(data))
    return finish(pathlib.Path(folder) / f"{base}.tar.gz", write)


# ---- what pip asks (PEP 517) ---------------------------------------------

def build_wheel(wheel_directory, config_settings=None,
                metadata_directory=None):
    del config_settings, metadata_directory
    return wheel(wheel_directory).name


def build_sdist(sdist_directory, config_settings=None):
    del config_settings
    return sdist(sdist_directory).name


def main():
    makes = {"wheel": wheel, "sdist": sdist}
    if len(sys.argv) != 3 or sys.argv[1] not in makes:
        sys.exit(__doc__)
    print(makes[sys.argv[1]](sys.argv[2]))


if __name__ == "__main__":
    main()
