"""Programs of the user's own as what trains (docs/own-programs.md)."""
import json
import os
import shutil
import signal
import unittest

import harness
import test_serve

LINE = harness.ROOT / "tests/process/fixtures/programs/line.py"
PYTHON = os.environ.get("PYTHON", "/usr/bin/python3")


class Programs(harness.Case):
    def setUp(self):
        super().setUp()
        shutil.copy(LINE, self.folder / "line.py")

    def config(self, *words, app=None, **members):
        words = [w if isinstance(w, str) else
                 f"{w[0]}={json.dumps(w[1])}" for w in words]
        return {"app": {"command": [PYTHON, "line.py", *words], **(app or {})},
                "tunables": {"learning_rate": harness.RATE,
                             "batch_size": {"values": [8, 32]}},
                "tuner": {"searcher": "random", "trial_clocks": 8},
                "stop": {"max_epochs": 6}, "seed": 7, **members}

    def result(self, config, *words):
        done = self.run_config(config, "--json", *words)
        self.assert_code(done, 0)
        return done.result

    def seen(self, name="seen.json"):
        return json.loads((self.folder / name).read_text())


class Start(Programs):
    def test_program_trains(self):
        """Its line is fitted, its model saved, its words in the log."""
        result = self.result(self.config())
        self.assertEqual(result["status"], "finished")
        self.assertLess(result["metric"], 0.1)
        model = json.loads(
            (self.folder / result["model"] / "line-0.json").read_text())
        self.assertAlmostEqual(model["a"], 3, delta=0.5)
        about = json.loads(
            (self.folder / result["model"] / "model.json").read_text())
        self.assertEqual(about["app"], "line")
        log = self.folder / ".mltune/runs" / result["run"] / "node-0.log"
        self.assertIn("a line's program", log.read_text())
        self.assertTrue(result["run"].startswith("line-"))
        self.assert_nothing_left()

    def test_program_has_its_own_arguments_and_environment(self):
        (self.folder / "work").mkdir()
        shutil.copy(LINE, self.folder / "work/line.py")
        self.env["MLTUNE_TOKEN"] = "secret" * 8
        self.env["MLTUNE_MEET"] = "/of/another/run"
        result = self.result(self.config(
            ("seen", "../seen.json"), "other=1",
            app={"folder": "work", "settings": {"layers": [1, 2]}}))
        seen = self.seen()
        self.assertEqual(seen["argv"], ['seen="../seen.json"', "other=1"])
        self.assertEqual(seen["folder"], str((self.folder / "work").resolve()))
        self.assertEqual(seen["app"]["settings"], {"layers": [1, 2]})
        self.assertEqual(seen["env"]["MLTUNE_RUN"], result["run"])
        self.assertEqual(seen["env"]["MLTUNE_NODES"], "1")
        self.assertEqual(seen["env"]["PYTHONUNBUFFERED"], "1")
        for name in ("MLTUNE_TOKEN", "MLTUNE_MEET", "RANK", "WORLD_SIZE"):
            self.assertNotIn(name, seen["env"])
        self.assertNotIn("ps", seen["config"])

    def test_program_behind_a_script(self):
        """A script that starts it without exec is no stranger."""
        path = self.write("run.sh", f'#!/bin/sh\n{PYTHON} line.py "$@"\ntrue\n')
        path.chmod(0o700)
        config = self.config()
        config["app"] = {"command": ["./run.sh", 'seen="seen.json"']}
        result = self.result(config)
        self.assertTrue(result["run"].startswith("run-"))
        self.assert_nothing_left()

    def test_several_processes(self):
        result = self.result(self.config(cluster={"nodes": 2}))
        self.assertEqual(result["status"], "finished")
        for node in (0, 1):
            self.assertTrue((self.folder / result["model"] /
                             f"line-{node}.json").exists())
        self.assert_nothing_left()

    def test_resume_after_an_interrupt(self):
        config = self.config(stop={"max_epochs": 100000,
                                   "plateau_epochs": 100000})
        config["name"] = "endless"
        self.write("config.json", config)
        tuner = self.start("run", "config.json", "--json")
        self.wait_for_training()
        tuner.send_signal(signal.SIGINT)
        done = self.finish(tuner)
        self.assert_code(done, 130)
        done = self.mltune("resume", "endless", "--set", "stop.max_epochs=9",
                           "--json")
        self.assertIn(done.code, (0, 2), done.err)
        self.assert_nothing_left()

    def test_plan_shows_the_command(self):
        done = self.run_config(self.config(), "--dry-run")
        self.assert_code(done, 0)
        self.assertIn(f"command {PYTHON} line.py", done.out)
        self.assertNotIn("rule", done.out)

    def test_eval_is_the_programs_own(self):
        result = self.result(self.config())
        done = self.mltune("eval", result["model"], "data")
        self.assert_code(done, 78)
        self.assertIn("a program of your own, line", done.err)


