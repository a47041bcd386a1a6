"""Consistency models of users' own (mltune/model.h; docs/cluster.md)."""
import shutil
import subprocess
import unittest

import harness

HEAD = """
    #include <mltune/model.h>
    static int may(const struct mlt_model_view *v, void *arg)
        { (void)arg; return %s; }
    MLT_API const struct mlt_model_ops %s = {.version = %s,
        .name = "mine", .summary = "mine", .may_%s = may};
    """


class Models(harness.Case):
    def build(self, holds, symbol="mltune_model", version="MLT_MODEL_VERSION",
              asked="read"):
        self.write("m.c", HEAD % (holds, symbol, version, asked))
        subprocess.run(["gcc", "-shared", "-fPIC", "-o",
                        self.folder / "mine.so", "m.c",
                        f"-I{harness.ROOT / 'include'}"], check=True,
                       cwd=self.folder)

    def config(self, plugin, workers=3, nodes=1, **tuner):
        return {"app": {"name": "mlr",
                        "data": "gen:digits?samples=400&size=8"},
                "ps": {"consistency": {"plugin": plugin}},
                "cluster": {"workers": workers, "nodes": nodes},
                "tuner": {"searcher": "random", "trial_clocks": 8,
                          "max_trials": 3, **tuner},
                "stop": {"max_epochs": 3}, "seed": 5}

    def refused(self, config, *words):
        done = self.run_config(config)
        self.assert_code(done, 78)
        for word in words:
            self.assertIn(word, done.err)
        self.assertFalse((self.folder / ".mltune").exists())

    def test_the_example_trains_and_its_staleness_is_tuned(self):
        shutil.copy(harness.BUILD / "model_plugins/model_median.so",
                    self.folder)
        config = self.config("model_median.so")
        config["tunables"] = {"learning_rate": harness.RATE,
                              "staleness": {"values": [0, 1, 3]}}
        self.write("config.json", config)
        done = self.mltune("run", "config.json", "--dry-run")
        self.assert_code(done, 0)
        self.assertIn("consistency median, a model of your own: reads may lag",
                      done.out)
        done = self.run_config(config, "--json")
        self.assert_code(done, 0)
        self.assertEqual(done.result["status"], "finished")
        self.assertIn(done.result["setting"]["staleness"], (0, 1, 3))
        config["tunables"]["k"] = {"values": [1, 2]}
        self.write("config.json", config)
        done = self.mltune("validate", "config.json")
        self.assert_code(done, 0)
        self.assertIn("/tunables/k: cannot act under consistency median", done.err)

    def test_a_predicate_that_never_holds_is_named(self):
        """Found in the run, though all its workers wait: not a hang."""
        self.build("v->worker[v->self].clock < 0")
        done = self.run_config(self.config("mine.so"))
        self.assertNotEqual(done.code, 0)
        self.assertIn("consistency model mine lets nobody go on: worker",
                      done.err)
        self.assert_nothing_left()

    def test_what_is_no_model_is_refused(self):
        self.refused(self.config("none.so"), "/ps/consistency/plugin",
                     "a shared object that is there")
        self.build("1", symbol="mine")
        self.refused(self.config("mine.so"), "has no symbol mltune_model")
        self.build("1", version="77")
        self.refused(self.config("mine.so"), "was built for version 77",
                     "build it again")
        self.build("1")
        self.refused(self.config("mine.so", nodes=2),
                     "acts in one process")
        config = self.config("mine.so")
        config["ps"]["consistency"]["barrier"] = {"k": 2}
        self.refused(config, "/ps/consistency")


if __name__ == "__main__":
    unittest.main()
