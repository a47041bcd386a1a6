"""What somebody at a terminal reads: codes as they are printed, words that they
know, lines that fit."""
import fcntl
import os
import pty
import re
import struct
import termios

import harness
import test_control
from harness import ROOT, Case, mlr_config

# Words of those who wrote the request; nobody typed them.
INTERFACE = re.compile(r"\b(HTTP|[Hh]eader|Bearer|body|GET|POST|PATCH|DELETE)\b"
                       r"|/api/|/path/|/query/|\(status \d")


class Ended(Case):
    """A run that is over, and one that never was."""

    def setUp(self):
        super().setUp()
        self.run = self.run_config(mlr_config(), "--json").result["run"]

    def test_what_is_printed_as_exit_codes(self):
        """The README's, the help's and the manual's table are one; neither an
        ended run nor a missing one is an unreachable server or a failed run."""
        readme = (ROOT / "README.md").read_text()
        codes = re.findall(r"^\| ([\d, ]+) \| ", readme, re.M)
        self.assertEqual(codes, ["0", "1", "2", "69", "74", "75", "78",
                                 "130, 143"])
        for word in codes:
            self.assertIn(word.split(",")[0], self.mltune("--help").out)
        for words in (["pause"], ["continue"], ["stop"], ["retune"],
                      ["snapshot"], ["limit", "max_time=1h"],
                      ["suggest", "learning_rate=0.1"],
                      ["fork", "0", "learning_rate=0.1"], ["promote", "3"]):
            done = self.mltune(words[0], self.run, *words[1:])
            self.assert_code(done, 2)
            self.assertIn("is not running: it ended as finished", done.err)
        for words in (["show"], ["trials"], ["branches"], ["log"], ["watch"],
                      ["pause"], ["stop"], ["resume"], ["save"], ["delete"],
                      ["export", "--format", "csv"]):
            done = self.mltune(words[0], "nope", *words[1:])
            self.assert_code(done, 2)
            self.assertIn('no run "nope" in ', done.err, words)
            self.assertIn("mltune ls lists them", done.err)

    def test_a_name_that_is_nearly_right(self):
        done = self.mltune("show", "small-mrl")
        self.assert_code(done, 2)
        self.assertIn("did you mean small-mlr?", done.err)
        other = self.run_config(mlr_config(), "--json").result["run"]
        done = self.mltune("show", "small-m")
        self.assert_code(done, 2)
        self.assertIn(self.run, done.err)
        self.assertIn(other, done.err)


class Steered(test_control.Steered):
    def test_no_words_of_the_interface(self):
        """What a server refuses is told by what was typed."""
        run, url = self.run_id(), "http://%s:%d/" % self.address
        self.wait_for_clock()
        tries = [
            (["suggest", run, "learning_rat=0.1"],
             'did you mean "learning_rate"'),
            (["suggest", run, "learning_rate=7"], "learning_rate: expected"),
            (["suggest", run, "zzzzz=7"], "they are learning_rate"),
            (["fork", run, "0", "learning_rat=0.1"],
             'did you mean "learning_rate"'),
            (["fork", run, "99999"], "99999"),
            (["limit", run, "max_tim=7"], "max_tim"),
            (["free", run, "0"], ""),
            (["promote", run, "77777"], "77777"),
            (["show", "nobody", "--server", url], "no run"),
            (["stop", "nobody-123456", "--server", url], "mltune ls"),
        ]
        for words, says in tries:
            done = self.mltune(*words)
            self.assert_code(done, 2)
            self.assertIn(says, done.err, words)
            self.assertNotRegex(done.err, INTERFACE)
        self.env["MLTUNE_TOKEN"] = "0123456789abcdef0123"
        for words in (["stop", run], ["pause", run]):
            done = self.mltune(*words, "--server", url)
            self.assert_code(done, 2)
            self.assertIn("MLTUNE_TOKEN", done.err)
            self.assertNotRegex(done.err, INTERFACE)


