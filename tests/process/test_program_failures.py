"""Programs of the user's own that fail: what is waited for, how long, what is said.
"""
import json
import pathlib
import shutil
import signal
import time
import unittest

import harness
from test_resume import Journal

PYTHON = "/usr/bin/python3"
LINE = pathlib.Path(__file__).parent / "fixtures/programs/line.py"


class Failures(harness.Case):
    def setUp(self):
        super().setUp()
        shutil.copy(LINE, self.folder)

    def config(self, command, app=None, **stop):
        return {"name": "wrong", "app": {"command": command, **(app or {})},
                "tunables": {"learning_rate": harness.RATE},
                "tuner": {"searcher": "random", "trial_clocks": 8},
                "stop": {"max_epochs": 6, **stop}, "seed": 7}

    def line(self, app=None, stop=None, **ways):
        words = [f"{k}={json.dumps(v)}" for k, v in ways.items()]
        return self.config([PYTHON, "line.py", *words], app, **(stop or {}))

    def fails(self, config, *words, again=True, within=30,
              status="failed"):
        """The run ends in time, as failed or (@status) as interrupted; its
        error has all @words. Its result."""
        begun = time.monotonic()
        done = self.run_config(config, "--json", seconds=within + 30)
        took = time.monotonic() - begun
        self.assert_code(done, 1 if status == "failed" else 75)
        self.assertLess(took, within)
        for word in words:
            self.assertIn(word, done.err)
        self.assertEqual("starting it again" in done.err, again, done.err)
        result = done.result
        self.assertEqual(result["status"], status)
        self.assert_nothing_left()
        return result

    def at_fault(self, config, *words, within=30):
        """As fails; the program is at fault: it was started once."""
        result = self.fails(config, *words, again=False, within=within)
        self.assertEqual(result["reason"], "program_failed")
        return result


