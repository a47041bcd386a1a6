"""`mltune save`: a model from a snapshot, whatever became of the run."""
import hashlib
import json
import os
import pathlib
import shutil
import signal

from harness import RATE, Case, endless_config, mf_config, mlr_config
from test_resume import Journal


def endless(config):
    config["name"] = "endless"
    config["stop"] = {"max_epochs": 1000000, "plateau_epochs": 1000000}
    return config


def files_of(folder):
    folder = pathlib.Path(folder)
    return {str(p.relative_to(folder)):
            hashlib.sha256(p.read_bytes()).hexdigest()
            for p in sorted(folder.rglob("*")) if p.is_file()}


class Save(Case):
    def wait_for_epochs(self):
        def trained():
            done = self.mltune("show", "endless", "--json")
            return done.code == 0 and done.result["epochs"] >= 2
        self.wait_until(trained, "two epochs")

    def stopped(self, config):
        """A run that was stopped: its last snapshot and its model are of one
        moment. The result."""
        self.write("config.json", config)
        process = self.start("run", "config.json", "--json")
        self.wait_for_epochs()
        self.assert_code(self.mltune("stop", "endless"), 0)
        done = self.finish(process)
        self.assert_code(done, 0)
        return done.result

    def check_same(self, config):
        result = self.stopped(config)
        modes = {p.stat().st_mode for p in pathlib.Path(
            result["model"]).iterdir()}
        self.assertEqual(len(modes), 1, "one may be read, another not")
        done = self.mltune("save", "endless", "--out", "saved", "--json")
        self.assert_code(done, 0)
        self.assertEqual(done.result["epoch"], result["best"]["epoch"])
        self.assertEqual(done.result["run"], result["run"])
        self.assertEqual(files_of("%s/saved" % self.folder),
                         files_of(result["model"]))
        again = self.mltune("save", "endless", "--out", "saved")
        self.assert_code(again, 0)  # over an earlier model
        self.assertIn(f"run {result['run']}", again.out)
        self.assert_nothing_left()
        return result

    def test_model_is_the_runs_own(self):
        """The same files, byte for byte; and it can be evaluated."""
        self.check_same(endless_config())
        self.assert_code(
            self.mltune("eval", "saved", "gen:digits?samples=100&size=28"), 0)

    def test_what_the_application_adds_is_there(self):
        """mf writes the names of its rows; two nodes, two workers each."""
        config = endless(mf_config())
        config["cluster"] = {"nodes": 2, "workers": 2}
        self.check_same(config)

    def check_without(self, app, *files):
        """A run whose data are gone: its model can be made all the same, and is
        its own."""
        config = endless(mlr_config())
        config["app"] = app
        config["tunables"] = {"learning_rate": RATE}
        config["cluster"] = {"nodes": 2, "workers": 2}
        result = self.stopped(config)
        for file in files:
            (self.folder / file).unlink()
        self.assert_code(self.mltune("save", "endless", "--out", "saved"), 0)
        self.assertEqual(files_of("%s/saved" % self.folder),
                         files_of(result["model"]))
        modes = {p.stat().st_mode for p in (self.folder / "saved").iterdir()}
        self.assertEqual(len(modes), 1, "one may be read, another not")
        self.assert_nothing_left()

    def test_table_is_gone(self):
        """Of a table the columns, categories and classes are in the model."""
        rows = "".join(f"{i % 7},{'abc'[i % 3]},{'yn'[i % 2]}\n"
                       for i in range(2000))
        for name in "mlr", "nn":
            self.write("table.csv", "size,colour,sold\n" + rows)
            app = {"name": name, "data": "table.csv", "test_fraction": 0.1}
            if name == "nn":
                app["layers"] = [{"type": "dense", "units": 8}]
            self.check_without(app, "table.csv")
            shutil.rmtree(self.folder / ".mltune")

    def test_ratings_are_gone(self):
        """Of ratings the names of users and items are."""
        self.assert_code(self.mltune(
            "data", "gen", "gen:ratings?users=300&items=200&ratings=10000",
            "ratings.txt"), 0)
        self.check_without({"name": "mf", "rank": 8, "clock": 10,
                            "test_fraction": 0.1, "data": "ratings.txt"},
                           "ratings.txt")

    def test_documents_are_gone(self):
        """Of documents the vocabulary is, by which topics have their words."""
        self.assert_code(self.mltune(
            "data", "gen", "gen:bow?docs=150&words=60&tokens=6000&topics=4",
            "docs.txt"), 0)
        self.write("words.txt", "".join(f"word{i}\n" for i in range(60)))
        self.check_without({"name": "lda", "data": "docs.txt", "topics": 4,
                            "vocab": "words.txt", "clock": 5},
                           "docs.txt", "words.txt")

    def test_a_first_search_has_no_model(self):
        """Its trials alone are trained: it says so, and writes nothing."""
        config = endless_config()
        config["tuner"]["trial_clocks"] = 200
        self.write("config.json", config)
        process = self.start("run", "config.json", "--json")
        self.wait_for_training()
        process.send_signal(signal.SIGINT)
        done = self.finish(process)
        self.assert_code(done, 130)
        saved = self.mltune("save", "endless", "--out", "saved")
        if done.result["epochs"] == 0:
            self.assert_code(saved, 1)
            self.assertIn("first search", saved.err)
            self.assertFalse((self.folder / "saved").exists())

    def interrupted(self):
        config = endless_config()
        config["snapshot"] = {"every": 0.2}
        self.write("config.json", config)
        process = self.start("run", "config.json", "--json")
        self.wait_for_epochs()
        folder = self.folder / ".mltune" / "runs"

        def two():
            return len([p for p in folder.glob("*/snapshots/0*")
                        if p.name.isdigit()]) >= 2
        self.wait_until(two, "two snapshots")
        process.send_signal(signal.SIGINT)
        done = self.finish(process)
        self.assert_code(done, 130)
        return done.result["run"]

    def test_model_of_the_middle_of_an_epoch_says_whose_it_is(self):
        """The last epoch that had been judged before it: number, loss, and
        setting."""
        run = self.interrupted()
        done = self.mltune("save", run, "--from", "last", "--json")
        self.assert_code(done, 0)
        losses = {e["epoch"]: e["loss"]
                  for e in Journal(self.folder / ".mltune", run).of(
                      "epoch_ended") if e["surviving"]}
        self.assertEqual(done.result["loss"], losses[done.result["epoch"]])
        model = json.loads(
            (pathlib.Path(done.result["model"]) / "model.json").read_text())
        self.assertEqual(model["epoch"], done.result["epoch"])
        self.assertEqual(model["loss"], done.result["loss"])
        self.assertIn("learning_rate", model["setting"])

    def test_damaged_snapshot_is_passed_over(self):
        """The newest is damaged: it says so, and takes the one before; where
        none is left it says that."""
        run = self.interrupted()
        state = self.folder / ".mltune"
        other = self.folder / f"{run}-model.tmp"  # another's, at the same
        other.mkdir()
        (other / "file").write_text("")
        whole = self.mltune("save", run, "--from", "last", "--json")
        self.assert_code(whole, 0)
        self.assertTrue((other / "file").exists())
        shutil.rmtree(other)
        self.assertEqual(whole.result["model"],
                         str(self.folder / f"{run}-model"))
        newest = pathlib.Path(whole.result["snapshot"])
        shards = list(newest.rglob("shard-*"))
        for shard in shards:
            with open(shard, "r+b") as f:
                f.seek(200)
                f.write(b"damage" * 20)
        done = self.mltune("save", run, "--from", "last", "--json", "--out",
                           "older")
        self.assert_code(done, 0)
        self.assertIn("cannot be used", done.err)
        self.assertIn(newest.name, done.err)
        self.assertLess(done.result["snapshot"], str(newest))
        shutil.rmtree(state / "runs" / run / "snapshots")
        done = self.mltune("save", run, "--out", "none")
        self.assert_code(done, 1)
        self.assertIn("no snapshot that can be read", done.err)
        self.assertFalse((self.folder / "none").exists())
        self.assert_nothing_left()

    def test_a_damaged_best_costs_no_model(self):
        """What all snapshots share is damaged, the best model: what was
        trained last is taken, and it says so."""
        run = self.interrupted()
        best = self.mltune("save", run, "--json")
        self.assert_code(best, 0)
        folder = pathlib.Path(best.result["snapshot"])
        self.assertTrue(folder.name.endswith("-best"), folder)
        for shard in folder.rglob("shard-*"):
            with open(shard, "r+b") as f:
                f.seek(200)
                byte = f.read(1)
                f.seek(200)
                f.write(bytes([byte[0] ^ 1]))
        done = self.mltune("save", run, "--json", "--out", "last")
        self.assert_code(done, 0)
        self.assertIn("the best model cannot be used", done.err)
        self.assertIn(folder.name, done.err)
        self.assertFalse(done.result["snapshot"].endswith("-best"))
        self.assertGreaterEqual(done.result["epoch"], best.result["epoch"])
        self.assert_nothing_left()

    def test_before_the_first_snapshot_it_says_how_to_get_one(self):
        """While it trains, and after it was killed."""
        config = endless_config()
        config["tuner"] = {"strategy": "fixed"}
        self.write("config.json", config)
        process = self.start("run", "config.json", "-q")
        self.wait_for_epochs()
        run = self.mltune("show", "endless", "--json").result["run"]
        early = self.mltune("save", "endless", "--out", "saved")
        self.assert_code(early, 1)
        self.assertIn(f"has no snapshot yet; mltune snapshot {run} writes one",
                      early.err)
        process.kill()
        self.finish(process)
        late = self.mltune("save", "endless", "--out", "saved")
        self.assert_code(late, 1)
        self.assertIn("it ended before the first one was written; mltune "
                      f"resume {run}\n", late.err)
        self.assertFalse((self.folder / "saved").exists())

    def test_refusals_name_what_is_wrong(self):
        """No run, no snapshot, something else in the way, a wrong word."""
        run = self.interrupted()
        self.assert_code(self.mltune("save", "nobody"), 2)
        wrong = self.mltune("save", run, "--from", "first")
        self.assert_code(wrong, 2)
        self.assertIn("best or last", wrong.err)
        (self.folder / "mine").mkdir()
        (self.folder / "mine" / "file").write_text("mine")
        refused = self.mltune("save", run, "--out", "mine")
        self.assert_code(refused, 2)
        self.assertIn("is no model", refused.err)
        self.assertEqual(os.listdir(self.folder / "mine"), ["file"])
        self.assert_code(self.run_config({"name": "lost", "app": {
            "command": ["false"]}}), 1)
        failed = self.mltune("save", "lost")
        self.assert_code(failed, 1)
        self.assertIn("has no snapshot: it ended before the first one was "
                      "written\n", failed.err)  # and cannot go on
