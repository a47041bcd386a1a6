"""`mltune recover`: what is whole of a damaged state folder goes on elsewhere;
the damaged one is not touched."""
import hashlib
import json
import os
import pathlib
import shutil
import signal
import sqlite3

from harness import BUILD, Case, endless_config, mlr_config


def contents(folder):
    return {str(p.relative_to(folder)):
            (hashlib.sha256(p.read_bytes()).hexdigest(), p.stat().st_mtime_ns)
            for p in sorted(pathlib.Path(folder).rglob("*")) if p.is_file()}


class Recover(Case):
    def setUp(self):
        super().setUp()
        self.state = self.folder / ".mltune"

    def interrupted(self):
        """A run with two snapshots of training, interrupted; its id."""
        config = endless_config()
        config["snapshot"] = {"every": 0.2}
        self.write("config.json", config)
        process = self.start("run", "config.json", "--json")

        def trained():
            done = self.mltune("show", "endless", "--json")
            return done.code == 0 and done.result["epochs"] >= 3
        self.wait_until(trained, "three epochs")
        process.send_signal(signal.SIGINT)
        done = self.finish(process)
        self.assert_code(done, 130)
        db = sqlite3.connect(self.state / "mltune.db")
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        db.close()
        return done.result["run"]

    def snapshots(self, run):
        folder = self.state / "runs" / run / "snapshots"
        return sorted(p for p in folder.iterdir() if p.name.isdigit())

    def goes_on(self, run, state):
        def epochs():
            done = self.mltune("show", run, "--json", "--state", state)
            return done.result["epochs"]
        before = epochs()
        process = self.start("resume", run, "--state", state)
        self.wait_until(lambda: epochs() > before, "an epoch")
        process.send_signal(signal.SIGINT)
        self.assert_code(self.finish(process), 130)
        db = sqlite3.connect(self.folder / state / "mltune.db")
        paths = [json.loads(t)["path"] for t, in db.execute(
            "SELECT json FROM records WHERE kind = 'run_resumed'")]
        db.close()
        return paths

    def test_several_runs_and_a_model(self):
        """Of each run what it had; a finished one's model is the new
        folder's, also when the damaged one is gone."""
        config = mlr_config(max_epochs=1)
        done = [self.run_config(config, "--no-tune", "--json")
                for _ in range(2)]
        runs = [self.assert_code(d, 0) or d.result["run"] for d in done]
        runs.append(self.interrupted())
        done = self.mltune("recover", ".mltune", "--to", "new")
        self.assert_code(done, 0)
        for run in runs:
            shown = [self.mltune("show", run, "--json", "--state", s).result
                     for s in (".mltune", "new")]
            for member in ("status", "epochs", "clocks"):
                self.assertEqual(shown[0][member], shown[1][member], member)
        self.state.rename(self.folder / "gone")
        # As the checkpoint's history has it, which no record is read for.
        models = {r["run"]: r["model"] for r in
                  self.mltune("ls", "--json", "--state", "new").result}
        for run in runs[:2]:
            self.assertEqual(models[run],
                             str(self.folder / "new/runs" / run / "model"))
        data = config["app"]["data"]
        done = self.mltune("predict", runs[0], data, "--state", "new")
        self.assert_code(done, 0)
        self.goes_on(runs[2], "new")

    def test_what_belongs_to_a_service_is_recovered(self):
        """Tokens, settings, the audit and the list of uploads, with who may
        read them."""
        done = self.run_config(mlr_config(max_epochs=1), "--no-tune")
        self.assert_code(done, 0)
        self.assert_code(self.mltune("token", "add", "alice", "--role", "run"),
                         0)
        self.write(".mltune/service.json", {})
        for name in "audit.1", "uploads":
            path = self.state / name
            path.write_text(f"{name}\n")
            path.chmod(0o600)
        names = ["audit", "audit.1", "service.json", "token", "tokens",
                 "uploads"]
        self.assertLessEqual(set(names), set(os.listdir(self.state)))
        self.assert_code(self.mltune("recover", ".mltune", "--to", "new"), 0)
        for name in names:
            was, now = self.state / name, self.folder / "new" / name
            self.assertEqual(now.read_bytes(), was.read_bytes(), name)
            self.assertEqual(now.stat().st_mode, was.stat().st_mode, name)
        self.assert_nothing_left()

    def test_a_whole_folder_is_the_same_elsewhere(self):
        """Nothing is missing: it says so, and the run goes on from its last
        snapshot, in the new folder."""
        run = self.interrupted()
        before = contents(self.state)
        done = self.mltune("recover", ".mltune", "--to", "new")
        self.assert_code(done, 0)
        self.assertIn(f"mltune resume {run} --state {self.folder}/new",
                      done.out)
        self.assertEqual(contents(self.state), before)
        show = [self.mltune("show", run, "--json", "--state", s).result
                for s in (".mltune", "new")]
        for member in ("status", "epochs", "clocks", "best", "setting"):
            self.assertEqual(show[0][member], show[1][member], member)
        newest = self.snapshots(run)[-1].name
        paths = self.goes_on(run, "new")
        self.assertEqual(paths[-1], str(
            self.folder / "new/runs" / run / "snapshots" / newest))
        again = self.mltune("recover", ".mltune", "--to", "new")
        self.assert_code(again, 2)
        self.assertIn("exists", again.err)
        self.assert_nothing_left()

    def test_damage_of_every_kind_is_said_and_passed_over(self):
        """A record, session.json, config.json, the newest snapshot: the run
        goes on from the one before."""
        run = self.interrupted()
        folder = self.state / "runs" / run
        (folder / "session.json").write_bytes(b"\0" * 48)
        (folder / "config.json").unlink()
        newest = self.snapshots(run)[-1]
        for shard in newest.rglob("shard-*"):
            with open(shard, "r+b") as f:
                f.seek(300)
                f.write(b"damage")
        db = sqlite3.connect(self.state / "mltune.db")
        seq, = db.execute("SELECT max(seq) FROM records WHERE kind ="
                          " 'progress'").fetchone()
        db.execute("UPDATE records SET json = '{\"kind\": \"pr' WHERE seq = ?",
                   (seq,))
        for name in "checkpoint", "checkpoint.old":  # it covers the record
            (folder / name).unlink(missing_ok=True)
        db.commit()
        db.close()
        before = contents(self.state)
        done = self.mltune("recover", ".mltune")
        self.assert_code(done, 1)
        self.assertEqual(contents(self.state), before)
        for words in (f"record {seq}", "session.json",
                      f"snapshot {newest.name}", f"mltune resume {run}"):
            self.assertIn(words, done.out)
        paths = self.goes_on(run, ".mltune-recovered")
        self.assertNotEqual(os.path.basename(paths[-1]), newest.name)
        self.assertNotEqual(paths[-1], "")
        self.assert_nothing_left()

    def test_the_journals_configuration_has_a_copy(self):
        """In the checkpoint; without that, too, its damage is said, and
        the snapshots stay."""
        run = self.interrupted()
        for text in "{", "{}":  # no JSON; some, without its checksum
            db = sqlite3.connect(self.state / "mltune.db")
            db.execute("UPDATE runs SET config = ?", (text,))
            db.commit()
            db.close()
            shown = self.mltune("show", run)
            self.assert_code(shown, 0)
            self.assertIn("configuration is damaged; a copy serves", shown.err)
            self.assertNotEqual(self.goes_on(run, ".mltune")[-1], "")
        for name in "checkpoint", "checkpoint.old":
            (self.state / "runs" / run / name).unlink(missing_ok=True)
        before = self.snapshots(run)
        done = self.mltune("resume", run)
        self.assert_code(done, 74)
        self.assertIn("its configuration is damaged, and its folder has no copy",
                      done.err)
        self.assertIn("mltune recover", done.err)
        self.assertEqual(self.snapshots(run), before)
        self.assert_nothing_left()

    def test_damaged_pages_cost_what_is_on_them(self):
        """Pages of the journal are overwritten: what can be read is there, and
        the program neither hangs nor crashes."""
        run = self.interrupted()
        path = self.state / "mltune.db"
        whole = path.read_bytes()
        found = 0
        for at in (0.3, 0.5, 0.8):
            data = bytearray(whole)
            page = int(len(data) * at) // 4096 * 4096
            data[page:page + 4096] = b"\xa5" * 4096
            path.write_bytes(data)
            done = self.mltune("recover", ".mltune", "--to", f"new{at}")
            self.assertIn(done.code, (0, 1), done.err)
            found += f"recovered {run}" in done.out
        self.assertGreater(found, 0)
        for lost in (lambda: path.write_bytes(b"\0" * len(whole)),
                     path.unlink):
            lost()
            done = self.mltune("recover", ".mltune", "--to", "checkpointed")
            self.assert_code(done, 1)
            self.assertIn("not whole: ", done.out)
            if path.exists():  # who does not recover it has it mended
                mended = self.mltune("show", run, "--state", ".mltune")
                self.assert_code(mended, 0)
                self.assertIn("is made anew", mended.err)
            self.assertIn(f"recovered {run}", done.out)
            paths = self.goes_on(run, "checkpointed")
            self.assertNotEqual(paths[-1], "")
            shutil.rmtree(self.folder / "checkpointed")
        for name in "checkpoint", "checkpoint.old":
            (self.state / "runs" / run / name).write_bytes(b"\0" * 100)
        done = self.mltune("recover", ".mltune", "--to", "none")
        self.assert_code(done, 1)
        self.assertIn("cannot be resumed", done.out)
        self.assert_nothing_left()

    def test_killed_anywhere_it_leaves_nothing_half(self):
        """Either the new folder is there, whole, or it is not; the next one
        takes away what was left, but nothing of others."""
        run = self.interrupted()
        other = self.folder / "new.tmp"
        other.mkdir()
        (other / "file").write_text("")
        env = {"LD_PRELOAD": str(BUILD / "tests/faults/shim.so"),
               "FAULT_ROLE": "recover", "FAULT_ROOT": str(self.folder),
               "FAULT_MARK": str(self.folder / "mark"),
               "ASAN_OPTIONS": self.env.get("ASAN_OPTIONS", "") +
               ":verify_asan_link_order=0"}
        whole = dict(self.env)
        for fault in ("write:1", "write:9", "mkdir:2", "mkdir:5", "rename:1",
                      "rename:3", "rename:5", "unlink:2", "sync:4", "sync:12"):
            self.env = {**whole, **env, "FAULT": fault + ":kill"}
            done = self.mltune("recover", ".mltune", "--to", "new")
            self.env = whole
            new = self.folder / "new"
            if done.code == 0:  # it makes fewer such calls
                shutil.rmtree(new)
                continue
            (self.folder / "mark").unlink()
            self.assertEqual(done.code, -signal.SIGKILL, (fault, done.err))
            if not new.exists():
                again = self.mltune("recover", ".mltune", "--to", "new")
                self.assert_code(again, 0)
            shown = self.mltune("show", run, "--json", "--state", "new")
            self.assert_code(shown, 0)
            self.assertEqual(shown.err, "", fault)
            self.assertEqual(shown.result["status"], "interrupted")
            shutil.rmtree(new)
            left = [p.name for p in self.folder.glob("new*")]
            if left != ["new.tmp"]:  # killed once it had its name
                self.assertIn(fault.split(":")[0], ("sync", "unlink", "rename"))
                self.mltune("recover", ".mltune", "--to", "new")
                shutil.rmtree(new)
                left = [p.name for p in self.folder.glob("new*")]
            self.assertEqual(left, ["new.tmp"], fault)
        self.assertTrue((other / "file").exists())

    def test_refusals(self):
        """No folder; a run that lives there."""
        self.assert_code(self.mltune("recover", "nowhere"), 2)
        self.write("config.json", endless_config())
        process = self.start("run", "config.json")
        self.wait_for_training()
        refused = self.mltune("recover", ".mltune", "--to", "new")
        self.assertNotEqual(refused.code, 0)
        self.assertIn("is running", refused.err)
        self.assertFalse((self.folder / "new").exists())
        process.send_signal(signal.SIGINT)
        self.assert_code(self.finish(process), 130)
        self.assert_nothing_left()
