"""mltune.tune: runs started from scripts and notebooks."""
import io
import json
import signal
import subprocess
import sys
import textwrap
import time
import types
import unittest
from unittest import mock

from harness import MLTUNE, ROOT, Case

sys.path.insert(0, str(ROOT / "apps/python"))

from mltune import _show, _tune  # noqa: E402

TRAIN = """
import mltune
import mltune.numpy

def train(cfg):
    import numpy as np
    r = np.random.RandomState(1)
    x = r.randn(600, 5)
    y = x @ r.randn(5)
    params = {"w": np.zeros(5)}
    step = mltune.numpy.SGD(params)
    run = mltune.numpy.Run(params, step, samples=500, validation_samples=100,
                           loss_floor=0)

    @run.validate(metric="rmse", reduction="sqrt_mean")
    def test():
        return ((x[500:] @ params["w"] - y[500:]) ** 2).sum(), 100
    scale = run.tunable("scale", 1.0)
    for batch in run.train():
        e = x[batch.samples] @ params["w"] - y[batch.samples]
        batch.loss((e ** 2).mean() * cfg.get("factor", 1))
        step({"w": 2 / len(e) * e @ x[batch.samples]})
"""

SMALL = """
SMALL = {"tuner": {"searcher": "random", "trial_clocks": 10}}
"""


class Started(Case):
    def setUp(self):
        super().setUp()
        self.env.update(PYTHONPATH=str(ROOT / "apps/python"),
                        MLTUNE_PROGRAM=MLTUNE, PYTHONDONTWRITEBYTECODE="1")

    def begin(self, main, name="script.py", head=TRAIN):
        self.write(name, head + SMALL + '\nif __name__ == "__main__":\n' +
                   textwrap.indent(textwrap.dedent(main), "    "))
        return subprocess.Popen(
            [sys.executable, name], stdin=subprocess.DEVNULL, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=self.env,
            cwd=self.folder)

    def script(self, main, **options):
        done = self.finish(self.begin(main, **options))
        self.assert_code(done, 0)
        return done

    def told(self, main, **options):
        return json.loads(
            self.script(main, **options).out.strip().splitlines()[-1])


