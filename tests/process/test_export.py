"""Exports, read back by parsers of their own, and by the programs they are for
where these are installed."""
import csv
import filecmp
import http.client
import io
import json
import os
import pathlib
import shutil
import signal
import socket
import sqlite3
import struct
import subprocess
import tarfile

from harness import Case, lengthen, mlr_config
from test_serve import Service


def crc32c(data):
    """Bit by bit, from the polynomial: nothing in common with ours."""
    crc = 0xffffffff
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
    return crc ^ 0xffffffff


def masked(data):
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xa282ead8) & 0xffffffff


def tfrecords(data):
    """The records of a file: length, its checksum, data, their checksum."""
    while data:
        length, length_crc = struct.unpack("<QI", data[:12])
        body, data = data[12:12 + length], data[12 + length:]
        body_crc, = struct.unpack("<I", data[:4])
        assert masked(struct.pack("<Q", length)) == length_crc
        assert masked(body) == body_crc
        yield body
        data = data[4:]


def varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 0x7f) << shift
        shift += 7
        at += 1
        if data[at - 1] < 0x80:
            return value, at


def message(data):
    """Field number and value of each field of a protocol buffer."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        field, wire = key >> 3, key & 7
        if wire == 0:
            value, at = varint(data, at)
        elif wire == 1:
            value, at = struct.unpack("<d", data[at:at + 8])[0], at + 8
        elif wire == 5:
            value, at = struct.unpack("<f", data[at:at + 4])[0], at + 4
        else:
            assert wire == 2
            length, at = varint(data, at)
            value, at = data[at:at + length], at + length
        yield field, value


def scalars(path):
    """(tag, step, value) of an event file; its first event is the version."""
    found = []
    for i, record in enumerate(tfrecords(path.read_bytes())):
        event = dict(message(record))
        assert event[1] > 1e9
        if i == 0:
            assert event[3] == b"brain.Event:2"
            continue
        if 7 in event:  # a new file of a run: what was before counts no more
            assert i == 1 and dict(message(event[7])) == {1: 1}
            continue
        value = dict(message(dict(message(event[5]))[1]))
        found.append((value[1].decode(), event.get(2, 0), value[2]))
    return found


def each(data, field):
    """All values of a field that repeats."""
    return [value for number, value in message(data) if number == field]


def protobuf_value(data):
    """google.protobuf.Value, a number or a text."""
    (field, value), = message(data)
    return value if field == 2 else value.decode()


def hparams(path):
    """What a file says to TensorBoard's plug-in hparams: the message by its name
    (plugins/hparams/plugin_data.proto), and the scalars by their tags."""
    told, measures = {}, {}
    for record in list(tfrecords(path.read_bytes()))[1:]:
        value = dict(message(dict(message(dict(message(record))[5]))[1]))
        tag = value[1].decode()
        if 9 not in value:
            measures[tag] = value[2]
            continue
        metadata = dict(message(value[9]))
        plugin = dict(message(metadata[1]))
        tensor = dict(message(value[8]))
        assert (metadata[4], plugin[1]) == (2, b"hparams")
        assert (tensor[1], tensor[5]) == (1, bytes(4))
        (field, data), = message(plugin[2])
        name = {2: "experiment", 3: "session_start_info",
                4: "session_end_info"}[field]
        assert tag == "_hparams_/" + name
        told[name] = data
    return told, measures


def tunables_of(experiment):
    """Name, type, and the domain: its ends, or its values."""
    found = {}
    for info in each(experiment, 4):
        known = dict(message(info))
        domain = None
        if 6 in known:
            domain = tuple(value for _, value in message(known[6]))
        elif 5 in known:
            domain = [protobuf_value(v) for v in each(known[5], 1)]
        found[known[1].decode()] = known.get(4, 0), domain
    return found


def session_of(path):
    """Setting, measures, status, and when it began and ended."""
    told, measures = hparams(path)
    start, end = told["session_start_info"], dict(message(
        told["session_end_info"]))
    setting = {}
    for entry in each(start, 1):
        pair = dict(message(entry))
        setting[pair[1].decode()] = protobuf_value(pair[2])
    began, = each(start, 5)
    return setting, measures, end[1], began, end[2]


class Export(Case):
    def setUp(self):
        super().setUp()
        self.done = self.run_config(mlr_config(), "--json")
        self.assert_code(self.done, 0)
        self.run_id = self.done.result["run"]

    def export(self, form, *words, code=0):
        done = self.mltune("export", "small-mlr", "--format", form, *words)
        self.assert_code(done, code)
        return done

    def trials(self):
        return json.loads(self.mltune(
            "trials", "small-mlr", "--json").out)

    def table(self, name):
        with open(self.folder / "tables" / name, newline="") as file:
            return list(csv.DictReader(file))

    def test_csv(self):
        """Tables whose numbers are those of the run."""
        self.export("csv", "--out", "tables")
        known = self.trials()
        trials = self.table("trials.csv")
        self.assertEqual(len(trials), len(known))
        for row, trial in zip(trials, known):
            self.assertEqual(int(row["trial"]), trial["trial"])
            self.assertEqual(row["label"], trial["label"])
            self.assertEqual(float(row["learning_rate"]),
                             trial["setting"]["learning_rate"])
            if isinstance(trial["speed"], float):
                self.assertEqual(float(row["speed"]), trial["speed"])
        epochs = [e for e in self.table("epochs.csv")
                  if e["surviving"] == "true"]
        self.assertEqual(int(epochs[-1]["epoch"]), self.done.result["epochs"])
        self.assertEqual(float(epochs[-1]["loss"]), self.done.result["loss"])
        self.assertEqual(float(epochs[-1]["learning_rate"]),
                         self.done.result["setting"]["learning_rate"])
        rates = {str(t["setting"]["learning_rate"]) for t in known}
        schedule = self.table("schedule.csv")
        rates |= {row["learning_rate"] for row in schedule}
        for row in self.table("epochs.csv"):
            self.assertIn(row["learning_rate"], rates)
        points = self.table("progress.csv")
        self.assertEqual(sum(int(p["clocks"]) for p in points
                             if p["surviving"] == "true"),
                         max(int(p["branch_clock"]) for p in points
                             if p["surviving"] == "true"))
        self.assertEqual(len(self.table("schedule.csv")),
                         len(self.done.result["schedule"]))

    def test_jsonl(self):
        """Every record, in order, from the first to the last."""
        out = self.export("jsonl", "--out", "-").out
        records = [json.loads(line) for line in out.splitlines()]
        self.assertEqual(records[0]["kind"], "run_started")
        self.assertEqual(records[-1]["kind"], "run_finished")
        self.export("jsonl")
        written = (self.folder / f"{self.run_id}.jsonl").read_text()
        self.assertEqual(written, out)

    def test_tensorboard(self):
        """Event files by the format's description; by TensorBoard if it is
        there."""
        self.export("tensorboard", "--out", "logs")
        self.export("csv", "--out", "tables")
        training, = (self.folder / "logs/training").iterdir()
        found = scalars(training)
        losses = [(step, value) for tag, step, value in found if tag == "loss"]
        points = [(int(p["clock"]), float(p["loss"]))
                  for p in self.table("progress.csv")
                  if p["surviving"] == "true"]
        self.assertEqual([s for s, _ in losses], [s for s, _ in points])
        for (_, a), (_, b) in zip(losses, points):
            self.assertAlmostEqual(a, b, delta=1e-6 * abs(b) + 1e-12)
        epochs = [step for tag, step, _ in found if tag == "epoch/loss"]
        self.assertEqual(epochs,
                         list(range(1, self.done.result["epochs"] + 1)))
        trials, = (self.folder / "logs/trials").iterdir()
        found = scalars(trials)
        self.assertEqual(
            [step for tag, step, _ in found if tag == "trial/speed"],
            [t["trial"] for t in self.trials()])
        rates = [value for tag, _, value in found
                 if tag == "setting/learning_rate"]
        for value, trial in zip(rates, self.trials()):
            self.assertAlmostEqual(
                value / trial["setting"]["learning_rate"], 1, delta=1e-6)
        self.check_with("tensorboard.backend.event_processing.event_accumulator",
                        f"a = m.EventAccumulator({str(training)!r}); a.Reload();"
                        f"print(len(a.Scalars('epoch/loss')))",
                        str(self.done.result["epochs"]))

    def test_hparams(self):
        """What TensorBoard's table of settings is made of, by the format's
        description; by its own backend if that is there."""
        self.export("tensorboard", "--out", "logs")
        root = self.folder / "logs/hparams"
        path, = root.glob("events*")
        told, measures = hparams(path)
        self.assertEqual((list(told), measures), (["experiment"], {}))
        experiment = told["experiment"]
        known = tunables_of(experiment)
        rate = known["learning_rate"]
        self.assertEqual(rate[0], 3)
        self.assertEqual(rate[1], (
            mlr_config()["tunables"]["learning_rate"]["min"],
            mlr_config()["tunables"]["learning_rate"]["max"]))
        self.assertEqual(known["batch_size"], (3, [16, 64]))
        tags = [dict(message(dict(message(info))[1]))[2].decode()
                for info in each(experiment, 5)]
        self.assertIn("trial/speed", tags)
        trials = self.trials()
        self.assertEqual({p.name for p in root.glob("trial-*")},
                         {f"trial-{t['trial']}" for t in trials})
        statuses = {"converging": 1, "unstable": 1, "stopped": 1,
                    "diverged": 2, "failed": 2, "interrupted": 0}
        for trial in trials:
            path, = (root / f"trial-{trial['trial']}").iterdir()
            setting, measures, status, began, ended = session_of(path)
            self.assertEqual(setting, trial["setting"])
            self.assertLessEqual(set(setting), set(known))
            self.assertLessEqual(set(measures), set(tags))
            self.assertEqual(measures["trial/search"], trial["search"])
            self.assertEqual(status, statuses[trial["label"]])
            self.assertGreater(began, 1e9)
            self.assertLessEqual(began, ended)
            if isinstance(trial["speed"], float):
                self.assertAlmostEqual(measures["trial/speed"], trial["speed"],
                                       delta=1e-6 * abs(trial["speed"]))
            else:
                self.assertNotIn("trial/speed", measures)
        self.check_with(
            "tensorboard.plugins.hparams.metadata",
            f"import pathlib; from tensorboard.backend.event_processing."
            f"event_accumulator import EventAccumulator as A; "
            f"a = A({str(root)!r}); a.Reload(); "
            f"c = a.PluginTagToContent('hparams')[m.EXPERIMENT_TAG]; "
            f"print(len(m.parse_experiment_plugin_data(c).hparam_infos))",
            str(len(known)))

    def check_with(self, module, code, expected):
        """What the program itself reads, where Debian's Python has it."""
        probe = subprocess.run(
            ["/usr/bin/python3", "-W", "ignore", "-c",
             f"import {module} as m; {code}"],
            capture_output=True, text=True, cwd=self.folder)
        if "ModuleNotFoundError" in probe.stderr:
            return False
        self.assertEqual(probe.returncode, 0, probe.stderr)
        self.assertEqual(probe.stdout.strip(), expected)
        return True

    def test_mlflow(self):
        """A run with its curves, and one for each trial, by their files."""
        self.export("mlflow", "--out", "mlruns")
        runs = {}
        for folder in (self.folder / "mlruns/1").iterdir():
            if folder.is_dir():
                meta = dict(line.split(": ", 1) for line in
                            (folder / "meta.yaml").read_text().splitlines())
                self.assertEqual(meta["run_id"], folder.name)
                self.assertRegex(folder.name, "^[0-9a-f]{32}$")
                runs[json.loads(meta["run_name"])] = (folder, meta)
        parent, meta = runs.pop("small-mlr")
        self.assertEqual(meta["status"], "3")
        # The model is the run's artefact, where MLflow looks for it.
        artefacts = parent / "artifacts"
        self.assertEqual(json.loads(meta["artifact_uri"]), str(artefacts))
        model = pathlib.Path(self.done.result["model"])
        self.assertEqual({str(p.relative_to(artefacts)): p.read_bytes()
                          for p in artefacts.rglob("*") if p.is_file()},
                         {"model/" + str(p.relative_to(model)): p.read_bytes()
                          for p in model.rglob("*") if p.is_file()})
        self.assertTrue((artefacts / "model/model.json").is_file())
        self.assertEqual(len(runs), len(self.trials()))
        last = (parent / "metrics/epoch_loss").read_text().split()[-2]
        self.assertEqual(float(last), self.done.result["loss"])
        for trial in self.trials():
            folder, meta = runs[f"trial-{trial['trial']}"]
            self.assertEqual(
                float((folder / "params/learning_rate").read_text()),
                trial["setting"]["learning_rate"])
            self.assertEqual((folder / "tags/mlflow.parentRunId").read_text(),
                             parent.name)
            self.assertEqual(
                len((folder / "metrics/speed").read_text().split()), 3)
            self.assertLessEqual(int(meta["start_time"]), int(meta["end_time"]))
        self.check_with("mlflow.tracking",
                        "c = m.MlflowClient('file:mlruns'); "
                        "print(len(c.search_runs(['1'])), "
                        f"[a.path for a in c.list_artifacts('{parent.name}')])",
                        f"{len(runs) + 1} ['model']")
        # A link in its folder costs the model alone, in words.
        (model / "link").symlink_to("model.json")
        self.export("mlflow", "--out", "linked")
        linked = self.folder / "linked/1" / parent.name
        self.assertIn("link", (linked / "tags/mltune.model_left_out").read_text())
        self.assertFalse((linked / "artifacts").exists())
        self.assertFalse((parent / "tags/mltune.model_left_out").exists())
        (model / "link").unlink()
        # Without its model's folder the run is exported all the same.
        model.rename(self.folder / "moved")
        self.export("mlflow", "--out", "without")
        parent = self.folder / "without/1" / parent.name
        self.assertEqual((parent / "tags/mltune.model").read_text(), str(model))
        self.assertFalse((parent / "artifacts").exists())

    def test_optuna(self):
        """A log that Optuna replays to the same trials."""
        self.export("optuna-journal", "--out", "study.log")
        lines = [json.loads(line) for line in
                 (self.folder / "study.log").read_text().splitlines()]
        known = self.trials()
        self.assertEqual(sum(l["op_code"] == 0 for l in lines),
                         max(t["search"] for t in known))
        trials = [l for l in lines if l["op_code"] == 4]
        self.assertEqual(len(trials), len(known))
        judged = [t for t in known if t["label"] in ("converging", "unstable")]
        best = max(t["speed"] for t in judged if t["search"] == 1)
        code = ("import optuna\n"
                "s = optuna.storages.JournalStorage("
                "optuna.storages.JournalFileStorage('study.log'))\n"
                f"t = optuna.load_study(study_name='{self.run_id}/search-1',"
                " storage=s)\n"
                "print(len(t.trials), repr(t.best_value))")
        probe = subprocess.run(
            ["/usr/bin/python3", "-W", "ignore", "-c", code],
            capture_output=True, text=True, cwd=self.folder)
        self.assertEqual(probe.returncode, 0, probe.stderr)
        first = sum(t["search"] == 1 for t in known)
        self.assertEqual(probe.stdout.split(), [str(first), repr(best)])

    def test_what_is_wrong_is_said(self):
        """And nothing is written over."""
        done = self.mltune("export", "small-mlr", "--format", "xml")
        self.assert_code(done, 2)
        self.assertIn("optuna-journal", done.err)
        self.assert_code(self.mltune("export", "small-mlr"), 2)
        self.export("csv", "--out", "tables")
        before = (self.folder / "tables/trials.csv").read_bytes()
        self.assertIn("not empty",
                      self.export("csv", "--out", "tables", code=2).err)
        self.assertEqual((self.folder / "tables/trials.csv").read_bytes(),
                         before)
        self.export("jsonl", "--out", "one")
        self.assertIn("exists", self.export("jsonl", "--out", "one", code=2).err)
        self.export("jsonl", "--out", "no/such/folder", code=74)
        done = self.mltune("export", "another", "--format", "csv")
        self.assertNotEqual(done.code, 0)

    def test_folders_go_to_pipes_as_archives(self):
        """Python's own reader of archives finds the files of the folder."""
        for form in "csv", "tensorboard", "mlflow":
            self.export(form, "--out", form)
            with open(self.folder / "tar", "wb") as out:
                self.assert_code(self.mltune(
                    "export", "small-mlr", "--format", form, "--out", "-",
                    stdout=out), 0)
            assert_archive(self, (self.folder / "tar").read_bytes(),
                           self.folder / form, f"{self.run_id}-{form}")


