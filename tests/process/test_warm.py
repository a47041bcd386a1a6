"""Runs that begin with what earlier runs found: tuner.warm_start."""
import json
import signal

from harness import Case, endless_config, mlr_config
from test_resume import Journal

GEN_TEST = "gen:digits?samples=300&size=12"


def settings(records):
    return [r["setting"] for r in records if r["kind"] == "trial_started"]


class WarmStart(Case):
    def run_one(self, config, *words):
        self.write("config.json", config)
        done = self.mltune("run", "config.json", "--json", *words)
        self.assert_code(done, 0)
        return done.result

    def kept(self, run):
        """What the run's own configuration says by now."""
        path = self.folder / ".mltune/runs" / run / "config.json"
        return json.loads(path.read_text())["tuner"]["warm_start"]

    def test_second_run_begins_with_what_the_first_found(self):
        """The default, then what won; result, decision and show say so."""
        first = self.run_one(mlr_config())
        self.assertEqual(self.kept(first["run"]), "none")
        self.assertNotIn("warm_start", first["tuning"])
        won = [r for r in Journal(self.folder / ".mltune", first["run"]).records
               if r["kind"] == "search_ended"][0]["winner"]
        before = Journal(self.folder / ".mltune", first["run"]).of("trial_started")
        second = self.run_one(mlr_config(), "--set", "tuner.warm_start=auto")
        self.assertIn(first["run"], second["tuning"]["warm_start"])
        shown = self.mltune("show", second["run"])
        self.assertIn("what 1 earlier run found", shown.out)
        tried = settings(Journal(self.folder / ".mltune", second["run"]).records)
        self.assertEqual(tried[0], settings(before)[0])
        self.assertIn([r["setting"] for r in before if r["trial"] == won][0],
                      tried[:2])
        self.assert_nothing_left()

    def test_its_own_configuration_repeats_it(self):
        """Where lengths are given in clocks, whatever runs there are by then."""
        self.run_one(mlr_config())
        second = self.run_one(mlr_config(), "--set", "tuner.warm_start=auto")
        self.assertEqual(len(self.kept(second["run"])["runs"]), 1)
        config = json.loads((self.folder / ".mltune/runs" / second["run"] /
                             "config.json").read_text())
        again = self.run_one(config)
        for member in ("loss", "metric", "clocks", "setting"):
            self.assertEqual(again[member], second[member], member)

    def test_what_is_of_no_use_is_skipped_with_a_word(self):
        """Other tunables, other data, a damaged run: none fails the run."""
        other = mlr_config()
        other["tunables"]["spin"] = {"type": "float", "min": 0, "max": 1,
                                     "free": True}
        less = self.run_one(other)
        data = mlr_config()
        data["app"]["data"] = "gen:digits?samples=1500&size=12"
        self.run_one(data)
        result = self.run_one(mlr_config(), "--set", "tuner.warm_start=auto")
        kept = self.kept(result["run"])
        self.assertEqual(kept["runs"], [])
        self.assertEqual(kept["skipped"], [
            {"run": less["run"], "reason": "its tunables were others"}])
        said = [r["text"] for r in
                Journal(self.folder / ".mltune", result["run"]).of("decision")]
        self.assertTrue(any(less["run"] in t and "its tunables were others" in t
                            for t in said), said)

    def test_newer_runs_of_no_use_hide_none(self):
        """Whatever follows it, the run that searched is found."""
        first = self.run_one(mlr_config())
        for _ in range(6):
            self.run_one(mlr_config(max_epochs=1), "--no-tune")
        for _ in range(6):
            self.run_one(mlr_config(max_epochs=1), "--set",
                         'tuner.initial={"learning_rate": 0.01}')
        other = mlr_config(max_epochs=1)
        other["tunables"]["spin"] = {"type": "float", "min": 0, "max": 1,
                                     "free": True}
        for _ in range(6):
            self.run_one(other, "--set", "tuner.max_trials=1")
        result = self.run_one(mlr_config(), "--set", "tuner.warm_start=auto")
        kept = self.kept(result["run"])
        self.assertEqual([r["run"] for r in kept["runs"]], [first["run"]])
        self.assertEqual({r["reason"] for r in kept["skipped"]},
                         {"its tunables were others"})

    def test_another_folders_file_is_another_job(self):
        """Data that are the same anywhere, but test is from the folder."""
        config = mlr_config()
        config["app"]["test"] = "test"
        for name in ("here", "there"):
            (self.folder / name).mkdir()
            self.assert_code(self.mltune("data", "gen", GEN_TEST,
                                         f"{name}/test"), 0)
            self.write(f"{name}/config.json", config)
        found = {}
        for name in ("here", "there", "here"):
            done = self.mltune("run", f"{name}/config.json", "--json", "--set",
                               "tuner.warm_start=auto")
            self.assert_code(done, 0)
            found[name] = [r["run"] for r in
                           self.kept(done.result["run"])["runs"]]
        self.assertEqual(found["there"], [])
        self.assertEqual(len(found["here"]), 1)

    def test_resumed_run_knows_the_same(self):
        """Killed and resumed, it begins with what it began with."""
        config = endless_config()
        self.run_one({**config, "name": "first", "stop": {"max_epochs": 2}})
        config["tuner"]["warm_start"] = "auto"
        config["stop"]["max_epochs"] = 40
        self.write("config.json", config)
        process = self.start("run", "config.json", "--json")
        self.wait_for_training()
        process.send_signal(signal.SIGINT)
        done = self.finish(process)
        self.assert_code(done, 130)
        run = done.result["run"]
        kept = self.kept(run)
        self.assertEqual(len(kept["runs"]), 1)
        done = self.mltune("resume", run, "--json")
        self.assert_code(done, 0)
        self.assertEqual(self.kept(run), kept)
        self.assertIn("what 1 earlier run found",
                      done.result["tuning"]["warm_start"])

    def test_a_mistake_in_it_is_told(self):
        """With its place; unknown words are refused."""
        for value, word in (("often", "auto"), ({"runs": 3}, "a list of runs"),
                            ({"runs": [{"run": "a"}]}, "runs with their trials")):
            config = mlr_config()
            config["tuner"]["warm_start"] = value
            self.write("config.json", config)
            done = self.mltune("validate", "config.json")
            self.assertEqual(done.code, 78)
            self.assertIn("/tuner/warm_start", done.err + done.out)
            self.assertIn(word, done.err + done.out)