class Scripts(Started):
    def test_a_function_of_a_script(self):
        """Its result has the run's facts, columns of the epochs and trials,
        and the model."""
        told = self.told("""
            import json, os
            r = mltune.tune(train, {"learning_rate": (0.001, 0.5),
                                    "batch_size": [16, 64]},
                            settings={"factor": 2}, max_epochs=4, seed=3,
                            config=SMALL)
            print(repr(r))
            print(json.dumps({
                "run": r.run, "status": r.status, "reason": r.reason,
                "epochs": r.history["epoch"].tolist(),
                "kind": r.history["loss"].dtype.kind,
                "names": sorted(r.history), "best": r.best,
                "setting": r.setting, "best_setting": r.best_setting,
                "trials": len(r.trials["trial"]), "seed": r.seed,
                "w": sorted(r.model), "path": str(r.path)}))
        """)
        self.assertEqual((told["status"], told["reason"], told["seed"]),
                         ("finished", "max_epochs", 3))
        # Of the epochs that trials trained the survivor's alone.
        self.assertEqual(told["epochs"][-2:], [3, 4])
        self.assertEqual(told["kind"], "f")
        self.assertLessEqual({"epoch", "loss", "metric", "learning_rate",
                              "batch_size"}, set(told["names"]))
        self.assertEqual(set(told["best_setting"]),
                         {"learning_rate", "batch_size"})
        for name, value in told["best_setting"].items():
            self.assertGreater(value, 0, name)
        self.assertGreater(told["trials"], 1)
        self.assertEqual(told["w"], ["w"])
        self.assertLess(told["best"]["metric"], 1)
        self.assertTrue(told["run"].startswith("train-"))
        done = self.mltune("show", told["run"], "--json")
        self.assertEqual(done.result["status"], "finished")
        self.assert_nothing_left()

    def test_a_function_of_a_module_and_a_class(self):
        self.write("mine.py", TRAIN + """
class Line(mltune.Trainable):
    samples = 100
    def setup(self, config):
        import numpy as np
        self.w, self.x = 0.0, np.linspace(-1, 1, 100)
    def step(self, batch):
        x = self.x[batch.samples]
        e = self.w * x - 3 * x
        self.w -= batch.setting["learning_rate"] * 2 * float((e * x).mean())
        return (e ** 2).mean()
    def apply(self, setting):
        setting["learning_rate"]
""")
        told = self.told("""
            import json, mine
            a = mltune.tune(mine.train, max_epochs=2, config=SMALL,
                            progress=False)
            b = mltune.tune(mine.Line, {"learning_rate": {}}, max_epochs=2,
                            config=SMALL, name="My Line")
            print(json.dumps([a.status, b.status, b.run,
                              b.model["attributes"]["w"]]))
        """, head="import mltune\n")
        self.assertEqual(told[:2], ["finished", "finished"])
        self.assertAlmostEqual(told[3], 3, delta=2.9)
        self.assertTrue(told[2].startswith("my-line-"))

    def test_a_function_within_another(self):
        """By cloudpickle; without it the message says what to do."""
        main = """
            import json
            def make(n):
                def inner(cfg):
                    assert n == 7
                    train(cfg)
                return inner
            r = mltune.tune(make(7), max_epochs=2, config=SMALL)
            print(json.dumps(r.status))
        """
        self.assertEqual(self.told(main), "finished")
        self.write("cloudpickle.py", "raise ImportError('not there')\n")
        done = self.finish(self.begin(main))
        self.assertEqual(done.code, 1)
        self.assertRegex(done.err, "HandOverError: .*within another function")
        self.assertEqual(
            len(list(self.folder.glob(".mltune/tune/inner-*"))), 1)

    def test_a_function_of_a_notebook(self):
        """Without a file: by cloudpickle, else by source, with the imports,
        values and functions that it uses."""
        cells = TRAIN.replace("    import numpy as np\n", "") + """
import numpy as np
import math as m
from fractions import Fraction
HALF = [0.5]
def helper(cfg):
    assert m.floor(2.5) == 2 and HALF == [0.5] and Fraction(1, 2) < 1
    train(cfg)
def chosen(cfg):
    helper(cfg)
"""
        notebook = """
import linecache, sys, json
source = open("cells.txt").read()
name = "<cell 1>"
linecache.cache[name] = (len(source), None, source.splitlines(True), name)
import __main__
del __main__.__file__
exec(compile(source, name, "exec"), __main__.__dict__)
import mltune
r = mltune.tune(chosen, max_epochs=2, progress=False,
                config={"tuner": {"searcher": "random", "trial_clocks": 10}})
print(json.dumps(r.status))
"""
        self.write("cells.txt", cells)
        self.write("notebook.py", notebook)
        for way in ("pickle", "source"):
            if way == "source":
                self.write("cloudpickle.py", "raise ImportError('no')\n")
            done = self.finish(subprocess.Popen(
                [sys.executable, "notebook.py"], text=True, env=self.env,
                cwd=self.folder, stdout=subprocess.PIPE,
                stderr=subprocess.PIPE))
            self.assert_code(done, 0)
            self.assertEqual(json.loads(done.out), "finished")
        made = list(self.folder.glob(".mltune/tune/chosen-*/*"))
        self.assertEqual({p.name for p in made},
                         {"function.pkl", "chosen.py", "program.json",
                          "config.json"})

    def test_a_notebook_draws_while_it_tunes(self):
        """Executed as Jupyter does it, by a kernel: a picture below the cell,
        drawn again; what a cell prints and raises is the cell's; the kernel
        goes on after an error."""
        cells = [TRAIN, """
            seen = []
            import mltune._show
            draw = mltune._show.svg
            def svg(run, curve):
                seen.append(draw(run, curve))
                return seen[-1]
            mltune._show.svg = svg""", """
            r = mltune.tune(train, {"learning_rate": {}, "scale": (0.5, 2.0)},
                            max_epochs=3, config={"tuner": {
                                "searcher": "random", "trial_clocks": 10}})
            print(r.status, sorted(r.best_setting), len(seen) > 0)""", """
            mltune.tune(train, settings={"factor": "much"}, max_epochs=1)""",
                 "print(r.epochs)"]
        self.write("cells.json", json.dumps(
            [textwrap.dedent(cell) for cell in cells]))
        self.write("run.py", """
import json, nbformat, nbclient
made = nbformat.v4.new_notebook(cells=[
    nbformat.v4.new_code_cell(c) for c in json.load(open("cells.json"))])
client = nbclient.NotebookClient(made, timeout=120, kernel_name="python3",
                                 allow_errors=True)
client.execute()
print(json.dumps([cell["outputs"] for cell in made.cells]))
""")
        for name in ("HOME", "IPYTHONDIR", "JUPYTER_RUNTIME_DIR",
                     "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR"):
            self.env[name] = str(self.folder / "home")
        done = self.finish(subprocess.Popen(
            [sys.executable, "run.py"], text=True, env=self.env,
            cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE),
            150)
        self.assert_code(done, 0)
        outputs = json.loads(done.out.splitlines()[-1])
        picture, words = outputs[2]
        self.assertEqual(picture["output_type"], "display_data")
        shown = picture["data"]["text/html"]
        self.assertIn("<svg", shown)
        self.assertIn("<polyline", shown)
        self.assertIn("  finished  loss ", shown)
        self.assertEqual(words["text"],
                         "finished ['learning_rate', 'scale'] True\n")
        error = [o for o in outputs[3] if o["output_type"] == "error"]
        self.assertEqual([e["ename"] for e in error], ["TuneError"], outputs)
        self.assertEqual(outputs[4][0]["text"], "3\n")
        self.assert_nothing_left()

    def test_errors_of_the_program_are_raised_with_its_last_lines(self):
        done = self.finish(self.begin("""
            try:
                mltune.tune(bad, max_epochs=2)
            except mltune.TuneError as e:
                print(e.run, "my data are bad" in str(e))
        """, head="import mltune\ndef bad():\n    mltune.config()\n"
            "    raise ZeroDivisionError('my data are bad')\n"))
        self.assert_code(done, 0)
        self.assertRegex(done.out, r"^bad-\w+ True$")

    def test_tunables_that_the_program_has_not_are_warned_of(self):
        """Also where no progress is shown."""
        done = self.script("""
            import warnings
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                mltune.tune(loop, {"nothing": (0.1, 0.5)}, max_epochs=1,
                            progress=False, config=SMALL)
            for w in caught:
                print(pathlib.Path(w.filename).name, w.message)
        """, head="import pathlib\nimport mltune\ndef loop():\n"
            "    run = mltune.Run(samples=100, batch_size=10)\n"
            "    for batch in run.train():\n        batch.loss(1)\n")
        self.assertRegex(done.out, r"script\.py .*does not name nothing")

    def test_errors_before_the_run(self):
        """Faults of the configuration, of the call, of the place."""
        done = self.script("""
            for call in (
                    lambda: mltune.tune(train, {"x": {"type": "colour"}}),
                    lambda: mltune.tune(train, {"x": (1, 2, 3)}),
                    lambda: mltune.tune(train, program="/nowhere/mltune"),
                    lambda: mltune.tune(), lambda: mltune.tune(7),
                    lambda: mltune.tune(train, settings={"x": object()}),
                    lambda: mltune.tune(train, config={"stopp": 1}),
                    lambda: mltune.tune(train, resume="nobody-123456")):
                try:
                    call()
                    print("nothing")
                except Exception as e:
                    print(type(e).__name__, str(e).replace("\\n", " "))
        """)
        lines = done.out.splitlines()
        for line, says in zip(lines, (
                r"TuneError .*/tunables/x/type", r"ValueError .*low, high",
                r"FileNotFoundError /nowhere", r"TypeError train",
                r"HandOverError a function", r"TypeError .*JSON",
                r"TuneError .*stopp", r"TuneError .*(nobody-123456|no runs)")):
            self.assertRegex(line, says)
        self.assertEqual(list(self.folder.glob(".mltune/tune/*")), [])

    def test_the_functions_copy_lives_as_long_as_its_runs(self):
        """Deleting a run removes what mltune.tune wrote for it, once no other
        run's configuration names it."""
        told = self.told("""
            import json
            runs = [mltune.tune(train, max_epochs=1, config=SMALL, name=name,
                                progress=False).run for name in "ab"]
            print(json.dumps(runs))
        """)
        tune = self.folder / ".mltune/tune"
        first = next(tune.glob("a-*"))
        again = self.mltune("run", first / "config.json", "--json")
        self.assert_code(again, 0)
        left = [first, *tune.glob("b-*")]
        for run in (told[0], again.result["run"], told[1]):
            self.assertEqual(sorted(tune.iterdir()), sorted(left))
            self.assert_code(self.mltune("delete", run), 0)
            if run != told[0]:
                left.pop(0)
        self.assertEqual(list(tune.iterdir()), [])

    def test_a_script_without_a_guard(self):
        """It would start runs without end: the second call is refused."""
        self.write("open.py", TRAIN + "\nmltune.tune(train, max_epochs=1)\n")
        done = self.finish(subprocess.Popen(
            [sys.executable, "open.py"], text=True, env=self.env,
            cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE))
        self.assertEqual(done.code, 1)
        self.assertIn('if __name__ == "__main__"', done.err)
        self.assert_nothing_left()


