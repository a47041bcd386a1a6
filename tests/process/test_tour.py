"""The README read as a reader reads it: every command of its shell blocks, copied
from README.md itself, section by section and in order, in a fresh checkout.

What is other than at a reader's terminal is said here, and nowhere else:

* SMALL: data and times are small, so that a section takes seconds.
* ELSEWHERE: commands that another test runs, or the gate itself.
* `make` finds what was built for the tests, so it compiles nothing; build/release
  is a link where another build is tested.
* `sleep` and `timeout` also wait until a run trains, or the service is there: on
  a busy machine the seconds that stand there may be too few.
* `python3` is Debian's. The network has loopback alone, so that port 8080 is free.
"""
import gzip
import json
import os
import re
import shlex
import shutil
import signal
import subprocess

import numpy

from harness import BUILD, ROOT, Case

# What is changed before it is read: file or command, what stands there, what does
# then. An entry that is found nowhere fails.
SMALL = (
    ("docs/examples/demo.json", '"max_time": "90s"', '"max_time": "5s"'),
    ("docs/examples/demo.json", "samples=20000", "samples=4000"),
    ("apps/examples/mnist_cnn.json", '"train": 10000', '"train": 300'),
    ("apps/examples/mnist_cnn.json", '"max_epochs": 10', '"max_epochs": 2'),
    ("apps/examples/mnist_cnn.py", "epochs=10)", "epochs=1)"),
    ("README.md", "--seeds 2 --set stop.target_metric=0.9 "
     "--set stop.max_time=20s", "--seeds 2 --set stop.target_metric=0.9 "
     "--set stop.max_time=2s"),
)

# Commands that are run by another test, and by which.
ELSEWHERE = {
    "make deps && make deb": "test_deb.py",
    "sudo apt-get install ./build/deb/mltune_*.deb": "test_deb.py",
    "make test": ".ci/run",
}

# What `sleep` and `timeout` wait for, by section.
WAITS = {
    # The newest of the name: one that has finished lies there, too.
    "Interrupt it and go on": "mltune show demo --json | "
                              "grep -Eq '\"status\": ?\"(tuning|training)\"'",
    "Steer a run that is under way": "mltune show long --json | "
                                     "grep -Eq '\"clocks\": ?[1-9]'",
    "Hand over more than one run": "test -e .mltune/serve.sock",
}

SLEEP = """#!/usr/bin/python3
import os, subprocess, sys, time
def ready():
    end = time.monotonic() + 60
    while time.monotonic() < end and subprocess.run(
            os.environ["WAITS"], shell=True, stdout=-3, stderr=-3).returncode:
        time.sleep(0.1)
"""

STUBS = {
    "sleep": SLEEP + "time.sleep(float(sys.argv[1]))\nready()\n",
    # timeout -s INT 2 COMMAND
    "timeout": SLEEP + """import signal
if sys.argv[1:4] != ["-s", "INT", "2"]: sys.exit("not as in README.md")
p = subprocess.Popen(sys.argv[4:])
ready()
time.sleep(1)
p.send_signal(signal.SIGINT)
p.wait()
sys.exit(124)
""",
    "python3": '#!/bin/sh\nexec /usr/bin/python3 "$@"\n',
}


def blocks():
    """(heading, commands) of each shell block; a command is a whole line,
    continued or not, without what it says to the reader."""
    heading = ""
    text = (ROOT / "README.md").read_text()
    for found in re.finditer(r"^#+ ([^\n]*)$|^```(\w+)\n(.*?)^```", text,
                             re.S | re.M):
        if found.group(1):
            heading = found.group(1)
        elif found.group(2) == "sh":
            lines = re.sub(r" *\\\n *", " ", found.group(3)).splitlines()
            yield heading, [c for c in (re.sub(r"\s+#.*", "", line).strip()
                                        for line in lines) if c]


def small(path, text):
    """@text of the file @path, with its part of SMALL."""
    for file, old, new in SMALL:
        if file == path:
            text = text.replace(old, new)
    return text


class Tour(Case):
    def setUp(self):
        super().setUp()
        self.place = self.folder / "mltune"
        self.place.mkdir()
        self.check_out()
        bin_ = self.folder / "bin"
        bin_.mkdir()
        for name, text in STUBS.items():
            (bin_ / name).write_text(text)
            (bin_ / name).chmod(0o755)
        self.env["PATH"] = f"{bin_}:{self.env['PATH']}"
        self.env.pop("MLTUNE_BUILD", None)
        self.env.pop("MAKEFLAGS", None)

    def check_out(self):
        """What git has, older than what was built of it."""
        names = subprocess.run(["git", "-C", ROOT, "ls-files", "-z"],
                               capture_output=True, check=True).stdout
        subprocess.run(["cp", "-p", "--parents", "-t", self.place,
                        *names.decode().rstrip("\0").split("\0")], cwd=ROOT,
                       check=True, capture_output=True)
        # The tests' own programs are a hundred times as much.
        build = self.place / "build" / BUILD.name
        shutil.copytree(BUILD, build, symlinks=True,
                        ignore=shutil.ignore_patterns("tests"))
        if BUILD.name != "release":
            (self.place / "build/release").symlink_to(BUILD.name)
            self.env["V"] = BUILD.name
        for path in {file for file, _, _ in SMALL if file != "README.md"}:
            copy = self.place / path
            before = os.stat(copy)
            copy.write_text(small(path, copy.read_text()))
            os.utime(copy, ns=(before.st_atime_ns, before.st_mtime_ns))

    def tearDown(self):
        """The service of `mltune open`."""
        for path in self.place.rglob("serve.lock"):
            pid = int(path.read_text() or 0)
            if pid in self.marked():
                os.kill(pid, signal.SIGTERM)
        self.assert_nothing_left(seconds=20)
        super().tearDown()

    def follow(self, *headings):
        """Types what stands under @headings, in one terminal; gives what was
        said. A command that fails ends it."""
        lines = ["set -em", "trap 'echo \"ended with $?: $BASH_COMMAND\" >&2' ERR",
                 "ip link set lo up"]
        for heading, commands in blocks():
            for command in commands if heading in headings else ():
                command = small("README.md", command)
                if command not in ELSEWHERE:
                    lines.append("echo " + shlex.quote("$ " + command))
                    lines.append(command + (" || [ $? = 124 ]" if
                                 command.startswith("timeout") else ""))
        lines.append("wait")
        self.env["WAITS"] = next((WAITS[h] for h in headings if h in WAITS),
                                 "true")
        done = subprocess.run(
            ["unshare", "-n", "bash", "-c", "\n".join(lines)], text=True,
            capture_output=True, cwd=self.place, env=self.env, check=False,
            stdin=subprocess.DEVNULL, timeout=170)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout


