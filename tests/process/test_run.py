"""`mltune run` as a user meets it: results, errors, exit codes."""
import json
import math
import os
import pty
import random
import re
import resource
import select
import signal
import socket
import sqlite3
import time
import unittest

from harness import (RESULT_MEMBERS, Case, endless_config, mf_config,
                     mlr_config)


def limit_files(size):
    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
    return limit


class WholeRun(Case):
    def test_the_given_configuration_is_kept(self):
        """With what was set on the command line, without defaults."""
        config = mlr_config()
        done = self.run_config(config, "--no-tune", "--json", "--set",
                               "stop.max_epochs=1")
        self.assert_code(done, 0)
        kept = (self.folder / ".mltune/runs" / done.result["run"] /
                "given.json").read_text()
        config["stop"]["max_epochs"] = 1
        self.assertEqual(json.loads(kept), config)

    def check_result(self, done, app):
        self.assert_code(done, 0)
        result = done.result
        for member in RESULT_MEMBERS:
            self.assertIn(member, result)
        self.assertEqual(result["status"], "finished")
        self.assertRegex(result["run"], "^[a-z0-9-]{1,64}$")
        self.assertTrue(math.isfinite(result["loss"]))
        self.assertTrue(math.isfinite(result["metric"]))
        self.assertGreaterEqual(result["epochs"], 1)
        self.assertGreater(result["clocks"], 0)
        self.assertGreater(result["seconds"], 0)
        self.assertGreaterEqual(result["tuning"]["trials"], 2)
        self.assertEqual(result["tuning"]["searches"] >= 1, True)
        self.assertIn("learning_rate", result["setting"])
        self.assertEqual(result["schedule"][-1]["setting"],
                         result["setting"])
        self.assertEqual(result["seed"], 7)
        self.assertTrue(result["url"].startswith("http://127.0.0.1:"))
        best = result["best"]
        self.assertLessEqual(best["epoch"], result["epochs"])
        model = json.loads(
            (self.folder / result["model"] / "model.json").read_text())
        self.assertEqual(model["app"], app)
        return result

    def check_eval(self, result, data):
        done = self.mltune("eval", result["model"], data, "--json")
        self.assert_code(done, 0)
        self.assertTrue(math.isfinite(done.result["loss"]))
        return done.result

    def read_tables(self, model):
        """Every table of the model, by NumPy."""
        import numpy
        tables = {p.stem: numpy.load(p, allow_pickle=False)
                  for p in (self.folder / model).glob("*.npy")}
        self.assertTrue(tables)
        for name, table in tables.items():
            self.assertTrue(numpy.isfinite(table.astype(float)).all(), name)
        return tables

    def test_mf_trains_tunes_and_saves(self):
        """A factorization beats guessing the mean, and its model is whole."""
        done = self.run_config(mf_config(), "--json")
        result = self.check_result(done, "mf")
        self.assertIn("rmse", json.dumps(json.loads(
            (self.folder / result["model"] / "model.json").read_text())))
        tables = self.read_tables(result["model"])
        self.assertTrue(any(t.shape[1] >= 8 for t in tables.values()))
        self.check_eval(result, mf_config()["app"]["data"])
        self.assert_nothing_left()

    def test_mlr_trains_tunes_and_saves(self):
        """Digits are told apart far better than by chance."""
        done = self.run_config(mlr_config(), "--json", "--out", "model")
        result = self.check_result(done, "mlr")
        self.assertGreater(result["best"]["metric"], 0.5)
        self.assertEqual(result["model"], str(self.folder / "model"))
        self.read_tables("model")
        evaluated = self.check_eval(
            result, "gen:digits?samples=500&size=12&seed=3")
        self.assertGreater(evaluated["metric"], 0.5)
        self.assert_nothing_left()

    def test_human_summary(self):
        """Without --json stdout says what was found and what to do next."""
        done = self.run_config(mlr_config())
        self.assert_code(done, 0)
        for word in ("best", "setting", "learning_rate=", "tuning", "trials",
                     "model", "mltune predict", "mltune show"):
            self.assertIn(word, done.out)
        self.assertRegex(done.err, r"\Amltune: watch at http://\S+/\n"
                                   r"(mltune: \w+ \| .*\n)*\Z")

    def test_two_runs_are_the_same_to_the_last_bit(self):
        """One worker, trial lengths in clocks: no decision reads a clock."""
        for config in (mf_config(), mlr_config()):
            results = []
            for turn in range(2):
                done = self.run_config(config, "--json", "--state",
                                       f"state{turn}")
                self.assert_code(done, 0)
                results.append(done.result)
            for member in ("loss", "metric", "best", "epochs", "clocks",
                           "setting", "schedule", "reason"):
                self.assertEqual(results[0][member], results[1][member],
                                 member)
            for member in ("searches", "trials", "clocks"):
                self.assertEqual(results[0]["tuning"][member],
                                 results[1]["tuning"][member])
            tables = [self.read_tables(r["model"]) for r in results]
            for name, table in tables[0].items():
                self.assertEqual(table.tobytes(), tables[1][name].tobytes())

    def test_another_seed_is_another_run(self):
        """The seed of the command line holds."""
        done = [self.run_config(mlr_config(), "--json", "--seed", seed)
                for seed in (1, 2)]
        self.assertEqual([d.result["seed"] for d in done], [1, 2])
        self.assertNotEqual(done[0].result["loss"], done[1].result["loss"])

    def test_no_tune_uses_the_defaults(self):
        """Each tunable has its default, and nothing is tried."""
        done = self.run_config(mlr_config(), "--json", "--no-tune")
        self.assert_code(done, 0)
        self.assertEqual(done.result["strategy"], "fixed")
        self.assertEqual(done.result["tuning"]["trials"], 0)
        self.assertEqual(done.result["setting"],
                         {"learning_rate": 0.01, "momentum": 0.9,
                          "batch_size": 64})
        self.assertEqual(len(done.result["schedule"]), 1)

    def test_set_and_name(self):
        """--set reaches any value, by dotted path and by pointer."""
        done = self.run_config(
            mlr_config(), "--json", "--no-tune", "--set", "stop.max_epochs=2",
            "--set", "/tunables/learning_rate/default=0.5", "--name",
            "Other name")
        self.assert_code(done, 0)
        self.assertEqual(done.result["epochs"], 2)
        self.assertEqual(done.result["setting"]["learning_rate"], 0.5)
        self.assertTrue(done.result["run"].startswith("other-name-"))
        self.assertEqual(done.result["reason"], "max_epochs")

    def test_out_replaces_a_model_and_nothing_else(self):
        """An earlier model gives way; a folder with other things does not."""
        for seed in (1, 2):
            done = self.run_config(mlr_config(), "--json", "--no-tune",
                                   "--out", "m", "--seed", seed)
            self.assert_code(done, 0)
        model = json.loads((self.folder / "m/model.json").read_text())
        self.assertEqual(model["seed"], 2)
        (self.folder / "mine").mkdir()
        self.write("mine/thesis.tex", "x")
        done = self.run_config(mlr_config(), "--out", "mine", "--state", "s")
        self.assert_code(done, 2)
        self.assertIn("mine", done.err)
        self.assertEqual(os.listdir(self.folder / "mine"), ["thesis.tex"])

    def test_the_id_of_a_run_is_told_or_there_is_none(self):
        """Who waits for it could not go on with a run that it does not know."""
        refused = self.run_config(mf_config(), "--id-file", "nowhere/id")
        self.assert_code(refused, 74)
        self.assertIn("--id-file: ", refused.err)
        self.assertIn("nowhere/id", refused.err)
        self.assertIn("no run is left", refused.err)
        self.assertIn("no runs", self.mltune("ls").out)
        self.assertEqual(os.listdir(self.folder / ".mltune/runs"), [])
        done = self.run_config(mf_config(), "--json", "--id-file", "id")
        self.assert_code(done, 0)
        self.assertEqual((self.folder / "id").read_text(),
                         done.result["run"] + "\n")
        self.assert_nothing_left()

    def test_time_limit_ends_the_run(self):
        """max_time ends a job that would go on, with its model."""
        config = mlr_config()
        config["stop"] = {"max_epochs": 1000000, "plateau_epochs": 1000000,
                          "max_time": "3s"}
        done = self.run_config(config, "--json")
        self.assert_code(done, 0)
        self.assertEqual(done.result["reason"], "max_time")
        self.assertTrue((self.folder / done.result["model"] /
                         "model.json").exists())
        self.assert_nothing_left()

    def test_target_ends_the_run(self):
        """A target that is reached is the reason."""
        done = self.run_config(mlr_config(target_metric=0.3), "--json")
        self.assert_code(done, 0)
        self.assertEqual(done.result["reason"], "target")