class Interrupts(Started):
    ENDLESS = """
            config = {**SMALL, "stop": {"max_epochs": 100000,
                                        "plateau_epochs": 100000}}
    """

    def wait_for_epochs(self):
        def look():
            done = self.mltune("ls", "--json")
            runs = done.result if done.code == 0 else []
            return runs and runs[0]["epochs"] > 0 and runs[0]["run"]
        return self.wait_until(look, "an epoch")

    def test_ctrl_c_interrupts_and_resume_goes_on(self):
        process = self.begin(self.ENDLESS + """
            try:
                mltune.tune(train, config=config, progress=False)
            except mltune.Interrupted as e:
                print(e.run, flush=True)
                import os, time
                while not os.path.exists("go-on"):
                    time.sleep(0.02)
                mltune.tune(resume=e.run, progress=False)
        """)
        go_on = self.folder / "go-on"
        run = self.wait_for_epochs()
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.stdout.readline().strip(), run)
        self.assertEqual(self.status(run), "interrupted")
        go_on.touch()
        self.wait_until(lambda: self.status(run) == "training",
                        "the resumed run")
        process.send_signal(signal.SIGINT)
        done = self.finish(process)
        self.assertIn("Interrupted: run", done.err)
        self.assertEqual(self.status(run), "interrupted")
        self.assert_nothing_left()

    # As a notebook's kernel: cells one after another, in one process that goes
    # on after Ctrl-C, which it hears of within cells only.
    KERNEL = """
import signal, sys
cells = sys.stdin.read().split("# ----\\n")
space = {"__name__": "__main__"}
for cell in cells:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        exec(compile(cell, "cell", "exec"), space)
    except BaseException as e:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        print(type(e).__name__, getattr(e, "run", ""), flush=True)
"""

    def test_ctrl_c_in_a_kernel_that_goes_on(self):
        """Each Ctrl-C ends the run of its cell; nothing of it is left, and the
        next cell works. Pressed twice it ends at once."""
        self.write("mine.py", TRAIN)
        self.write("kernel.py", self.KERNEL)
        cell = """
mltune.tune(mine.train, config={"tuner": {"searcher": "random"},
    "stop": {"max_epochs": 100000, "plateau_epochs": 100000}}, progress=False)
# ----
"""
        process = subprocess.Popen(
            [sys.executable, "kernel.py"], stdin=subprocess.PIPE, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=self.env,
            cwd=self.folder)
        process.stdin.write("import mltune, mine\n# ----\n" + 2 * cell +
                            "import os, time\n"
                            "while not os.path.exists('go'):\n"
                            "    try: time.sleep(0.02)\n"
                            "    except KeyboardInterrupt: pass\n"
                            "r = mltune.tune(mine.train, max_epochs=1, "
                            "progress=False)\nprint(r.status, flush=True)\n")
        process.stdin.close()
        process.stdin = None
        for presses in (1, 2):
            run = self.wait_for_epochs()
            for _ in range(presses):
                process.send_signal(signal.SIGINT)
                time.sleep(0.05)
            self.assertEqual(process.stdout.readline().strip(),
                             f"Interrupted {run}")
            self.wait_until(lambda: len(self.marked()) <= 3, "its end", 10)
            self.assertEqual(self.status(run), "interrupted")
            self.assert_code(self.mltune("delete", run), 0)
        (self.folder / "go").touch()
        done = self.finish(process)
        self.assert_code(done, 0)
        self.assertEqual(done.out.strip(), "finished")
        self.assert_nothing_left()
        self.assertEqual(len(list(self.folder.glob(".mltune/tune/*"))), 1)

    # What Ctrl-C does within and after a shield: @before takes it.
    SHIELD = """
import signal, sys
from unittest import mock
from mltune import _tune
def mine(number, frame):
    print("mine")
before = {before}
signal.signal(signal.SIGINT, before)
{unknown}
try:
    with _tune._Shield():
        now = signal.getsignal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        print("within")
except KeyboardInterrupt:
    print("KeyboardInterrupt")
mock.patch.stopall()
print(signal.getsignal(signal.SIGINT) is before)
"""

    def shielded(self, before, unknown=""):
        return subprocess.run(
            [sys.executable, "-c", self.SHIELD.format(before=before,
                                                      unknown=unknown)],
            env=self.env, text=True, capture_output=True, check=True,
            timeout=60).stdout.split()

    def test_ctrl_c_goes_to_who_took_it_before(self):
        """A function gets it at the end; what ignores it goes on doing so; and
        a handler that Python knows nothing of stays in its place."""
        self.assertEqual(self.shielded("signal.default_int_handler"),
                         ["within", "KeyboardInterrupt", "True"])
        self.assertEqual(self.shielded("mine"), ["within", "mine", "True"])
        self.assertEqual(self.shielded("signal.SIG_IGN"), ["within", "True"])
        self.assertEqual(self.shielded(
            "mine", "mock.patch('signal.getsignal', lambda _: None).start()"),
            ["mine", "within", "True"])

    def test_ctrl_c_before_the_run_began(self):
        """Nothing is left of it, or a run that can be resumed."""
        for wait_s in (0.3, 0.4, 0.5, 0.6, 0.8):
            process = self.begin(self.ENDLESS + """
            tune = mltune.tune
            print("begins", flush=True)
            tune(train, config=config, progress=False)
            """)
            self.assertEqual(process.stdout.readline().strip(), "begins")
            time.sleep(wait_s - 0.3)
            process.send_signal(signal.SIGINT)
            done = self.finish(process)
            self.assertRegex(done.err, "Interrupted: |KeyboardInterrupt")
            self.assertIn(done.code, (1, -signal.SIGINT))
            self.assert_nothing_left()
        runs = len(list(self.folder.glob(".mltune/runs/*")))
        self.assertEqual(len(list(self.folder.glob(".mltune/tune/*"))), runs)

    def status(self, run):
        done = self.mltune("show", run, "--json")
        return done.result["status"] if done.code == 0 else None

    def test_a_kernel_that_is_killed_takes_the_run_along(self):
        process = self.begin(self.ENDLESS + """
            mltune.tune(train, config=config, progress=False)
        """)
        run = self.wait_for_epochs()
        process.kill()
        self.finish(process)
        self.wait_until(lambda: self.status(run) == "interrupted",
                        "the run's end")
        self.assert_nothing_left()


