"""Calls that fail, as in test_faults, in the verbs that read what a run left:
`mltune recover`, `mltune save`; and in the resume of a program of a user's own.
"""
import hashlib
import json
import os
import pathlib
import shutil
import subprocess

import test_faults
from harness import MLTUNE
from test_faults import Wrong, config

PYTHON = os.environ.get("PYTHON", "/usr/bin/python3")
PROGRAM = pathlib.Path(__file__).parent / "programs/softmax.py"


def contents(folder):
    """What is in each file; what SQLite shares among readers is not kept."""
    return {str(p.relative_to(folder)):
            hashlib.sha256(p.read_bytes()).hexdigest()
            for p in sorted(folder.rglob("*"))
            if p.is_file() and not p.name.endswith("-shm")}


class Recover(test_faults.ResumeTuner):
    """A state folder is read into a new one: what is there goes on, and the old
    one is as it was. What fails can be begun again."""
    ROLE = "recover"

    def prepare(self):
        super().prepare()
        self.before = contents(self.work / ".mltune")
        done = self.recover("whole", {})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.files = self.recovered("whole")
        shutil.rmtree(self.work / "whole")

    def recover(self, to, variables):
        return subprocess.run(
            [MLTUNE, "recover", ".mltune", "--to", to], cwd=self.work,
            text=True, stdin=subprocess.DEVNULL, capture_output=True,
            check=False, timeout=test_faults.DEADLINE_S,
            env={**self.env, **variables})

    def recovered(self, folder):
        """All but the second copy of a checkpoint: where its renaming fails
        the first is there, which is newer. And a journal may lie in two files."""
        return sorted(name for name in contents(self.work / folder)
                      if not name.endswith(("/checkpoint.old", "-wal")))

    def act(self, fault):
        done = self.recover("new", self.faulty(fault))
        if contents(self.work / ".mltune") != self.before:
            raise Wrong("the damaged folder is another")
        return done.returncode, done.stdout, done.stderr

    def ends_well(self, code, out, said):
        if code != 0:
            self.fail_if_aborted(code, said)
            if code > 0 and not said.strip() and not out.strip():
                raise Wrong(f"exit {code} without a word")
            # Whole or not, what is there is left to the user; what was on its
            # way is swept.
            if (self.work / "new").exists():
                shutil.rmtree(self.work / "new")
            done = self.recover("new", {})
            if done.returncode != 0:
                raise Wrong(f"recover exits {done.returncode}: {done.stderr}")
        there = self.recovered("new")
        if there != self.files:
            raise Wrong(f"recovered: {there}, expected {self.files}: {said}")
        done = self.plain("resume", self.run_id, "--state", "new")
        self.compare(done.stdout, "what was recovered")


class Save(test_faults.Faults):
    """A model from the snapshot of the search's end, the same whatever failed."""
    ROLE = "save"

    def config(self):
        return {**config(), "snapshot": {"every": 1000}}

    def prepare(self):
        self.assertEqual(self.plain("run", "config.json").returncode, 0)
        (self.run_id, _, _), = self.runs()
        done = self.save("../whole", {})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.files = contents(self.folder / "whole")
        self.assertTrue(self.files)

    def save(self, to, variables):
        return self.plain("save", self.run_id, "--from", "last", "--out", to,
                          **variables)

    def act(self, fault):
        done = self.save("saved", self.faulty(fault))
        return done.returncode, done.stdout, done.stderr

    def ends_well(self, code, out, said):
        if code != 0:
            self.fail_if_aborted(code, said)
            if code > 0 and not said.strip():
                raise Wrong(f"exit {code} without a word")
            done = self.save("saved", {})
            if done.returncode != 0:
                raise Wrong(f"save exits {done.returncode}: {done.stderr}")
        if contents(self.work / "saved") != self.files:
            raise Wrong(f"another model: {said}")

    def test_calls_that_fail(self):
        self.loop()


class Deleted(test_faults.Faults):
    """A run is deleted, or can be deleted again; another one is as it was."""
    ROLE = "delete"

    def prepare(self):
        for _ in range(2):
            self.assertEqual(self.plain("run", "config.json").returncode, 0)
        (self.gone, _, _), (self.stays, _, _) = self.runs()
        self.files = self.stay()

    def stay(self):
        folder = self.work / ".mltune/runs" / self.stays
        return contents(folder) if folder.exists() else None

    def delete(self, **variables):
        return self.plain("delete", self.gone, **variables)

    def act(self, fault):
        done = self.delete(**self.faulty(fault))
        return done.returncode, done.stdout, done.stderr

    def ends_well(self, code, out, said):
        if code != 0:
            self.fail_if_aborted(code, said)
            if code > 0 and not said.strip():
                raise Wrong(f"exit {code} without a word")
            # What the journal does not know any more was deleted.
            done = self.delete()
            if done.returncode != 0 and self.gone in [r for r, *_ in
                                                      self.runs()]:
                raise Wrong(f"delete exits {done.returncode}: {done.stderr}")
        if [run for run, *_ in self.runs()] != [self.stays]:
            raise Wrong(f"runs: {self.runs()}: {said}")
        if (self.work / ".mltune/runs" / self.gone).exists():
            raise Wrong(f"its folder is left: {said}")
        if self.stay() != self.files:
            raise Wrong(f"another run has changed: {said}")

    def test_calls_that_fail(self):
        self.loop()


class NewWays:
    """Of the ways to an allocation those alone that a job which is in the loop
    already, PLAIN, does not come."""
    PLAIN = None

    def ways(self, kind):
        plain = self.PLAIN("test_calls_that_fail")
        plain.setUp()
        try:
            known = {chain.partition("/")[0] for _, chain, _ in
                     plain.ways(kind)}
        finally:
            plain.doCleanups()
        return [way for way in super().ways(kind)
                if way[1].partition("/")[0] not in known]


class OwnProgram(NewWays, test_faults.ResumeTuner):
    """A run of a user's own program goes on."""
    PLAIN = test_faults.ResumeTuner

    def config(self):
        return {**config(), "app": {"command": [PYTHON, str(PROGRAM)]}}


class OwnProgramItself(OwnProgram):
    """The same where the program cannot write: what the package does for it.
    What the interpreter allocates is not ours."""
    ROLE = PROGRAM.stem
    KINDS = test_faults.FILES


class TwoNodes(NewWays, test_faults.ResumeTuner):
    """A run on two nodes goes on."""
    PLAIN = test_faults.ResumeTuner

    def config(self):
        return {**config(), "cluster": {"nodes": 2, "workers": 1}}


class TwoNodesNode(TwoNodes):
    """The same, in one of its nodes."""
    ROLE = "node"
    PLAIN = test_faults.ResumeNode


class Contest(NewWays, test_faults.ResumeTuner):
    """A contest of settings goes on, with the trials that wait; `complete` and
    `tupaq` begin anew."""
    PLAIN = test_faults.ResumeTuner
    STRATEGY = {"strategy": "hyperband",
                "strategy_settings": {"max_resource": 3}}

    def config(self):
        return {**config(), "tuner": {"searcher": "random", "max_trials": 3,
                                      **self.STRATEGY}}


class Pruned(Contest):
    STRATEGY = {"strategy": "complete", "strategy_settings": {
        "pruner": "median", "startup": 1}}


class Asha(Contest):
    STRATEGY = {"strategy": "asha"}


class Tupaq(Contest):
    STRATEGY = {"strategy": "tupaq"}


class Crowd(Contest):
    STRATEGY = {"strategy": "pbt", "strategy_settings": {"population": 3}}