class Looking(Case):
    def test_ls_and_show_of_nothing(self):
        """No folder, and a folder without runs, are said to be so."""
        done = self.mltune("ls")
        self.assert_code(done, 0)
        self.assertIn("no runs", done.out)
        self.assertEqual(self.mltune("ls", "--json").result, [])
        (self.folder / ".mltune").mkdir()
        self.assertIn("no runs", self.mltune("ls").out)
        done = self.mltune("show", "any")
        self.assert_code(done, 2)
        self.assertIn("no runs", done.err)
        self.assertEqual(os.listdir(self.folder / ".mltune"), [])

    def test_a_re_tune_without_a_winner_does_not_contradict_itself(self):
        """Its trials converge faster than the training does, yet the best epoch
        is as good: that is told, and no count of "better" settings."""
        said = []
        for seed in range(1, 9):
            config = mlr_config(max_epochs=60, plateau_epochs=2)
            self.assert_code(self.run_config({**config, "seed": seed}, "-q"), 0)
            told = self.mltune("show", "small-mlr", "-v").out
            said += re.findall(r"without\s+a\s+winner:\s+(.*?)\s*\n[ 0-9.]+ m?s ",
                               told, re.S)
            if any("none of those" in words for words in said):
                break
        said = [" ".join(words.split()) for words in said]
        self.assertIn("none of those that seemed better is better than the "
                      "best epoch: the setting stays", said)
        for words in said:
            self.assertNotRegex(words, r"settings? (is|are) better")

    def test_a_server_that_is_not_there(self):
        """One that is named, by option or environment, is asked, not passed
        over."""
        for words in (("ls",), ("show", "x"), ("trials", "x"),
                      ("branches", "x")):
            done = self.mltune(*words, "--server", "http://127.0.0.1:1/")
            self.assert_code(done, 69)
            self.assertIn("nobody answers", done.err)
            done = self.mltune(*words, "--server", "ftp://127.0.0.1:1/")
            self.assert_code(done, 2)
        self.env["MLTUNE_SERVER"] = "http://127.0.0.1:1/"
        self.assert_code(self.mltune("ls"), 69)
        self.assert_code(self.mltune("submit", "nothing.json"), 74)

    def test_trials_and_branches_of_a_run(self):
        """From the state folder, as the interface has them."""
        run = self.run_config(mlr_config(), "--json").result
        trials = self.mltune("trials", run["run"], "--json").result
        self.assertEqual(len(trials), run["tuning"]["trials"])
        self.assertEqual([t["trial"] for t in trials],
                         list(range(1, len(trials) + 1)))
        branches = self.mltune("branches", "small", "--json").result
        self.assertIn("kept", [b["type"] for b in branches])
        self.assertTrue({t["branch"] for t in trials} - {None} <=
                        {b["branch"] for b in branches})
        done = self.mltune("trials", "small-mlr")
        self.assert_code(done, 0)
        self.assertEqual(len(done.out.splitlines()), len(trials) + 1)
        self.assertIn("learning_rate=", done.out)
        self.assert_code(self.mltune("branches", "small-mlr"), 0)
        self.assert_code(self.mltune("trials", "nothing-like-it"), 2)

    def test_ls_and_show_of_a_run(self):
        """What the journal tells is what the run told."""
        run = self.run_config(mlr_config(), "--json").result
        listed = self.mltune("ls", "--json").result
        self.assertEqual([r["run"] for r in listed], [run["run"]])
        self.assertEqual(listed[0]["status"], "finished")
        self.assertEqual(listed[0]["epochs"], run["epochs"])
        self.assertIn(run["run"], self.mltune("ls").out)
        for word in (run["run"], "small-mlr", run["run"][:-2]):
            shown = self.mltune("show", word, "--json").result
            for member in RESULT_MEMBERS:
                self.assertEqual(shown[member], run[member], member)
        self.assertEqual(len(shown["trial_list"]), run["tuning"]["trials"])
        self.assertEqual(shown["epoch_list"][-1]["loss"], run["loss"])
        text = self.mltune("show", "-v", run["run"]).out
        for word in ("trials", "epochs", "decisions", "finished"):
            self.assertIn(word, text)
        self.assert_code(self.mltune("show", "nothing-like-it"), 2)

    def test_effective_configuration_is_kept(self):
        """The run's folder holds its configuration with all defaults."""
        run = self.run_config(mlr_config(), "--json", "--no-tune").result
        folder = self.folder / ".mltune/runs" / run["run"]
        config = json.loads((folder / "config.json").read_text())
        self.assertEqual(config["stop"]["plateau_epochs"], 5)
        self.assertEqual(config["ps"]["consistency"], "bsp")
        self.assertEqual(folder.stat().st_mode & 0o777, 0o700)

    def test_decisions_are_explained(self):
        """In the log with their numbers, and by show; times are seconds even
        where trials are measured in samples."""
        run = self.run_config(mlr_config(), "--json").result
        folder = self.folder / ".mltune/runs" / run["run"]
        log = (folder / "log").read_text()
        self.assertRegex(log, r'decision what=trial_time text="a trial takes '
                              r'.* samples: .*" .*trial_time=\d')
        self.assertRegex(log, r"decision what=end text=")
        shown = self.mltune("show", run["run"], "--json").result
        self.assertIn("trial_time",
                      [d["decision"] for d in shown["decision_list"]])
        for trial in shown["trial_list"]:
            self.assertLessEqual(trial["seconds"], run["seconds"])

    def test_verbose_tells_every_epoch(self):
        """-v where there is no terminal: a line an epoch, none of it live."""
        done = self.run_config(mlr_config(), "-v")
        self.assert_code(done, 0)
        for epoch in range(1, 5):
            self.assertIn(f"epoch {epoch}: loss", done.err)
        self.assertNotIn("\r", done.err)
        # What has a line of its own is not told as a decision, nor logged too.
        self.assertEqual(len(re.findall(r"search 1\b.*at most", done.err)), 1)
        self.assertNotIn("search 1 begins", done.err)
        self.assertNotIn("training goes on with", done.err)
        self.assertNotIn("info decision", done.err)
        self.assertIn("  end: ", done.err)

    def test_live_line_on_a_terminal(self):
        """On a terminal one line is redrawn, and is gone at the end. Trials are
        long enough for it to be drawn during one."""
        config = mlr_config(max_epochs=30)
        config["tuner"] = {**config.get("tuner", {}), "trial_clocks": 300}
        self.write("config.json", config)
        ours, theirs = pty.openpty()
        process = self.start("run", "config.json", stderr=theirs)
        os.close(theirs)
        seen = b""
        while select.select([ours], [], [], 60)[0]:
            try:
                part = os.read(ours, 4096)
            except OSError:
                break
            if not part:
                break
            seen += part
        os.close(ours)
        self.assert_code(self.finish(process), 0)
        self.assertIn(b"learning_rate=", seen)
        self.assertTrue(seen.endswith(b"\r\x1b[K"), seen[-80:])