RUN = {"run": "net-1", "status": "tuning", "epochs": 3, "loss": 0.51234567,
       "stop": {"max_epochs": 10}, "tuning": {"trials": 4},
       "job": {"metric": {"name": "accuracy"}}, "best": {"metric": 0.93},
       "setting": {"learning_rate": 0.012345678, "kind": "a<b"}}


class Shown(unittest.TestCase):
    def test_a_line(self):
        text = _show.line(RUN, 10)
        self.assertEqual(
            text, "mltune net-1  [###.......] 3/10  tuning  trial 5  "
            "loss 0.5123  best accuracy 0.93  learning_rate=0.01235 kind=a<b")
        early = {**RUN, "loss": None, "best": None, "job": None,
                 "setting": None, "stop": None}
        self.assertIn("loss -", _show.line(early))

    def test_a_terminal_and_a_file(self):
        """Written over in a terminal; elsewhere a line when it changed."""
        out = io.StringIO()
        shown = _show.Terminal(out, wait=0)
        shown.show(RUN, None)
        shown.show(RUN, None)
        shown.show({**RUN, "epochs": 4}, None)
        self.assertEqual(out.getvalue().count("\n"), 2)
        out = io.StringIO()
        out.isatty = lambda: True
        shown = _show.Terminal(out)
        shown.show(RUN, None)
        shown.show(RUN, None)
        self.assertEqual(out.getvalue().count("\n"), 0)
        shown.say("a notice")
        self.assertTrue(out.getvalue().endswith("\na notice\n"))
        for out.isatty in (lambda: True, lambda: False):
            shown = _show.Terminal(out)
            shown.finish({**RUN, "status": "finished"}, {})
            shown.end()
            self.assertRegex(out.getvalue(), r"finished  loss 0.5123.* *\n$")

    def curve(self, loss):
        return {"lineage": {"clock": list(range(len(loss))), "loss": loss},
                "others": {"clock": [1, 2, 3], "loss": [1e30, None, 0.5]}}

    def test_a_picture(self):
        """Well-formed, nothing unescaped, what diverged sets no scale."""
        import xml.etree.ElementTree as tree
        for loss in ([], [1.0], [2.0, 1.0, 0.5, 0.0, None, float("nan")]):
            found = tree.fromstring(_show.svg(RUN, self.curve(loss)))
            self.assertEqual(found.tag.rpartition("}")[2], "svg")
        text = _show.svg(RUN, self.curve([2.0, 1.0]))
        self.assertNotIn("1e+30", text)
        self.assertIn("a&lt;b", text)
        empty = {"lineage": {"clock": [], "loss": []},
                 "others": {"clock": [], "loss": []}}
        self.assertIn("no loss yet", _show.svg(RUN, empty))

    def test_a_notebook(self):
        """A picture is displayed once and then updated."""
        drawn = []

        class Handle:
            def update(self, what):
                drawn.append(what)
        shell = types.SimpleNamespace(kernel=object())
        ipython = types.ModuleType("IPython")
        ipython.get_ipython = lambda: shell
        display = types.ModuleType("IPython.display")
        display.HTML = str
        display.display = lambda what, display_id: Handle()
        modules = {"IPython": ipython, "IPython.display": display}
        with mock.patch.dict(sys.modules, modules):
            shown = _show.shower(None)
            self.assertIsInstance(shown, _show.Notebook)
            remote = types.SimpleNamespace(
                curve=lambda spans: self.curve([2.0, 1.0]))
            shown.show(RUN, remote)
            shown.say("a <notice>")
            shown.finish({**RUN, "status": "finished"},
                         {"clock": [1.0, 2.0, 3.0], "loss": [2.0, None, 1.0]})
            del shell.kernel
            self.assertIsInstance(_show.shower(None), _show.Terminal)
        self.assertIn("<svg", drawn[0])
        self.assertIn("a &lt;notice&gt;", drawn[1])
        self.assertIn("a &lt;notice&gt;", drawn[2])
        self.assertIn("  finished  ", drawn[2])
        self.assertIn("<circle", drawn[2])  # trials that were seen stay
        self.assertIs(type(_show.shower(False)), _show.Quiet)

    def test_tunables(self):
        made = {name: _tune._tunable(name, spec) for name, spec in {
            "a": (0.001, 0.5), "b": (0.0, 0.6), "c": (1, 9), "d": [8, 16],
            "e": ["x", "y"], "f": 0.5, "g": "word", "h": {},
            "i": [0.5, 1]}.items()}
        self.assertEqual(made, {
            "a": {"type": "float", "min": 0.001, "max": 0.5, "scale": "log"},
            "b": {"type": "float", "min": 0.0, "max": 0.6},
            "c": {"type": "int", "min": 1, "max": 9},
            "d": {"type": "int", "values": [8, 16]},
            "e": {"type": "categorical", "values": ["x", "y"]},
            "f": {"fixed": 0.5}, "g": {"fixed": "word"}, "h": {},
            "i": {"type": "float", "values": [0.5, 1]}})
        for bad in (None, True, ("a", "b"), (1,)):
            with self.assertRaises(ValueError):
                _tune._tunable("x", bad)


if __name__ == "__main__":
    unittest.main()