class Beginning(Failures):
    def test_it_ends_at_once(self):
        self.at_fault(self.config(["true"]),
                      "ended with exit code 0 before it said hello: it never "
                      "connected to mltune", within=10)

    def test_a_plain_script_is_told_what_to_call(self):
        """It trains to its end, and knows nothing of mltune."""
        (self.folder / "plain.py").write_text("print('accuracy 0.9')\n")
        result = self.at_fault(self.config([PYTHON, "plain.py"]),
                               "call mltune.config() and loop over "
                               "run.train()", within=10)
        self.assertEqual(result["last_words"], ["accuracy 0.9"])

    def test_it_raises_before_it_connects(self):
        result = self.at_fault(
            self.config([PYTHON, "-c", "import sys\nprint('one')\n"
                         "raise ValueError('no such data')"]),
            "ended with exit code 1 before it said hello",
            "ValueError: no such data", within=10)
        self.assertNotIn("never connected", json.dumps(result))
        self.assertEqual(result["last_words"][0], "one")
        self.assertEqual(result["last_words"][-1], "ValueError: no such data")

    def test_it_never_connects(self):
        self.at_fault(self.config(["sleep", "100"], {"hello_timeout": "1s"}),
                      "has not said hello in 1 s (app.hello_timeout): it never "
                      "connected to mltune", within=10)

    def interpreter(self, line, mode=0o755):
        script = self.folder / "script"
        script.write_bytes(line + b"\nimport mltune\n")
        script.chmod(mode)
        return self.config(["./script"])

    def refused(self, config, *words):
        """It is told before a run begins, by every verb that starts it."""
        self.write("config.json", config)
        for verb in (("validate", "config.json"), ("run", "config.json"),
                     ("check-trainer", "--", *config["app"]["command"])):
            done = self.mltune(*verb)
            self.assertNotEqual(done.code, 0)
            for word in words:
                self.assertIn(word, done.err)

    def test_an_interpreter_that_is_missing_is_named(self):
        self.refused(self.interpreter(b"#! /opt/none/python9 -u"),
                     "its first line names the interpreter /opt/none/python9, "
                     "which cannot be executed")
        self.refused(self.interpreter(b"#!/usr/bin/python3\r"),
                     "/usr/bin/python3?", "the line ends as those of Windows "
                     "do")

    def test_a_script_that_names_no_interpreter_is_told_how(self):
        result = self.run_config(self.interpreter(b"# mine"))
        self.assertNotEqual(result.code, 0)
        self.assertIn("a script's first line says what runs it", result.err)

    def test_it_never_connects_and_time_is_up(self):
        """max_time holds before there is any clock."""
        self.at_fault(self.config(["sleep", "100"], max_time="1s"),
                      "has not said hello in 1 s (stop.max_time)", within=10)

    def test_it_is_never_ready(self):
        result = self.at_fault(
            self.line({"ready_timeout": "1s"}, wrong="never_ready"),
            "was not ready in 1 s (app.ready_timeout) after its hello",
            within=10)
        self.assertEqual(result["last_words"][-1], "loads")
        result = self.fails(
            self.line(stop={"max_time": "1s"}, wrong="never_ready"),
            "1 s are over, and the training system is not ready: nothing was "
            "trained", again=False, within=10)
        self.assertEqual((result["reason"], result["last_words"][-1]),
                         ("max_time", "loads"))

    def cannot_load(self, config, *words):
        result = self.fails(config, "no such data", *words, again=False,
                            within=20)
        self.assertEqual(result["reason"], "load_failed")
        return result

    def test_it_cannot_load(self):
        """It says so first; what it prints on its way out is waited for."""
        result = self.cannot_load(self.line(wrong="cannot_load"),
                                  "its last words (mltune log ")
        self.assertEqual(result["last_words"][-1],
                         "ValueError: no such data at all")
        self.assertNotIn("last_words_node", result)

    def stayed(self):
        """Tenths of a second that a program went on after it had failed."""
        log = next(self.folder.glob(".mltune/runs/*/node-0.log")).read_text()
        return log.count("stays ")

    def test_it_cannot_load_and_stays(self):
        """Not for ever."""
        result = self.cannot_load(self.line(wrong="cannot_load_stays"))
        self.assertTrue(result["last_words"][-1].startswith("stays"))
        self.assertLess(self.stayed(), 100)

    def test_it_cannot_load_and_time_is_up(self):
        """max_time ends the wait, too."""
        self.cannot_load(self.line(wrong="cannot_load_stays",
                                   stop={"max_time": "1s"}))
        self.assertLess(self.stayed(), 20)

    def test_its_ready_is_nonsense(self):
        for way in ({"samples": 0}, {"workers": -1}, {"workers": "two"}):
            self.at_fault(self.line(**way), "the program's `ready` makes no "
                          f"sense: {list(way)[0]}: ", within=10)

    def test_its_hello_is_nonsense(self):
        code = ("import os, zmq, time\n"
                "s = zmq.Context().socket(zmq.DEALER)\n"
                "s.connect(os.environ['MLTUNE_TUNER'])\n"
                "s.send(b'{\"kind\":\"hello\",\"version\":\"one\"}')\n"
                "time.sleep(100)\n")
        self.at_fault(self.config([PYTHON, "-c", code]), "the program's "
                      "`hello` makes no sense: version: ", within=10)

    def test_garbage_before_a_hello_is_told(self):
        code = ("import os, zmq, time\n"
                "s = zmq.Context().socket(zmq.DEALER)\n"
                "s.connect(os.environ['MLTUNE_TUNER'])\n"
                "for _ in range(3): s.send(b'HELO')\n"
                "time.sleep(100)\n")
        self.at_fault(self.config([PYTHON, "-c", code],
                                  {"hello_timeout": "2s"}),
                      "has not said hello in 2 s (app.hello_timeout); 3 of its messages made no "
                      "sense, the first: no JSON", within=10)


