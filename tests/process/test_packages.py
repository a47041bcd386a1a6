"""The Python package in the forms that people install."""
import ast
import base64
import csv
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile

from harness import BUILD, ROOT

VERSION = re.search(r"^VERSION := (\S+)$", (ROOT / "Makefile").read_text(),
                    re.M)[1]
SAYS = ("import mltune; "
        "print(mltune.__file__, mltune.__version__)")


def run(*words, **options):
    done = subprocess.run([str(w) for w in words], text=True, timeout=120,
                          capture_output=True, check=False, **options)
    if done.returncode:
        raise AssertionError(f"{words}:\n{done.stdout}\n{done.stderr}")
    return done.stdout


MODULES = sorted((ROOT / "apps/python/mltune").glob("*.py"))


class Form(unittest.TestCase):
    """What Python 3.9 reads and help() shows. Debian has no older one than 3.11;
    docs/results.md tells of runs under others."""

    def trees(self):
        for path in MODULES:
            text = path.read_text(encoding="utf-8")
            yield path, text, ast.parse(text, feature_version=(3, 9))

    def test_python_3_9_reads_it(self):
        """No later syntax; X | Y only in annotations that nobody evaluates."""
        with self.assertRaises(SyntaxError):
            ast.parse("match x:\n    case 1:\n        pass",
                      feature_version=(3, 9))
        for path, text, tree in self.trees():
            if "from __future__ import annotations" in text:
                continue
            for node in ast.walk(tree):
                for name in ("annotation", "returns"):
                    found = getattr(node, name, None)
                    for part in ast.walk(found) if found else ():
                        self.assertFalse(
                            isinstance(part, ast.BinOp) and
                            isinstance(part.op, ast.BitOr),
                            f"{path.name}:{part.__dict__.get('lineno')}")

    def test_everything_has_types(self):
        for path, _, tree in self.trees():
            for f in ast.walk(tree):
                if not isinstance(f, ast.FunctionDef):
                    continue
                a = f.args
                for arg in [*a.posonlyargs, *a.args, *a.kwonlyargs, a.vararg,
                            a.kwarg]:
                    self.assertTrue(
                        arg is None or arg.annotation or
                        arg.arg in ("self", "cls"),
                        f"{path.name}:{f.lineno} {f.name}({arg and arg.arg})")
                self.assertTrue(f.returns or f.name == "__init__",
                                f"{path.name}:{f.lineno} {f.name}")

    def test_what_is_public_is_documented(self):
        """Methods that carry out a contract that stands elsewhere are not."""
        import importlib
        sys.path.insert(0, str(ROOT / "apps/python"))
        self.addCleanup(sys.path.pop, 0)
        contracts = ("Holder", "TreeHolder", "Kind", "Room")
        for path, _, tree in self.trees():
            if path.name.startswith("_") and path.name != "__init__.py":
                continue
            self.assertTrue(ast.get_docstring(tree), path.name)
            for node in ast.walk(tree):
                if not isinstance(node, (ast.ClassDef, ast.Module)) or \
                        getattr(node, "name", "").startswith("_") or \
                        any(getattr(b, "id", "") in contracts
                            for b in getattr(node, "bases", ())):
                    continue
                for f in node.body:
                    if isinstance(f, (ast.FunctionDef, ast.ClassDef)) and \
                            not f.name.startswith("_"):
                        self.assertTrue(ast.get_docstring(f),
                                        f"{path.name}:{f.lineno} {f.name}")
        mltune = importlib.import_module("mltune")
        for name in mltune.__all__:
            self.assertTrue(getattr(mltune, name).__doc__, name)


