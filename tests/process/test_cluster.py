"""Runs on several nodes: the same bits as on one, whatever becomes of them."""
import json
import os
import pathlib
import signal

from harness import Case, endless_config
from test_resume import Journal

APPS = {
    "mlr": {"name": "mlr", "data": "gen:digits?samples=600&size=8"},
    "mf": {"name": "mf", "rank": 4, "test_fraction": 0.1,
           "data": "gen:ratings?users=120&items=80&ratings=3000&rank=3"},
    "nn": {"name": "nn", "preset": "mlp",
           "data": "gen:digits?samples=300&size=8"},
    "lda": {"name": "lda", "topics": 4,
            "data": "gen:bow?docs=60&words=80&topics=3"},
}


def fixed(app, **more):
    return {"name": "cluster", "app": APPS[app],
            "cluster": {"workers": 4},
            "tunables": {"learning_rate": {"type": "float", "fixed": 0.1},
                         "batch_size": {"type": "int", "fixed": 16}},
            "tuner": {"strategy": "fixed"}, "stop": {"max_epochs": 2},
            "memory": {"limit": "256MiB"}, "seed": 3, **more}


class Cluster(Case):
    def run_on(self, nodes, config, *words, code=0):
        """The result of @config with its workers over so many nodes."""
        config["cluster"] = {"nodes": nodes,
                             "workers": config["cluster"]["workers"] // nodes}
        done = self.run_config(config, "--json", "--state", f"s{nodes}",
                               *words)
        self.assert_code(done, code)
        return done.result

    def tables(self, result):
        return {p.name: p.read_bytes()
                for p in pathlib.Path(result["model"]).glob("*.npy")}

    def same_on(self, app, *nodes, settings=None, **options):
        def config(**more):
            c = fixed(app, **more)
            return {**c, "app": {**c["app"], **(settings or {})}}
        one = self.run_on(1, config())
        for n in nodes:
            many = self.run_on(n, config(**options))
            self.assertEqual(self.tables(one), self.tables(many))
            self.assertEqual(one["clocks"], many["clocks"])
            for what in ("loss", "metric"):
                self.assertAlmostEqual(one[what], many[what], places=9)
        self.assert_nothing_left()

    def test_mlr_is_the_same_to_the_last_bit(self):
        """bsp: two and four nodes, as four workers in one."""
        self.same_on("mlr", 2, 4)

    def test_mf_is_the_same_to_the_last_bit(self):
        """Users' rows lie with their worker; the metric reads them all."""
        self.same_on("mf", 2, 4)

    def test_mf_as_a_loop_is_the_same_to_the_last_bit(self):
        """Items' rows go from node to node and back; no table is shared."""
        self.same_on("mf", 2, 4, settings={"parallel": "loop"})

    def test_mf_sends_for_rows_to_validate_together(self):
        """Both tables are exclusive. 30,000 ratings, 16 at a time, were 1,750
        frames of each node; now there are 300."""
        config = fixed("mf")
        config["app"] = {**APPS["mf"], "parallel": "loop", "test_fraction": 0.5,
                         "data": "gen:ratings?users=900&items=700"
                                 "&ratings=60000&rank=3"}
        run = self.run_on(2, config)["run"]
        shown = self.mltune("show", run, "--json", "--state", "s2").result
        self.assertEqual(len(shown["node_list"]), 2)
        for node in shown["node_list"]:
            sent = node["traffic"]["frames_sent"]
            self.assertGreater(sent, 0)
            self.assertLess(sent, 900)
        self.assert_nothing_left()

    def test_placed_rows_are_the_same_to_the_last_bit(self):
        """Rows that lie where they are touched, in models and when asked."""
        self.same_on("mf", 4, ps={"access": "place"})

    def test_nn_is_the_same_to_the_last_bit(self):
        """Layers that end their clock early."""
        self.same_on("nn", 2, 4)

    def test_lda_is_the_same_to_the_last_bit(self):
        """Whole numbers and worker-local state."""
        self.same_on("lda", 2, 4)

    def test_lda_as_a_loop_is_the_same_to_the_last_bit(self):
        """Words' or documents' rows go round; totals are shared."""
        self.same_on("lda", 4, settings={"parallel": "loop"})

    def test_tuning_makes_the_same_decisions(self):
        """With trial lengths in clocks a search ends as on one node."""
        config = {**fixed("mlr"),
                  "tunables": {"learning_rate": {
                      "type": "float", "min": 1e-3, "max": 10,
                      "scale": "log"}},
                  "tuner": {"searcher": "random", "trial_clocks": 10,
                            "max_trials": 5}}
        one, two = (self.run_on(n, json.loads(json.dumps(config)))
                    for n in (1, 2))
        self.assertEqual(one["setting"]["learning_rate"],
                         two["setting"]["learning_rate"])
        self.assertEqual(one["tuning"]["trials"], two["tuning"]["trials"])
        self.assertEqual(self.tables(one), self.tables(two))

    def test_every_model_trains(self):
        """Without barriers, under the tuner, two nodes."""
        for model, rule in (("ssp", "sgd"), ("essp", "adarevision"),
                            ("async", "adam"), ("barrier", "sgd")):
            config = fixed("mlr", ps={"consistency": model, "float16": True,
                                      "update_rule": rule})
            config["tunables"]["staleness"] = {"type": "int", "fixed": 1}
            config["cluster"]["workers"] = 2
            result = self.run_on(2, config, "--state", f"s-{model}")
            self.assertEqual(result["status"], "finished")
            self.assertEqual(result["epochs"], 2)
            self.check_cluster(result["cluster"], model, 1)
        self.assert_nothing_left()

    def check_cluster(self, cluster, model, staleness):
        """What the nodes told: reads are counted where they are bounded, and
        none is older than that."""
        self.assertEqual(cluster["nodes"], 2)
        self.assertGreater(cluster["bytes_sent"], 0)
        self.assertEqual(cluster["reads"] > 0, model in ("ssp", "essp"))
        seen = cluster["staleness"]
        self.assertEqual(sum(seen["counts"]), cluster["reads"])
        if cluster["reads"]:
            self.assertGreaterEqual(seen["least"], -1 - staleness)
            self.assertGreaterEqual(cluster["mean_staleness"], seen["least"])

    def test_every_app_trains_with_staleness(self):
        """Three clocks behind, on one node, two and four: as good a model as
        with barriers, within what asynchrony costs."""
        for app in APPS:
            config = fixed(app, ps={"consistency": "ssp"})
            config["tunables"]["staleness"] = {"type": "int", "fixed": 3}
            config["stop"]["max_epochs"] = 5
            barriers = self.run_on(1, {**fixed(app), "stop": config["stop"]})
            for nodes in (1, 2, 4):
                config["cluster"] = {"workers": 4}
                result = self.run_on(nodes, config, "--state",
                                     f"s-{app}-{nodes}")
                self.assertEqual(result["epochs"], 5)
                self.assertLess(result["loss"], 1.5 * barriers["loss"],
                                f"{app} on {nodes} nodes")
        self.assert_nothing_left()

    def test_what_cannot_be_loaded_ends_all(self):
        """One word, no node left waiting for another."""
        config = fixed("mlr")
        config["app"] = {"name": "mlr", "data": "nowhere.csv"}
        config["cluster"]["workers"] = 3
        self.write("config.json", config)
        done = self.mltune("run", "config.json", "--set", "cluster.nodes=3")
        self.assert_code(done, 78)
        self.assertIn("nowhere.csv", done.err)
        self.assert_nothing_left()


class Moved(Case):
    """Interrupted, and gone on with elsewhere."""
    # A run that is interrupted while it ends anyway kills its nodes.
    FAULTS = ("Sanitizer", "runtime error:", "Assertion")

    def interrupted(self, config, state):
        """The run's id, with epochs still to come."""
        self.write("config.json", config)
        process = self.start("run", "config.json", "--json", "--state", state)

        def some_epochs():  # read at once: a look takes no program's start
            return process.poll() is not None or any(
                Journal(path.parent.parent.parent, path.parent.name).of(
                    "epoch_ended")
                for path in (self.folder / state).glob("runs/*/session.json"))
        self.wait_until(some_epochs, "an epoch")
        process.send_signal(signal.SIGINT)
        done = self.finish(process)
        if done.code == 0:
            return None
        self.assert_code(done, 130)
        return done.result["run"]

    def move(self, app, before, after, **more):
        """Configuration and result of a run that was moved, and its losses."""
        config = fixed(app, **more)
        config["cluster"] = {"nodes": before[0], "workers": before[1]}
        config["stop"] = {"max_epochs": 10, "plateau_epochs": 1000}
        for tries in range(4):  # after one that was too fast, a longer one
            config["stop"]["max_epochs"] *= 2
            state = f"{app}-{tries}"
            run = self.interrupted(config, state)
            if run:
                break
        self.assertIsNotNone(run, "four runs were over before their end")
        done = self.mltune("resume", run, "--json", "--state", state, "--set",
                           f"cluster.nodes={after[0]}", "--set",
                           f"cluster.workers={after[1]}")
        self.assert_code(done, 0)
        shown = self.mltune("show", run, "--json", "--state", state).result
        self.assertEqual(shown["config"]["cluster"]["nodes"], after[0])
        return config, done.result, [e["loss"] for e in shown["epoch_list"]]

    def tables(self, result):
        return {p.name: p.read_bytes()
                for p in pathlib.Path(result["model"]).glob("*.npy")}

    def test_as_many_workers_on_other_nodes_are_the_same_to_the_last_bit(self):
        """What the snapshot holds is all there is: two nodes go on with what
        one began, one with what two began, as if nothing had been."""
        placed = {"ps": {"access": "place"}}
        for app, before, after, more in (("mlr", (1, 4), (2, 2), {}),
                                         ("lda", (2, 1), (1, 2), {}),
                                         ("mf", (4, 1), (2, 2), placed)):
            config, moved, _ = self.move(app, before, after, **more)
            whole = self.run_config(config, "--json", "--state", f"w-{app}")
            self.assert_code(whole, 0)
            self.assertEqual(moved["epochs"], whole.result["epochs"])
            self.assertEqual(self.tables(whole.result), self.tables(moved),
                             app)
        self.assert_nothing_left()

    def test_other_numbers_of_workers_go_on_training(self):
        """Every app learns on from where it was; lda's counts still are those
        of its tokens."""
        import numpy
        for app, before, after in (("mlr", (1, 2), (3, 1)),
                                   ("mf", (1, 3), (2, 1)),
                                   ("nn", (2, 1), (1, 1)),
                                   ("lda", (1, 3), (2, 1))):
            _, moved, losses = self.move(app, before, after)
            self.assertEqual(len(losses), moved["epochs"])
            self.assertLess(losses[-1], losses[0], app)
            if app != "lda":
                continue
            folder = pathlib.Path(moved["model"])
            words = numpy.load(folder / "word_topic.npy")
            total = numpy.load(folder / "topic_total.npy")
            self.assertGreaterEqual(words.min(), 0)
            self.assertTrue((words.sum(axis=0) == total[0]).all())
        self.assert_nothing_left()

    def test_what_may_not_be_changed_is_refused(self):
        """Before anything is touched."""
        for word in ("app.rank=3", "/seed=4", "clusters=1", "tuner=3"):
            done = self.mltune("resume", "x", "--set", word)
            self.assert_code(done, 2)
            self.assertIn("only cluster, memory, snapshot and journal", done.err)


class Lost(Case):
    # A run killed with its neighbours ends badly, and that is all.
    FAULTS = ("Sanitizer", "runtime error:", "Assertion")

    def begin(self, *words, app=None):
        config = endless_config()
        config["app"]["data"] = "gen:digits?samples=2000&size=12"
        config["app"] = app or config["app"]
        config["cluster"] = {"nodes": 2, "workers": 1}
        config["snapshot"] = {"every": 0.2}
        self.write("config.json", config)
        process = self.start("run", "config.json", "--json", *words)
        self.wait_for_training()
        return process

    def number_of(self, pid):
        words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        return int(words[words.index(b"--node") + 1])

    def test_killed_placed_run_goes_on_elsewhere(self):
        """Four nodes whose rows lie where they are touched are killed; two
        go on from what was written, where rows lie otherwise."""
        config = fixed("mf", ps={"access": "place"})
        config["cluster"] = {"nodes": 4, "workers": 1}
        config["stop"] = {"max_epochs": 100000, "plateau_epochs": 100000}
        config["snapshot"] = {"every": 0.2}
        self.write("config.json", config)
        process = self.start("run", "config.json", "--state", "s")

        def shown(run):
            return self.mltune("show", run, "--json", "--state", "s").result

        def written():
            done = self.mltune("ls", "--json", "--state", "s")
            runs = json.loads(done.out) if done.code == 0 else []
            if not runs:
                return None
            run = runs[0]["run"]
            journal = Journal(self.folder / "s", run)
            return run if journal.of("snapshot_written") else None
        run = self.wait_until(written, "a snapshot")
        process.kill()
        self.finish(process)
        self.wait_until(lambda: not self.marked(), "the nodes to end")
        snapshots = self.folder / "s" / "runs" / run / "snapshots"
        self.assertTrue(list(snapshots.glob("0*/node-3/rows-3")))
        epochs = shown(run)["epochs"]
        process = self.start("resume", run, "--state", "s", "--set",
                             "cluster.nodes=2")

        def gone_on():
            now = shown(run)
            return now and now["epochs"] > epochs + 2
        self.wait_until(gone_on, "the run to go on")
        process.send_signal(signal.SIGINT)
        self.assert_code(self.finish(process), 130)
        paths = [r["path"] for r in Journal(self.folder / "s", run).of(
            "run_resumed")]
        self.assertEqual(len(paths), 1)
        self.assertNotEqual(paths[0], "")
        self.assert_nothing_left()

    def test_killed_node_is_started_again_with_the_others(self):
        """From the last snapshot, with a word that names it."""
        self.killed_node_is_started_again()

    def test_killed_node_of_a_loop_is_started_again_with_the_others(self):
        """No worker of the other node waits for its rows."""
        self.killed_node_is_started_again(
            app={**APPS["mf"], "parallel": "loop",
                 "data": "gen:ratings?users=900&items=700&ratings=60000"})

    def killed_node_is_started_again(self, **begin):
        process = self.begin(**begin)
        old = self.nodes_of(process)
        self.assertEqual(len(old), 2)
        os.kill(next(p for p in old if self.number_of(p) == 1), signal.SIGKILL)

        run = self.mltune("show", "endless", "--json").result["run"]

        def resumed():
            journal = Journal(self.folder / ".mltune", run)
            now = self.nodes_of(process)
            return journal.of("run_resumed") and len(now) == 2 and \
                not set(now) & set(old) and \
                journal.records[-1]["kind"] != "run_resumed"
        self.wait_until(resumed, "the run to go on with new nodes")
        process.send_signal(signal.SIGINT)
        done = self.finish(process)
        self.assert_code(done, 130)
        self.assertRegex(done.err, r"node 1 \(pid \d+\) was killed by SIGKILL")
        self.assert_nothing_left(seconds=20)

    def test_part_that_one_node_cannot_read_is_passed_over_by_all(self):
        """One byte of node 1's part is wrong: node 0, which has read its own,
        gives it back, and both go on from the snapshot before."""
        process = self.begin()
        runs = self.folder / ".mltune/runs"
        self.wait_until(
            lambda: len([p for p in runs.glob("*/snapshots/0*/manifest.json")
                         if p.parent.name.isdigit()]) >= 2, "two snapshots")
        process.send_signal(signal.SIGINT)
        done = self.finish(process)
        self.assert_code(done, 130)
        run = done.result["run"]
        last = Journal(self.folder / ".mltune", run).of(
            "snapshot_written")[-1]["path"]
        part = next(p for p in pathlib.Path(last, "node-1").iterdir()
                    if p.name.startswith("shard"))
        content = bytearray(part.read_bytes())
        content[-100] ^= 1
        part.write_bytes(content)
        process = self.start("resume", run, "--json")

        def resumed():
            records = Journal(self.folder / ".mltune", run).records
            at = [i for i, r in enumerate(records)
                  if r["kind"] == "run_resumed"]
            return len(at) >= 2 and \
                any(r["kind"] == "progress" for r in records[at[-1]:]) and \
                [records[i]["path"] for i in at]
        paths = self.wait_until(resumed, "the run to go on")
        self.assertEqual(paths[0], last)
        self.assertEqual(len(paths), 2)
        self.assertNotIn(paths[1], ("", last))
        process.send_signal(signal.SIGINT)
        done = self.finish(process)
        self.assert_code(done, 130)
        self.assertNotIn("disagree", done.err)
        self.assert_nothing_left(seconds=20)

    def test_interrupted_run_goes_on(self):
        """Each node writes its part of the snapshot, and reads it again."""
        process = self.begin()
        process.send_signal(signal.SIGINT)
        done = self.finish(process)
        self.assert_code(done, 130)
        run = done.result["run"]
        folder = self.folder / ".mltune/runs" / run / "snapshots"
        newest = max(p for p in folder.iterdir() if "-best" not in p.name)
        self.assertEqual(sorted(p.name for p in newest.iterdir()),
                         ["manifest.json", "node-0", "node-1"])
        process = self.start("resume", run, "--json")
        self.wait_until(lambda: len(self.nodes_of(process)) == 2,
                        "both nodes")
        process.send_signal(signal.SIGINT)
        self.assert_code(self.finish(process), 130)
        self.assert_nothing_left(seconds=20)
