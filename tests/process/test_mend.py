"""A journal that is damaged at its head, or as a whole, is mended by whoever
opens it next; what was damaged keeps its bytes under another name."""
import contextlib
import json
import os
import shutil
import signal
import sqlite3
import tarfile
import time

import test_compat
from harness import BUILD, Case, crc32c, endless_config, mlr_config

SHIM = BUILD / "tests/faults/shim.so"
KINDS = "write", "sync", "rename", "unlink", "mkdir"
STEPS = "rename", "mkdir"  # each is tried; of the others 1, 3, 9, ...
EACH = "MLTUNE_STRICT" in os.environ
# Of SQLite's header the magic word, its page's size, its counts and numbers;
# of the page behind it how many rows there are, where they are, and one's text.
BYTES = 0, 16, 28, 60, 68, 100, 104, 4000


class Mended(Case):
    def setUp(self):
        super().setUp()
        self.whole = self.folder / "whole"
        self.make_runs(self.whole / "state")
        self.runs = sorted(p.name for p in (self.whole / "state/runs").iterdir())

    def make_runs(self, state):
        config = mlr_config(max_epochs=1)
        config["tuner"] = {"strategy": "fixed"}
        config["app"]["data"] = "gen:digits?samples=300&size=8"
        self.write("config.json", config)
        both = [self.start("run", "config.json", "-q", "--state", state)
                for _ in range(2)]
        for process in both:
            self.assert_code(self.finish(process), 0)
        self.empty_log(state)

    @staticmethod
    def empty_log(state):
        """What a reader asks for comes from the journal's file, no more from
        its log."""
        db = sqlite3.connect(state / "mltune.db")
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        db.close()

    def damaged(self, name, change):
        """A copy of the state folder, of which @change has changed the journal's
        bytes; and these."""
        state = self.folder / name
        shutil.rmtree(state, ignore_errors=True)
        shutil.copytree(self.whole / "state", state)
        data = bytearray((state / "mltune.db").read_bytes())
        data = change(data) or data
        (state / "mltune.db").write_bytes(data)
        return state, bytes(data)

    def listed(self, state):
        done = self.mltune("ls", "--json", "--state", state)
        self.assert_code(done, 0)
        return done, sorted((r["run"], r["status"], r["epochs"])
                            for r in done.result)

    def check_mended(self, state, data):
        """All runs are there; the damaged file is; nothing else is left."""
        done, runs = self.listed(state)
        self.assertEqual(runs, [(r, "finished", 1) for r in self.runs])
        self.assertEqual(done.err, "")
        aside = sorted(p.name for p in state.glob("mltune.db.damaged-*"))
        self.assertEqual(aside, ["mltune.db.damaged-1"])
        self.assertEqual((state / aside[0]).read_bytes(), data)
        self.assertEqual((state / "mltune.db").stat().st_mode & 0o777, 0o600)
        db = sqlite3.connect(state / "mltune.db")
        kept, = db.execute("SELECT count(*) FROM records").fetchone()
        db.close()
        self.assertEqual(list(state.glob("*.tmp")), [])
        return kept

    def records(self):
        db = sqlite3.connect(self.whole / "state/mltune.db")
        kept, = db.execute("SELECT count(*) FROM records").fetchone()
        db.close()
        return kept

    def test_a_damaged_head_costs_nothing(self):
        """Whoever comes first mends it: ls, show, a resume, a run."""
        verbs = (["ls"], ["show", self.runs[0]],
                 ["run", "config.json", "--dry-run"],
                 ["resume", self.runs[0]])
        for i, at in enumerate(BYTES):
            def turn(data, at=at):
                data[at] ^= 0x80
            state, data = self.damaged("state", turn)
            verb = verbs[i % len(verbs)]
            done = self.mltune(*verb, "--state", state)
            self.assertEqual(done.code, 2 if verb[0] == "resume" else 0, done.err)
            if verb[-1] == "--dry-run":  # it opens no journal
                done = self.mltune("ls", "--state", state)
            self.assertIn("is mended from the copy", done.err, at)
            self.assertIn("mltune.db.damaged-1", done.err)
            self.assertEqual(self.check_mended(state, data), self.records(), at)
        self.assert_nothing_left()

    def test_without_the_heads_copy_it_is_made_anew(self):
        """From the checkpoints, of which each run has one; results and models
        are there."""
        def turn(data):
            data[:4096] = b"\xa5" * 4096
        state, data = self.damaged("state", turn)
        (state / "mltune.head").write_bytes(b"damage")
        done = self.mltune("show", self.runs[0], "--json", "--state", state)
        self.assert_code(done, 0)
        self.assertIn("made anew", done.err)
        self.check_mended(state, data)
        before = self.mltune("show", self.runs[0], "--json", "--state",
                             self.whole / "state").result
        for member in "status", "reason", "epochs", "best", "model", "loss":
            self.assertEqual(done.result[member], before[member], member)

    def test_a_file_that_is_empty_or_cut_off_is_made_anew(self):
        for size in 0, 100, 4096, 8192:
            state, data = self.damaged("state", lambda d, n=size: d[:n] or b"")
            if size == 0:
                (state / "mltune.db").write_bytes(b"")
                data = b""
            self.assertIn("made anew", self.mltune("ls", "--state", state).err)
            self.check_mended(state, data)

    def test_of_several_at_once_one_mends(self):
        """Some while another is at it, some when it is done."""
        for late in (0, 0.01) * 4:
            state, data = self.damaged("state", self.turned)
            all_ = []
            for _ in range(6):
                all_.append(self.start("ls", "--state", state))
                time.sleep(late)
            done = [self.finish(p) for p in all_]
            for d in done:
                self.assert_code(d, 0)
            self.assertEqual(sum("is mended" in d.err for d in done), 1)
            self.check_mended(state, data)

    def test_an_older_journal_that_was_put_back_is_sound(self):
        """The copy beside it is of a later schema: it is not taken."""
        state = self.folder / "old"
        with tarfile.open(test_compat.FIXTURE) as tar:
            tar.extractall(self.folder / "fixture")
        old = next((self.folder / "fixture").rglob("mltune.db")).parent
        shutil.copytree(old, state)
        shutil.copy(self.whole / "state/mltune.head", state)
        before = self.mltune("ls", "--json", "--state", old).result
        for _ in range(2):
            done = self.mltune("ls", "--json", "--state", state)
            self.assert_code(done, 0)
            self.assertEqual(done.err, "")
            self.assertEqual([r["run"] for r in done.result],
                             [r["run"] for r in before])
        self.assertEqual(list(state.glob("mltune.db.damaged-*")), [])

    def test_a_head_that_does_not_fit_is_not_taken(self):
        """Of another journal: what is read comes with its checksum, from the
        records or the checkpoints."""
        def turn(data):
            data[100] ^= 0x80
        state, data = self.damaged("state", turn)
        head = (state / "mltune.head").read_text()
        told = json.loads(head[9:])
        for row in told["schema"]:  # the tables' places, exchanged
            row[3] = {2: 4, 4: 2}.get(row[3], row[3])
        text = json.dumps(told, separators=(",", ":"))
        (state / "mltune.head").write_text(
            f"{crc32c(text.encode()):08x} {text}\n")
        self.assertIn("made anew", self.mltune("ls", "--state", state).err)
        self.check_mended(state, data)

    def faulty(self, fault):
        """Environment of an `ls` that meets @fault."""
        asan = self.env.get("ASAN_OPTIONS", "")
        return {**self.env, "LD_PRELOAD": str(SHIM), "FAULT_ROLE": "ls",
                "FAULT": fault, "FAULT_ROOT": str(self.folder / "state"),
                "FAULT_MARK": str(self.folder / "mark"),
                "FAULT_COUNT": str(self.folder / "count"),
                "ASAN_OPTIONS": f"{asan}:verify_asan_link_order=0"}

    def ls_with(self, fault, state):
        (self.folder / "mark").unlink(missing_ok=True)
        env, self.env = self.env, self.faulty(fault)
        try:
            return self.mltune("ls", "--state", state)
        finally:
            self.env = env

    def turned(self, data):
        data[0] ^= 1

    def test_without_room_nothing_is_changed(self):
        """Nor where the folder cannot be written: it says so."""
        for fault, word in (("write:1:always", "No space"),
                            ("mkdir:1:always", "No space"),
                            ("rename:1:always", "Input/output")):
            state, data = self.damaged("state", self.turned)
            done = self.ls_with(fault, state)
            self.assertNotEqual(done.code, 0)
            self.assertIn("cannot be mended here", done.err)
            self.assertIn(word, done.err)
            self.assertEqual((state / "mltune.db").read_bytes(), data)
            self.assertEqual(list(state.glob("*.tmp")), [])
            self.mltune("ls", "--state", state)
            self.check_mended(state, data)

    def test_killed_at_any_call_it_is_mended_by_the_next(self):
        for rebuilt in False, True:
            for kind in KINDS if EACH or not rebuilt else STEPS:
                number = 1
                while self.killed_at(f"{kind}:{number}:kill", rebuilt):
                    number += 1 if kind in STEPS or EACH else 2 * number

    def killed_at(self, fault, rebuilt):
        """False: there is no such call any more."""
        state, data = self.damaged("state", self.turned)
        if rebuilt:
            (state / "mltune.head").unlink()
        done = self.ls_with(fault, state)
        if done.code == 0:
            return False
        self.assertEqual(done.code, -signal.SIGKILL, done.err)
        again = self.mltune("ls", "--state", state)
        self.assert_code(again, 0)
        kept = self.check_mended(state, data)
        if not rebuilt:
            self.assertEqual(kept, self.records(), fault)
        return True

    def test_below_a_run_nothing_is_mended(self):
        """It goes on, and whoever comes after it mends."""
        self.write("config.json", endless_config())
        process = self.start("run", "config.json", "-q")
        self.wait_for_training()
        state = self.folder / ".mltune"
        with open(state / "mltune.db", "r+b") as f:
            f.write(b"damage")
        self.mltune("ls")
        self.assertEqual(list(state.glob("mltune.db.damaged-*")), [])
        process.send_signal(signal.SIGINT)
        self.assert_code(self.finish(process), 130)
        _, runs = self.listed(state)
        self.assertEqual([r[1] for r in runs], ["interrupted"])

    def test_below_a_service_nothing_is_mended(self):
        """Not by itself either, when a run is submitted: it refuses that."""
        service = self.start("serve", "--listen", "127.0.0.1:0")
        state = self.folder / ".mltune"
        self.wait_until(lambda: (state / "serve.url").exists(), "the service")
        self.write("config.json", mlr_config(max_epochs=1))
        self.assert_code(self.mltune("submit", "config.json"), 0)
        self.wait_until(lambda: self.listed(state)[1][0][1] == "finished",
                        "the run's end")
        self.empty_log(state)
        with open(state / "mltune.db", "r+b") as f:
            f.write(b"damage")
        done = self.mltune("submit", "config.json")
        self.assertNotEqual(done.code, 0)
        self.assertIn("cannot be mended here", done.err)
        self.assertEqual(list(state.glob("mltune.db.damaged-*")), [])
        service.send_signal(signal.SIGTERM)
        self.finish(service)
        _, runs = self.listed(state)
        self.assertIn(("finished", 1), [r[1:] for r in runs])

    def test_another_programs_database_stays(self):
        state = self.folder / "other"
        state.mkdir()
        db = sqlite3.connect(state / "mltune.db")
        db.execute("CREATE TABLE theirs (a)")
        db.commit()
        db.close()
        before = (state / "mltune.db").read_bytes()
        done = self.mltune("ls", "--state", state)
        self.assertNotEqual(done.code, 0)
        self.assertIn("another program", done.err)
        self.assertNotIn("mended", done.err)
        self.assertEqual((state / "mltune.db").read_bytes(), before)
        self.assertEqual([p.name for p in state.iterdir()], ["mltune.db"])


