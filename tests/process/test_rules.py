"""Update rules of users' own (mltune/rule.h; docs/algorithms.md)."""
import pathlib
import shutil
import signal
import subprocess
import unittest

import numpy

import harness

RULE = """
    #include <mltune/rule.h>
    static void apply(const struct mlt_rule_batch *b, void *arg)
    {
        (void)arg;
        for (size_t i = 0; i < b->rows; i++)
            for (uint32_t j = 0; j < b->width; j++)
                b->row[i][j] -= b->learning_rate * b->sum[i][j];
    }
    MLT_API const struct mlt_rule_ops %s = {.version = %s, .name = "%s",
        .summary = "plain descent", .uses = MLT_RULE_LEARNING_RATE,
        .apply = apply};
    """


class Rules(harness.Case):
    def build(self, symbol="mltune_rule", version="MLT_RULE_VERSION",
              name="mine"):
        self.write("r.c", RULE % (symbol, version, name))
        subprocess.run(["gcc", "-O2", "-shared", "-fPIC", "-o",
                        self.folder / "mine.so", "r.c",
                        f"-I{harness.ROOT / 'include'}"], check=True,
                       cwd=self.folder)

    def config(self, rule, workers=2, nodes=1, rate=0.05):
        return {"app": {"name": "mlr",
                        "data": "gen:digits?samples=400&size=8"},
                "ps": {"update_rule": rule},
                "cluster": {"workers": workers, "nodes": nodes},
                "tunables": {"learning_rate": {"fixed": rate}},
                "stop": {"max_epochs": 3}, "seed": 5}

    def model(self, config):
        done = self.run_config(config, "--json")
        self.assert_code(done, 0)
        folder = pathlib.Path(done.result["model"])
        return {file.name: numpy.load(file)
                for file in sorted(folder.glob("*.npy"))}

    def refused(self, config, *words):
        done = self.run_config(config)
        self.assert_code(done, 78)
        for word in words:
            self.assertIn(word, done.err)
        self.assertFalse((self.folder / ".mltune").exists())

    def test_the_example_trains_and_its_rate_is_tuned(self):
        shutil.copy(harness.BUILD / "rule_plugins/rule_lion.so", self.folder)
        config = self.config({"plugin": "rule_lion.so"})
        config["tunables"] = {"learning_rate": {"type": "float", "scale": "log",
                                                "min": 1e-3, "max": 1e-2}}
        config["tuner"] = {"searcher": "random", "trial_clocks": 8,
                           "max_trials": 4}
        config["stop"]["max_epochs"] = 12
        self.write("config.json", config)
        done = self.mltune("run", "config.json", "--dry-run")
        self.assert_code(done, 0)
        self.assertIn("rule lion of your own: steps of one size", done.out)
        done = self.run_config(config, "--json")
        self.assert_code(done, 0)
        self.assertEqual(done.result["status"], "finished")
        self.assertGreater(done.result["metric"], 0.5)  # chance: 0.1
        config["tunables"]["momentum"] = {"values": [0, 0.9]}
        self.write("config.json", config)
        done = self.mltune("validate", "config.json")
        self.assert_code(done, 0)
        self.assertIn("/tunables/momentum: cannot act under update rule lion",
                      done.err)

    def test_branches_of_two_nodes_have_rules_of_their_own(self):
        config = self.config("sgd", workers=1, nodes=2)
        config["tunables"] = {"learning_rate": {"fixed": 0.05},
                              "weight_decay": {"fixed": 0.01},
                              "update_rule": {"values": ["nesterov", "adam"]}}
        config["tuner"] = {"trial_clocks": 8, "max_trials": 2}
        done = self.run_config(config, "--json")
        self.assert_code(done, 0)
        self.assertEqual(done.result["status"], "finished")
        self.assertIn(done.result["setting"]["update_rule"],
                      ("nesterov", "adam"))
        run = pathlib.Path(done.result["model"]).parent.name
        self.assert_code(self.mltune("save", run, "--out", "saved"), 0)
        self.assertTrue(list((self.folder / "saved").glob("*.npy")))

    def test_its_model_is_that_of_the_same_rule_built_in(self):
        """Momentum 0: the built-in one is plain descent too. On two nodes each
        applies it to its own rows."""
        self.build()
        want = self.model(self.config("sgd"))
        for nodes, workers in ((1, 2), (2, 1)):
            got = self.model(self.config({"plugin": "mine.so"}, workers, nodes))
            self.assertEqual(want.keys(), got.keys())
            for name, values in want.items():
                numpy.testing.assert_allclose(got[name], values, rtol=1e-5,
                                              atol=1e-6)

    def test_a_snapshot_is_saved_without_the_object(self):
        """And a resume says what it lacks, and goes on once it is back."""
        self.build()
        config = self.config({"plugin": "mine.so"})
        config["name"] = "endless"
        config["stop"] = {"max_epochs": 1000000, "plateau_epochs": 1000000}
        self.write("config.json", config)
        process = self.start("run", "config.json")
        self.wait_for_training()
        process.send_signal(signal.SIGTERM)
        self.assert_code(self.finish(process), 143)
        there, away = self.folder / "mine.so", self.folder / "away"
        there.rename(away)
        done = self.mltune("save", "endless", "--out", "model")
        self.assert_code(done, 0)
        self.assertTrue(list((self.folder / "model").glob("*.npy")))
        done = self.mltune("resume", "endless")
        self.assertIn(done.code, (75, 78))
        self.assertIn("mine.so", done.err)
        away.rename(there)
        process = self.start("resume", "endless", "--json")
        self.wait_until(lambda: self.mltune(
            "show", "endless", "--json").result["status"] == "training",
            "training to go on")
        self.assert_code(self.mltune("stop", "endless"), 0)
        done = self.finish(process)
        self.assert_code(done, 0)
        self.assertEqual(done.result["status"], "stopped")

    def test_what_is_no_rule_is_refused(self):
        self.refused(self.config({"plugin": "none.so"}),
                     "/ps/update_rule/plugin", "a shared object that is there")
        self.build(symbol="mine")
        self.refused(self.config({"plugin": "mine.so"}),
                     "has no symbol mltune_rule")
        self.build(version="77")
        self.refused(self.config({"plugin": "mine.so"}),
                     "was built for version 77", "build it again")
        self.build(name="adam")
        self.refused(self.config({"plugin": "mine.so"}),
                     "a built-in rule is called adam already")
        self.refused(self.config({"plugins": "mine.so"}), "/ps/update_rule")


if __name__ == "__main__":
    unittest.main()