def assert_archive(case, data, folder, prefix):
    """The files of @folder, under @prefix, and no others."""
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        tar.extractall(case.folder / "unpacked")
        names = {m.name for m in tar.getmembers()}
        case.assertTrue(all(m.isfile() for m in tar.getmembers()))
    files = {str(p.relative_to(folder)) for p in folder.rglob("*")
             if p.is_file()}
    case.assertEqual(names, {f"{prefix}/{f}" for f in files})
    for name in files:
        one, other = folder / name, case.folder / "unpacked" / prefix / name
        if name.endswith("meta.yaml"):  # says where the folder is
            text = one.read_text().replace(str(folder), prefix)
            case.assertEqual(text, other.read_text())
        else:
            case.assertTrue(filecmp.cmp(one, other, False), name)


class OverHttp(Service):
    """What `mltune export` writes, from the server: by processes that give way to
    all others (nice 10), so that on a busy machine each takes ten times as long.
    Few are started therefore, and only those of a long run have much to do."""

    def setUp(self):
        super().setUp()
        self.run_id = self.submit(mlr_config())
        self.wait_for_status(self.run_id, "finished")

    def target(self, form):
        return f"/api/v1/runs/{self.run_id}/export?format={form}"

    def fetch(self, form, method="GET"):
        connection = http.client.HTTPConnection(*self.address, timeout=60)
        try:
            connection.request(method, self.target(form))
            reply = connection.getresponse()
            return reply, reply.read()
        finally:
            connection.close()

    def slow(self, status=200, token=None):
        """A connection that has read only the beginning of an export, by
        @token or as this user."""
        s = socket.socket()
        self.addCleanup(s.close)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        s.settimeout(60)
        s.connect(self.address)
        s.sendall(f"GET {self.target('jsonl')} HTTP/1.1\r\n"
                  "Host: {}:{}\r\n{}\r\n".format(
                      *self.address, token and
                      f"Authorization: Bearer {token}\r\n" or "").encode())
        answer = s.recv(64)
        self.assertEqual(answer[:12], b"HTTP/1.1 %d" % status)
        return s

    def writers(self):
        """Processes that write exports."""
        found = []
        for pid in self.marked():
            try:
                words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
            except OSError:
                continue
            if words.split(b"\0")[1:2] == [b"export"]:
                found.append(pid)
        return found

    def check_formats(self):
        """Every format is what the verb writes."""
        for form in "csv", "tensorboard", "mlflow":
            reply, body = self.fetch(form)
            self.assertEqual(reply.status, 200)
            self.assertEqual(reply.headers["Content-Type"],
                             "application/x-tar")
            self.assertEqual(
                reply.headers["Content-Disposition"],
                f'attachment; filename="{self.run_id}-{form}.tar"')
            self.assert_code(self.mltune("export", self.run_id, "--format",
                                         form, "--out", form), 0)
            assert_archive(self, body, self.folder / form,
                           f"{self.run_id}-{form}")
        for form in "jsonl", "optuna-journal":
            reply, body = self.fetch(form)
            self.assertEqual(reply.headers["Content-Type"],
                             "application/x-ndjson")
            self.assertEqual(body.decode(), self.mltune(
                "export", self.run_id, "--format", form, "--out", "-").out)
        reply, body = self.fetch("csv", "HEAD")
        self.assertEqual((reply.status, body), (200, b""))
        self.assertEqual(self.writers(), [])

    def check_refusals(self):
        self.assertEqual(self.get(self.target("xml"), 400)["code"],
                         "invalid_parameter")
        self.assertEqual(self.get("/api/v1/runs/none/export", 404)["code"],
                         "run_not_found")
        # An export that fails before its first byte.
        journal = self.folder / ".mltune/mltune.db"
        journal.rename(self.folder / "away")
        self.assertEqual(self.get(self.target("csv"), 500)["code"],
                         "export_failed")
        (self.folder / "away").rename(journal)
        self.assertEqual(self.fetch("csv")[0].status, 200)
        self.assert_logged(self.end(), "csv")

    def check_broken_off(self):
        """Such a one does not pass for whole."""
        s = self.slow()
        writer, = self.writers()
        os.kill(writer, signal.SIGKILL)
        text = b""
        while piece := s.recv(65536):
            text += piece
        # The empty chunk that ends an answer never came.
        self.assertFalse(text.endswith(b"0\r\n\r\n"))

    def check_few_at_a_time(self):
        """Of one token, of all but an admin, and in all; none is left."""
        reader = self.mltune("token", "add", "reader", "--role",
                             "read").out.strip()
        slow = [self.slow(token=reader) for _ in range(2)]
        self.slow(503, reader)
        slow.append(self.slow())
        self.slow(503)
        slow.append(self.slow(token=self.token))
        self.assertEqual(len(self.writers()), 4)
        self.slow(503, self.token)
        self.assertEqual(self.get(self.target("csv"), 503)["code"],
                         "too_many_exports")
        # The server answers others meanwhile.
        self.assertEqual(self.run_now(self.run_id)["status"], "finished")
        for s in slow[:3]:
            s.close()
        self.wait_until(lambda: len(self.writers()) == 1,
                        "the writers to be gone")
        self.slow()
        # The last ones end with the service.
        done = self.end()
        self.assert_code(done, 143)
        self.wait_until(lambda: not self.marked(), "the last writers to go")
        self.assert_logged(done, "jsonl")

    def assert_logged(self, done, form):
        """An export that failed is in the log."""
        self.assertIn(f"export_failed run={self.run_id} format={form}",
                      done.err)

    def check_model(self):
        """The model's folder as an archive, and as a file of ONNX; the same
        bytes as from the command line."""
        path = f"/api/v1/runs/{self.run_id}/model"
        for query, form, kind, name in (
                ("", "model", "application/x-tar", "model.tar"),
                ("?format=tar", "model", "application/x-tar", "model.tar"),
                ("?format=zip", "zip", "application/zip", "zip"),
                ("?format=onnx", "onnx", "application/octet-stream", "onnx")):
            connection = http.client.HTTPConnection(*self.address, timeout=60)
            connection.request("GET", path + query)
            reply = connection.getresponse()
            body = reply.read()
            connection.close()
            self.assertEqual(reply.status, 200)
            self.assertEqual(reply.headers["Content-Type"], kind)
            self.assertRegex(reply.headers["Content-Disposition"],
                             f'filename="{self.run_id}[-.]{name}"')
            with open(self.folder / "out", "wb") as out:
                self.assert_code(self.mltune(
                    "export", self.run_id, "--format", form, "--out", "-",
                    stdout=out), 0)
            self.assertEqual(body, (self.folder / "out").read_bytes())
        run = self.run_now(self.run_id)
        self.assertEqual(run["model_info"]["loss"], run["best"]["loss"])
        self.assertEqual(run["model_info"]["metric"], run["best"]["metric"])
        self.assertGreater(run["model_info"]["bytes"], 1000)
        # Before its end a run has none.
        held = self.submit(mlr_config(), "?held=true")
        connection = http.client.HTTPConnection(*self.address, timeout=60)
        connection.request("GET", f"/api/v1/runs/{held}/model")
        reply = connection.getresponse()
        self.assertEqual(reply.status, 404)
        told = json.loads(reply.read())
        connection.close()
        self.assertEqual(told["code"], "model_not_found")
        self.assertIn("has written no model yet", told["detail"])
        self.assertIsNone(self.run_now(held)["model_info"])

    def test_exports_over_http(self):
        """One after the other, of one run."""
        self.check_formats()
        self.check_model()
        self.check_refusals()

    def test_exports_of_a_long_run(self):
        """Clients that read slowly, or no further."""
        lengthen(self.folder / ".mltune")
        self.check_broken_off()
        self.check_few_at_a_time()


