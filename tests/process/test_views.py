"""Every view and dialog of the page: axe-core, a phone, screenshots
(tests/browser/views.js)."""
import os
import subprocess

from harness import ROOT, RATE
import test_serve


def job(name, **stop):
    """Two nodes, so that there is something to see of a cluster."""
    return {"name": name, "seed": 3,
            "app": {"name": "mlr", "data": "gen:digits?samples=20000&size=16"},
            "cluster": {"nodes": 2, "workers": 1},
            "ps": {"consistency": "ssp"},
            "tunables": {
                "learning_rate": RATE,
                "momentum": {"type": "float", "min": 0, "max": 0.99,
                             "default": 0.9},
                "batch_size": {"type": "int", "values": [16, 64, 256],
                               "default": 64},
                "staleness": {"type": "int", "values": [0, 1, 3, 7],
                              "default": 0}},
            "tuner": {"searcher": "tpe", "max_trials": 16},
            "memory": {"limit": "256MiB"}, "stop": stop}


class Views(test_serve.Service):
    OPTIONS = ("--data", ".")

    def test_every_view_is_for_all(self):
        ended = self.submit(job("digits", max_epochs=40, plateau_epochs=100))
        failed = self.submit({"name": "no data",
                              "app": {"name": "mlr", "data": "nowhere.csv"},
                              "cluster": {"workers": 1}})
        self.wait_for_status(ended, "finished")
        self.wait_for_status(failed, "failed")
        live = self.submit(job("digits again", max_epochs=1000000,
                               plateau_epochs=1000000))
        self.wait_until(lambda: self.run_now(live)["epochs"] > 2, "epochs", 60)
        self.command(live, "pause", 202)
        self.wait_for_status(live, "paused")
        host, port = self.address
        words = [f"http://{host}:{port}/", self.token, live, ended, failed]
        if "MLTUNE_SHOTS" in os.environ:
            words.append(os.environ["MLTUNE_SHOTS"])
        done = subprocess.run(
            ["node", str(ROOT / "tests/browser/views.js"), *words],
            capture_output=True, text=True, timeout=1800, env=self.env)
        self.assertEqual(done.returncode, 0, done.stderr)


class TwoAtOnce(test_serve.Service):
    OPTIONS = ("--slots", "2", "--workers", "2")

    def test_each_page_shows_its_own_run(self):
        words = []
        for name, rate in (("first", 0.05), ("second", 0.02)):
            run = self.submit({
                "name": name, "app": {"name": "mlr", "data":
                                      "gen:digits?samples=20000&size=16"},
                "cluster": {"workers": 1},
                "tuner": {"strategy": "fixed",
                          "initial": {"learning_rate": rate}},
                "memory": {"limit": "128MiB"},
                "stop": {"max_epochs": 1000000, "plateau_epochs": 1000000}})
            words += [name, run]
        for run in words[1::2]:
            self.wait_until(lambda run=run: self.run_now(run)["epochs"] > 1,
                            "both train", 60)
        host, port = self.address
        done = subprocess.run(
            ["node", str(ROOT / "tests/browser/two.js"),
             f"http://{host}:{port}/", self.token, *words],
            capture_output=True, text=True, timeout=300, env=self.env)
        self.assertEqual(done.returncode, 0, done.stderr)
