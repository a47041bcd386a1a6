"""Programs of the user's own as what trains (docs/own-programs.md)."""
import json
import os
import shutil
import signal
import subprocess
import unittest

import harness
import test_resume
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
            (self.folder / result["model"] / "line.json").read_text())
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
        cores = len(os.sched_getaffinity(0))
        result = self.result(self.config('seen="seen.json"',
                                         cluster={"nodes": 2}))
        self.assertEqual(self.seen()["env"]["OMP_NUM_THREADS"],
                         str(max(cores // 2, 1)))
        self.assertEqual(result["status"], "finished")
        for node in (0, 1):
            self.assertTrue((self.folder / result["model"] /
                             f"node-{node}/line.json").exists())
        self.assert_nothing_left()

    def test_snapshot_of_several_processes(self):
        """Each writes its part, and the run goes on from all of them."""
        config = self.config(cluster={"nodes": 2},
                             stop={"max_epochs": 100000,
                                   "plateau_epochs": 100000})
        config["name"] = "endless"
        self.write("config.json", config)
        tuner = self.start("run", "config.json", "--json")
        self.wait_for_training()
        tuner.send_signal(signal.SIGINT)
        done = self.finish(tuner)
        self.assert_code(done, 130)
        self.assertNotIn("was not written", done.err)
        parts = {p.parent.name for p in (self.folder / ".mltune/runs").glob(
            "*/snapshots/*/node-*/state.json")}
        self.assertEqual(parts, {"node-0", "node-1"}, done.err)
        done = self.mltune("resume", "endless", "--set", "stop.max_epochs=9",
                           "--json")
        self.assertIn(done.code, (0, 2), done.err)
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

    def test_compare_takes_programs(self):
        self.write("config.json", self.config(stop={"max_epochs": 2}))
        done = self.mltune("compare", "config.json", "--strategies",
                           "mltuner,asha,fixed", "--seeds", 2, "--json")
        self.assert_code(done, 0)
        self.assertEqual([row["finished"] for row in
                          done.result["strategies"]], [2, 2, 2])
        self.assert_nothing_left()

    def test_plan_shows_the_command(self):
        done = self.run_config(self.config(), "--dry-run")
        self.assert_code(done, 0)
        self.assertIn(f"command {PYTHON} line.py", done.out)
        self.assertNotIn("rule", done.out)

    def test_batches_that_the_tuner_does_not_know(self):
        """Of a size that no tunable says, the last one of an epoch smaller; or
        of another size than the program tells: the run goes on all the same.
        """
        for told in (1, 0.4, 3):
            with self.subTest(told=told):
                config = self.config(("samples", 250), ("told", told))
                config["tunables"] = {"learning_rate": harness.RATE}
                config["stop"] = {"max_epochs": 3, "max_time": "20s"}
                result = self.result(config)
                self.assertEqual(result["status"], "finished")
                if told == 1:
                    self.assertEqual(result["epochs"], 3)

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
        shown = self.mltune("show", "-v", run).out
        self.assertIn("does not name dropout", shown)
        log = (self.folder / ".mltune/runs" / run / "log").read_text()
        self.assertIn("also has width", log)

    def test_names_with_dots_and_hyphens(self):
        names = ["learning_rate", "optim.lr", "weight-decay"]
        config = self.config(("tunables", names))
        for name in names[1:]:
            config["tunables"][name] = {"type": "float", "min": 0, "max": 1}
        result = self.result(config, "--set", "/tunables/optim.lr/max=0.5")
        self.assertLessEqual(result["setting"]["optim.lr"], 0.5)
        self.assertIn("weight-decay", result["setting"])
        done = self.mltune("export", result["run"], "--format", "csv")
        self.assert_code(done, 0)
        tables = (self.folder / done.out.strip()).glob("*.csv")
        self.assertTrue(any("weight-decay" in t.read_text() for t in tables))

    def test_nothing_listed_is_rate_and_batch(self):
        config = self.config()
        del config["tunables"]
        done = self.run_config(config, "--json")
        self.assert_code(done, 0)
        self.assertNotIn("warning", done.err)
        self.assertNotIn("error", done.err)
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


class Steering(Programs):
    """Commands by hand to a run of a program."""

    def test_texts_of_suggestions_and_forks(self):
        config = self.config(
            ("tunables", ["learning_rate", "kind"]), ("say", "quiet"),
            tunables={"learning_rate": harness.RATE, "kind": Tunables.KIND},
            stop={"max_epochs": 1000000, "plateau_epochs": 1000000})
        config["name"] = "endless"
        config["tuner"]["searcher"] = "rest"
        self.write("config.json", config)
        tuner = self.start("run", "config.json", "--json")
        self.wait_until(lambda: self.mltune(
            "suggest", "endless", "learning_rate=0.3",
            'kind=a "b", c').code == 0, "a suggestion to be taken")
        self.assert_code(self.mltune("suggest", "endless", "--exhausted"), 0)
        self.wait_until(lambda: self.mltune(
            "show", "endless", "--json").result.get("epochs", 0) > 0,
            "an epoch")
        done = self.mltune("fork", "endless", 0, "kind=adam")
        self.assert_code(done, 0)
        done = self.mltune("fork", "endless", 0, "kind=none")
        self.assertNotEqual(done.code, 0)
        self.assertIn('"adam", "sgd"', done.err)
        self.assert_code(self.mltune("stop", "endless"), 0)
        result = self.finish(tuner).result
        self.assertEqual(result["setting"]["kind"], 'a "b", c')
        self.assertEqual(result["setting"]["learning_rate"], 0.3)
        self.assert_nothing_left()


class Plugins(Programs):
    """Applications of mltune/app.h from shared objects."""

    HEAD = """
        #include <mltune/app.h>
        #include <stdio.h>
        #include <stdlib.h>
        #include <unistd.h>
        static int f(const struct mlt_app_config *c, struct mlt_app_info *i,
                     void **a, struct mlt_error *e) { (void)c; (void)i;
            *a = 0; snprintf(e->text, sizeof(e->text), "not today"); return 1; }
        static int g(void *a, struct mlt_ps *p, struct mlt_error *e)
            { (void)a; (void)p; (void)e; return 0; }
        static int h(void *a, struct mlt_worker *w)
            { (void)a; (void)w; return 0; }
        static int k(void *a, struct mlt_worker *w,
                     const struct mlt_clock_ctx *c)
            { (void)a; (void)w; (void)c; return 0; }
        """
    OPS = """const struct mlt_app_ops mltune_app = {{.version = {version},
        .name = "mine", .summary = "mine", .schema = "{schema}", .open = f,
        .declare = g, .init = h, .run_clock = k, .close = {close}}};"""

    def build(self, name, more="", version="MLT_APP_VERSION", schema="{}",
              close="free", text=None):
        self.write("p.c", text or self.HEAD + more + self.OPS.format(
            version=version, schema=schema, close=close))
        subprocess.run(["gcc", "-shared", "-fPIC", "-o", self.folder / name,
                        "p.c", f"-I{harness.ROOT / 'include'}"], check=True,
                       cwd=self.folder)

    def plugin(self, path, stop=4, **app):
        return {"app": {"plugin": str(path), **app},
                "cluster": {"workers": 1},
                "tuner": {"searcher": "random", "trial_clocks": 10,
                          "max_trials": 4},
                "stop": {"max_epochs": stop}, "seed": 3}

    def refused(self, config, *words):
        done = self.run_config(config)
        self.assert_code(done, 78)
        for word in words:
            self.assertIn(word, done.err)
        self.assertFalse((self.folder / ".mltune").exists())
        self.assert_nothing_left()

    def test_the_example_in_c(self):
        shutil.copy(harness.BUILD / "app_plugins/app_line.so", self.folder)
        config = self.plugin("app_line.so", stop=8, inputs=5)
        result = self.result(config)
        self.assertEqual(result["status"], "finished")
        self.assertLess(result["metric"], 1)
        self.assertTrue(result["run"].startswith("line-"))
        self.assertEqual(sorted(result["setting"]),
                         ["batch_size", "learning_rate", "momentum"])
        model = json.loads(
            (self.folder / result["model"] / "model.json").read_text())
        self.assertEqual(model["settings"]["inputs"], 5)
        self.assertEqual(model["tables"][0]["width"], 5)
        self.assert_nothing_left()

    def test_the_example_in_cpp_and_two_nodes(self):
        self.env["MLTUNE_PLUGIN_PATH"] = str(harness.BUILD / "app_plugins")
        config = self.plugin("app_rings.so", stop=8, name="my-rings")
        config["cluster"]["nodes"] = 2
        config["tuner"]["initial"] = {"learning_rate": 0.3, "l2": 1e-4}
        config["tunables"] = {
            "learning_rate": harness.RATE,
            "l2": {"type": "float", "min": 1e-6, "max": 0.1, "scale": "log"}}
        result = self.result(config)
        self.assertTrue(result["run"].startswith("my-rings-"))
        self.assertGreater(result["metric"], 0.9)
        self.assertIn("l2", result["setting"])
        self.assert_nothing_left()

    def test_a_program_that_is_a_node(self):
        """mlt_node_run: the same application as a process of its own."""
        config = {**self.plugin(""), "app": {
            "command": [str(harness.BUILD / "rings"), "--mine", "3"]},
            "ps": {"update_rule": "adagrad"}}
        config["tunables"] = {
            "learning_rate": harness.RATE, "strange": {
                "type": "categorical", "values": ["a", "b"]}}
        done = self.run_config(config, "--json")
        self.assert_code(done, 0)
        self.assertGreater(done.result["metric"], 0.9)
        self.assertIn("does not name strange", done.err)
        alone = subprocess.run([harness.BUILD / "rings"], text=True,
                               capture_output=True, env=self.env)
        self.assertEqual(alone.returncode, 1)
        self.assertIn("started by mltune run", alone.stderr)

    def test_nodes_as_programs_are_resumed(self):
        """Their snapshots are those of mltune's own nodes: a single one makes
        its folder, several make a manifest."""
        for nodes in (1, 2):
            with self.subTest(nodes=nodes):
                config = {**self.plugin("", stop=100000), "name": "endless",
                          "app": {"command": [str(harness.BUILD / "rings")]}}
                config["cluster"]["nodes"] = nodes
                config["stop"]["plateau_epochs"] = 100000
                self.write("config.json", config)
                state = f"state{nodes}"
                tuner = self.start("run", "config.json", "--state", state)
                self.wait_for_training(state=state)
                tuner.send_signal(signal.SIGINT)
                done = self.finish(tuner)
                self.assert_code(done, 130)
                self.assertNotIn("was not written", done.err)
                snapshots = list((self.folder / state / "runs").glob(
                    "*/snapshots/*/manifest.json"))
                self.assertTrue(snapshots)
                done = self.mltune("resume", "endless", "--set",
                                   "stop.max_epochs=4", "--json", "--state",
                                   state)
                self.assertIn(done.code, (0, 2), done.err)
        self.assert_nothing_left()

    def test_a_plugin_is_resumed(self):
        """From any folder: the run knows where it is."""
        shutil.copy(harness.BUILD / "app_plugins/app_line.so", self.folder)
        config = self.plugin("app_line.so", stop=100000)
        config["name"] = "endless"
        config["stop"]["plateau_epochs"] = 100000
        self.write("config.json", config)
        tuner = self.start("run", "config.json", "--json")
        self.wait_for_training()
        tuner.kill()
        tuner.communicate()
        self.wait_until(lambda: not self.marked(), "the node to end")
        (self.folder / "config.json").unlink()
        run = self.mltune("show", "endless", "--json").result["run"]
        tuner = self.start("resume", "endless", "--json")

        def trained_on():
            records = test_resume.Journal(
                self.folder / ".mltune", run).of("run_resumed", "epoch_ended")
            kinds = [r["kind"] for r in records]
            return "run_resumed" in kinds and \
                len(kinds) - kinds.index("run_resumed") > 30
        self.wait_until(trained_on, "some epochs of the resumed run")
        self.assert_code(self.mltune("stop", "endless"), 0)
        done = self.finish(tuner)
        self.assert_code(done, 0)
        result = done.result
        self.assertEqual(result["status"], "stopped")
        model = json.loads(
            (self.folder / result["model"] / "model.json").read_text())
        self.assertEqual(model["settings"]["plugin"],
                         str((self.folder / "app_line.so").resolve()))
        self.assert_nothing_left()

    def test_its_settings_are_checked_by_its_schema(self):
        path = harness.BUILD / "app_plugins/app_line.so"
        self.refused(self.plugin(path, inputs=0), "/app/inputs", "1 to 64")
        self.refused(self.plugin(path, input=3), "/app/input",
                     'did you mean "inputs"?')
        config = self.plugin(path)
        config["tunables"] = {"l2": {"type": "float", "min": 0, "max": 1}}
        self.refused(config, "/tunables/l2", "one of the tunables")

    def test_one_that_is_not_there(self):
        self.refused(self.plugin("libnone.so"), "/app/plugin",
                     "a shared object that is there")
        self.write("text.so", "not an object")
        self.refused(self.plugin("text.so"), "/app/plugin", "cannot load")

    def test_one_that_crashes_when_it_is_loaded(self):
        self.build("crash.so", "__attribute__((constructor)) static void c"
                   "(void) { fputs(\"oh dear\", stderr); abort(); }")
        self.refused(self.plugin("crash.so"), "/app/plugin",
                     "was killed by SIGABRT", "oh dear")

    def test_one_that_talks_when_it_is_loaded(self):
        self.build("talk.so", "__attribute__((constructor)) static void c"
                   "(void) { puts(\"hello\"); fflush(stdout); }")
        self.write("config.json", self.plugin("talk.so"))
        self.assert_code(self.mltune("validate", "config.json"), 0)

    def test_one_that_ends_the_process_when_it_is_loaded(self):
        self.build("leave.so", "__attribute__((constructor)) static void c"
                   "(void) { _exit(0); }")
        self.refused(self.plugin("leave.so"), "/app/plugin",
                     "has not said what it is")

    def test_one_of_version_1_runs(self):
        """What was built before there was `predict`; it says that it
        cannot."""
        source = (harness.ROOT / "apps/plugins/app_line.c").read_text()
        self.build("old.so", text=source.replace("MLT_APP_VERSION", "1"))
        done = self.run_config(self.plugin("old.so", inputs=5), "--out",
                               "model")
        self.assert_code(done, 0)
        self.assertIn("cannot predict",
                      self.mltune("predict", "model", "data").err)

    def test_one_of_another_version(self):
        self.build("old.so", version=77)
        self.refused(self.plugin("old.so"), "was built for version 77",
                     "build it again")

    def test_one_that_is_no_application(self):
        self.build("none.so", text="int a;")
        self.refused(self.plugin("none.so"), "has no symbol mltune_app")
        self.build("part.so", close="0")
        self.refused(self.plugin("part.so"), "lacks .close")
        self.build("schema.so", schema="{{")
        self.refused(self.plugin("schema.so"), "is no JSON schema")

    def test_one_that_cannot_be_opened(self):
        self.build("mine.so")
        done = self.run_config(self.plugin("mine.so"))
        self.assertNotEqual(done.code, 0)
        self.assertIn("not today", done.err)
        self.assert_nothing_left()


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
                             ({"plugin": "libmine.so"}, "/app/plugin"),
                             ({"name": "mlr", "data": "gen:digits"},
                              "/ps/consistency/plugin"),
                             ({"name": "mlr", "data": "gen:digits"},
                              "/ps/update_rule/plugin")):
            config = {"app": app}
            if "name" in app:
                config["ps"] = {pointer.split("/")[2]: {"plugin": "mine.so"}}
            answer = self.submit(config, status=403)
            self.assertEqual(answer["code"], "programs_not_allowed")
            self.assertEqual(answer["errors"][0]["pointer"], pointer)
            self.assertIn("--allow-programs", answer["detail"])
            code, _, answer = self.ask("POST", "/api/v1/runs:validate", config)
            self.assertEqual((code, answer["valid"]), (200, False))
        self.assertFalse((self.folder / "ran").exists())
        self.assertEqual(self.get("/api/v1/runs")["runs"], [])

    def test_plugins_that_are_allowed_train(self):
        self.end()
        shutil.copy(harness.BUILD / "app_plugins/app_line.so", self.folder)
        self.launch("--allow-programs")
        answer = self.submit({"app": {"plugin": "app_line.so", "inputs": 0}},
                             status=422)
        self.assertEqual(answer["errors"][0]["pointer"], "/app/inputs")
        run = self.submit({"app": {"plugin": "app_line.so"},
                           "stop": {"max_epochs": 3}})
        now = self.wait_for_status(run, "finished")
        self.assertEqual(now["job"]["app"], "line")

    def test_programs_that_are_allowed_train(self):
        self.end()
        shutil.copy(LINE, self.folder / "line.py")
        self.launch("--allow-programs")
        run = self.submit(self.config("line.py"))
        now = self.wait_for_status(run, "finished")
        self.assertEqual(now["job"]["app"], "line")

    def test_queued_programs_are_held_where_they_are_not_allowed(self):
        """Those that a service took which allowed them; the next one may not
        run them, and says so."""
        self.end()
        shutil.copy(LINE, self.folder / "line.py")
        self.launch("--allow-programs")
        endless = {"max_epochs": 100000, "plateau_epochs": 100000}
        first = self.submit({**self.config("line.py"), "stop": endless})
        second = self.submit(self.config("line.py"))
        own = self.submit({**self.config("line.py"), "app": {
            "name": "mlr", "data": "gen:digits?samples=200&size=8"}})
        self.wait_for_status(first, "tuning", "training")
        self.end()
        self.launch()
        for run in (first, second):
            now = self.wait_for_status(run, "held")
            self.assertIn("--allow-programs", now["status_reason"])
        self.wait_for_status(own, "finished")
        listed = {r["run"]: r for r in self.mltune("ls", "--json").result}
        self.assertEqual(listed[second]["status"], "held")
        self.ask("POST", f"/api/v1/runs/{second}:continue")
        self.wait_for_status(second, "held")
        self.end()
        self.launch("--allow-programs")
        self.ask("POST", f"/api/v1/runs/{second}:continue")
        self.wait_for_status(second, "finished")


if __name__ == "__main__":
    unittest.main()