class Several(Failures):
    """Two processes, of which the second is at fault."""

    def line(self, app=None, stop=None, **ways):
        return {**super().line(app, stop, who=1, **ways),
                "cluster": {"nodes": 2}}

    def tells_which(self, result):
        self.assertEqual(result["last_words_node"], 1)
        run = result["run"]
        shown = self.mltune("show", run)
        self.assertIn("process 1 said last:\n", shown.out)
        self.assertIn(result["last_words"][-1], shown.out)
        self.assertEqual(
            self.mltune("show", run, "--json").result["last_words_node"], 1)
        log = self.mltune("log", run, "--node", "1")
        self.assertIn(result["last_words"][-1], log.out)

    def test_it_cannot_load_when_it_goes_on(self):
        """Then the run has not failed: it goes on once it can."""
        config = self.line(stop={"max_epochs": 1000000,
                                 "plateau_epochs": 1000000})
        config["name"] = "endless"
        self.write("config.json", config)
        process = self.start("run", "config.json", "--json")
        self.wait_for_training()
        process.send_signal(signal.SIGINT)
        run = self.finish(process).result["run"]
        program = self.folder / "line.py"
        good = program.read_text()
        program.write_text("import sys\n"
                           "sys.argv.append('wrong=\"cannot_load\"')\n" + good)
        done = self.mltune("resume", run, "--json")
        self.assert_code(done, 75)
        self.assertEqual((done.result["status"], done.result["reason"]),
                         ("interrupted", "load_failed"))
        program.write_text(good)
        process = self.start("resume", run, "--json")
        self.wait_until(lambda: len(Journal(self.folder / ".mltune", run).of(
            "run_resumed")) == 1, "the run to go on")
        process.send_signal(signal.SIGINT)
        self.assert_code(self.finish(process), 130)

    def test_one_raises(self):
        result = self.at_fault(self.line(wrong="raise", after=20),
                               "process 1 ", "ended with exit code 1",
                               " --node 1 has all of it):", within=20)
        self.assertEqual(result["last_words"][-1],
                         "ValueError: the loss is no number")
        self.tells_which(result)

    def test_one_cannot_load(self):
        result = self.fails(self.line(wrong="cannot_load"), "no such data",
                            "process 1 said last", again=False, within=20)
        self.assertEqual((result["reason"], result["last_words"][-1]),
                         ("load_failed", "ValueError: no such data at all"))
        self.tells_which(result)

    def test_who_ends_a_cut_slice_must_be_said(self):
        self.at_fault(self.line(cuts=""), "must say in its `ready` who ends a "
                      "slice that is cut", within=20)

    def test_cuts_of_their_own_that_they_do_not_agree_on(self):
        """Each ends a slice at another clock: the first is at its end, the
        second needs ten seconds for it."""
        config = self.line(cuts="own", slow=0.02, say="quiet", samples=20000,
                           stop={"max_time": "2s"})
        config["tuner"] = {"strategy": "fixed"}
        done = self.run_config(config)
        self.assertRegex(done.err, "the nodes disagree: .*(another window|more "
                         'windows|another number of clocks; who says cuts "own"'
                         " in `ready` has to agree)")
        self.assert_nothing_left()


