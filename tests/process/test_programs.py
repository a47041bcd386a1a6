"""Programs of the user's own as what trains (docs/own-programs.md)."""
import json
import os
import shutil
import signal
import unittest

import harness

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


if __name__ == "__main__":
    unittest.main()