class Refused(Case):
    def refuse(self, done, code, *words):
        self.assert_code(done, code)
        self.assertEqual(done.out, "")
        for word in words:
            self.assertIn(word, done.err)
        self.assert_nothing_left()

    def test_unknown_verb(self):
        """Usage, with the nearest name."""
        self.refuse(self.mltune("runn", "x"), 2, "runn", "run")

    def test_missing_configuration(self):
        """A configuration that is not there is named."""
        self.refuse(self.mltune("run", "none.json"), 74, "none.json")

    def test_all_errors_of_a_configuration_at_once(self):
        """Each fault with its pointer, line and column."""
        self.write("bad.json", """{
  "app": {"name": "mrl"},
  "stop": {"max_epochs": "many"},
  "ps": {"update_rul": "sgd"},
  "tunables": {"learning_rate": {"type": "float", "min": 2, "max": 1}}
}
""")
        done = self.mltune("run", "bad.json")
        self.refuse(done, 78, "/app/name", "mlr", "/stop/max_epochs", ":3:",
                    "update_rule", ":4:", "/tunables/learning_rate")
        self.assertFalse((self.folder / ".mltune").exists())

    def test_malformed_json(self):
        """The place of the error is told."""
        self.write("bad.json", "{\n  \"app\": {\"name\": \"mlr\"},,\n}\n")
        self.refuse(self.mltune("run", "bad.json"), 78, "bad.json", "2")

    def test_data_file_that_is_not_there(self):
        """The training system's refusal is the user's to mend."""
        config = mf_config()
        config["app"]["data"] = "no-such-ratings.dat"
        done = self.run_config(config)
        self.assert_code(done, 78)
        self.assertIn("no-such-ratings.dat", done.err)
        self.assert_nothing_left()

    def test_malformed_data_file(self):
        """File and line of what is wrong."""
        self.write("ratings.dat", "1::1::5::0\n1::2::x::0\n")
        config = mf_config()
        config["app"]["data"] = "ratings.dat"
        done = self.run_config(config, "--json")
        self.assert_code(done, 78)
        self.assertIn("ratings.dat", done.err)
        self.assertIn("2", done.err)
        self.assertEqual(done.result["status"], "failed")
        self.assert_nothing_left()

    def test_too_little_memory(self):
        """A job that cannot hold five models is refused, with the sizes."""
        config = mf_config()
        config["app"]["rank"] = 256
        config["memory"] = {"limit": "1MiB"}
        done = self.run_config(config)
        self.assert_code(done, 78)
        self.assertIn("memory", done.err)
        self.assertIn("no run is left", done.err)
        self.assert_nothing_left()

    def test_state_folder_that_cannot_be(self):
        """A file in the way of the state folder."""
        self.write("file", "x")
        done = self.run_config(mlr_config(), "--state", "file/state")
        self.refuse(done, 74, "file")

    def test_state_folder_that_cannot_be_written(self):
        """Where the kernel takes no folder, whoever asks."""
        done = self.run_config(mlr_config(), "--state", "/proc/mltune")
        self.refuse(done, 74, "/proc/mltune")

    def test_damaged_journal(self):
        """A journal that is none is left alone, with what to do."""
        (self.folder / ".mltune").mkdir()
        self.write(".mltune/mltune.db", "not a database" * 1000)
        done = self.run_config(mlr_config())
        self.refuse(done, 74, "mltune.db", "move it away")

    def test_dry_run_leaves_nothing(self):
        """The plan is printed; no folder, no process, no file."""
        done = self.run_config(mlr_config(), "--dry-run")
        self.assert_code(done, 0)
        for word in ("mlr", "learning_rate", "random", "max_epochs"):
            self.assertIn(word, done.out)
        self.assertEqual(os.listdir(self.folder), ["config.json"])
        self.assert_nothing_left()

    def test_dry_run_refuses_what_a_run_would(self):
        """Data that are missing, none, damaged or do not fit the model, with
        the run's own words and exit code; and nothing is left."""
        self.write("binary", "\0\1\2" * 400)
        self.write("bad.csv", "a,b\n1,2\n3,x,4\n")
        self.write("good.csv", "1,2,0\n3,4,1\n" * 20)
        digits = "gen:digits?samples=100&size=8"
        wide = {"type": "conv", "channels": 2, "kernel": 9}
        cases = (({"name": "mlr", "data": "nowhere"}, "nowhere"),
                 ({"name": "mlr", "data": "gen:nothing"}, "there are: ratings"),
                 ({"name": "mlr", "data": "binary"}, "binary"),
                 ({"name": "mlr", "data": "bad.csv"}, "bad.csv: line 3"),
                 ({"name": "mf", "data": digits}, "ratings"),
                 ({"name": "mlr", "data": "good.csv", "test": "no.csv"},
                  "no.csv"),
                 ({"name": "nn", "data": digits, "layers": [
                     wide, {"type": "dense", "units": 10}]}, "kernel"))
        for app, word in cases:
            with self.subTest(app=app):
                config = mlr_config()
                config["app"] = app
                dry = self.run_config(config, "--dry-run")
                self.refuse(dry, 78, word)
                self.assertFalse((self.folder / ".mltune").exists())
                real = self.run_config(config, "--state", "other")
                self.assertEqual(real.code, dry.code)
                said = dry.err.rpartition("mltune: error: ")[2].strip()
                self.assertIn(said, real.err)

    def test_dry_run_of_much(self):
        """More than would be read in a moment is looked at, not loaded; of
        several nodes one is sized, and waits for no other."""
        with open(self.folder / "large.csv", "wb") as file:
            file.write(b"1,2,3\n" * 1000)
            file.truncate(1 << 40)
        config = mlr_config()
        config["app"]["data"] = "large.csv"
        done = self.run_config(config, "--dry-run")
        self.assert_code(done, 0)
        self.assertIn("only their heads were read", done.out)
        with open(self.folder / "large.csv", "r+b") as file:
            file.write(b"\0\1\2" * 1000)
        self.refuse(self.run_config(config, "--dry-run"), 78, "large.csv",
                    "no application here reads")
        config = mlr_config()
        config["cluster"] = {"nodes": 3, "workers": 1}
        done = self.run_config(config, "--dry-run")
        self.assert_code(done, 0)
        self.assertIn("samples", done.out)
        self.assertIn("frames between nodes through rings of 1024 KiB",
                      done.out)
        done = self.run_config(config, "--dry-run", "--set", "ps.ring_bytes=0")
        self.assertIn("frames between nodes through sockets", done.out)
        self.assertEqual(json.loads(self.run_config(
            config, "--dry-run", "--json").out)["cluster"]["nodes"], 3)

    def test_factors_as_a_loop(self):
        """A dry run shows how the work is split, over several nodes too; a run
        tunes and trains it."""
        config = mf_config()
        config["app"]["parallel"] = "loop"
        config["cluster"] = {"workers": 2}
        done = self.run_config(config, "--dry-run")
        self.assert_code(done, 0)
        self.assertRegex(done.out, r"work      loop mf: \d+ iterations over")
        self.assertIn("strategy: two dimensions", done.out)
        self.assertIn("  worker 1 | ", done.out)
        config["ps"] = {**config.get("ps", {}), "consistency": "ssp"}
        config["tunables"] = {"learning_rate": {}, "staleness": {}}
        done = self.run_config(config, "--json")
        self.assert_code(done, 0)
        self.assertIn("/tunables/staleness: cannot act in a loop", done.err)
        config["cluster"]["nodes"] = 2
        done = self.run_config(config, "--dry-run")
        self.assert_code(done, 0)
        self.assertIn("  worker 3 | ", done.out)

    def test_dry_run_tells_memory(self):
        """Of each node, by part; what does not fit is refused with the parts,
        and a run refuses it as well."""
        config = mf_config()
        config["app"]["data"] = ("gen:ratings?users=20000&items=20000&"
                                 "ratings=20000&rank=3")
        config["app"]["rank"] = 32
        config["cluster"] = {"nodes": 2, "workers": 2}
        config["memory"] = {"limit": "512MiB"}
        done = self.run_config(config, "--dry-run")
        self.assert_code(done, 0)
        self.assertRegex(done.out, r"memory    each node at most: \S+ MiB a "
                                   r"branch")
        sums = re.search(r"updates (\S+) MiB, rows read (\S+), sums from "
                         r"other nodes (\S+), access", done.out)
        self.assertTrue(all(float(x) > 0 for x in sums.groups()), done.out)
        config["memory"] = {"limit": "32MiB"}
        self.refuse(self.run_config(config, "--dry-run"), 78,
                    "sums from other nodes", "raise memory.limit by")
        self.assert_code(self.run_config(config, "--state", "other"), 78)
        config["cluster"]["nodes"] = 1
        config["memory"] = {"limit": "512MiB"}
        done = self.run_config(config, "--dry-run")
        self.assertRegex(done.out, "memory    at most.*\n.*sums from other nodes 0,")

    def test_port_in_use(self):
        """The address is named, and nothing is left."""
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            address = f"127.0.0.1:{taken.getsockname()[1]}"
            done = self.run_config(mlr_config(), "--listen", address)
        self.refuse(done, 74, address, "in use")
        self.assertEqual(self.mltune("ls", "--json").result, [])

    def test_address_of_other_machines(self):
        """Loopback only, as long as there is no token."""
        done = self.run_config(mlr_config(), "--listen", "0.0.0.0:0")
        self.refuse(done, 78, "0.0.0.0")