class Training(Failures):
    def test_it_raises(self):
        result = self.at_fault(self.line(wrong="raise", after=20),
                               "ended with exit code 1",
                               "ValueError: the loss is no number", within=10)
        self.assertEqual(result["last_words"][-1],
                         "ValueError: the loss is no number")
        shown = self.mltune("show", "wrong")
        self.assertIn("ValueError: the loss is no number", shown.out)

    def test_trials_outlive_a_program_that_is_mended(self):
        """It raises within the first search, which writes no snapshot: with the
        program mended, a resume goes on with the trials that were over."""
        self.write("mine.py", "import pathlib, runpy, sys\n"
                   "sys.argv[1:] = pathlib.Path('ways').read_text().split()\n"
                   "runpy.run_path('line.py', run_name='__main__')\n")
        self.write("ways", 'wrong="raise" after=55')
        run = self.at_fault(self.config([PYTHON, "mine.py"]),
                            "ValueError")["run"]
        journal = Journal(self.folder / ".mltune", run)
        self.assertEqual(journal.of("snapshot_written"), [])
        before = [r["trial"] for r in journal.of("trial_updated")]
        self.assertGreater(len(before), 1)
        self.assertTrue(json.loads(self.mltune("ls", "--json").out)[0]
                        ["resumable"])
        self.write("ways", "")
        done = self.mltune("resume", run, "--json", seconds=60)
        self.assert_code(done, 0)
        self.assertEqual(done.result["status"], "finished")
        begun = [r["trial"] for r in
                 Journal(self.folder / ".mltune", run).of("trial_started")]
        for trial in before:
            self.assertEqual(begun.count(trial), 1)
        self.assert_nothing_left()

    def test_it_says_that_it_failed(self):
        result = self.at_fault(self.line(wrong="failed", after=20),
                               "the program failed: the GPU is gone",
                               within=10)
        self.assertEqual(result["last_words"][-1], "told it")

    def test_every_trial_fails(self):
        """That is no divergence; each reason is kept, and the commonest told
        with its count."""
        config = self.line(runs_out=1e-9)
        config["tuner"]["max_trials"] = 9
        result = self.fails(
            config, "9 of 9 trials failed: CUDA out of memory: tried to "
            "allocate", again=False)
        self.assertEqual(result["reason"], "app")
        self.assertEqual(result["tuning"]["failed"], 9)
        self.assertIn("CUDA out of memory", result["tuning"]["failed_reason"])
        trials = self.mltune("trials", result["run"])
        self.assertEqual(trials.out.count("(CUDA out of memory: tried to"), 9)

    def test_some_trials_fail(self):
        """The run ends well; the reasons are in journal, show and log."""
        done = self.run_config(self.line(runs_out=0.02), "--json")
        self.assert_code(done, 0)
        tuning = done.result["tuning"]
        self.assertGreater(tuning["failed"], 0)
        self.assertLess(tuning["failed"], tuning["trials"])
        run = done.result["run"]
        ended = [t for t in Journal(self.folder / ".mltune",
                                    run).of("trial_ended")
                 if t["label"] == "failed"]
        self.assertEqual(len(ended), tuning["failed"])
        for trial in ended:
            self.assertIn("CUDA out of memory: tried", trial["reason"])
        shown = self.mltune("show", run).out
        self.assertIn(f"failed    {len(ended)} of these trials, the latest "
                      "since: CUDA out of memory", shown)
        log = self.mltune("show", "-v", run).out
        self.assertIn(f"trial {ended[0]['trial']} failed: CUDA out of memory",
                      log)

    def test_it_ends_without_an_error(self):
        self.at_fault(self.line(wrong="exit", after=20),
                      "ended with exit code 0\n", within=10)

    def test_it_is_killed(self):
        """By a signal: it is started again, a few times; then the run is
        interrupted, and goes on another time."""
        result = self.fails(self.line(wrong="kill", after=20),
                            "was killed by SIGKILL",
                            "it was started again 3 times before", within=30,
                            status="interrupted")
        self.assertEqual(result["reason"], "node_lost")

    def test_it_hangs_in_a_clock(self):
        for wrong in ("hang", "silent"):
            result = self.at_fault(
                self.line({"clock_timeout": "2s"}, wrong=wrong, after=20),
                "has finished no clock in 2 s (app.clock_timeout), while a "
                "slice runs", within=15)
            self.assertEqual(result["last_words"][-1], "hangs")

    def test_it_answers_nothing(self):
        self.at_fault(self.line({"clock_timeout": "1s"}, wrong="deaf"),
                      "has not answered a request in 1 s (app.clock_timeout)",
                      within=15)

    def test_it_sends_garbage(self):
        self.at_fault(self.line(wrong="garbage", after=20),
                      "does not keep to the protocol; ", " of its messages "
                      "made no sense, the first: no JSON", within=15)


class Validation(Failures):
    def test_none_gives_a_number(self):
        """The run goes on, since its loss is a number; that there is no best
        model is told at once, and at the end."""
        done = self.run_config(self.line(metric="nan"))
        self.assert_code(done, 0)
        told = "gave no number (NaN) with learning_rate="
        self.assertEqual(done.err.count(told), 1, done.err)
        self.assertIn("best      none: every validation gave NaN", done.out)
        self.assertIn("(the state when the run ended)", done.out)
        run = self.mltune("ls", "--json").result[0]
        self.assertEqual((run["status"], run["best"]), ("finished", None))
        self.assertEqual(self.mltune("show", "-v", run["run"]).out.count(told), 1)
        self.assert_nothing_left()

    def test_a_value_never_has_a_number(self):
        done = self.run_config(self.line(values=["never", "half"]))
        self.assert_code(done, 0)
        self.assertIn("never: none: it never had a number\n", done.out)


