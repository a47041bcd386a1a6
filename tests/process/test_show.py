"""What the verbs that look print: one renderer, so that a server and the state
folder give the same bytes."""
import json
import os
import re
import signal
import sqlite3
import subprocess
import time

import harness
from harness import endless_config, mlr_config
import test_control
import test_serve

# Members of a run's result; `show --json` has these too.
MEMBERS = ["run", "status", "reason", "loss", "metric", "best", "model",
           "epochs", "clocks", "seconds", "tuning", "setting", "schedule",
           "strategy", "searcher", "seed", "state"]
LOOKS = [words + form for form in ((), ("--json",))
         for words in (("ls",), ("show", "RUN"), ("show", "-v", "RUN"),
                       ("trials", "RUN"), ("branches", "RUN"))]


class Looking:
    """Compares what is printed with and without --server."""

    def look(self, words, run, *more):
        done = self.mltune(*[run if w == "RUN" else w for w in words], *more)
        self.assert_code(done, 0)
        self.assertEqual(done.err, "")
        return done.out

    def looks(self, run, *more):
        return {words: self.look(words, run, *more) for words in LOOKS}

    def assert_same_now(self, run, url):
        """Of a run that lives: what is the same before and after has not
        changed in between (nodes tell of themselves also while it pauses)."""
        for words in LOOKS:
            for _ in range(100):
                here = self.look(words, run)
                there = self.look(words, run, "--server", url)
                if self.look(words, run) == here:
                    break
            self.assertEqual(here, there, words)

    def assert_same(self, here, there):
        for words in LOOKS:
            self.assertEqual(here[words], there[words], words)

    def assert_members(self, run, text):
        shown = json.loads(text)
        self.assertEqual([m for m in MEMBERS if m not in shown], [])
        self.assertEqual(shown["run"], run)
        return shown


class OfAService(test_serve.Service, Looking):
    def url(self):
        return "http://%s:%d" % self.address

    def launch(self, *words):
        """Where a test says so: runs have to be there before."""

    def begin(self):
        super().launch()

    def end(self, number=signal.SIGTERM):
        return super().end(number) if self.service else None

    def test_a_run_that_went_on(self):
        """It has chosen no setting by that, and has one time."""
        def has_chosen(times):
            done = self.mltune("show", "endless", "--json")
            return done.code == 0 and len(done.result["schedule"]) >= times
        config = endless_config()
        config["tuner"] = {"searcher": "random", "max_trials": 3}
        self.write("config.json", config)
        for times, words in enumerate((("run", "config.json"),
                                       ("resume", "endless")), 1):
            tuner = self.start(*words)
            self.wait_until(lambda n=times: has_chosen(n), "its setting")
            tuner.send_signal(signal.SIGINT)
            self.finish(tuner)
            time.sleep(2)  # that it does not run
        run = json.loads(self.mltune("show", "endless", "--json").out)["run"]
        shown = json.loads(self.look(("show", "RUN", "--json"), run))
        text = self.look(("show", "-v", "RUN"), run)
        settings = [c["setting"] for c in shown["schedule"]]
        self.assertTrue(settings)
        self.assertEqual(
            text.count(" from clock "),
            sum(a != b for a, b in zip(settings, settings[1:])))
        whole = re.search(r"^time +(.*), ", text, re.M).group(1)
        self.assertRegex(self.look(("ls",), run),
                         rf"\d\d:\d\d:\d\d +{re.escape(whole)} ")

    def test_a_finished_run(self):
        run = self.run_config(mlr_config(), "--json").result
        before = self.looks(run["run"])
        shown = self.assert_members(run["run"],
                                    before["show", "RUN", "--json"])
        for member in [*MEMBERS, "url"]:
            self.assertEqual(shown[member], run[member], member)
        self.assertEqual(shown["config"]["seed"], 7)
        self.assertEqual((shown["alive"], shown["resumable"]), (False, False))
        text = before["show", "-v", "RUN"]
        for word in ("finished: max_epochs", run["model"], "learning_rate=",
                     "trials", "epochs", "decisions"):
            self.assertIn(word, text)
        self.begin()
        self.assert_same(before, self.looks(run["run"]))
        self.assert_same(before, self.looks(run["run"], "--server",
                                            self.url()))

    def ended_by(self, number, reason):
        self.write("config.json", endless_config())
        process = self.start("run", "config.json")
        self.wait_for_training()
        process.send_signal(number)
        self.finish(process)
        before = self.looks("endless")
        shown = json.loads(before["show", "RUN", "--json"])
        self.assertEqual(shown["status"], "interrupted")
        self.assertEqual(shown["reason"], reason)
        self.assertTrue(shown["resumable"])
        self.assertIn(f"mltune resume {shown['run']}\n",
                      before["show", "RUN"])
        self.begin()
        self.assert_same(before, self.looks("endless", "--server",
                                            self.url()))

    def test_an_interrupted_run(self):
        self.ended_by(signal.SIGINT, "interrupted")

    def test_a_run_whose_tuner_was_killed(self):
        self.ended_by(signal.SIGKILL, "tuner_died")

    def test_runs_of_a_live_service(self):
        """One that is paused, one that waits for it, one that is held."""
        self.begin()
        run = self.submit(test_serve.endless_config())
        waits = self.submit(mlr_config())
        held = self.submit({**mlr_config(), "name": "held"}, "?held=true")
        self.wait_for_clock(run)
        self.command(run, "pause", 202)
        self.wait_for_status(run, "paused")
        for each, status in ((run, "paused"), (waits, "queued"),
                             (held, "held")):
            self.assert_same_now(each, self.url())
            here = self.looks(each)
            self.assertIn(status, here["show", "RUN"])
            self.assertIn("queue     group ", here["show", "RUN"])
            self.assert_members(each, here["show", "RUN", "--json"])

    def test_a_service_that_hangs_keeps_nobody_from_the_folder(self):
        run = self.run_config(mlr_config(), "--json").result["run"]
        before = self.looks(run)
        self.begin()
        self.service.kill()
        self.finish(self.service)
        # Its address is still there; nobody answers at it.
        self.assertTrue((self.folder / ".mltune/serve.url").exists())
        self.assert_same(before, self.looks(run))
        self.service = None

    def test_no_runs(self):
        self.assertEqual(self.mltune("ls").out, "no runs in ./.mltune\n")
        self.assertEqual(self.mltune("ls", "--json").out, "[]\n")
        self.begin()
        self.assertEqual(self.mltune("ls", "--json").out, "[]\n")
        self.assertIn("no runs at ", self.mltune("ls").out)


