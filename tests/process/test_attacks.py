"""What an attacker of the whole program found, repeated (docs/failures.md,
"Attacks"): those that no other test has."""
import json
import os
import pathlib
import shutil
import signal
import sqlite3
import subprocess

from harness import MLTUNE, Case, endless_config, mlr_config
from test_kills import Job, Kill, config
from test_resume import Journal


class LastEpoch(Case):
    """D5: the last epoch is over, the model is not there yet. What each guard
    is for, moment by moment: tests/sim/test_resume.c."""

    def job(self):
        job = Job(self, "job", ("mlr", 1, "mltuner"))
        plan = config(*job.cell)
        plan["tunables"]["batch_size"] = {"type": "int", "fixed": 1}
        plan["tuner"] = {"strategy": "fixed"}
        plan["stop"]["max_epochs"] = 3
        (job.folder / "config.json").write_text(json.dumps(plan))
        return job

    def kill_at_the_model(self, job):
        """As it gives the model its name."""
        env = {**job.env, **job.at_call(Kill("tuner", "rename", 1, 0), "run"),
               "FAULT_ROOT": str(job.folder / "model")}
        done = subprocess.run(
            [MLTUNE, "run", "config.json", "-q", "--state", job.state, "--out",
             job.folder / "model"], cwd=job.folder, env=env, check=False,
            stdin=subprocess.DEVNULL, capture_output=True)
        self.assertEqual(done.returncode, -signal.SIGKILL, done.stderr)
        job.mark.unlink()

    def test_no_epoch_too_many_after_the_last_snapshot(self):
        """Resumed, it trains what its last snapshot lacks, and writes its
        model; it does not train on."""
        job = self.job()
        self.kill_at_the_model(job)
        run = job.run_id()
        journal = Journal(job.state, run)
        self.assertEqual(journal.of("model_saved"), [])
        self.assertEqual(
            max(r["epoch"] for r in journal.of("epoch_ended")), 3)
        resumed = job.ask("resume", run, "-q")
        self.assertEqual(resumed["status"], "finished")
        self.assertEqual(resumed["epochs"], 3)
        trained = Journal(job.state, run).of("epoch_ended")
        self.assertLessEqual(max(r["epoch"] for r in trained), 3)
        self.assertEqual(job.files_left(), [])