class Index(Case):
    """What `mltune ls` shows of runs that have ended is kept in the journal."""

    def setUp(self):
        super().setUp()
        config = mlr_config(max_epochs=1)
        config["tuner"] = {"strategy": "fixed"}
        config["app"]["data"] = "gen:digits?samples=300&size=8"
        self.write("config.json", config)
        for name in "one", "two":
            self.assert_code(self.mltune("run", "config.json", "-q", "--name",
                                         name), 0)
        self.table = self.mltune("ls").out
        self.lines = self.mltune("ls", "--json").out

    def sql(self, text, *values):
        db = sqlite3.connect(self.folder / ".mltune/mltune.db")
        with contextlib.closing(db), db:
            return db.execute(text, values).fetchall()

    def assert_as_before(self):
        for words, shown in ((("ls",), self.table),
                             (("ls", "--json"), self.lines)):
            done = self.mltune(*words)
            self.assert_code(done, 0)
            self.assertEqual((done.out, done.err), (shown, ""))

    def test_a_row_that_is_damaged_is_made_anew(self):
        """Of its run, in whatever part; nobody sees any of it."""
        whole = self.sql("SELECT * FROM listed")
        for part in "cells", "json", "id", "status":
            for change in ("replace({0}, 'e', 'x')", "substr({0}, 2)", "''"):
                with self.subTest(part, change=change):
                    self.sql(f"UPDATE listed SET {part} = "
                             + change.format(part) + " WHERE run = 1")
                    self.assert_as_before()
                    self.assertEqual(self.sql("SELECT * FROM listed"), whole)

    def test_a_row_of_no_run(self):
        self.sql("UPDATE listed SET run = 77 WHERE run = 1")
        self.assert_as_before()

    def test_a_page_that_is_damaged_is_told_and_does_no_harm(self):
        """Its own page, of which SQLite can make nothing: the runs are read, and
        what to do is said. `mltune recover` makes a folder of them."""
        self.sql("PRAGMA wal_checkpoint(TRUNCATE)")
        page, = self.sql("SELECT rootpage FROM sqlite_schema "
                         "WHERE name = 'listed'")[0]
        with open(self.folder / ".mltune/mltune.db", "r+b") as file:
            file.seek((page - 1) * 4096)
            file.write(b"\xff" * 4096)
        for words, shown in ((("ls",), self.table),
                             (("ls", "--json"), self.lines)):
            done = self.mltune(*words)
            self.assert_code(done, 0)
            self.assertEqual(done.out, shown)
            self.assertIn("mltune recover takes what is whole", done.err)
            self.assertIn("each run is read by itself", done.err)
        self.assert_code(self.mltune("recover", ".mltune", "--to", "new"), 0)
        done = self.mltune("ls", "--state", "new")
        self.assertEqual((done.out, done.err), (self.table, ""))

    def test_notes_that_came_later(self):
        run = json.loads(self.lines)[0]["run"]
        self.assert_code(self.mltune("note", run, "late", "--tags", "a"), 0)
        shown = json.loads(self.mltune("ls", "--json").out)[0]
        self.assertEqual((shown["note"], shown["tags"]), ("late", ["a"]))
        self.assertEqual(self.mltune("ls").out, self.table)