class ManyRuns(harness.Case):
    RUNS, PAD = 300, 40000

    def setUp(self):
        """A run that has ended, and its row of the index many times over, each
        with a long message."""
        super().setUp()
        self.bound_quarantine()
        self.assert_code(self.run_config(harness.mlr_config(max_epochs=1)), 0)
        self.mltune("ls")
        db = sqlite3.connect(self.folder / ".mltune/mltune.db")
        run = list(db.execute("SELECT * FROM runs").fetchone())
        row = list(db.execute("SELECT * FROM listed").fetchone())
        told = {**json.loads(row[5].split("\n")[1]), "message": "x" * self.PAD}

        def summed(name, text):
            """As the index has its texts, behind their checksum."""
            data = "\0".join((name, row[3], text)).encode()
            return f"{harness.crc32c(data):08x}\n{text}"
        for i in range(self.RUNS):
            name, began = f"many-{i:06d}", run[4] + (i + 1) * 1000000
            db.execute("INSERT INTO runs VALUES (?,?,?,?,?,?,?,?,?,NULL)",
                       (1000 + i, name, *run[2:4], began, *run[5:9]))
            db.execute("INSERT INTO listed VALUES (?,?,?,?,?,?)",
                       (1000 + i, began, name, row[3],
                        summed(name, row[4].split("\n")[1]),
                        summed(name, json.dumps({**told, "run": name}))))
        db.commit()
        db.close()

    def peak(self, *words):
        """The most memory that it took, in bytes, and what it printed."""
        with open(self.folder / "said", "wb") as out, subprocess.Popen(
                [harness.MLTUNE, *words], cwd=self.folder, env=self.env,
                stdout=out) as process:
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        self.assertEqual(process.returncode, 0)
        return usage.ru_maxrss * 1024, (self.folder / "said").read_text()

    def test_json_of_many_takes_no_memory_for_all(self):
        """Each is printed as it is read: newest first, and all of them."""
        table, _ = self.peak("ls")
        json_, said = self.peak("ls", "--json")
        self.assertLess(json_, table + self.RUNS * self.PAD // 2)
        runs = [run["run"] for run in json.loads(said)]
        self.assertEqual(runs[:-1], sorted(runs[:-1], reverse=True))
        self.assertEqual(len(runs), self.RUNS + 1)


class OfARun(test_control.Steered, Looking):
    def url(self):
        return "http://%s:%d" % self.address

    def test_a_paused_run_and_its_own_server(self):
        self.wait_for_clock()
        self.command("pause")
        self.wait_for_status("paused")
        run = self.run_id()
        self.assert_same_now(run, self.url())
        shown = self.assert_members(run, self.look(("show", "RUN", "--json"),
                                                   run))
        self.assertTrue(shown["alive"])
        self.assertEqual(shown["status"], "paused")

    def test_watch(self):
        """From its beginning to its end, as lines and as JSON."""
        run = self.run_id()
        watches = [[self.start("watch", run, *form, *server)
                    for server in ((), ("--server", self.url()))]
                   for form in (("--lines",), ("--json",))]
        self.wait_for_clock()
        self.command("stop")
        self.finish(self.process)
        for here, there in watches:
            here, there = self.finish(here), self.finish(there)
            self.assert_code(here, 0)
            self.assertEqual(here.out, there.out)
            self.assertIn("stopped", here.out)
