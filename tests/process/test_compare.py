"""`mltune compare` as a user meets it: one table, whatever the runs do."""
import csv
import io
import json
import signal
import unittest

from harness import Case, endless_config, mlr_config
from test_resume import Journal


class Compare(Case):
    def compare(self, config, *words, **options):
        self.write("config.json", config)
        return self.mltune("compare", "config.json", *words, **options)

    def saved(self, ending):
        """The one table that was saved, by ending."""
        paths = list((self.folder / ".mltune/compare").glob(f"*.{ending}"))
        self.assertEqual(len(paths), 1, paths)
        return paths[0].read_text()

    def test_two_strategies_two_seeds(self):
        """A table for people; JSON and CSV beside it; runs as any other."""
        done = self.compare(mlr_config(target_metric=0.3), "--strategies",
                            "mltuner,fixed+schedule=cosine", "--seeds", 2)
        self.assert_code(done, 0)
        for word in ("STRATEGY", "TO TARGET", "BEST accuracy", "TUNING",
                     "mltuner ", "fixed+schedule=cosine", "2/2", "saved"):
            self.assertIn(word, done.out)
        self.assertIn("4 runs, one after another; --set stop.max_time", done.err)
        table = json.loads(self.saved("json"))
        self.assertEqual(table["metric"], "accuracy")
        self.assertEqual(table["target_metric"], 0.3)
        self.assertEqual([r["name"] for r in table["strategies"]],
                         ["mltuner", "fixed+schedule=cosine"])
        for row in table["strategies"]:
            self.assertEqual([r["seed"] for r in row["runs"]], [7, 8])
            self.assertEqual(row["finished"], 2)
            for run in row["runs"]:
                self.assertLessEqual(run["time_to_target"] or 0,
                                     run["seconds"])
                shown = self.mltune("show", run["run"], "--json").result
                self.assertEqual(shown["status"], "finished")
                self.assertEqual(shown["strategy"], row["strategy"])
                self.assertEqual(shown["seed"], run["seed"])
        self.assertEqual(len(self.mltune("ls", "--json").result), 4)
        rows = list(csv.DictReader(io.StringIO(self.saved("csv"), newline="")))
        self.assertEqual(len(rows), 4)
        self.assertEqual({r["status"] for r in rows}, {"finished"})
        self.assertEqual(rows[0]["name"], "mltuner")
        self.assert_nothing_left()

    def test_how_long_it_may_take_is_said(self):
        """Before the first run; and a run without an epoch is not hidden."""
        config = mlr_config(max_time=3)
        config["stop"].pop("max_epochs", None)
        done = self.compare(config, "--strategies", "mltuner", "--seeds", 2)
        self.assert_code(done, 0)
        self.assertIn("2 runs, one after another, of at most 3.0 s each: at "
                      "most 6.0 s, and", done.err)
        self.assertLess(done.err.index("one after another"),
                        done.err.index("1 of 2"))

    def test_every_strategy_runs(self):
        """All of them, in one table, as JSON on stdout."""
        names = [s["name"]
                 for s in self.mltune("strategies", "--json").result]
        self.assertGreaterEqual(
            set(names), {"mltuner", "fixed", "hyperband", "asha", "complete", "tupaq",
                         "pbt"})
        done = self.compare(
            mlr_config(), "--strategies", ",".join(names), "--seeds", 1,
            "--json", "--set", "tuner.max_trials=4", "--name", "all of them")
        self.assert_code(done, 0)
        rows = done.result["strategies"]
        self.assertEqual([r["name"] for r in rows], names)
        self.assertEqual(done.result["name"], "all of them")
        for row in rows:
            run = row["runs"][0]
            self.assertEqual(run["status"], "finished", row)
            self.assertGreater(run["metric"], 0.2)
            self.assertTrue(run["run"].startswith("all-of-them-"))
            self.assertIsNone(run["time_to_target"])
        self.assert_nothing_left()

    def test_searchers_are_crossed(self):
        """Each strategy with each searcher, but `fixed`."""
        done = self.compare(
            mlr_config(), "--strategies", "mltuner,fixed", "--searchers",
            "random,grid", "--seeds", 1, "--json", "--set",
            "tuner.max_trials=3")
        self.assert_code(done, 0)
        self.assertEqual(
            [(r["name"], r["searcher"]) for r in done.result["strategies"][:2]],
            [("mltuner:random", "random"), ("mltuner:grid", "grid")])
        self.assertEqual(len(done.result["strategies"]), 3)

    def test_a_failed_run_is_a_row(self):
        """A strategy that cannot run leaves the others alone."""
        done = self.compare(
            mlr_config(), "--strategies",
            "asha+min_resource=9+max_resource=3,fixed", "--seeds", 1)
        self.assert_code(done, 0)
        self.assertIn("max_resource", done.err)
        self.assertIn("0/1", done.out)
        self.assertIn("1/1", done.out)
        table = json.loads(self.saved("json"))
        self.assertEqual(table["strategies"][0]["runs"][0]["status"], "failed")
        self.assertEqual(table["strategies"][0]["runs"][0]["reason"],
                         "exit_78")
        done = self.compare(
            mlr_config(), "--strategies",
            "asha+min_resource=9+max_resource=3", "--state", "none")
        self.assert_code(done, 1)
        self.assertIn("0/3", done.out)

    def test_what_cannot_be_compared_is_said_at_once(self):
        """Nothing runs before everything is checked."""
        for words, code, says in (
                ([], 2, "--strategies"),
                (["--strategies", "mltuner,,fixed"], 2, "contender"),
                (["--strategies", "fixed,fixed"], 2, "twice"),
                (["--strategies", "mltuner,fastest"], 78, "fastest"),
                (["--strategies", "fixed+schedule=linear"], 78, "schedule"),
                (["--strategies", "mltuner:oracle"], 78, "oracle"),
                (["--strategies", "mltuner", "--seeds", "0"], 2, "--seeds"),
                (["--strategies", "mltuner", "--set", "stop.max_epoch=1"],
                 78, "max_epoch")):
            done = self.compare(mlr_config(), *words)
            self.assert_code(done, code)
            self.assertIn(says, done.err)
            self.assertEqual(done.out, "")
            self.assertFalse((self.folder / ".mltune").exists())
        done = self.mltune("compare", "-", "--strategies", "fixed")
        self.assert_code(done, 2)

    def test_interrupt_ends_with_the_table_so_far(self):
        """The run that goes on ends cleanly, and is in the table."""
        self.write("config.json", endless_config())
        process = self.start(
            "compare", "config.json", "--strategies",
            "fixed+schedule=exponential,mltuner", "--name", "endless")
        self.wait_until_training()
        process.send_signal(signal.SIGINT)
        done = self.finish(process)
        self.assert_code(done, 130)
        self.assertNotIn("nan", done.err + done.out)
        self.assertIn("fixed+schedule=exponential", done.out)
        table = json.loads(self.saved("json"))
        runs = [r for row in table["strategies"] for r in row["runs"] if r]
        self.assertEqual([r["status"] for r in runs], ["interrupted"])
        self.assertEqual(len(self.mltune("ls", "--json").result), 1)
        self.assert_nothing_left()

    def test_a_schedulers_warning_goes_on_to_its_run(self):
        """Which writes a snapshot; neither ends of it."""
        config = endless_config()
        config["snapshot"] = {"every": 3600}
        for number in signal.SIGUSR1, signal.SIGXCPU:
            self.write("config.json", config)
            state = self.folder / f"state{number}"
            process = self.start("compare", "config.json", "--strategies",
                                 "fixed", "--state", state)
            self.wait_for_training(state.name)
            run = next((state / "runs").iterdir()).name

            def snapshots():
                return len(Journal(state, run).of("snapshot_written"))
            before = snapshots()
            process.send_signal(number)
            self.wait_until(lambda: snapshots() > before, "a snapshot")
            process.send_signal(signal.SIGINT)
            self.assert_code(self.finish(process), 130)

    def test_killed_parent_ends_its_run(self):
        """kill -9 of compare: the run is told to end, and does so cleanly."""
        self.write("config.json", endless_config())
        process = self.start("compare", "config.json", "--strategies", "fixed",
                             "--name", "endless")
        self.wait_until_training()
        process.kill()
        process.wait()
        self.wait_until(lambda: not self.marked(), "the run to end")
        runs = self.mltune("ls", "--json").result
        self.assertEqual([r["status"] for r in runs], ["interrupted"])
        self.assert_nothing_left()

    def wait_until_training(self):
        """Until the one run has journaled that a slice ended."""
        def look():
            runs = self.mltune("ls", "--json").result
            if not runs:
                return False
            shown = self.mltune("show", runs[0]["run"], "--json")
            return shown.code == 0 and shown.result.get("clocks", 0) > 0
        self.wait_until(look, "training to begin")


if __name__ == "__main__":
    unittest.main()