class JournalLimit(Case):
    """`journal.limit`: what the records of a run and its checkpoints take."""

    def last_snapshot(self, state):
        """The epoch that the last snapshot of the only run is of."""
        db = sqlite3.connect(f"file:{state / 'mltune.db'}?mode=ro", uri=True)
        row = db.execute("SELECT json FROM records WHERE"
                         " kind = 'snapshot_written' ORDER BY seq DESC LIMIT 1"
                         ).fetchone()
        db.close()
        return json.loads(row[0])["epoch"]

    def test_a_run_ends_at_it_and_goes_on_with_more(self):
        """Where folding does not help it is interrupted, with the way out; a
        larger limit is enough to go on."""
        config = {"name": "small", "seed": 1, "cluster": {"workers": 1},
                  "app": {"name": "mlr", "data": "gen:digits?samples=64&size=8"},
                  "tuner": {"strategy": "fixed"}, "snapshot": {"every": 1},
                  "journal": {"limit": "4MiB"},
                  "stop": {"max_epochs": 1000000, "plateau_epochs": 1000000}}
        done = self.run_config(config, "--json")
        self.assert_code(done, 74)
        self.assertEqual((done.result["status"], done.result["reason"]),
                         ("interrupted", "limit"))
        self.assertIn("--set journal.limit=", done.err)
        run, epochs = done.result["run"], done.result["epochs"]
        self.assertGreater(epochs, 500)
        state = self.folder / ".mltune"
        # Epochs that were not validated yet are in it; those of a second, as
        # between other snapshots, are hundreds.
        self.assertLess(abs(self.last_snapshot(state) - epochs), 50,
                        "the end has a snapshot of its own")
        files = [state / "mltune.db", *state.glob("runs/*/checkpoint*")]
        self.assertLess(sum(f.stat().st_size for f in files), 6 << 20)
        done = self.mltune("resume", run, "--json")
        self.assert_code(done, 74)
        self.assertEqual(done.result["reason"], "limit")
        process = self.start("resume", run, "--json", "--set",
                             "journal.limit=64MiB")
        self.wait_until(lambda: self.mltune("show", run, "--json")
                        .result["epochs"] > epochs, "a further epoch")
        process.send_signal(signal.SIGINT)
        done = self.finish(process)
        self.assert_code(done, 130)
        self.assertEqual(done.result["reason"], "interrupted")


