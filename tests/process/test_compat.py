"""State folders of earlier versions: they are read and their runs go on.

fixtures/b9f8d68.tar.xz holds a state folder that commit b9f8d68 wrote and what
that program said of it (fixtures/make_b9f8d68.py tells how): `golden/NAME` are
answers to QUESTIONS, `golden/resume-RUN.json` the results of its own resume.
"""
import json
import math
import sqlite3
import tarfile

from harness import ROOT, Case

FIXTURE = ROOT / "tests/process/fixtures/b9f8d68.tar.xz"
FOLDER = "@FOLDER@"  # in answers: where the state folder lies

QUESTIONS = {
    "ls.json": ["ls", "--json"],
    "show-finished.json": ["show", "finished", "--json"],
    "show-steered.json": ["show", "steered", "--json"],
    "trials-finished.json": ["trials", "finished", "--json"],
    "trials-steered.json": ["trials", "steered", "--json"],
    "branches-finished.json": ["branches", "finished", "--json"],
    "branches-steered.json": ["branches", "steered", "--json"],
    **{f"{run}.jsonl": ["export", run, "--format", "jsonl", "-o", "-"]
       for run in ("finished", "killed", "searching", "steered")},
}
RESUMED = ["killed", "searching", "steered"]
# Members that are told in another way since one renderer writes what the server
# answers: times as dates; `ls` counts seconds from the first clock on, has the
# trials in `tuning`, and the best model's loss and metric in `best`.
REPLACED = {
    "ls.json": {"started_unix_s", "seconds", "trials", "loss", "metric"},
    "show-finished.json": {"started_unix_s", "at_s"},
    "show-steered.json": {"started_unix_s", "at_s"},
}
# Members of a result that time or the machine decides.
MEASURED = {"seconds", "paused_seconds", "waiting_seconds", "url"}
# Members that follow from decisions. Today's tuner makes others: its last epochs
# cool down, and within a search its speeds are relative, its finalists are not
# forked anew.
COOLED = {"setting", "schedule", "loss", "metric", "best"}
DECIDED = {"killed": COOLED, "steered": COOLED,
           "searching": COOLED | {"clocks", "tuning", "epochs", "reason"}}


class Compat(Case):
    FAULTS = ("Sanitizer", "runtime error:", "Assertion")

    def setUp(self):
        """The old state folder as if it had been written here: a run's
        journal names its snapshots by absolute paths."""
        super().setUp()
        with tarfile.open(FIXTURE) as tar:
            tar.extractall(self.folder)
        old = (self.folder / "golden/folder").read_text()
        db = sqlite3.connect(self.folder / ".mltune/mltune.db")
        for table, column in (("records", "json"), ("runs", "result")):
            db.execute(f"UPDATE {table} SET {column} ="
                       f" replace({column}, ?, ?)", (old, str(self.folder)))
        db.commit()
        db.close()
        for path in self.folder.glob(".mltune/runs/*/*.json"):
            path.write_text(path.read_text().replace(old, str(self.folder)))

    def golden(self, name):
        text = (self.folder / "golden" / name).read_text()
        return text.replace(FOLDER, str(self.folder))

    def answer(self, words):
        done = self.mltune(*words)
        self.assert_code(done, 0)
        return done.out

    def assert_says(self, now, old, where, passed_over=(), close=0.0):
        """All that the old program said, the new one says as well; it may say
        more. Numbers may be @close to one another."""
        if isinstance(old, dict):
            self.assertIsInstance(now, dict, where)
            for name, value in old.items():
                if name in passed_over:
                    continue
                self.assertTrue(name in now, f"{where} lacks {name}")
                self.assert_says(now[name], value, f"{where}/{name}",
                                 passed_over, close)
        elif isinstance(old, list):
            self.assertIsInstance(now, list, where)
            self.assertEqual(len(now), len(old), where)
            for i, (a, b) in enumerate(zip(now, old)):
                self.assert_says(a, b, f"{where}/{i}", passed_over, close)
        elif isinstance(old, float) and isinstance(now, (int, float)):
            self.assertTrue(math.isclose(now, old, rel_tol=close),
                            f"{where}: {now}, it was {old}")
        else:
            self.assertEqual(now, old, where)

    def test_answers(self):
        """What is asked as JSON has all that the old program said."""
        for name, words in QUESTIONS.items():
            if not name.endswith(".json"):
                continue
            with self.subTest(name):
                self.assert_says(json.loads(self.answer(words)),
                                 json.loads(self.golden(name)), name,
                                 REPLACED.get(name, ()))

    def test_ls_has_the_old_numbers(self):
        """What `ls` says at another place is what it said."""
        now = json.loads(self.answer(QUESTIONS["ls.json"]))
        for run, old in zip(now, json.loads(self.golden("ls.json"))):
            self.assertEqual(run["tuning"]["trials"], old["trials"])
            best = run["best"] or {"loss": None, "metric": None}
            self.assertEqual(best["loss"], old["loss"])
            self.assertEqual(best["metric"], old["metric"])

    def test_journal(self):
        """Each record is decoded and written again as the same bytes."""
        for name, words in QUESTIONS.items():
            if not name.endswith(".jsonl"):
                continue
            with self.subTest(name):
                now, old = self.answer(words), self.golden(name)
                self.assertEqual(now.splitlines(), old.splitlines())
                self.assertEqual(now, old)

    def test_people_can_read_it(self):
        """The verbs that print for people take old runs as well."""
        for run in ("finished", "steered"):
            for verb in ("show", "trials", "branches"):
                self.assertTrue(self.answer([verb, run]).strip())
        self.assertIn("finished", self.answer(["ls"]))

    def test_resume(self):
        """Interrupted runs end as the old program's own resume ended them:
        they all have `trial_clocks`, so no clock decides anything. Losses may
        differ as far as another machine's arithmetic does; one that was
        killed within a search ends as well, not alike."""
        for name in RESUMED:
            with self.subTest(name):
                done = self.mltune("resume", name, "--json")
                self.assert_code(done, 0)
                old = json.loads(self.golden(f"resume-{name}.json"))
                self.assert_says(done.result, old, name,
                                 MEASURED | DECIDED.get(name, set()), 1e-3)
                self.assertGreaterEqual(done.result["metric"],
                                        0.98 * old["metric"])
                model = self.folder / ".mltune/runs" / old["run"] / "model"
                self.assertEqual(done.result["model"], str(model))
                self.assertTrue((model / "weights.npy").is_file())
        self.assert_nothing_left()
