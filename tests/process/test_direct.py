"""The parameter server used directly: apps/direct and libmltune.so."""
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

from harness import BUILD, ROOT

NUMBER = r"(\d+\.\d+)"


def run(*arguments):
    return subprocess.run([str(BUILD / "direct"), *arguments], text=True,
                          capture_output=True, timeout=60, check=False)


class Direct(unittest.TestCase):
    def test_better_learning_rate_is_kept_and_trained_on(self):
        """Both trials begin at the state that was forked; the better is kept;
        training goes on from its end and separates the classes."""
        done = run()
        self.assertEqual(done.returncode, 0, done.stderr)
        trained = re.search(rf"^trained clocks=20 loss={NUMBER}$", done.stdout,
                            re.M).group(1)
        trials = re.findall(
            rf"^trial learning_rate=(\S+) loss={NUMBER}->{NUMBER}$",
            done.stdout, re.M)
        self.assertEqual([t[1] for t in trials], [trained, trained])
        best = min(trials, key=lambda t: float(t[2]))
        self.assertIn(f"kept learning_rate={best[0]}\n", done.stdout)
        end = re.search(rf"^finished loss={NUMBER} accuracy={NUMBER}$",
                        done.stdout, re.M)
        self.assertLess(float(end.group(1)), float(best[2]))
        self.assertGreater(float(end.group(2)), 0.98)

    def test_output_is_the_same_every_time(self):
        """Two workers under bsp are deterministic."""
        self.assertEqual(run().stdout, run().stdout)

    def test_weights_are_saved_for_numpy(self):
        import numpy
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(run(folder).returncode, 0)
            weights = numpy.load(pathlib.Path(folder) / "weights.npy")
        self.assertEqual(weights.shape, (1, 20))
        self.assertEqual(weights.dtype, numpy.float32)
        self.assertTrue(numpy.isfinite(weights).all() and weights.any())

    def test_folder_that_is_not_there_is_an_error(self):
        done = run("/nowhere")
        self.assertEqual(done.returncode, 1)
        self.assertIn("/nowhere/weights.npy", done.stderr)

    def test_library_exports_the_installed_interface_alone(self):
        listed = subprocess.run(
            ["nm", "-D", "--defined-only", str(BUILD / "libmltune.so")],
            text=True, capture_output=True, timeout=60, check=True).stdout
        names = {line.split()[-1].split("@")[0]
                 for line in listed.splitlines()}
        self.assertTrue(all(n.startswith("mlt_") for n in names), names)
        header = (ROOT / "include/mltune/ps.h").read_text()
        declared = set(re.findall(r"^MLT_API [^;]*?\b(mlt_\w+)\(", header,
                                  re.M))
        self.assertGreater(len(declared), 25)
        self.assertEqual(declared - names, set())

    def test_program_builds_against_the_installed_header(self):
        """As a stranger would: C11, the installed header and library alone."""
        compiler = shutil.which("gcc")
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder) / "direct"
            subprocess.run(
                [compiler, "-std=c11", "-Wall", "-Wextra", "-Werror",
                 f"-I{ROOT / 'include'}", str(ROOT / "apps/direct/direct.c"),
                 f"-L{BUILD}", "-lmltune", "-lm",
                 f"-Wl,-rpath,{BUILD.resolve()}", "-o", str(program)],
                timeout=60, check=True)
            done = subprocess.run([str(program)], text=True, timeout=60,
                                  capture_output=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.splitlines()[0], "start loss=0.693147")


if __name__ == "__main__":
    unittest.main()