class FullDisk(Case):
    def big_config(self):
        """A model of 4.5 MB."""
        config = mf_config(max_epochs=1)
        config["app"]["rank"] = 256
        config["app"]["data"] = ("gen:ratings?users=4000&items=500"
                                 "&ratings=20000&rank=4")
        return config

    def test_no_room_for_the_model(self):
        """A model that does not fit is tried again, then the run is interrupted
        as trained, not saved; no part of it stays. Once there is room a resume
        writes the model, and trains no epoch more."""
        self.write("config.json", self.big_config())
        done = self.mltune("run", "config.json", "--no-tune", "--json",
                           preexec_fn=limit_files(2 << 20))
        self.assert_code(done, 74)
        self.assertEqual((done.result["status"], done.result["reason"]),
                         ("interrupted", "not_saved"))
        self.assertIn("trained, not saved", done.err)
        self.assert_nothing_left()
        folder = self.folder / ".mltune/runs" / done.result["run"]
        self.assertFalse((folder / "model").exists())
        again = self.mltune("resume", done.result["run"], "--json")
        self.assert_code(again, 0)
        self.assertEqual((again.result["status"], again.result["epochs"]),
                         ("finished", 1))
        self.assertTrue((folder / "model/model.json").exists())

    def test_no_room_for_the_last_snapshot(self):
        """An interrupted run that cannot be resumed does not claim it can."""
        config = self.big_config()
        config["stop"] = {"max_epochs": 1000000, "plateau_epochs": 1000000}
        config["name"] = "endless"
        self.write("config.json", config)
        process = self.start("run", "config.json", "--no-tune",
                             preexec_fn=limit_files(2 << 20))
        self.wait_for_training()
        process.send_signal(signal.SIGINT)
        done = self.finish(process)
        self.assert_code(done, 74)
        self.assertIn("snapshot was not written", done.err)
        self.assert_nothing_left()

    def test_no_room_for_the_journal(self):
        """Without its journal the run ends, and says why."""
        self.write("config.json", endless_config())
        done = self.mltune("run", "config.json",
                           preexec_fn=limit_files(120 << 10))
        self.assert_code(done, 74)
        self.assertIn("mltune.db", done.err)
        self.assert_nothing_left()
        self.assertIn("interrupted", self.mltune("ls").out)