class Sections(Tour):
    """Each section of the tour behind those that it builds upon."""
    BUILD = "A five-minute tour"
    FIRST = "Train something"
    READ = {
        "own_model": ("Bring your own model in ten minutes",),
        "two_commands": ("Two commands",),
        "ask": (BUILD, FIRST, "Ask what happened, and why"),
        "change": (BUILD, "Change something"),
        "interrupt": (BUILD, FIRST, "Interrupt it and go on"),
        "steer": (BUILD, "Steer a run that is under way"),
        "compare": (BUILD, "Compare strategies"),
        "service": (BUILD, "Hand over more than one run"),
        "elsewhere": (BUILD, FIRST, "Take it elsewhere, use the model"),
        "server": (BUILD, "Drive the parameter server yourself"),
    }

    def test_every_command_is_in_a_section_that_is_read(self):
        """A new section, or a command that fits no entry here, shows."""
        read = {name for test in self.READ.values() for name in test}
        seen = {}
        for heading, commands in blocks():
            seen.setdefault(heading, []).extend(commands)
        self.assertEqual(set(seen) - read, {"mltune"})
        self.assertEqual(set(seen["mltune"]) - set(ELSEWHERE), set())
        every = {c for commands in seen.values() for c in commands}
        self.assertEqual(set(ELSEWHERE) - every, set())
        for path, old, _ in SMALL:
            text = "\n".join(every) if path == "README.md" else (
                ROOT / path).read_text()
            self.assertIn(old, text, path)
        self.assertGreater(len(every), 50)

    def test_own_model(self):
        """On noise in MNIST's place."""
        made = numpy.random.RandomState(1)
        mnist = self.place / "apps/examples/mnist"
        mnist.mkdir()
        for name, n in (("train", 300), ("t10k", 100)):
            for kind, head, size in (("images-idx3", 16, 784),
                                     ("labels-idx1", 8, 1)):
                data = made.randint(0, 10, n * size).astype("uint8")
                with gzip.open(mnist / f"{name}-{kind}-ubyte.gz",
                               "wb") as file:
                    file.write(bytes(head) + data.tobytes())
        said = self.follow(*self.READ["own_model"])
        self.assertRegex(said, r"\nepoch 1  loss .* accuracy ")

    def test_two_commands(self):
        said = self.follow(*self.READ["two_commands"])
        self.assertIn("The model on digits that it has never seen:", said)

    def test_ask(self):
        """The service of `mltune open` outlives the terminal."""
        said = self.follow(*self.READ["ask"])
        self.assertRegex(said, r"\nhttp://127\.0\.0\.1:\d+/enter\?code=")
        result = json.loads([line for line in said.splitlines()
                             if line.startswith("{")][-1])
        self.assertEqual(result["status"], "finished")

    def test_change(self):
        said = self.follow(*self.READ["change"])
        self.assertTrue((self.place / "ratings.tsv").exists())
        self.assertIn("\nfixed: trains with one setting", said)

    def test_interrupt(self):
        """On all the samples of the reader, so that there is something left to
        interrupt."""
        demo = self.place / "docs/examples/demo.json"
        demo.write_text(demo.read_text().replace("samples=4000",
                                                 "samples=20000"))
        said = self.follow(*self.READ["interrupt"])
        self.assertIn("finished", said.rpartition("$ mltune resume demo")[2])

    def test_steer(self):
        self.follow(*self.READ["steer"])
        done = subprocess.run(["build/release/mltune", "ls"], text=True,
                              capture_output=True, cwd=self.place, check=True)
        self.assertIn("stopped", done.stdout)

    def test_compare(self):
        said = self.follow(*self.READ["compare"])
        self.assertRegex(said, r"\nhyperband +2/2 ")
        self.assertTrue(list((self.place / ".mltune/compare").glob("*.csv")))

    def test_service(self):
        said = self.follow(*self.READ["service"])
        self.assertRegex(said, r"demo-[a-z0-9]+ .*(queued|waiting|tuning|"
                               r"training|saving|finished)")

    def test_elsewhere(self):
        said = self.follow(*self.READ["elsewhere"])
        self.assertIn("(10, 785)", said)
        self.assertGreater(len((self.place / "predictions.csv").read_text()
                               .splitlines()), 800)

    def test_server(self):
        self.follow(*self.READ["server"])
        self.assertTrue(shutil.which("pkg-config"))