def on_a_terminal(case, columns, rows, *words):
    """What @words print on a terminal of that size, and how they end."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ,
                struct.pack("HHHH", rows, columns, 0, 0))
    process = case.start(*words, stdout=slave, stderr=slave)
    os.close(slave)
    said = b""
    while True:
        try:
            piece = os.read(master, 65536)
        except OSError:  # the other end is closed
            break
        if not piece:
            break
        said += piece
    os.close(master)
    return said.decode().replace("\r\n", "\n"), case.finish(process)


class Fits(Case):
    def setUp(self):
        super().setUp()
        config = mlr_config(max_epochs=8)
        config["name"] = "a-name-of-some-length"
        self.run = self.run_config(config, "--json").result["run"]

    def words(self, text):
        return sorted(text.split())

    def test_a_page_of_the_manual_is_shown(self):
        """By man, where that is; what man would be given goes to a pipe."""
        self.env["PAGER"] = "cat"
        for verb in "run", "config":
            text, done = on_a_terminal(self, 80, 24, "man", verb)
            self.assert_code(done, 0)
            page = self.mltune("man", verb).out
            self.assertIn(".Sh NAME", page)
            if os.access("/usr/bin/man", os.X_OK):
                self.assertNotIn(".Sh", text)
                self.assertIn(f"mltune-{verb}", re.sub(".\b", "", text))

    def test_lists_and_runs_fit_the_width(self):
        """Folded between words: each word that a pipe gets is there whole."""
        for words in (["ls"], ["trials", self.run], ["branches", self.run],
                      ["show", "-v", self.run]):
            whole = self.mltune(*words).out
            self.assertGreater(max(map(len, whole.splitlines())), 85)
            for columns in (80, 100):
                text, done = on_a_terminal(self, columns, 24, *words)
                self.assert_code(done, 0)
                self.assertEqual(self.words(text), self.words(whole), words)
                for line in text.splitlines():
                    self.assertTrue(len(line) <= columns or
                                    " " not in line.strip(), line)
                    self.assertEqual(line, line.rstrip())

    def test_a_run_is_shown_on_one_screen(self):
        """Everything with -v, which the last line says."""
        for columns, rows in ((80, 24), (120, 40)):
            text, done = on_a_terminal(self, columns, rows, "show", self.run)
            self.assert_code(done, 0)
            self.assertLess(len(text.splitlines()), rows)
            self.assertIn(f"mltune show -v {self.run}: its ", text)
            self.assertEqual("\nlatest\n" in text, rows == 40)
            self.assertNotIn("\ntrials\n", text)
        (self.folder / "apart").mkdir()
        os.rename(self.folder / ".mltune", self.folder / "apart/runs")
        text, done = on_a_terminal(self, 200, 24, "show", self.run, "--state",
                                   "apart/runs")
        self.assert_code(done, 0)
        self.assertIn(f"mltune show -v {self.run} --state "
                      f"{self.folder}/apart/runs: its ", text)
        os.rename(self.folder / "apart/runs", self.folder / ".mltune")
        whole, _ = on_a_terminal(self, 80, 24, "show", "-v", self.run)
        for part in "\ntrials\n", "\nepochs\n", "\ndecisions\n":
            self.assertIn(part, whole)
        self.assertLess(len(self.mltune("show", self.run).out.splitlines()),
                        24)


class Progress(Case):
    """What is seen of a run while it goes on."""

    def test_a_line_fits_and_cuts_no_word(self):
        config = mlr_config(max_epochs=8)
        self.write("config.json", config)
        text, done = on_a_terminal(self, 60, 24, "run", "config.json")
        self.assert_code(done, 0)
        lines = [line for line in re.split(r"\r|\x1b\[K|\n", text)
                 if re.match(r"(waiting|tuning|training) \|", line)]
        self.assertTrue(lines, text)
        for line in lines:
            self.assertLess(len(line), 60, line)
            for word in line.split():
                if "=" in word:
                    self.assertRegex(word, r"^\w+=\d[\d.e+-]*$", line)

    def test_a_line_now_and_then_without_a_terminal(self):
        """The address first; trials by the number that lists give them."""
        self.write("endless.json", harness.endless_config())
        said = self.folder / "said"
        with open(said, "w", encoding="utf-8") as file:
            process = self.start("run", "endless.json", stderr=file)
        found = self.wait_until(lambda: re.search(
            r"^mltune: \w+ \| trial (\d+) \| .*\d s \| learning_rate=\S+",
            said.read_text(), re.M), "a line of a trial")
        self.assertRegex(said.read_text(),
                         r"\Amltune: watch at http://127\.0\.0\.1:\d+/\n")
        number = int(found.group(1))
        trials = self.mltune("trials", "endless", "--json").result
        self.assertIn(number, [t["trial"] for t in trials])
        process.send_signal(2)
        self.assert_code(self.finish(process), 130)
