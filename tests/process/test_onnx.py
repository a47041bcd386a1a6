"""Models in ONNX say what `mltune predict` says: in a reader of the tests' own,
and in ONNX Runtime (as WebAssembly, in node)."""
import json
import subprocess
import zipfile

import harness
from harness import Case, mlr_config
from onnx_reader import Model

import numpy

LAYERS = [
    {"type": "conv", "channels": 5, "kernel": 3, "padding": 1},
    {"type": "norm"}, {"type": "relu"},
    {"type": "max_pool", "kernel": 3, "stride": 2, "padding": 1},
    {"type": "conv", "channels": 9, "kernel": 2, "stride": 2},
    {"type": "tanh"},
    {"type": "avg_pool", "kernel": 3, "stride": 2, "padding": 1},
    {"type": "dropout", "rate": 0.25},
    {"type": "dense", "units": 12}, {"type": "norm"}, {"type": "relu"},
    {"type": "dense", "units": "outputs"}]


class Onnx(Case):
    def train(self, out, **app):
        config = mlr_config(max_epochs=1)
        config["app"] = app
        done = self.run_config(config, "--no-tune", "--json", "--out", out)
        self.assert_code(done, 0)

    def export(self, model):
        done = self.mltune("export", model, "--format", "onnx")
        self.assert_code(done, 0)
        self.assertEqual(done.out, f"{model}.onnx\n")
        return Model((self.folder / f"{model}.onnx").read_bytes())

    def runtime(self, jobs):
        """What ONNX Runtime says of [(model, input array)], in one go."""
        list_of = []
        for number, (model, x) in enumerate(jobs):
            x.tofile(self.folder / f"{number}.raw")
            list_of.append({"model": str(self.folder / f"{model}.onnx"),
                            "input": str(self.folder / f"{number}.raw"),
                            "type": x.dtype.name, "shape": x.shape})
        self.write("jobs.json", json.dumps(list_of))
        done = subprocess.run(
            ["node", str(harness.ROOT / "tests/browser/onnx.js"),
             "jobs.json"], cwd=self.folder, timeout=120, check=False,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return [{name: numpy.array(o["data"]).reshape(o["dims"])
                 for name, o in one.items()} for one in json.loads(done.stdout)]

    def predict(self, model, data):
        done = self.mltune("predict", model, data, "--out", f"{model}.npy")
        self.assert_code(done, 0)
        return numpy.load(self.folder / f"{model}.npy")

    def same(self, said, got):
        """Predictions as an array, and the outputs of a model."""
        if "value" in got:
            scale = numpy.abs(said).max()
            numpy.testing.assert_allclose(got["value"], said, rtol=1e-5,
                                          atol=1e-5 * scale)
            return
        numpy.testing.assert_allclose(got["probabilities"], said[:, 1:],
                                      rtol=1e-4, atol=1e-5)
        best = numpy.sort(said[:, 1:], 1)
        clear = best[:, -1] - best[:, -2] > 1e-4
        self.assertGreater(clear.mean(), 0.5)
        numpy.testing.assert_array_equal(got["class"][clear], said[clear, 0])

    def table(self, rows, target):
        """A table of three columns, one of them large with a small spread."""
        rng = numpy.random.default_rng(5)
        x = rng.normal(size=(rows, 3)).round(3)
        x[:, 1] = (x[:, 1] + 5000).round(2)
        y = target(x)
        lines = ["a,b,c,y"] + [",".join(map(str, (*row, of)))
                               for row, of in zip(x, y)]
        self.write("t.csv", "\n".join(lines) + "\n")
        return x.astype(numpy.float32)

    def images(self, data):
        """Generated images as mltune writes them, as uint8[N][C][H][W]."""
        self.assert_code(self.mltune("data", "gen", data, "digits"), 0)
        raw = (self.folder / "digits/train-images-idx3-ubyte").read_bytes()
        count, height, width = numpy.frombuffer(raw[4:16], ">u4").tolist()
        return numpy.frombuffer(raw[16:], numpy.uint8).reshape(
            count, 1, height, width)[:50].copy()

    def test_every_layer_and_kind_of_model(self):
        jobs = []
        pixels = self.images("gen:digits?samples=300&size=12")
        for model, app in [
                ("mlr", {"name": "mlr"}),
                ("net", {"name": "nn", "layers": LAYERS})]:
            self.train(model, data="digits", **app)
            jobs.append((model, pixels,
                         self.predict(model, "digits/train-images-idx3-ubyte")[
                             :50]))
        x = self.table(200, lambda x: numpy.where(
            x[:, 0] + x[:, 1] > 5000, '"so, so"', "no"))
        for model, app in [
                ("rows", {"name": "mlr"}),
                ("deep", {"name": "nn", "layers": [
                    {"type": "norm"}, {"type": "dense", "units": 7},
                    {"type": "tanh"}, {"type": "dense",
                                       "units": "outputs"}]})]:
            self.train(model, data="t.csv", **app)
            jobs.append((model, x, self.predict(model, "t.csv")))
        self.table(200, lambda x: (3000 + 20 * x[:, 0]
                                   - 9 * x[:, 2]).round(3))
        self.train("value", name="nn", data="t.csv", preset="mlp",
                   loss="squared")
        jobs.append(("value", x, self.predict("value", "t.csv")))

        read = {model: self.export(model) for model, _, _ in jobs}
        ran = self.runtime([(model, x) for model, x, _ in jobs])
        for (model, x, said), runtime in zip(jobs, ran):
            with self.subTest(model):
                self.assertEqual(read[model].opset, ("", 13))
                self.same(said, read[model].run(x))
                self.same(said, runtime)
        self.assertEqual(
            read["net"].ops()[3:-2],
            ["Conv", "BatchNormalization", "Relu", "MaxPool", "Conv", "Tanh",
             "AveragePool", "Flatten", "Gemm", "Reshape",
             "BatchNormalization", "Relu", "Flatten", "Gemm"])
        self.assertEqual(json.loads(read["rows"].notes["classes"]),
                         ["no", "so, so"])
        self.assertEqual(json.loads(read["rows"].notes["columns"]),
                         ["a", "b", "c"])
        self.assertEqual(json.loads(read["net"].notes["classes"]),
                         [str(k) for k in range(10)])

    def test_wide_layers_of_several_rows(self):
        """A dense layer whose parameters are cut, the last row in part."""
        pixels = self.images("gen:digits?samples=120&size=16")
        self.train("wide", name="nn", data="digits", layers=[
            {"type": "conv", "channels": 4, "kernel": 3},
            {"type": "dense", "units": 300},
            {"type": "dense", "units": "outputs"}])
        rows = numpy.load(self.folder / "wide/layer1_dense.npy")
        self.assertGreater(len(rows), 1)
        said = self.predict("wide", "digits/train-images-idx3-ubyte")[:50]
        self.same(said, self.export("wide").run(pixels))

    def test_refusals(self):
        """Said with the place and what else there is; no file is left."""
        self.train("lda", name="lda", topics=2,
                   data="gen:bow?docs=20&words=30&topics=2")
        done = self.mltune("export", "lda", "--format", "onnx")
        self.assert_code(done, 78)
        self.assertIn("a model of lda has no form in ONNX", done.err)
        self.assertIn("--format model", done.err)
        self.assertFalse((self.folder / "lda.onnx").exists())
        self.table(60, lambda x: x[:, 0] > 0)
        self.train("net", name="nn", data="t.csv", preset="mlp")
        path = self.folder / "net/layer0_dense.npy"
        good = path.read_bytes()
        path.write_bytes(good[:-4])
        done = self.mltune("export", "net", "--format", "onnx")
        self.assert_code(done, 78)
        self.assertIn("layer0_dense.npy", done.err)
        path.unlink()
        done = self.mltune("export", "net", "--format", "onnx")
        self.assert_code(done, 74)
        self.assertIn("layer0_dense.npy", done.err)
        self.assertFalse((self.folder / "net.onnx").exists())
        path.write_bytes(good)
        self.export("net")
        done = self.mltune("export", "net", "--format", "onnx")
        self.assert_code(done, 2)
        self.assertIn("net.onnx exists", done.err)
        done = self.mltune("export", "nothing", "--format", "onnx")
        self.assert_code(done, 74)
        self.assertIn("found neither", done.err)
        done = self.mltune("export", "net", "--format", "csv")
        self.assertNotEqual(done.code, 0)

    def test_a_runs_name_and_the_folder_as_it_is(self):
        """The model's folder comes as a folder, and as an archive, with all
        that is in it; without the run's model it says so."""
        config = mlr_config(max_epochs=1)
        done = self.run_config(config, "--no-tune", "--json")
        self.assert_code(done, 0)
        model = self.folder / done.result["model"]
        with open(self.folder / "m.onnx", "wb") as out:
            self.assert_code(self.mltune(
                "export", "small-mlr", "--format", "onnx", "--out", "-",
                stdout=out), 0)
        self.assertEqual(Model((self.folder / "m.onnx").read_bytes()).producer,
                         "mltune")
        (model / "more").mkdir()
        (model / "more/big").write_bytes(bytes(range(256)) * 1024)
        done = self.mltune("export", "small-mlr", "--format", "model",
                           "--out", "copy")
        self.assert_code(done, 0)
        with open(self.folder / "m.tar", "wb") as out:
            self.assert_code(self.mltune(
                "export", "small-mlr", "--format", "model", "--out", "-",
                stdout=out), 0)
        subprocess.run(["tar", "xf", "m.tar"], cwd=self.folder, check=True,
                       timeout=60)
        unpacked, = self.folder.glob("small-mlr-*-model")
        files = sorted(p.relative_to(model) for p in model.rglob("*")
                       if p.is_file())
        self.assertIn("weights.npy", map(str, files))
        for place in (self.folder / "copy", unpacked):
            self.assertEqual(files, sorted(
                p.relative_to(place) for p in place.rglob("*")
                if p.is_file()))
            for name in files:
                self.assertEqual((place / name).read_bytes(),
                                 (model / name).read_bytes())
        done = self.mltune("export", "small-mlr", "--format", "zip", "--out",
                           "m.zip")
        self.assert_code(done, 0)
        with zipfile.ZipFile(self.folder / "m.zip") as archive:
            self.assertIsNone(archive.testzip())
            self.assertEqual({i.compress_type for i in archive.infolist()},
                             {zipfile.ZIP_STORED})
            self.assertEqual(
                {i.filename: archive.read(i) for i in archive.infolist()},
                {f"{unpacked.name}/{name}": (model / name).read_bytes()
                 for name in files})
        (model / "link").symlink_to("/etc/passwd")
        done = self.mltune("export", "small-mlr", "--format", "model",
                           "--out", "other")
        self.assert_code(done, 78)
        self.assertFalse((self.folder / "other").exists())