class Killed(Case):
    def begin(self, *words):
        self.write("config.json", endless_config())
        process = self.start("run", "config.json", *words)
        self.wait_for_training()
        return process

    def only_run(self):
        runs = self.mltune("ls", "--json").result
        self.assertEqual(len(runs), 1)
        return runs[0]

    def kill_nodes(self, process):
        """Each one that is started, until the run gives up."""
        def kill_and_look():
            for pid in self.nodes_of(process):
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            return process.poll() is not None
        self.wait_until(kill_and_look, "the run to give up", 100)
        return self.finish(process)

    def test_node_killed(self):
        """The tuner starts another, so often; then it says so and ends;
        nothing lives on."""
        done = self.kill_nodes(self.begin())
        self.assert_code(done, 75)
        self.assertIn("SIGKILL", done.err)
        self.assertIn("(3 of 3)", done.err)
        self.assert_nothing_left()
        run = self.only_run()
        self.assertEqual((run["status"], run["reason"]),
                         ("interrupted", "node_lost"))
        self.assertIn("mltune resume " + run["run"], done.err)

    def test_node_killed_while_it_loads(self):
        """Also before it has said that it is ready."""
        config = endless_config()
        config["app"]["data"] = "gen:digits?samples=400000&size=28"
        self.write("config.json", config)
        process = self.start("run", "config.json")
        self.assert_code(self.kill_nodes(process), 75)
        self.assert_nothing_left()

    def test_interrupt_once(self):
        """A snapshot, then 130; the state says that it was interrupted."""
        process = self.begin("--json")
        process.send_signal(signal.SIGINT)
        done = self.finish(process)
        self.assert_code(done, 130)
        self.assertEqual(done.result["status"], "interrupted")
        self.assertIn("once more", done.err)
        run = self.only_run()
        self.assertEqual(run["status"], "interrupted")
        snapshots = self.folder / ".mltune/runs" / run["run"] / "snapshots"
        self.assertTrue(any(snapshots.iterdir()))
        self.assert_nothing_left()

    def test_interrupt_twice(self):
        """The second one ends at once."""
        process = self.begin()
        process.send_signal(signal.SIGINT)
        process.stderr.readline()  # it has been taken in
        process.send_signal(signal.SIGINT)
        self.assert_code(self.finish(process, 10), 130)
        self.assert_nothing_left()

    def test_terminate(self):
        """143 after a clean snapshot."""
        process = self.begin()
        process.send_signal(signal.SIGTERM)
        self.assert_code(self.finish(process), 143)
        self.assertEqual(self.only_run()["status"], "interrupted")
        self.assert_nothing_left()

    def test_interrupt_while_loading(self):
        """Nothing is there to snapshot; it ends all the same."""
        config = endless_config()
        config["app"]["data"] = "gen:digits?samples=400000&size=28"
        self.write("config.json", config)
        process = self.start("run", "config.json")
        self.node_of(process)
        process.send_signal(signal.SIGINT)
        self.assert_code(self.finish(process, 30), 130)
        self.assert_nothing_left()

    def test_tuner_killed(self):
        """The node goes with it; the journal opens; the run is known dead."""
        process = self.begin()
        self.node_of(process)
        process.kill()
        process.communicate()
        end = self.wait_until(lambda: not self.marked(), "the node to go", 10)
        self.assertTrue(end)
        run = self.only_run()
        self.assertEqual(run["status"], "interrupted")
        self.assertFalse(run["alive"])
        self.assert_code(self.mltune("show", run["run"]), 0)
        again = self.run_config(mlr_config(), "--json", "--no-tune",
                                name="other.json")
        self.assert_code(again, 0)

    def test_ended_at_any_time(self):
        """Whatever ends it, and when: the right code, nothing left, and the
        journal opens."""
        rng = random.Random(3)
        codes = {"int": 130, "term": 143, "node": 130, "tuner": -9}
        self.FAULTS = [f for f in self.FAULTS if f != "node_ended_badly"]
        self.write("config.json", endless_config())
        for turn in range(12):
            how = rng.choice(sorted(codes))
            process = self.start("run", "config.json")
            self.node_of(process)  # from here on signals are taken care of
            time.sleep(rng.random() * rng.choice([0.05, 0.5, 1.5]))
            with self.subTest(turn=turn, how=how):
                if how == "node":
                    os.kill(self.node_of(process), signal.SIGKILL)
                    process.send_signal(signal.SIGINT)
                else:
                    process.send_signal({"int": signal.SIGINT,
                                         "term": signal.SIGTERM,
                                         "tuner": signal.SIGKILL}[how])
                self.assert_code(self.finish(process), codes[how])
                self.wait_until(lambda: not self.marked(), "all to end")
                if how != "tuner":
                    self.assert_nothing_left()
                self.assert_code(self.mltune("ls"), 0)

    def test_running_run_is_alive(self):
        """ls tells what a run is doing while it does it."""
        process = self.begin()
        run = self.only_run()
        self.assertTrue(run["alive"])
        self.assertIn(run["status"], ("tuning", "training"))
        process.send_signal(signal.SIGTERM)
        self.finish(process)

    def test_two_runs_in_one_state_folder(self):
        """They share the journal and do not disturb each other."""
        self.write("a.json", mlr_config())
        self.write("b.json", mf_config())
        both = [self.start("run", name, "--json", "--name", name[0])
                for name in ("a.json", "b.json")]
        done = [self.finish(process) for process in both]
        for one in done:
            self.assert_code(one, 0)
        listed = self.mltune("ls", "--json").result
        self.assertEqual({r["name"] for r in listed}, {"a", "b"})

    def test_stdout_that_cannot_be_written(self):
        """A result that is lost is an error."""
        self.write("config.json", mlr_config())
        with open("/dev/full", "w", encoding="ascii") as full:
            process = self.start("run", "config.json", "--json", "--no-tune",
                                 stdout=full)
            _, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 74, err)


if __name__ == "__main__":
    unittest.main()