class Models(Service):
    """A run's model, from the server."""

    def test_models_that_are_not_as_they_were_written(self):
        """A folder of the run's name where the service is, a link among the
        model's files, and a model that was moved."""
        self.run_id = self.submit(mlr_config(max_epochs=1))
        self.wait_for_status(self.run_id, "finished")
        path = f"/api/v1/runs/{self.run_id}/model"
        model = self.folder / ".mltune/runs" / self.run_id / "model"
        other = self.folder / self.run_id
        shutil.copytree(model, other)
        (other / "secret").write_text("not the model's")
        connection = http.client.HTTPConnection(*self.address, timeout=60)
        connection.request("GET", path)
        reply = connection.getresponse()
        self.assertFalse(b"secret" in reply.read())
        connection.close()
        self.assertEqual(reply.status, 200)
        words = ("export", self.run_id, "--format", "model", "--out")
        self.assert_code(self.mltune(*words, "whole", "--run"), 0)
        self.assertFalse((self.folder / "whole/secret").exists())
        self.assert_code(self.mltune(*words, "shadow"), 0)
        self.assertTrue((self.folder / "shadow/secret").exists())
        shutil.rmtree(other)
        # Behind more bytes than an answer waits for.
        (model / "x.npy").write_bytes(bytes(1 << 20))
        (model / "z").symlink_to("model.json")
        self.assertEqual(self.get(path, 500)["code"], "export_failed")
        done = self.mltune(*words, "-")
        self.assertEqual((done.code, done.out), (78, ""))
        self.assertIn("model/z: expected a file of the model", done.err)
        (model / "z").unlink()
        (model / "x.npy").unlink()
        model.rename(self.folder / "moved")
        for query in "", "?format=onnx":
            told = self.get(path + query, 404)
            self.assertEqual(told["code"], "model_not_found")
            self.assertIn("no longer where", told["detail"])
        done = self.end()
        self.assert_code(done, 143)
        self.assertIn(f"export_failed run={self.run_id} format=model",
                      done.err)
