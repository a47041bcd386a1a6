"""Calls that fail, as in test_faults, in the verbs that no other loop has: `note`,
`token`, `compare`, `watch`, `open`, `data gen`; and in runs whose nodes come as
from another machine. (`data info` gives up all calls that the loop needs.)
"""
import json
import os
import pathlib
import signal
import stat

import test_faults
import test_faults_apps
from harness import MLTUNE
from test_faults import Wrong, config
from test_faults_verbs import NewWays


class Quick(test_faults.Faults):
    """A verb that trains nothing."""

    def undisturbed(self):
        return None

    def refused(self, code, said):
        """False: all went well."""
        if code == 0:
            return False
        self.fail_if_aborted(code, said)
        if code > 0 and not said.strip():
            raise Wrong(f"exit {code} without a word")
        return True

    def hears(self, *words, json_too=True):
        """What is said by a verb that nothing disturbs."""
        done = (self.plain if json_too else self.command)(*words)
        if done.returncode != 0:
            raise Wrong(f"{words} exits {done.returncode}: {done.stderr}")
        return done.stdout


# ---- what is written -------------------------------------------------------

class Noted(Quick):
    """A note is there, or what was there before. Where the journal cannot be
    written for long, `ls` shows that for a while."""
    ROLE = "note"
    lasting = False

    def prepare(self):
        done = self.plain("run", "config.json", "--no-tune")
        self.assertEqual(done.returncode, 0, done.stderr)
        (self.run_id, _, _), = self.runs()
        self.note("before", "a")
        self.before = self.noted()

    def note(self, text, tags):
        self.hears("note", self.run_id, text, "--tags", tags)

    def noted(self):
        run, = json.loads(self.hears("ls"))
        return run.get("note"), run.get("tags")

    def act(self, fault):
        self.lasting = fault.endswith(":always")
        done = self.plain("note", self.run_id, "after", "--tags", "b,c",
                          **self.faulty(fault))
        return done.returncode, done.stdout, done.stderr

    def ends_well(self, code, out, said):
        after = ("after", ["b", "c"])
        now = self.noted()
        if self.refused(code, said) or self.lasting:
            if now not in (self.before, after):
                raise Wrong(f"noted: {now}: {said}")
            self.note("after", "b,c")
            now = self.noted()
        if now != after:
            raise Wrong(f"noted: {now}: {said}")

    def test_calls_that_fail(self):
        self.loop()


class Tokens(Quick):
    """A token is there or not, and others stay. One that was made and could
    not be told can be taken back."""
    ROLE = "token"

    def prepare(self):
        self.add("first")
        self.before = self.names()

    def add(self, name):
        return self.hears("token", "add", name, "--role", "run",
                          json_too=False)

    def names(self):
        return [t["name"] for t in json.loads(self.hears("token", "ls"))]

    def act(self, fault):
        done = self.command("token", "add", "second", "--role", "run",
                            **self.faulty(fault))
        return done.returncode, done.stdout, done.stderr

    def ends_well(self, code, out, said):
        names = self.names()
        if self.refused(code, said):
            if names not in (self.before, [*self.before, "second"]):
                raise Wrong(f"tokens: {names}: {said}")
            if "second" in names:
                self.hears("token", "revoke", "second", json_too=False)
            out = self.add("second")
            names = self.names()
        if names != [*self.before, "second"] or len(out.strip()) < 32:
            raise Wrong(f"tokens: {names}, told: {out!r}: {said}")

    def test_calls_that_fail(self):
        self.loop()


class Generated(Quick):
    """Data are written whole or not at all."""
    ROLE = "data"
    WORDS = ["data", "gen", "gen:ratings?users=30&items=20&ratings=200",
             "made.txt"]

    def prepare(self):
        self.hears(*self.WORDS, json_too=False)
        self.made = self.work / "made.txt"
        self.content = self.made.read_bytes()
        self.made.unlink()

    def act(self, fault):
        done = self.command(*self.WORDS, **self.faulty(fault))
        return done.returncode, done.stdout, done.stderr

    def ends_well(self, code, out, said):
        if self.refused(code, said) and (
                not self.made.exists() or
                self.made.read_bytes() != self.content):
            if self.made.exists():
                raise Wrong(f"a part is written: {said}")
            self.hears(*self.WORDS, json_too=False)
        if self.made.read_bytes() != self.content:
            raise Wrong(f"other data: {said}")

    def test_calls_that_fail(self):
        self.loop()


