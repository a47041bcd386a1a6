"""TensorBoard files that are written while a run goes on, read by a parser of the
format's own description (test_export)."""
import signal

import test_serve
from harness import Case, endless_config, mlr_config
from test_export import hparams, message, scalars, session_of, tfrecords


def restarts(path):
    """Whether a file says that what was before it counts no more."""
    return any(7 in dict(message(record))
               for record in tfrecords(path.read_bytes()))


class TensorBoard(Case):
    def events(self, folder):
        """Of the one file that is in the folder; no step of a tag is there
        twice."""
        path, = folder.iterdir()
        found = scalars(path)
        steps = [(tag, step) for tag, step, _ in found]
        self.assertEqual(len(steps), len(set(steps)))
        return sorted(found)

    def assert_as_exported(self, run, folder):
        """The files say what an export of the run says that is over."""
        done = self.mltune("export", run, "--format", "tensorboard",
                           "--out", "exported")
        self.assert_code(done, 0)
        for part in "training", "trials":
            live = self.events(folder / part)
            self.assertTrue(live)
            self.assertEqual(live, self.events(self.folder / "exported" / part))
        live, written = (
            {str(p.relative_to(root / "hparams")): p.read_bytes()
             for p in (root / "hparams").rglob("events*")}
            for root in (folder, self.folder / "exported"))
        self.assertGreater(len(live), 2)
        self.assertEqual(live, written)

    def test_a_run(self):
        """An option; a folder of the run's name, from where it is called."""
        (self.folder / "sub").mkdir()
        self.write("sub/config.json", mlr_config())
        done = self.mltune("run", "sub/config.json", "--json",
                           "--tensorboard", "logs")
        self.assert_code(done, 0)
        run = done.result["run"]
        self.assert_as_exported(run, self.folder / "logs" / run)
        tags = {tag for tag, *_ in self.events(
            self.folder / "logs" / run / "training")}
        self.assertLessEqual({"loss", "epoch/loss", "epoch/metric",
                              "setting/learning_rate"}, tags)

    def test_the_configuration_names_it(self):
        """A folder from the configuration's, or the run's own."""
        for wanted in "logs", True:
            done = self.run_config({**mlr_config(), "tensorboard": wanted},
                                   "--json")
            run = done.result["run"]
            folder = (self.folder / "logs" / run if wanted == "logs" else
                      self.folder / ".mltune/runs" / run / "tensorboard")
            self.assertTrue(self.events(folder / "training"))
        done = self.run_config({**mlr_config(), "tensorboard": 7})
        self.assert_code(done, 78)
        self.assertIn("/tensorboard", done.err)

    def live(self):
        """Files of the run that is under way, and the epochs in them."""
        files = list(self.folder.glob("logs/*/training/*"))
        try:
            return files, [e for f in files for e in scalars(f)
                           if e[0] == "epoch/loss"]
        except FileNotFoundError:  # a new one has just taken its place
            return [], []

    def test_epochs_come_while_it_runs_and_go_on_after_a_resume(self):
        """Read at any time it is whole records; interrupted and resumed, and
        killed and resumed, nothing is there twice."""
        self.write("config.json", {**endless_config(), "tensorboard": "logs"})
        process = self.start("run", "config.json", "--json")
        for end in signal.SIGINT, signal.SIGKILL, None:
            before, known = self.live()

            def went_on():
                files, epochs = self.live()
                return (set(files) - set(before) and
                        len(epochs) > len(known) and files)
            files = self.wait_until(went_on, "an epoch more in a new file")
            run = files[0].parts[-3]
            if end:
                process.send_signal(end)
                self.finish(process)
                process = self.start("resume", run, "--json")
        process.send_signal(signal.SIGINT)
        self.assert_code(self.finish(process), 130)
        path, = self.live()[0]
        self.assertTrue(restarts(path))
        training = self.events(path.parent)
        self.assertEqual(
            [step for tag, step, _ in training if tag == "epoch/loss"],
            list(range(1, self.mltune("show", run, "--json").result["epochs"]
                       + 1)))
        trials = self.events(path.parent.parent / "trials")
        folder = path.parent.parent / "hparams"
        experiment, = folder.glob("events*")
        self.assertEqual(list(hparams(experiment)[0]), ["experiment"])
        sessions = {int(p.parent.name.removeprefix("trial-")): session_of(p)
                    for p in folder.glob("trial-*/*")}
        self.assertEqual(set(sessions),
                         {step for tag, step, _ in trials
                          if tag == "trial/seconds"})

    def test_files_that_cannot_be_written(self):
        """The run does not mind, and says it once."""
        self.write("file", "no folder")
        done = self.run_config({**mlr_config(), "tensorboard": "file/logs"})
        self.assert_code(done, 0)
        self.assertEqual(
            done.err.count("TensorBoard's files cannot be written, the run "
                           "goes on: "), 1)
        self.assertEqual(done.out.count("finished"), 1)
        log, = self.folder.glob(".mltune/runs/*/log")
        self.assertEqual(log.read_text().count("tensorboard_not_written"), 1)


class OfAService(test_serve.Service):
    def test_it_writes_into_the_state_alone(self):
        """Unless it runs programs, which may write anywhere."""
        config = {**mlr_config(), "tensorboard": "logs"}
        answer = self.submit(config, status=422)
        self.assertEqual(answer["errors"][0]["pointer"], "/tensorboard")
        run = self.submit({**config, "tensorboard": True})
        self.wait_for_status(run, "finished")
        path, = (self.folder / ".mltune/runs" / run).glob(
            "tensorboard/training/*")
        self.assertTrue(scalars(path))
        self.assert_code(self.end(), 143)
        self.launch("--allow-programs")
        run = self.submit(config)
        self.wait_for_status(run, "finished")
        self.assertEqual(len(list(self.folder.glob(
            f"logs/{run}/training/*"))), 1)