class SecondLoop(Failures):
    """A script with two training loops."""

    SCRIPT = """
import sys
import mltune
cfg = mltune.config()
run, other = [mltune.Run(samples=100, batch_size=10) for _ in range(2)]
for batch in run.train():
    batch.loss(1.0)
    if sys.argv[1] == "within":
        list(other.train())
if sys.argv[1] == "raises":
    raise ValueError("after all")
for batch in other.train():
    batch.loss(1.0)
"""

    def two(self, way):
        self.write("two.py", self.SCRIPT)
        done = self.run_config(self.config([PYTHON, "two.py", way]))
        log = next(self.folder.glob(".mltune/runs/*/node-0.log")).read_text()
        self.assert_nothing_left()
        return done, log

    def test_it_comes_after_the_run(self):
        """It is not begun, and told in a sentence."""
        done, log = self.two("after")
        self.assert_code(done, 0)
        self.assertNotIn("ended with", done.err)
        self.assertIn("the second one is not begun", log)
        self.assertNotIn("Traceback", log)

    def test_it_comes_before_the_end(self):
        done, _ = self.two("within")
        self.assert_code(done, 1)
        self.assertIn("under mltune a program has one training loop", done.err)

    def test_an_error_after_the_run(self):
        """Changes nothing; the user hears of it."""
        done, log = self.two("raises")
        self.assert_code(done, 0)
        self.assertIn("ended with exit code 1 after the run was over",
                      done.err)
        self.assertIn("ValueError: after all", log)


class Ends(Failures):
    """max_time and Ctrl-C in every state."""

    def interrupt(self, config, seen, within):
        """SIGINT once the log of the program has @seen; exit code 130."""
        self.write("config.json", config)
        tuner = self.start("run", "config.json", "--json")

        def has():
            logs = list(self.folder.glob(".mltune/runs/*/node-0.log"))
            return logs and seen in logs[0].read_text()
        self.wait_until(has, "the program to hang")
        begun = time.monotonic()
        tuner.send_signal(signal.SIGINT)
        done = self.finish(tuner)
        self.assertLess(time.monotonic() - begun, within)
        self.assert_code(done, 130)
        self.assertEqual(done.result["status"], "interrupted")
        self.assert_nothing_left()
        return done

    def test_interrupt_of_one_that_cannot_load(self):
        """While what it still prints is waited for."""
        self.interrupt(self.line(wrong="cannot_load_stays"), "stays", 10)
        log = next(self.folder.glob(".mltune/runs/*/node-0.log")).read_text()
        self.assertLess(log.count("stays "), 20)

    def test_interrupt_before_hello(self):
        self.interrupt(self.config(["sh", "-c", "echo up; sleep 100"]), "up", 5)

    def test_interrupt_before_ready(self):
        self.interrupt(self.line(wrong="never_ready"), "loads", 5)

    def test_interrupt_in_a_clock_that_hangs(self):
        self.interrupt(self.line({"clock_timeout": "3s"}, wrong="hang",
                                 after=20), "hangs", 10)

    def test_second_interrupt_ends_at_once(self):
        self.write("config.json", self.line(wrong="hang", after=20))
        tuner = self.start("run", "config.json", "--json")
        self.wait_until(lambda: any("hangs" in p.read_text() for p in
                                    self.folder.glob(
                                        ".mltune/runs/*/node-0.log")),
                        "the program to hang")
        tuner.send_signal(signal.SIGINT)
        time.sleep(0.5)
        tuner.send_signal(signal.SIGINT)
        self.assert_code(self.finish(tuner, 5), 130)
        self.assert_nothing_left()

    def test_time_is_up_in_a_clock_that_hangs(self):
        """Half a minute after max_time at the latest it is killed: in its
        first search there is nothing yet that a model could be made of."""
        config = self.line(wrong="hang", after=60, stop={"max_time": "2s"})
        begun = time.monotonic()
        done = self.run_config(config, "--json", seconds=90)
        self.assertLess(time.monotonic() - begun, 60)
        self.assertEqual((done.result["status"], done.result["reason"]),
                         ("failed", "max_time"), done.err)
        self.assertIn("lost with what its trials had come to", done.err)
        self.assert_nothing_left()


if __name__ == "__main__":
    unittest.main()
