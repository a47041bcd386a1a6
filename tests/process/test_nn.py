"""The application nn as a user meets it: tuned, saved, evaluated, resumed."""
import json
import signal
import unittest

from harness import Case, RATE

import numpy

LAYERS = [
    {"type": "conv", "channels": 4, "kernel": 3},
    {"type": "norm"},
    {"type": "relu"},
    {"type": "max_pool", "kernel": 2},
    {"type": "dropout", "rate": 0.1},
    {"type": "dense", "units": 16},
    {"type": "tanh"},
    {"type": "dense", "units": "outputs"},
]


def nn_config(**stop):
    return {
        "name": "small-nn",
        "app": {"name": "nn", "data": "gen:digits?samples=1000&size=10",
                "layers": LAYERS},
        "cluster": {"workers": 2},
        "tunables": {
            "learning_rate": RATE,
            "momentum": {"type": "float", "min": 0, "max": 0.99,
                         "default": 0.9},
            "batch_size": {"type": "int", "values": [8, 32], "default": 8}},
        "tuner": {"searcher": "random", "trial_clocks": 12, "max_trials": 6},
        "stop": {"max_epochs": 4, **stop},
        "seed": 7,
    }


class NnTest(Case):
    def test_computes_on_a_device_what_it_computes_here(self):
        """Tuned where a device of host memory computes, roomy or with less
        than a branch needs, a run has the losses of the processor, to the
        bit."""
        results = []
        for device, limit in (("cpu", None), ("fake", None), ("fake", "350KiB")):
            config = nn_config(max_epochs=2)
            config["app"].update(device=device, layers=[
                {"type": "dense", "units": 64}, {"type": "relu"},
                {"type": "dense", "units": 64}, {"type": "tanh"},
                {"type": "dense", "units": 64}, {"type": "relu"},
                {"type": "dense", "units": 64}, {"type": "dropout", "rate": 0.1},
                {"type": "dense", "units": "outputs"}])
            config["cluster"]["workers"] = 1
            if limit:
                config["memory"] = {"device_limit": limit}
            done = self.run_config(config, "--json", "--state", device + str(limit))
            self.assert_code(done, 0)
            results.append({k: done.result[k] for k in
                            ("loss", "metric", "setting", "clocks")})
        self.assertEqual(results[0], results[1])
        self.assertEqual(results[0], results[2])

    def test_says_what_a_device_wants(self):
        """A device with two workers is refused with what to do; "auto" then
        computes here."""
        config = nn_config(max_epochs=1)
        config["app"]["device"] = "fake"
        done = self.run_config(config)
        self.assert_code(done, 78)
        self.assertIn("expected one worker on one node", done.err)
        config["app"]["device"] = "auto"
        self.assert_code(self.run_config(config, "--state", "auto"), 0)

    def test_a_device_has_one_update_rule(self):
        """A rule for each branch, asked for all the same, is refused with what
        to do before the first slice."""
        config = nn_config(max_epochs=1)
        config["app"]["device"] = "fake"
        config["cluster"] = {"workers": 1}
        config["tunables"]["update_rule"] = {"free": True}
        done = self.run_config(config)
        self.assertNotEqual(done.code, 0)
        self.assertIn("pin update_rule (\"fixed\"), or take no device", done.err)

    def test_auto_computes_here_where_a_device_has_no_room(self):
        """Too little for the network's values, and too little for two buffers
        of its largest table: "auto" has the processor's losses, and a device
        asked for by name is refused at the start."""
        config = nn_config(max_epochs=1)
        config["cluster"]["workers"] = 1
        config["app"]["layers"] = [
            {"type": "dense", "units": 256}, {"type": "relu"},
            {"type": "dense", "units": "outputs"}]
        here = self.run_config(config, "--json", "--state", "cpu")
        self.assert_code(here, 0)
        for limit, why in (("64KiB", "no room for its values"),
                           ("600KiB", "two buffers of the largest table")):
            config["memory"] = {"device_limit": limit}
            config["app"]["device"] = "fake"
            done = self.run_config(config, "--state", "named" + limit)
            self.assertNotEqual(done.code, 0)
            self.assertIn(why, done.err)
            config["app"]["device"] = "auto:fake"
            done = self.run_config(config, "--json", "--state", "auto" + limit)
            self.assert_code(done, 0)
            log = next(self.folder.glob(f"auto{limit}/runs/*/node-0.log"))
            self.assertIn("device=cpu", log.read_text())
            self.assertIn(why, log.read_text())
            for key in ("loss", "metric", "setting", "clocks"):
                self.assertEqual(done.result[key], here.result[key])

    def test_tunes_saves_and_evaluates(self):
        config = nn_config()
        done = self.run_config(config, "--json", "--out", "model")
        self.assert_code(done, 0)
        result = done.result
        self.assertEqual(result["status"], "finished")
        self.assertGreaterEqual(result["tuning"]["trials"], 2)
        self.assertGreater(result["best"]["metric"], 0.2)
        network = json.loads((self.folder / "model/network.json").read_text())
        self.assertEqual(network["outputs"], 10)
        self.assertEqual([layer["type"] for layer in network["layers"]],
                         [layer["type"] for layer in LAYERS])
        model = json.loads((self.folder / "model/model.json").read_text())
        self.assertEqual(model["details"], network)
        self.assertEqual({t["name"] for t in model["tables"]},
                         {"layer0_conv", "layer1_norm", "layer1_moments",
                          "layer5_dense", "layer7_dense"})
        # The saved description is one that trains again.
        again = nn_config()
        again["app"]["layers"] = network["layers"]
        self.write("again.json", again)
        self.assert_code(self.mltune("validate", "again.json"), 0)
        score = self.mltune("eval", "model", config["app"]["data"], "--json")
        self.assert_code(score, 0)
        self.assertEqual(score.result["metric"], result["best"]["metric"])
        self.assert_nothing_left()

    def test_a_table_of_numbers_is_learned_with_defaults(self):
        """As a newcomer runs it: 6,000 rows, a smooth function, noise of
        deviation 1. Plain gradient descent that stopped after five epochs
        ended at 3.1 to 3.8."""
        rng = numpy.random.default_rng(3)
        x = rng.normal(size=(6000, 8))
        y = (10 * numpy.sin(x[:, 0]) + 5 * x[:, 1] * x[:, 2] + 3 * x[:, 3] ** 2
             - 4 * x[:, 4] + 2 * numpy.tanh(2 * x[:, 5])
             + rng.normal(size=6000))
        numpy.savetxt(self.folder / "reg.csv", numpy.c_[x, y], delimiter=",",
                      header="a,b,c,d,e,f,g,h,y", comments="", fmt="%.5f")
        done = self.run_config({
            "app": {"name": "nn", "preset": "mlp", "loss": "squared",
                    "data": "reg.csv"},
            "cluster": {"workers": 1}, "tuner": {"trial_clocks": 80},
            "seed": 1}, "--json")
        self.assert_code(done, 0)
        self.assertLess(done.result["best"]["metric"], 1.6)

    def test_a_table_of_classes_is_learned_with_defaults(self):
        """Two half circles in one another. With sgd, the rule of images, this
        run ended with 0.88 of the validation rows right."""
        rng = numpy.random.default_rng(3)
        label = rng.integers(2, size=400)
        angle = rng.uniform(0, numpy.pi, 400)
        x = numpy.c_[numpy.cos(angle), numpy.sin(angle)]
        x[label == 1] = [1, 0.5] - x[label == 1]
        numpy.savetxt(self.folder / "moons.csv", numpy.c_[
            x + rng.normal(0, 0.15, x.shape), label], delimiter=",",
            header="a,b,kind", comments="", fmt="%.5f")
        config = {"app": {"name": "nn", "preset": "mlp", "data": "moons.csv",
                          "test_fraction": 0.3},
                  "cluster": {"workers": 1}, "tuner": {"trial_clocks": 5},
                  "seed": 1}
        plan = self.run_config(config, "--dry-run")
        self.assertIn("rule adam,", plan.out)
        done = self.run_config(config, "--json")
        self.assert_code(done, 0)
        self.assertGreater(done.result["best"]["metric"], 0.96)
        config["app"]["data"] = "gen:digits?samples=100"
        plan = self.run_config(config, "--dry-run")
        self.assertIn("rule sgd,", plan.out)

    def test_saved_arrays_are_the_network(self):
        """Outputs computed again from the arrays, as docs/nn.md lays them out,
        give the accuracy that eval gives."""
        config = nn_config()
        config["app"]["layers"] = [
            {"type": "dense", "units": 12}, {"type": "norm"},
            {"type": "relu"}, {"type": "dense", "units": "outputs"}]
        self.assert_code(self.run_config(config, "--no-tune", "--out", "model",
                                         "--set", "stop.max_epochs=8"), 0)
        spec = "gen:digits?samples=300&test=0&size=10&seed=5"
        self.assert_code(self.mltune("data", "gen", spec, "digits"), 0)
        score = self.mltune("eval", "model", "digits", "--json").result
        folder = self.folder / "digits"
        read = {p.name.split("-")[1]: numpy.frombuffer(p.read_bytes(), "u1")
                for p in folder.iterdir()}
        images = read["images"][16:].reshape(300, 100) / 255
        labels = read["labels"][8:]
        network = json.loads((self.folder / "model/network.json").read_text())

        def table(name):
            return numpy.load(self.folder / "model" / f"{name}.npy").ravel()

        def dense(x, name, units):
            values = table(name)
            weights = values[:units * x.shape[1]].reshape(units, -1)
            return x @ weights.T + values[weights.size:weights.size + units]

        x = (images - network["input"]["mean"][0]) / \
            network["input"]["deviation"][0]
        x = dense(x, "layer0_dense", 12)
        gamma, beta = table("layer1_norm").reshape(2, 12)
        mean, variance = table("layer1_moments").reshape(2, 12)
        epsilon = network["layers"][1]["epsilon"]
        x = gamma * (x - mean) / numpy.sqrt(variance + epsilon) + beta
        x = dense(numpy.maximum(x, 0), "layer3_dense", 10)
        loss = numpy.log(numpy.exp(x).sum(1)) - x[range(300), labels]
        self.assertAlmostEqual((x.argmax(1) == labels).mean(),
                               score["metric"], delta=0.004)
        self.assertAlmostEqual(loss.mean(), score["loss"], delta=1e-4)
        self.assertGreater(score["metric"], 0.3)

    def test_interrupted_run_goes_on(self):
        """The moments, the masks and the cursor are in the snapshot."""
        config = nn_config(max_epochs=1000000, plateau_epochs=1000000)
        config["name"] = "endless"
        self.write("config.json", config)
        process = self.start("run", "config.json", "--json")
        self.wait_for_training()
        process.send_signal(signal.SIGINT)
        done = self.finish(process)
        self.assert_code(done, 130)
        run = done.result["run"]
        self.assertEqual(done.result["status"], "interrupted")
        again = self.start("resume", run, "--json")

        def further():
            shown = self.mltune("show", run, "--json").result
            return shown["clocks"] > done.result["clocks"]
        self.wait_until(further, "the run to go on")
        again.send_signal(signal.SIGINT)
        self.assert_code(self.finish(again), 130)
        self.assert_nothing_left()

    def test_faults_of_the_network_are_told_with_their_places(self):
        config = nn_config()
        config["app"]["layers"] = [
            {"type": "conv", "channels": 4, "kernel": 3, "padding": 3},
            {"type": "maxpool", "kernel": 2}, {"type": "dense", "unit": 3}]
        self.write("config.json", config)
        done = self.mltune("validate", "config.json")
        self.assert_code(done, 78)
        for words in ("/app/layers/0/padding: expected at most 2",
                      '/app/layers/1/type: expected one of "dense"',
                      'did you mean "max_pool"?', "/app/layers/2/units",
                      'did you mean "units"?'):
            self.assertIn(words, done.err)
        # Faults that only the data show are told when they are read.
        config["app"]["layers"] = [{"type": "conv", "channels": 4,
                                    "kernel": 11}]
        done = self.run_config(config)
        self.assert_code(done, 78)
        self.assertIn("/app/layers/0 (conv): ", done.err)


if __name__ == "__main__":
    unittest.main()
