"""The parameter server used directly: apps/direct and libmltune.so."""
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

from harness import BUILD, ROOT

SANITIZE = {"asan": ["-fsanitize=address,undefined"],
            "tsan": ["-fsanitize=thread"]}
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

    def test_nodes_with_other_rates_are_refused(self):
        """Two processes; both end, and say which option differs and whose."""
        with tempfile.TemporaryDirectory() as folder:
            nodes = [subprocess.Popen(
                [str(BUILD / "direct"), "-n", "2", "-i", str(i), "-m", folder,
                 "-l", rate], text=True, stdout=subprocess.PIPE,
                stderr=subprocess.PIPE) for i, rate in enumerate("12")]
            for i, node in enumerate(nodes):
                out, err = node.communicate(timeout=60)
                self.assertEqual(node.returncode, 1, err)
                self.assertIn(f"direct: node {1 - i} has another learning rate",
                              err)
                self.assertIn("start all with one configuration", err)
                self.assertEqual(out, "")

    def test_folder_that_is_not_there_is_an_error(self):
        done = run("/nowhere")
        self.assertEqual(done.returncode, 1)
        self.assertIn("/nowhere/checkpoint", done.stderr)

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

    def test_every_function_has_its_manual(self):
        """Made from the header: each function stands there, below a comment of
        its own or of its neighbours."""
        header = (ROOT / "include/mltune/ps.h").read_text()
        page = subprocess.run(
            ["awk", "-f", "docs/man/header.awk", "-v", "page=mltune-ps", "-v",
             "header=mltune/ps.h", "-v", "brief=x", "include/mltune/ps.h"],
            cwd=ROOT, text=True, timeout=60, capture_output=True,
            check=True).stdout
        names = re.findall(r"^MLT_API [^;]*?\b(mlt_\w+)\(", header, re.M)
        self.assertGreater(len(names), 30)
        for name in names:
            self.assertRegex(page, rf"(?m)^[a-z].*\b{name}\(")
        silent = [block for block in header.split("\n\n")
                  if "MLT_API " in block and "#define" not in block and
                  not block.startswith("/*")]
        self.assertEqual(silent, [])
        if shutil.which("man"):
            told = subprocess.run(["man", "--warnings", "-l", "-"], input=page,
                                  text=True, timeout=60, capture_output=True,
                                  check=True)
            self.assertEqual(told.stderr, "")
            self.assertIn("mlt_ps_checkpoint", told.stdout)

    def test_installed_it_runs_as_one_process_and_as_three_nodes(self):
        """As a stranger would: make install, pkg-config, three processes that
        write a checkpoint, which one process goes on with."""
        with tempfile.TemporaryDirectory() as folder:
            place = pathlib.Path(folder)
            subprocess.run(
                ["make", "-s", "install-built", f"PREFIX={place}", f"V={BUILD.name}"],
                cwd=ROOT, timeout=600, check=True, capture_output=True)
            env = {**os.environ,
                   "PKG_CONFIG_PATH": str(place / "lib/pkgconfig"),
                   "LD_LIBRARY_PATH": str(place / "lib")}
            flags = subprocess.run(
                ["pkg-config", "--cflags", "--libs", "mltune"], env=env,
                text=True, timeout=60, check=True,
                capture_output=True).stdout.split()
            program = place / "direct"
            extra = SANITIZE.get(BUILD.name, [])
            subprocess.run(
                ["gcc", "-std=c11", "-Wall", "-Wextra", "-Werror", *extra,
                 str(ROOT / "apps/direct/direct.c"), *flags, "-lm", "-o",
                 str(program)], timeout=60, check=True)
            self.assertIn("mlt_ps_restore", {
                p.stem for p in (place / "share/man/man3").iterdir()})

            def go(*words):
                done = subprocess.run(words, text=True, timeout=120, env=env,
                                      capture_output=True, check=False)
                self.assertEqual(done.returncode, 0, done.stderr)
                return done.stdout
            one = go(str(program)).splitlines()
            out = place / "out"
            out.mkdir()
            three = go(str(ROOT / "apps/direct/nodes.sh"), "3", str(program),
                       str(out)).splitlines()
            self.assertEqual([line.split("=")[0] for line in one],
                             [line.split("=")[0] for line in three])
            self.assertEqual(one[0], three[0])
            self.assertGreater(float(three[-1].split("=")[-1]), 0.98)
            self.assertTrue((out / "checkpoint/node-2/shard-5").exists())
            after = go(str(program), "-r", str(out / "checkpoint"))
            self.assertIn("restored clocks=", after)

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


def factors(program, *arguments):
    """Its lines of stdout, and stderr."""
    done = subprocess.run([str(BUILD / program), *map(str, arguments)],
                          text=True, capture_output=True, timeout=120,
                          check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


class Factors(unittest.TestCase):
    """The loop interface used directly: apps/direct/factors.c."""
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.ratings = pathlib.Path(folder.name) / "ratings"
        self.ratings.write_text("".join(
            f"{u} {i} {1 + (u * 3 + i * i) % 5}\n" for u in range(60)
            for i in range(0, 40, 1 + u % 3)))

    def test_one_worker_is_the_serial_program(self):
        serial, _ = factors("factors_serial", self.ratings, 8)
        loop, _ = factors("factors", self.ratings, 1, 8)
        self.assertEqual(serial, loop)
        self.assertEqual(len(loop.splitlines()), 8)

    def test_more_workers_make_the_same_progress(self):
        """Only the order is another, which so small a set feels; and it is the
        same every time."""
        serial, _ = factors("factors_serial", self.ratings, 30)
        want = float(serial.split()[-1])
        for workers in 2, 3, 5:
            loop, plan = factors("factors", self.ratings, workers, 30)
            self.assertAlmostEqual(float(loop.split()[-1]) / want, 1,
                                   delta=0.2)
            self.assertEqual(factors("factors", self.ratings, workers, 30)[0],
                             loop)
            self.assertIn("strategy: two dimensions", plan)
            self.assertIn("items, reads and updates: goes from worker to "
                          "worker", plan)

    def test_a_bad_line_is_named(self):
        self.ratings.write_text("1 2 3\n4 5 x\n")
        done = subprocess.run([str(BUILD / "factors"), str(self.ratings)],
                              text=True, capture_output=True, timeout=60,
                              check=False)
        self.assertEqual((done.returncode, done.stderr),
                         (1, f"factors: {self.ratings}: line 2\n"))

    def test_it_takes_at_most_120_lines(self):
        program = ROOT / "apps/direct/factors.c"
        self.assertLessEqual(len(program.read_text().splitlines()), 120)


if __name__ == "__main__":
    unittest.main()