class Tunables(Programs):
    """Those of the configuration beside those of the program."""

    KIND = {"type": "categorical", "values": ["adam", "sgd", 'a "b", c'],
            "default": "sgd"}

    def settings(self):
        lines = (self.folder / "settings-0.jsonl").read_text().splitlines()
        return [s for s in map(json.loads, lines) if s]

    def test_those_that_the_program_lacks_are_pinned_and_told(self):
        config = self.config(
            ("tunables", ["learning_rate", "kind", "width", "depth"]),
            tunables={"learning_rate": harness.RATE, "kind": self.KIND,
                      "dropout": {"type": "float", "min": 0, "max": 0.6,
                                  "default": 0.1},
                      "momentum": {}, "lost": {"type": "int", "fixed": 3}})
        done = self.run_config(config, "--json")
        self.assert_code(done, 0)
        self.assertIn("does not name dropout, momentum, lost, which", done.err)
        self.assertIn("also has width, depth, which", done.err)
        seen = self.settings()
        self.assertEqual({s["dropout"] for s in seen}, {0.1})
        self.assertEqual({s["momentum"] for s in seen}, {0.9})
        self.assertEqual({s["lost"] for s in seen}, {3})
        self.assertGreater(len({s["learning_rate"] for s in seen}), 2)
        run = done.result["run"]
        shown = self.mltune("show", run).out
        self.assertIn("does not name dropout", shown)
        log = (self.folder / ".mltune/runs" / run / "log").read_text()
        self.assertIn("also has width", log)

    def test_nothing_listed_is_rate_and_batch(self):
        config = self.config()
        del config["tunables"]
        done = self.run_config(config, "--json")
        self.assert_code(done, 0)
        self.assertEqual(done.err, "")
        self.assertEqual(sorted(done.result["setting"]),
                         ["batch_size", "learning_rate"])

    def test_texts_go_the_whole_way(self):
        config = self.config(
            ("tunables", ["learning_rate", "kind", "extra"]),
            tunables={"learning_rate": harness.RATE, "kind": self.KIND,
                      "extra": {"type": "int", "min": 1, "max": 4,
                                "default": 2,
                                "when": {"kind": ["adam"]}}})
        config["tuner"]["max_trials"] = 12
        result = self.result(config)
        seen = self.settings()
        self.assertEqual({s["kind"] for s in seen}, set(self.KIND["values"]))
        self.assertIn(result["setting"]["kind"], self.KIND["values"])
        trials = self.mltune("trials", result["run"], "--json")
        self.assert_code(trials, 0)
        self.assertIn('a \\"b\\", c', trials.out)
        for form in ("csv", "jsonl", "tensorboard", "mlflow",
                     "optuna-journal"):
            done = self.mltune("export", result["run"], "--format", form,
                               "-o", f"out-{form}")
            self.assert_code(done, 0)
        table = (self.folder / "out-csv/trials.csv").read_text()
        self.assertIn('"a ""b"", c"', table)


class Refused(Programs):
    def test_validate_says_what_is_wrong(self):
        config = self.config()
        config["app"]["command"][0] = "no-such-python"
        config["app"]["setings"] = {}
        self.write("config.json", config)
        done = self.mltune("validate", "config.json")
        self.assert_code(done, 78)
        self.assertIn("/app/setings", done.err)
        config["app"].pop("setings")
        self.write("config.json", config)
        done = self.mltune("validate", "config.json")
        self.assert_code(done, 78)
        self.assertIn("/app/command/0", done.err)
        self.assertIn("a program in PATH", done.err)


class OverHttp(test_serve.Service):
    """A token is to train models with, not to run programs with."""

    def config(self, *command):
        return {"app": {"command": [PYTHON, *command]},
                "tuner": {"searcher": "random", "trial_clocks": 8},
                "stop": {"max_epochs": 3}}

    def test_programs_are_forbidden(self):
        for app, pointer in (({"command": ["touch", "ran"]}, "/app/command"),
                             ({"plugin": "libmine.so"}, "/app/plugin")):
            answer = self.submit({"app": app}, status=403)
            self.assertEqual(answer["code"], "programs_not_allowed")
            self.assertEqual(answer["errors"][0]["pointer"], pointer)
            self.assertIn("--allow-programs", answer["detail"])
            code, _, answer = self.ask("POST", "/api/v1/runs:validate",
                                       {"app": app})
            self.assertEqual((code, answer["valid"]), (200, False))
        self.assertFalse((self.folder / "ran").exists())
        self.assertEqual(self.get("/api/v1/runs")["runs"], [])

    def test_programs_that_are_allowed_train(self):
        self.end()
        shutil.copy(LINE, self.folder / "line.py")
        self.launch("--allow-programs")
        run = self.submit(self.config("line.py"))
        now = self.wait_for_status(run, "finished")
        self.assertEqual(now["job"]["app"], "line")


if __name__ == "__main__":
    unittest.main()