# ---- what is read ----------------------------------------------------------

class Watched(Quick, test_faults_apps.Reading):
    """Each event of a run that has ended."""
    ROLE = "watch"
    WORDS = ["watch", "RUN"]

    def test_calls_that_fail(self):
        self.loop()


class Opened(Quick):
    """An address is told, of a service that ends by itself; or no service is
    left."""
    ROLE = "open"

    def prepare(self):
        done = self.plain("run", "config.json", "--no-tune")
        self.assertEqual(done.returncode, 0, done.stderr)

    def open(self, **variables):
        return self.command("open", "--idle", "60s", **variables)

    def act(self, fault):
        done = self.open(**self.faulty(fault))
        return done.returncode, done.stdout, done.stderr

    def end_services(self):
        for pid in self.marked():
            try:
                words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
                if words.split(b"\0")[1:2] == [b"serve"]:
                    os.kill(pid, signal.SIGTERM)
            except OSError:
                continue
        self.wait_until(lambda: not self.marked(), "the service to end", 60)

    def ends_well(self, code, out, said):
        if self.refused(code, said):
            self.left()
            done = self.open()
            if done.returncode != 0:
                raise Wrong(f"open exits {done.returncode}: {done.stderr}")
            out = done.stdout
        if "/enter?code=" not in out:
            raise Wrong(f"no address: {out!r}: {said}")
        self.end_services()

    def test_calls_that_fail(self):
        self.loop()


# ---- what trains -----------------------------------------------------------

class Compared(Quick):
    """One strategy, one seed: its run, and the table of it. The target is
    missed; one that is left out has not missed it."""
    ROLE = "compare"

    def config(self):
        config = super().config()
        return {**config, "stop": {**config["stop"], "target_loss": 1e-9}}

    def prepare(self):
        self.said = self.figures(self.hears(*self.words()))

    def words(self):
        return ["compare", "config.json", "--strategies", "fixed", "--seeds",
                "1", "--state", "compared"]

    def figures(self, text):
        try:
            strategy, = json.loads(text.strip().splitlines()[-1])["strategies"]
        except (ValueError, IndexError, KeyError):
            raise Wrong(f"no table: {text[-300:]!r}") from None
        to_target = strategy["time_to_target"]
        return (strategy["finished"], strategy["quality"], to_target["runs"],
                to_target["max_above"])

    def act(self, fault):
        done = self.plain(*self.words(), **self.faulty(fault))
        return done.returncode, done.stdout, done.stderr

    def ends_well(self, code, out, said):
        if self.refused(code, said):
            if "is left out" in said and out.strip():
                finished, quality, *to_target = self.figures(out)
                if (finished, quality["runs"], *to_target) != (0, 0, 0, False):
                    raise Wrong(f"one left out counts: {out[-700:]}")
            out = self.hears(*self.words())
        if self.figures(out) != self.said:
            raise Wrong(f"another table: {out[-700:]}: {said}")

    def test_calls_that_fail(self):
        self.loop()


SSH = """#!/bin/sh
# As ssh does, on this machine: `ssh OPTIONS -- HOST LINE`.
while [ "$1" != -- ]; do shift; done
exec sh -c "$3"
"""


class Far(NewWays, test_faults.ResumeTuner):
    """A run goes on whose node connects over tcp, with keys, as ssh starts it."""
    PLAIN = test_faults.ResumeTuner

    def write_data(self):
        super().write_data()
        stub = self.folder / "bin/ssh"
        stub.parent.mkdir(exist_ok=True)
        stub.write_text(SSH)
        stub.chmod(stub.stat().st_mode | stat.S_IXUSR)
        self.env["PATH"] = f"{stub.parent}:{os.environ['PATH']}"

    def config(self):
        return {**config(), "cluster": {
            "launcher": "ssh", "hosts": ["127.0.0.1"], "workers": 1,
            "command": str(MLTUNE)}}


class NodeAfar(Far):
    """The same, in that node."""
    ROLE = "node"
    PLAIN = test_faults.ResumeNode