class JournalOnDisk(Case):
    def setUp(self):
        super().setUp()
        self.state = self.folder / ".mltune"

    def interrupted(self, plan):
        self.write("config.json", plan)
        process = self.start("run", "config.json", "--json")
        self.wait_for_training()
        self.wait_until(lambda: self.now()["epochs"] >= 2, "two epochs")
        process.send_signal(signal.SIGINT)
        done = self.finish(process)
        self.assert_code(done, 130)
        db = sqlite3.connect(self.state / "mltune.db")
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        db.close()
        return done.result["run"]

    def now(self, state=".mltune"):
        return self.mltune("show", "endless", "--json", "--state", state).result

    def goes_on(self, run, state, before):
        """Whether it trains more than @before epochs."""
        process = self.start("resume", run, "--state", state)

        def trains():
            done = self.mltune("show", run, "--json", "--state", state)
            return process.poll() is not None or (
                done.code == 0 and done.result["epochs"] > before)
        self.wait_until(trains, "the run to go on")
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
        return self.finish(process).code == 130

    def test_single_bits_cost_no_run(self):
        """D7: after a bit was turned over, of the journal's head or of a record,
        the run goes on, by itself or recovered."""
        plan = endless_config()
        plan["app"]["data"] = "gen:digits?samples=4000&size=12"
        plan["tuner"] = {"strategy": "fixed"}
        run = self.interrupted(plan)
        epochs = self.now()["epochs"]
        whole = (self.state / "mltune.db").read_bytes()
        record = whole.index(b'"kind":"epoch_ended"')
        for bit in 20 * 8, record * 8 + 1:
            state = f"bit{bit}"
            shutil.copytree(self.state, self.folder / state)
            damaged = bytearray(whole)
            damaged[bit // 8] ^= 1 << bit % 8
            (self.folder / state / "mltune.db").write_bytes(damaged)
            if not self.goes_on(run, state, epochs):
                done = self.mltune("recover", state)
                # 1: something was missing, which it says.
                self.assertIn(done.code, (0, 1), done.err)
                self.assertIn(f"mltune resume {run}", done.out)
                self.assertTrue(
                    self.goes_on(run, state + "-recovered", epochs), bit)
        self.assert_nothing_left()

    def test_a_digit_that_became_another_is_noticed(self):
        """D7: a bit that leaves a record readable. Its checksum says so: where
        no checkpoint has what it said, it is named, and not believed."""
        plan = endless_config()
        plan["app"]["data"] = "gen:digits?samples=4000&size=12"
        plan["tuner"] = {"strategy": "fixed"}
        run = self.interrupted(plan)
        journal = self.state / "mltune.db"
        whole = bytearray(journal.read_bytes())
        at = whole.index(b'"loss":', whole.index(b'"kind":"epoch_ended"')) + 9
        while not chr(whole[at]).isdigit():
            at += 1
        whole[at] ^= 1
        journal.write_bytes(whole)
        for checkpoint in self.state.glob("runs/*/checkpoint*"):
            checkpoint.unlink()
        done = self.mltune("recover", ".mltune")
        self.assertIn(done.code, (0, 1), done.err)
        self.assertRegex(done.out + done.err, "record .*has not its checksum")
        self.assertIn(f"mltune resume {run}", done.out)


class Small(Case):
    """D12."""

    def test_few_samples_make_no_epochs_too_many(self):
        """A search whose trials are longer than the whole run."""
        plan = mlr_config(max_epochs=2)
        plan["app"]["data"] = "gen:digits?samples=5&size=8"
        del plan["tuner"]["trial_clocks"]
        done = self.run_config(plan, "--json")
        self.assert_code(done, 0)
        self.assertEqual(done.result["epochs"], 2)
        ended = Journal(self.folder / ".mltune", done.result["run"])
        self.assertLessEqual(
            max(r["epoch"] for r in ended.of("epoch_ended")), 2)

    def test_a_models_files_are_for_the_same_people(self):
        done = self.run_config(mlr_config(), "--json")
        self.assert_code(done, 0)
        modes = {p.stat().st_mode & 0o777
                 for p in pathlib.Path(done.result["model"]).iterdir()}
        self.assertEqual(len(modes), 1, modes)

    def killed_in_a_deep_folder(self):
        """Its path is too long for a socket, which lies elsewhere."""
        place = self.folder / "own"
        place.mkdir(mode=0o700)
        self.env["XDG_RUNTIME_DIR"] = str(place)
        state = "deep" * 25
        self.write("config.json", endless_config())
        process = self.start("run", "config.json", "--state", state)
        self.wait_for_training(state)
        self.assertEqual(len(os.listdir(place)), 1)
        process.kill()
        self.finish(process)
        self.wait_until(lambda: not self.marked(), "the node to end")
        return state, place

    def test_sockets_outside_the_state_folder_are_swept(self):
        """Those of a tuner that was killed: by the next one."""
        state, place = self.killed_in_a_deep_folder()
        process = self.start("resume", "endless", "--state", state)
        self.wait_until(
            lambda: self.nodes_of(process), "the node of the resume")
        process.send_signal(signal.SIGINT)
        self.finish(process)
        self.assertEqual(os.listdir(place), [])

    def test_sockets_outside_the_state_folder_go_with_their_run(self):
        """Those of a run that was killed, and is deleted."""
        state, place = self.killed_in_a_deep_folder()
        self.assertEqual(len(os.listdir(place)), 1)
        self.assert_code(self.mltune("delete", "endless", "--state", state), 0)
        self.assertEqual(os.listdir(place), [])
