"""Further metrics of a program, from its reports to all that shows them."""
import csv
import json
import os
import shutil
import subprocess
import sys

import harness
import test_log
import test_serve

sys.path.insert(0, str(harness.ROOT / "apps/python"))
from mltune import client as remote  # noqa: E402


class Values(harness.Case):
    NAMES = ["half", "grad/norm"]

    def setUp(self):
        super().setUp()
        shutil.copy(test_log.LINE, self.folder)

    def run_with(self, names, **members):
        done = self.run_config(
            {**test_log.line_config(values=names, say="quiet"), **members},
            "--json")
        self.assert_code(done, 0)
        return done.result["run"]

    def rows(self, run, name):
        folder = self.folder / f"{run}-csv"
        if not folder.exists():
            self.assert_code(
                self.mltune("export", run, "--format", "csv"), 0)
        with open(folder / name, newline="") as f:
            return list(csv.DictReader(f))

    def test_shown_and_exported(self):
        run = self.run_with(self.NAMES)
        points = self.rows(run, "progress.csv")
        for p in points:
            self.assertAlmostEqual(float(p["values/half"]),
                                   float(p["loss"]) / 2, places=12)
        self.assertTrue(any(p["values/grad/norm"] == "" for p in points))
        epochs = self.rows(run, "epochs.csv")
        for e in epochs:
            self.assertAlmostEqual(float(e["values/half"]),
                                   float(e["metric"]) / 2, places=12)
            self.assertEqual(e["values/grad/norm"], "")
        shown = self.mltune("show", run).out
        self.assertRegex(shown, r"values    half: training [\d.e-]+, "
                                r"validation [\d.e-]+, best epoch [\d.e-]+\n")
        self.assertRegex(shown, r"\n          grad/norm: training [\d.e-]+\n")
        one = json.loads(self.mltune("show", run, "--json").out)
        last = max(epochs, key=lambda e: (e["surviving"] == "true",
                                          int(e["epoch"])))
        self.assertAlmostEqual(one["values"][0]["validation"],
                               float(last["values/half"]), places=12)

    def test_several_processes_give_means(self):
        run = self.run_with(self.NAMES, cluster={"nodes": 2})
        for p in self.rows(run, "progress.csv"):
            self.assertAlmostEqual(float(p["values/half"]),
                                   float(p["loss"]) / 2, places=12)

    def test_more_than_a_run_may_have(self):
        """The first 16 are kept; it is said once."""
        run = self.run_with([f"m{i}" for i in range(16)])
        self.assertEqual(len(json.loads(self.mltune(
            "show", run, "--json").out)["values"]), 16)
        done = self.run_config(test_log.line_config(
            values=[f"m{i}" for i in range(17)]), "--json")
        self.assert_code(done, 1)
        self.assertIn("the program's `report` makes no sense: values: at most "
                      "16 metrics", done.err)
        for name in ("a,b", "../x", "x" * 33, "\u00e4"):
            done = self.run_config(test_log.line_config(values=[name]))
            self.assert_code(done, 1)
            self.assertIn("a name has 1 to 32", done.err)

    def test_without_them_nothing_is_written(self):
        run = self.run_with([])
        text = self.mltune("export", run, "--format", "jsonl", "--out",
                           "-").out
        self.assertIn('"windows"', text)
        self.assertNotIn('"values"', text)
        self.assertNotIn("values    ", self.mltune("show", run).out)


class Served(test_serve.Service):
    OPTIONS = ("--allow-programs",)

    def test_over_http_and_in_the_page(self):
        shutil.copy(test_log.LINE, self.folder)
        config = test_log.line_config(values=Values.NAMES, say="quiet")
        config["app"]["folder"] = str(self.folder)
        run = self.submit(config)
        self.wait_for_status(run, "finished")
        base = f"/api/v1/runs/{run}"
        curve = self.get(f"{base}/curve?value=half")["lineage"]
        loss = self.get(f"{base}/curve")["lineage"]
        self.assertNotIn("loss", curve)
        self.assertEqual(curve["clock"], loss["clock"])
        for half, whole in zip(curve["value"], loss["loss"]):
            self.assertAlmostEqual(half, whole / 2, places=9)
        none = self.get(f"{base}/curve?value=none", 404)
        self.assertEqual(none["code"], "value_not_found")
        self.assertIn('it has "half"', none["detail"])
        client = remote.Client("http://%s:%d/" % self.address).run(run)
        self.assertEqual(client.curve(value="half")["lineage"], curve)
        with self.assertRaisesRegex(remote.ClientError, 'it has "half"'):
            client.curve(value="nosuch")
        for e in self.get(f"{base}/epochs")["epochs"]:
            self.assertEqual(list(e["values"]), ["half"])
        host, port = self.address
        done = subprocess.run(
            ["node", str(harness.ROOT / "tests/browser/values.js"),
             f"http://{host}:{port}/", run,
             os.environ.get("MLTUNE_SHOTS", str(self.folder))],
            capture_output=True, text=True, timeout=300, env=self.env)
        self.assertEqual(done.returncode, 0, done.stderr)