class Packages(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="mltune-test-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        # pip's cache and settings of whoever runs the tests have no say.
        self.env = {**os.environ, "PIP_CONFIG_FILE": os.devnull,
                    "PIP_NO_CACHE_DIR": "1", "HOME": str(self.folder),
                    "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
        self.env.pop("PYTHONPATH", None)

    def build(self, what, source=ROOT / "apps/python"):
        told = run(sys.executable, source / "build_mltune.py", what,
                   self.folder / "dist", env=self.env)
        return pathlib.Path(told.strip())

    def pip(self, target, *words):
        """Installs without a network and without any other package."""
        run(sys.executable, "-m", "pip", "install", "--no-index", "--no-deps",
            "--target", target, *words, env=self.env, cwd=self.folder)
        return run(sys.executable, "-c", SAYS, cwd=self.folder,
                   env={**self.env, "PYTHONPATH": str(target)}).split()

    def test_wheel_can_be_installed_and_is_what_it_says(self):
        wheel = self.build("wheel")
        self.assertEqual(wheel.name, f"mltune-{VERSION}-py3-none-any.whl")
        place, version = self.pip(self.folder / "site", wheel)
        self.assertTrue(place.startswith(str(self.folder / "site")))
        self.assertEqual(version, VERSION)
        with zipfile.ZipFile(wheel) as archive:
            names = set(archive.namelist())
            record = f"mltune-{VERSION}.dist-info/RECORD"
            rows = list(csv.reader(
                archive.read(record).decode().splitlines()))
            self.assertEqual({r[0] for r in rows}, names)
            for name, digest, size in rows:
                if name == record:
                    continue
                data = archive.read(name)
                told = base64.urlsafe_b64encode(
                    hashlib.sha256(data).digest()).rstrip(b"=").decode()
                self.assertEqual((digest, int(size)),
                                 (f"sha256={told}", len(data)))
        modules = {f"mltune/{p.name}"
                   for p in (ROOT / "apps/python/mltune").glob("*.py")}
        self.assertLessEqual(modules | {"mltune/py.typed"}, names)
        shown = run(sys.executable, "-m", "pip", "show", "-f", "mltune",
                    env={**self.env, "PYTHONPATH": str(self.folder / "site")})
        self.assertIn("Requires: pyzmq", shown)
        self.assertIn(f"Version: {VERSION}", shown)

    def test_the_same_files_make_the_same_bytes(self):
        for what in ("wheel", "sdist"):
            first = self.build(what).read_bytes()
            self.assertEqual(first, self.build(what).read_bytes(), what)

    def test_sdist_can_be_installed_and_makes_the_same_wheel(self):
        """By pip, and by hand from what it unpacks; nothing of the source tree
        is needed."""
        wheel = self.build("wheel").read_bytes()
        sdist = self.build("sdist")
        self.assertEqual(sdist.name, f"mltune-{VERSION}.tar.gz")
        place, version = self.pip(self.folder / "site", sdist)
        self.assertTrue(place.startswith(str(self.folder / "site")))
        self.assertEqual(version, VERSION)
        shutil.unpack_archive(sdist, self.folder / "unpacked")
        source = self.folder / "unpacked" / f"mltune-{VERSION}"
        self.assertEqual(self.build("wheel", source).read_bytes(), wheel)

    def test_a_source_tree_can_be_installed(self):
        copy = self.folder / "tree"
        shutil.copytree(ROOT / "apps/python", copy / "apps/python",
                        ignore=shutil.ignore_patterns("__pycache__"))
        for name in ("Makefile", "LICENSE"):
            shutil.copy(ROOT / name, copy / name)
        place, version = self.pip(self.folder / "site", copy / "apps/python")
        self.assertEqual(version, VERSION)
        self.assertTrue(place.startswith(str(self.folder / "site")))
        (copy / "Makefile").unlink()
        with self.assertRaisesRegex(AssertionError, "which version"):
            self.build("wheel", copy / "apps/python")
        self.assertEqual(list(self.folder.rglob("*.tmp")), [])

    def test_make_install_and_make_wheel(self):
        """Installed, the package is beside the program, finds its library, and
        an older version's files are gone."""
        place = self.folder / "usr"
        old = place / "lib/mltune/python/mltune/gone.py"
        old.parent.mkdir(parents=True)
        old.write_text("")
        run("make", "-s", "install-built", f"PREFIX={place}",
            f"V={BUILD.name}", cwd=ROOT)
        self.assertFalse(old.exists())
        env = {**self.env,
               "PYTHONPATH": str(place / "lib/mltune/python")}
        where, version = run(sys.executable, "-c", SAYS, env=env,
                             cwd=self.folder).split()
        self.assertTrue(where.startswith(str(place)))
        self.assertEqual(version, VERSION)
        env.pop("MLTUNE_LIBRARY", None)
        told = run(sys.executable, "-c", "import mltune.ps; "
                   "mltune.ps.Server(1).close(); "
                   "print(next(iter(mltune.ps._candidates())))", env=env,
                   cwd=self.folder)
        self.assertEqual(told.strip(), str(place / "lib/libmltune.so.1"))
        run("make", "-s", "wheel", cwd=ROOT)
        self.assertTrue(
            (ROOT / f"build/dist/mltune-{VERSION}-py3-none-any.whl").exists())


if __name__ == "__main__":
    unittest.main()
