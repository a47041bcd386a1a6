"""Runs that were interrupted and go on: `mltune resume`, and nodes that are lost.
Kills by the hundred: test_kills."""
import contextlib
import json
import os
import re
import shutil
import signal
import sqlite3

from harness import BUILD, Case, endless_config, journal_as_failed, mlr_config


class Journal:
    """The records of one run, as another program reads them."""

    def __init__(self, state, run):
        db = sqlite3.connect(f"file:{state}/mltune.db?mode=ro", uri=True)
        rows = db.execute(
            "SELECT seq, json FROM records WHERE run ="
            " (SELECT key FROM runs WHERE id = ?) ORDER BY seq", (run,))
        self.seq, self.records = [], []
        for seq, text in rows:
            self.seq.append(seq)
            self.records.append(json.loads(text))
        db.close()

    def of(self, *kinds):
        return [r for r in self.records if r["kind"] in kinds]


class Resume(Case):
    def interrupted(self, config=None):
        """A run that is interrupted while it trains; its id."""
        self.write("config.json", config or endless_config())
        process = self.start("run", "config.json", "--json")
        self.wait_for_training()
        process.send_signal(signal.SIGINT)
        done = self.finish(process)
        self.assert_code(done, 130)
        self.assertEqual(done.result["status"], "interrupted")
        return done.result["run"]

    def test_interrupted_run_goes_on(self):
        """Ctrl-C, resume, Ctrl-C: time, trials and clocks add up, where each
        branch has an update rule of its own."""
        config = endless_config()
        config["tunables"]["update_rule"] = {"values": ["nesterov", "adam"]}
        run = self.interrupted(config)
        before = self.mltune("show", run, "--json").result
        process = self.start("resume", run, "--json")
        self.wait_until(
            lambda: self.mltune("show", run, "--json").result["clocks"] >
            before["clocks"], "the run to go on")
        process.send_signal(signal.SIGINT)
        done = self.finish(process)
        self.assert_code(done, 130)
        for member in ("seconds", "clocks"):
            self.assertGreater(done.result[member], before[member])
        self.assertGreaterEqual(done.result["tuning"]["trials"],
                                before["tuning"]["trials"])
        self.assertRegex(self.mltune("trials", run).out,
                         r"update_rule=(nesterov|adam)\b")
        self.assertEqual(done.result["run"], run)
        self.assert_nothing_left()

    def test_data_that_are_gone_are_named(self):
        """What is to be put back is said with the advice, also later; then
        the run goes on."""
        self.write("r.txt", "".join(f"{u}\t{i}\t{(u * i) % 5}\n"
                                    for u in range(60) for i in range(60)))
        config = endless_config()
        config["app"] = {"name": "mf", "data": "r.txt", "rank": 4}
        run = self.interrupted(config)
        data = self.folder / "r.txt"
        data.rename(self.folder / "elsewhere.txt")
        done = self.mltune("resume", run)
        self.assert_code(done, 78)
        self.assertIn(f"open {data}: No such file or directory", done.err)
        self.assertRegex(done.err, "nothing is lost but .*; once that is "
                         f"mended, mltune resume {run} goes on from there")
        shown = self.mltune("show", run).out
        self.assertIn(f"status    interrupted: load_failed\n          open "
                      f"{data}: No such file or directory\n", shown)
        self.assertIn(f"resume    mltune resume {run}, once that is mended",
                      shown)
        (self.folder / "elsewhere.txt").rename(data)
        process = self.start("resume", run, "--json")
        # It has clocks from before.
        self.wait_until(lambda: self.mltune("show", run, "--json").result[
            "status"] in ("tuning", "training"), "the run to go on")
        process.send_signal(signal.SIGINT)
        self.assert_code(self.finish(process), 130)

    def test_examples_of_settings_are_true(self):
        """What the help shows may be set; limits are changed elsewhere."""
        shown = re.findall(r"mltune resume \S+ --set (\S+)",
                           self.mltune("resume", "--help").out)
        self.assertTrue(shown)
        for each in shown:
            done = self.mltune("resume", "none", "--set", each)
            self.assert_code(done, 2)
            self.assertNotIn("can be changed", done.err)
        done = self.mltune("resume", "none", "--set", "stop.max_epochs=9")
        self.assert_code(done, 2)
        self.assertIn("PATCH /api/v1/runs/RUN", done.err)

    def test_interrupted_run_says_how_to_go_on(self):
        """Its last line, and what show says, is what to type."""
        self.write("config.json", endless_config())
        process = self.start("run", "config.json", "--state", "here")
        self.wait_for_training("here")
        process.send_signal(signal.SIGINT)
        done = self.finish(process)
        self.assertRegex(done.out.splitlines()[-1],
                         r"mltune resume endless-\w+ --state here$")
        shown = self.mltune("show", "endless", "--state", "here").out
        self.assertRegex(shown, r"mltune resume endless-\w+ --state /.*/here\n")

    def test_stop_finds_a_run_that_has_just_been_resumed(self):
        """Once its folder is locked a server will come; then its snapshot is
        read, which a stop must wait for."""
        run = self.interrupted()
        lock = self.folder / ".mltune/runs" / run / "lock"
        process = self.start("resume", run, "--json")
        self.wait_until(lambda: str(process.pid) in lock.read_text(),
                        "the lock")
        said = []

        def stopped():
            said.append(self.mltune("stop", run))
            return said[-1].code == 0
        self.wait_until(stopped, "the stop to be taken")
        for done in said[:-1]:
            self.assert_code(done, 2)
            self.assertIn("try again when the run goes on", done.err)
        self.assertEqual(self.finish(process).result["status"], "stopped")
        self.assert_nothing_left()

    def test_killed_run_says_how_to_go_on(self):
        """A run whose tuner died is no run that goes on for ever."""
        self.write("config.json", endless_config())
        process = self.start("run", "config.json")
        self.wait_for_training()
        process.kill()
        self.finish(process)
        shown = self.mltune("show", "endless")
        self.assertIn("interrupted", shown.out)
        self.assertIn("mltune resume endless-", shown.out)
        self.assertTrue(json.loads(
            self.mltune("ls", "--json").out)[0]["resumable"])

    def test_lost_node_is_restarted(self):
        """A node that is killed costs a line, not the run."""
        config = endless_config()
        config["snapshot"] = {"every": 0.2}
        self.write("config.json", config)
        process = self.start("run", "config.json", "--json")
        self.wait_for_training()
        node = self.node_of(process)
        os.kill(node, signal.SIGKILL)
        self.wait_until(lambda: self.node_of(process) != node, "another node")
        run = self.mltune("show", "endless", "--json").result["run"]

        def resumed():
            journal = Journal(self.folder / ".mltune", run)
            return journal.of("run_resumed") and \
                journal.records[-1]["kind"] != "run_resumed"
        self.wait_until(resumed, "the run to go on")
        process.send_signal(signal.SIGINT)
        done = self.finish(process)
        self.assert_code(done, 130)
        self.assertRegex(done.err, r"node 0 \(pid \d+\) was killed by "
                         r"SIGKILL.*starting it again in 0\.5 s \(1 of 3\)")
        self.assert_nothing_left()

    def test_damaged_snapshot_is_passed_over(self):
        """The newest one is damaged: a warning, and the one before."""
        config = endless_config()
        config["snapshot"] = {"every": 0.2}
        self.write("config.json", config)
        process = self.start("run", "config.json")
        folder = self.folder / ".mltune" / "runs"

        def two():
            return len([p for p in folder.glob("*/snapshots/0*")
                        if p.name.isdigit()]) >= 2
        self.wait_until(two, "two snapshots")
        process.send_signal(signal.SIGINT)
        self.finish(process)
        run = self.run_id()
        last = Journal(self.folder / ".mltune", run).of(
            "snapshot_written")[-1]["path"]
        for name in os.listdir(last):
            with open(os.path.join(last, name), "r+b") as f:
                f.seek(200)
                f.write(b"damage" * 20)
        process = self.start("resume", run)

        def resumed():
            paths = [r["path"] for r in Journal(
                self.folder / ".mltune", run).of("run_resumed")]
            return len(paths) >= 2 and paths
        paths = self.wait_until(resumed, "the run to go on")
        self.assertEqual(paths[0], last)
        self.assertNotIn(paths[1], ("", last))
        process.send_signal(signal.SIGINT)
        self.assert_code(self.finish(process), 130)
        self.assert_nothing_left()

    def test_a_moved_state_folder_goes_on(self):
        """A state folder under another name: the run goes on from its newest
        snapshot, and none is removed until a newer one is there."""
        state = self.folder / ".mltune"
        self.write("config.json", endless_config())
        process = self.start("run", "config.json")
        self.wait_for_training()
        run = self.run_id()
        self.wait_until(
            lambda: any(r["clock"] > 0
                        for r in Journal(state, run).of("snapshot_written")),
            "a snapshot of parameters")
        process.send_signal(signal.SIGINT)
        self.assert_code(self.finish(process), 130)
        last = Journal(state, run).of("snapshot_written")[-1]
        moved = self.folder / "elsewhere"
        os.rename(state, moved)
        snapshots = moved / "runs" / run / "snapshots"
        there = sorted(os.listdir(snapshots))
        self.assertIn(os.path.basename(last["path"]), there)
        before = self.mltune("show", run, "--state", moved,
                             "--json").result["clocks"]
        process = self.start("resume", run, "--state", moved)

        def clocks():
            return self.mltune("show", run, "--state", moved,
                               "--json").result["clocks"]
        self.wait_until(lambda: clocks() > before, "the run to go on")
        process.send_signal(signal.SIGINT)
        self.assert_code(self.finish(process), 130)
        journal = Journal(moved, run)
        resumed = journal.of("run_resumed")
        self.assertEqual([r["path"] for r in resumed],
                         [str(snapshots / os.path.basename(last["path"]))])
        self.assertEqual(resumed[0]["epoch"], last["epoch"])
        # What is there now is what the newest records name.
        names = {os.path.basename(r[member])
                 for r in journal.of("snapshot_written")
                 for member in ("path", "best_path") if r.get(member)}
        left = set(os.listdir(snapshots))
        self.assertLessEqual(left, names)
        self.assertIn(os.path.basename(
            journal.of("snapshot_written")[-1]["path"]), left)
        self.assert_nothing_left()

    def test_a_run_whose_history_is_lost_is_left_as_it_is(self):
        """Neither checkpoint is there, nor the records that they covered: no
        other run begins in its folder, and its snapshots stay."""
        run = self.interrupted()
        folder = self.folder / ".mltune" / "runs" / run
        for name in "checkpoint", "checkpoint.old":
            (folder / name).unlink(missing_ok=True)
        db = sqlite3.connect(self.folder / ".mltune" / "mltune.db")
        db.execute("DELETE FROM records WHERE seq <= (SELECT max(seq) / 2"
                   " FROM records)")
        db.commit()
        db.close()
        there = sorted(os.listdir(folder / "snapshots"))
        self.assertTrue(there)
        for _ in range(2):
            done = self.mltune("resume", run)
            self.assert_code(done, 74)
            self.assertIn("its history is lost", done.err)
        self.assertEqual(sorted(os.listdir(folder / "snapshots")), there)
        self.assert_nothing_left()

    def test_other_tables_and_lost_snapshots_cost_nothing(self):
        """Data that make a table of another shape are others; snapshots that
        are not there are waited for: either way none is given up."""
        header = "a,b,colour,y\n"

        def table(*colours):
            return header + "".join(
                f"{i % 7},{i % 5},{colours[i % len(colours)]},{i % 2}\n"
                for i in range(4000))
        state = self.folder / ".mltune"
        config = endless_config()
        config["app"] = {"name": "mlr", "data": "table.csv"}
        config["snapshot"] = {"every": 0.2}
        self.write("config.json", config)
        self.write("table.csv", table("red", "green", "blue"))
        process = self.start("run", "config.json")
        self.wait_for_training()
        run = self.run_id()
        self.wait_until(
            lambda: any(r["clock"] > 0
                        for r in Journal(state, run).of("snapshot_written")),
            "a snapshot of parameters")
        process.send_signal(signal.SIGINT)
        self.assert_code(self.finish(process), 130)
        folder = state / "runs" / run / "snapshots"
        there = sorted(os.listdir(folder))
        self.write("table.csv", table("red", "green", "blue", "grey"))
        done = self.mltune("resume", run, "--json", "--other-data")
        self.assert_code(done, 78)
        self.assertEqual(done.result["reason"], "changed")
        self.assertEqual(sorted(os.listdir(folder)), there)
        self.write("table.csv", table("red", "green", "blue"))
        os.rename(folder, self.folder / "away")
        folder.mkdir()
        done = self.mltune("resume", run, "--json", "--other-data")
        self.assert_code(done, 75)
        self.assertEqual(done.result["reason"], "restore_failed")
        self.assertIn("--from-beginning", done.err)
        folder.rmdir()
        os.rename(self.folder / "away", folder)
        before = self.mltune("show", run, "--json").result["clocks"]
        process = self.start("resume", run)
        self.wait_until(
            lambda: self.mltune("show", run, "--json").result["clocks"] >
            before, "the run to go on")
        process.send_signal(signal.SIGINT)
        self.assert_code(self.finish(process), 130)
        resumed = Journal(state, run).of("run_resumed")
        self.assertNotIn("", [r["path"] for r in resumed])
        self.assert_nothing_left()

    def test_snapshot_that_cannot_be_read_now_is_kept(self):
        """A disk's error is no damage: the run ends with a clear word, gives
        nothing up, and goes on from the same snapshot once that can be read."""
        state = self.folder / ".mltune"
        self.write("config.json", endless_config())
        process = self.start("run", "config.json")
        self.wait_for_training()
        run = self.run_id()
        # One of clock 0 would not be read: a run begins by its seed alone.
        self.wait_until(
            lambda: any(r["clock"] > 0
                        for r in Journal(state, run).of("snapshot_written")),
            "a snapshot of parameters")
        process.send_signal(signal.SIGINT)
        self.assert_code(self.finish(process), 130)
        last = Journal(state, run).of("snapshot_written")[-1]["path"]
        folders = sorted(os.listdir(os.path.dirname(last)))
        manifest = os.path.join(last, "manifest.json")
        os.rename(manifest, self.folder / "manifest.json")
        os.symlink("manifest.json", manifest)  # a loop
        for _ in range(3):
            refused = self.mltune("resume", run)
            self.assert_code(refused, 75)
            self.assertIn("cannot be read now", refused.err)
            self.assertIn("manifest.json", refused.err)
        self.assertEqual(sorted(os.listdir(os.path.dirname(last))), folders)
        os.remove(manifest)
        os.rename(self.folder / "manifest.json", manifest)
        before = self.mltune("show", run, "--json").result["clocks"]
        process = self.start("resume", run)
        self.wait_until(
            lambda: self.mltune("show", run, "--json").result["clocks"] >
            before, "the run to go on")
        process.send_signal(signal.SIGINT)
        self.assert_code(self.finish(process), 130)
        paths = {r["path"] for r in Journal(state, run).of("run_resumed")}
        self.assertEqual(paths, {last})
        self.assert_nothing_left()

    def test_a_contest_goes_on_with_its_winner(self):
        """Once the search of hyperband is over, its winner's training is what
        a resume goes on with: no second search."""
        config = endless_config()
        config["tuner"] = {"strategy": "hyperband", "max_trials": 4,
                           "strategy_settings": {"max_resource": 2}}
        config["snapshot"] = {"every": "1s"}
        state = self.folder / ".mltune"
        self.write("config.json", config)
        process = self.start("run", "config.json")
        self.wait_for_training()
        run = self.run_id()

        def written():
            journal = Journal(state, run)
            ended = journal.of("search_ended")
            return ended and [r for r in journal.of("snapshot_written")
                              if r["next_clock"] > ended[0]["next_clock"] and
                              r["epoch"] > 2]
        self.wait_until(written, "a snapshot of the winner's training")
        process.kill()
        process.communicate()
        resumed = self.start("resume", run)
        self.wait_until(lambda: Journal(state, run).of("run_resumed"),
                        "the run to go on")
        before = self.mltune("show", run, "--json").result["epochs"]
        self.wait_until(
            lambda: self.mltune("show", run, "--json").result["epochs"] >
            before, "another epoch")
        resumed.send_signal(signal.SIGINT)
        self.assert_code(self.finish(resumed), 130)
        journal = Journal(state, run)
        self.assertGreater(journal.of("run_resumed")[0]["epoch"], 2)
        self.assertEqual(len(journal.of("search_started")), 1)

    def run_id(self):
        return json.loads(self.mltune("ls", "--json").out)[0]["run"]

    def test_run_that_was_killed_at_its_end_is_closed(self):
        """All is done but the last entry in the books: nothing is run again."""
        done = self.run_config(mlr_config(), "--json")
        self.assert_code(done, 0)
        db = sqlite3.connect(self.folder / ".mltune" / "mltune.db")
        db.execute("UPDATE runs SET status = NULL, reason = NULL,"
                   " result = NULL, ended_ns = NULL")
        db.commit()
        db.close()
        again = self.mltune("resume", done.result["run"], "--json")
        self.assert_code(again, 0)
        for member in ("status", "best", "clocks", "model", "epochs"):
            self.assertEqual(again.result[member], done.result[member])
        self.assert_nothing_left()

    def test_what_cannot_be_resumed_is_refused(self):
        """Unknown, finished, or running: a sentence, and nothing is changed."""
        done = self.run_config(mlr_config(), "--json")
        self.assert_code(done, 0)
        refused = self.mltune("resume", done.result["run"])
        self.assert_code(refused, 2)
        self.assertIn("has ended as finished", refused.err)
        self.assert_code(self.mltune("resume", "nobody"), 2)
        again = self.mltune("show", done.result["run"], "--json").result
        self.assertEqual(again["status"], "finished")
        self.assertTrue(os.path.exists(done.result["model"]))

    def goes_on(self, run):
        """It trains further epochs."""
        def epochs():
            return self.mltune("show", run, "--json").result["epochs"]
        before = epochs()
        process = self.start("resume", run)
        self.wait_until(lambda: epochs() > before, "an epoch")
        process.send_signal(signal.SIGINT)
        self.assert_code(self.finish(process), 130)

    def test_failed_run_with_a_snapshot_goes_on(self):
        """Whatever failed it: training is not lost for ever."""
        run = self.interrupted()
        journal_as_failed(self.folder / ".mltune", run)
        self.assertEqual(
            self.mltune("show", run, "--json").result["status"], "failed")
        listed = json.loads(self.mltune("ls", "--json").out)
        self.assertTrue(listed[0]["resumable"])
        self.assertIn(f"resume    mltune resume {run}",
                      self.mltune("show", run).out)
        self.goes_on(run)

    def test_resume_that_is_killed_while_it_loads_is_not_undone(self):
        """A failed run that a user resumes goes on with the next resume too,
        though the first was killed before it went on."""
        run = self.interrupted()
        journal_as_failed(self.folder / ".mltune", run)
        log = self.folder / ".mltune/runs" / run / "node-0.log"
        log.unlink()
        os.mkfifo(log)  # whose opening waits for a reader
        process = self.start("resume", run)

        def taken_back():
            end = Journal(self.folder / ".mltune", run).of("run_finished")[-1]
            return end["reason"] == "resumed"
        self.wait_until(taken_back, "the end to be taken back")
        process.kill()
        process.communicate()
        log.unlink()
        self.assertEqual(
            self.mltune("show", run, "--json").result["status"], "interrupted")
        self.goes_on(run)
        self.assert_nothing_left()

    def test_a_run_that_no_journal_knows_leaves_no_folder(self):
        """Killed before it was registered: the next run sweeps its folder, and
        no other."""
        config = mlr_config(max_epochs=1)
        config["app"]["data"] = "gen:digits?samples=300&size=8"
        config["tuner"] = {"strategy": "fixed"}
        self.assert_code(self.run_config(config, "-q"), 0)
        runs = self.folder / ".mltune/runs"
        kept = {p.name for p in runs.iterdir()}
        env = {**self.env, "LD_PRELOAD": str(BUILD / "tests/faults/shim.so"),
               "FAULT_ROLE": "run", "FAULT_ROOT": str(runs),
               "FAULT_MARK": str(self.folder / "mark"),
               "ASAN_OPTIONS": self.env.get("ASAN_OPTIONS", "") +
               ":verify_asan_link_order=0"}
        whole = self.env
        left = 0
        # As its folder has just been made, and as its first files get names.
        for fault in "mkdir:2", "rename:1", "rename:2", "rename:3":
            self.env = {**env, "FAULT": fault + ":kill"}
            done = self.mltune("run", "config.json", "-q")
            self.env = whole
            self.assertEqual(done.code, -signal.SIGKILL, done.err)
            (self.folder / "mark").unlink()
            known = {r["run"] for r in json.loads(
                self.mltune("ls", "--json").out)}
            for folder in {p.name for p in runs.iterdir()} - known:
                os.utime(runs / folder, (0, 0))
                left += 1
            kept |= known
        self.assertGreaterEqual(left, 3)
        # One with files of somebody else's is none of ours.
        for name in "results.csv", "checkpoint.csv", "node-x.log":
            mine = runs / f"mine-{name[:4]}ab"
            mine.mkdir(mode=0o700)
            for file in "lock", "log", "node-0.log", name:
                (mine / file).write_text("")
            os.utime(mine, (0, 0))
        self.assert_code(self.mltune("run", "config.json", "-q"), 0)
        mine = sorted(runs.glob("mine-*"))
        self.assertEqual([len(list(p.iterdir())) for p in mine], [4, 4, 4])
        for folder in mine:
            shutil.rmtree(folder)
        self.assert_code(self.mltune("run", "config.json", "-q"), 0)
        known = {r["run"] for r in json.loads(self.mltune("ls", "--json").out)}
        self.assertEqual({p.name for p in runs.iterdir()}, known)
        self.assertLessEqual(kept, known)

    def test_resume_takes_back_the_end_as_one(self):
        """Killed before any write, it leaves the run's end as it was, or none
        and the record that says so."""
        run = self.interrupted()
        state = self.folder / ".mltune"
        journal_as_failed(state, run)
        state.rename(self.folder / "whole")
        env = {**self.env, "LD_PRELOAD": str(BUILD / "tests/faults/shim.so"),
               "FAULT_ROLE": "resume", "FAULT_ROOT": str(self.folder),
               "FAULT_MARK": str(self.folder / "mark"),
               "ASAN_OPTIONS": self.env.get("ASAN_OPTIONS", "") +
               ":verify_asan_link_order=0"}
        whole = self.env
        for number in range(1, 200):
            shutil.copytree(self.folder / "whole", state)
            self.env = {**env, "FAULT": f"write:{number}:kill"}
            done = self.mltune("resume", run)
            self.env = whole
            self.assertEqual(done.code, -signal.SIGKILL, done.err)
            (self.folder / "mark").unlink()
            end = Journal(state, run).of("run_finished")[-1]
            db = sqlite3.connect(state / "mltune.db")
            status, = db.execute("SELECT status FROM runs").fetchone()
            db.close()
            self.assertEqual(end["reason"] == "resumed", status is None, number)
            if status is None:
                return
            shutil.rmtree(state)
        self.fail("the end was never taken back")

    def test_a_schedulers_warning_writes_a_snapshot(self):
        """SIGUSR1 (Slurm) and SIGXCPU to all of a job: the tuner writes a
        snapshot, the node does not mind, the run goes on."""
        for number in signal.SIGUSR1, signal.SIGXCPU:
            state = f"state{number}"
            self.write("config.json", endless_config())
            process = self.start("run", "config.json", "--state", state)
            self.wait_for_training(state)
            run = json.loads(
                self.mltune("ls", "--json", "--state", state).out)[0]["run"]
            journal = self.folder / state

            def clocks():
                return [r["clock"] for r in
                        Journal(journal, run).of("snapshot_written")]

            def epochs():
                return self.mltune("show", run, "--json", "--state",
                                   state).result["epochs"]
            self.wait_until(lambda: epochs() >= 2, "two epochs")
            before, node = len(clocks()), self.node_of(process)
            os.kill(process.pid, number)
            os.kill(node, number)
            self.wait_until(lambda: len(clocks()) > before, "a snapshot")
            seen = epochs()
            self.wait_until(lambda: epochs() > seen, "another epoch")
            self.assertEqual(self.node_of(process), node)
            process.send_signal(signal.SIGINT)
            self.assert_code(self.finish(process), 130)

    def test_stopped_run_goes_on(self):
        self.write("config.json", endless_config())
        process = self.start("run", "config.json")
        self.wait_for_training()
        run = self.run_id()
        self.assert_code(self.mltune("stop", run), 0)
        self.assert_code(self.finish(process), 0)
        self.goes_on(run)

    def test_failed_run_without_a_snapshot_is_refused(self):
        self.assert_code(self.run_config({"app": {"command": ["false"]}}), 1)
        listed = json.loads(self.mltune("ls", "--json").out)
        self.assertFalse(listed[0]["resumable"])
        refused = self.mltune("resume", self.run_id())
        self.assert_code(refused, 2)
        self.assertIn("has ended as failed", refused.err)

    def test_running_run_is_refused(self):
        """Two tuners would write one journal."""
        self.write("config.json", endless_config())
        process = self.start("run", "config.json")
        self.wait_for_training()
        refused = self.mltune("resume", "endless")
        self.assert_code(refused, 2)
        self.assertIn("is running", refused.err)
        self.assertIsNone(process.poll())
        process.send_signal(signal.SIGINT)
        self.assert_code(self.finish(process), 130)
        self.assert_nothing_left()

    def test_other_data_of_the_same_shape_are_refused(self):
        """Nobody would see that the run goes on with them. Who wants that says
        so, once."""
        def table(shift):
            return "a,b,y\n" + "".join(
                f"{i % 7},{(i + shift) % 5},{i % 2}\n" for i in range(4000))
        config = endless_config()
        config["app"] = {"name": "mlr", "data": "data", "test_fraction": 0.1}
        (self.folder / "data").mkdir()
        self.write("data/table.csv", table(0))
        run = self.interrupted(config)
        state = self.folder / ".mltune"
        snapshots = sorted(os.listdir(state / "runs" / run / "snapshots"))

        def goes_on(*words):
            self.goes_on_and_trains(run, *words)

        self.write("data/README", "no data, and of no account")
        os.utime(self.folder / "data/table.csv", (1, 1))
        goes_on()
        self.write("data/table.csv", table(1))
        snapshots = sorted(os.listdir(state / "runs" / run / "snapshots"))
        refused = self.mltune("resume", run, "--json")
        self.assert_code(refused, 78)
        self.assertEqual(refused.result["reason"], "load_failed")
        self.assertIn("table.csv has other content", refused.err)
        self.assertIn("--other-data", refused.err)
        self.assertEqual(
            sorted(os.listdir(state / "runs" / run / "snapshots")), snapshots)
        goes_on("--other-data")
        goes_on()
        # A run that is older than the list of its files.
        (state / "runs" / run / "kept.json").unlink()
        self.write("data/table.csv", table(2))
        goes_on()
        self.write("data/table.csv", table(1))
        self.assert_code(self.mltune("resume", run), 78)
        self.assert_nothing_left()

    def goes_on_and_trains(self, run, *words):
        """A slice of it is journaled; then it is interrupted."""
        state = self.folder / ".mltune"
        slices = len(Journal(state, run).of("slice_scheduled"))
        process = self.start("resume", run, "--json", *words)
        self.wait_until(lambda: len(Journal(state, run).of(
            "slice_scheduled")) > slices, "the run to go on")
        process.send_signal(signal.SIGINT)
        self.assert_code(self.finish(process), 130)

    def test_other_data_count_from_when_the_run_trains_with_them(self):
        """Those that are refused for another reason are none of the run's:
        once its own are back it goes on, and nobody has to allow that."""
        def table(rows, colours):
            return "a,b,colour,y\n" + "".join(
                f"{i % 7},{i % 5},{'rgb'[i % colours]},{i % 2}\n"
                for i in range(rows))
        config = endless_config()
        config["app"] = {"name": "mlr", "data": "data", "test_fraction": 0.1}
        (self.folder / "data").mkdir()
        self.write("data/table.csv", table(4000, 2))
        config["snapshot"] = {"every": 0.2}
        self.write("config.json", config)
        process = self.start("run", "config.json")
        self.wait_for_training()
        run = self.run_id()
        # From one of clock 0 it would begin anew, with any columns.
        self.wait_until(
            lambda: any(r["clock"] > 0
                        for r in Journal(self.folder / ".mltune", run).of(
                            "snapshot_written")),
            "a snapshot of parameters")
        process.send_signal(signal.SIGINT)
        self.assert_code(self.finish(process), 130)
        kept = self.folder / ".mltune/runs" / run / "kept.json"
        began = kept.read_text()

        def refused(*words):
            done = self.mltune("resume", run, "--json", *words)
            self.assert_code(done, 78)
            self.assertEqual(done.result["reason"], "changed")

        self.write("data/more.csv", table(100, 2))  # of more rows
        refused("--other-data")
        self.assertEqual(kept.read_text(), began)
        (self.folder / "data/more.csv").unlink()
        self.write("data/table.csv", table(4000, 3))  # of other columns
        refused("--other-data")
        self.assertEqual(kept.read_text(), began)
        # One that knows no list of its files, as older runs.
        kept.unlink()
        refused()
        self.assertFalse(kept.exists())
        self.write("data/table.csv", table(4000, 2))
        self.goes_on_and_trains(run)
        self.assertEqual(kept.read_text(), began)
        # Its tuner was killed while it tried others.
        os.rename(kept, f"{kept}.old")
        kept.write_text("[]")
        self.goes_on_and_trains(run)
        self.assertEqual(kept.read_text(), began)
        self.assertFalse(os.path.exists(f"{kept}.old"))
        self.assert_nothing_left()

    def test_data_and_validation_data_do_not_change_places(self):
        """A run would train on what it is judged by."""
        config = endless_config()
        config["app"] = {"name": "mlr", "data": "tr.csv", "test": "te.csv"}
        for name, shift in (("tr.csv", 0), ("te.csv", 1)):
            self.write(name, "a,b,y\n" + "".join(
                f"{i % 7},{(i + shift) % 5},{i % 2}\n" for i in range(2000)))
        run = self.interrupted(config)
        os.rename(self.folder / "tr.csv", self.folder / "aside.csv")
        os.rename(self.folder / "te.csv", self.folder / "tr.csv")
        os.rename(self.folder / "aside.csv", self.folder / "te.csv")
        refused = self.mltune("resume", run)
        self.assert_code(refused, 78)
        self.assertIn("te.csv has other content", refused.err)
        self.assert_nothing_left()

    def test_a_snapshot_without_its_record_is_said_and_removed(self):
        """As a kill between its name and its record leaves it."""
        config = endless_config()
        config["snapshot"] = {"every": 0.2}
        run = self.interrupted(config)
        folder = self.folder / ".mltune/runs" / run / "snapshots"
        newest = max(int(name[:6]) for name in os.listdir(folder))
        left = folder / f"{newest + 1:06}"
        shutil.copytree(folder / f"{newest:06}", left)
        (left / "of-nobody").touch()
        # What goes with one that has no name yet is none.
        for rest in "9.tmp", "8-best", "7-trial-2":
            number, end = int(rest[0]), rest[1:]
            (folder / f"{newest + number:06}{end}").mkdir()
        process = self.start("resume", run)
        self.wait_until(lambda: not (left / "of-nobody").exists(),
                        "it to be removed")
        process.send_signal(signal.SIGINT)
        done = self.finish(process)
        self.assert_code(done, 130)
        self.assertIn(f"snapshot {newest + 1:06} was being written: its record",
                      done.err)
        self.assertIn(f"goes on from snapshot {newest:06}", done.err)
        self.assertTrue(any(name.isdigit() and int(name) > newest
                            for name in os.listdir(folder)))
        again = self.start("resume", run)
        self.wait_until(lambda: len(Journal(self.folder / ".mltune", run).of(
            "run_resumed")) == 2, "the run to go on")
        again.send_signal(signal.SIGINT)
        self.assertNotIn("was being written", self.finish(again).err)
        self.assert_nothing_left()

    def test_classes_that_were_taken_are_taken(self):
        """Before numbers such as 0.5 were refused as classes, runs began with
        them: these go on. Such a one is made of one that says what they are."""
        self.write("half.csv", "a,b,y\n" + "".join(
            f"{i % 7},{i % 5},{i % 4 / 2}\n" for i in range(4000)))
        config = endless_config()
        config["app"] = {"name": "mlr", "data": "half.csv",
                         "test_fraction": 0.1, "categories": ["y"]}
        run = self.interrupted(config)
        db = sqlite3.connect(self.folder / ".mltune/mltune.db")
        with contextlib.closing(db), db:
            began, = db.execute("SELECT config FROM runs").fetchone()
            older = json.loads(began)
            del older["app"]["categories"]
            db.execute("UPDATE runs SET config = ?, sum = NULL",
                       (json.dumps(older),))
        self.write("config.json", {**config, "app": older["app"]})
        self.assert_code(self.mltune("run", "config.json"), 78)
        process = self.start("resume", run, "--json")
        self.wait_until(lambda: Journal(self.folder / ".mltune", run).of(
            "run_resumed"), "the run to go on")
        process.send_signal(signal.SIGINT)
        done = self.finish(process)
        self.assert_code(done, 130)
        self.assertEqual(done.result["reason"], "interrupted")
        self.assert_nothing_left()

    def test_missing_and_changed_data_are_refused(self):
        """Data that are gone or others end nothing: once they are back, the
        run goes on."""
        made = self.mltune("data", "gen", "gen:ratings?users=300&items=200"
                           "&ratings=10000", "ratings.csv")
        self.assert_code(made, 0)
        config = endless_config()
        config["app"] = {"name": "mf", "data": "ratings.csv", "rank": 8,
                         "test_fraction": 0.1}
        config["tunables"] = {"learning_rate":
                              config["tunables"]["learning_rate"]}
        config["ps"] = {"update_rule": "adagrad"}
        run = self.interrupted(config)
        data = self.folder / "ratings.csv"
        kept = data.read_bytes()
        data.unlink()
        refused = self.mltune("resume", run)
        self.assertIn(refused.code, (74, 78))
        self.assertIn("ratings.csv", refused.err)
        data.write_bytes(kept[:len(kept) // 2].rpartition(b"\n")[0] + b"\n")
        refused = self.mltune("resume", run)
        self.assert_code(refused, 78)
        self.assertIn("changed", refused.err)
        data.write_bytes(kept)
        clocks = self.mltune("show", run, "--json").result["clocks"]
        process = self.start("resume", run)
        self.wait_until(
            lambda: self.mltune("show", run, "--json").result["clocks"] >
            clocks, "the run to go on")
        process.send_signal(signal.SIGINT)
        self.assert_code(self.finish(process), 130)
        self.assert_nothing_left()
