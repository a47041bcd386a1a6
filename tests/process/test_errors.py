"""docs/errors.md: each mistake of the page is made, and answered in its words."""
import re
import socket
import urllib.error
import urllib.request

from harness import ROOT, Case, mlr_config

PAGE = (ROOT / "docs/errors.md").read_text()
DEMO = {"app": {"name": "mlr", "data": "reg.csv"}}
RATE = {"type": "float", "min": 1e-5, "max": 1}

# The words of the page, of mistakes that take a server or a run under way: the
# test that makes them.
ELSEWHERE = {
    "command not found":
        "test_readme.py: test_the_first_command_finds_the_program",
    "a link leads out of it": "test_abuse.py: a link leads out of it",
    'found … did you mean "learning_rate"?':
        'test_terminal.py: did you mean "learning_rate"',
    "MLTUNE_TOKEN": 'test_terminal.py: assertIn("MLTUNE_TOKEN"',
}


def sayings():
    """What is said, of each row of the page."""
    return [found.group(1) for found in
            re.finditer(r"^\| `(.*?)` \| .* \| .* \|$", PAGE, re.M)]


def pattern(said):
    """For the program's words: … is anything."""
    return ".*".join(re.escape(part) for part in said.split("…"))


class Errors(Case):
    def setUp(self):
        super().setUp()
        self.said = set()
        self.write("reg.csv", "a,b,c,d,y\n" + "".join(
            f"{i % 7},{i % 5},{i % 3},{i % 2},{i / 8}\n" for i in range(600)))
        self.write("ratings.dat", "".join(
            f"{i % 40 + 1}::{i * 7 % 300}::{i % 5 + 1}::978300760\n"
            for i in range(800)))
        (self.folder / "noise.bin").write_bytes(bytes(range(255, 0, -1)) * 9)

    def answered(self, said, code, *words, **options):
        """@words are a mistake, which is answered by these words of the page."""
        self.assertIn(said, sayings())
        self.said.add(said)
        done = self.mltune(*words, **options)
        self.assert_code(done, code)
        self.assertRegex(done.err, pattern(said), words)
        return done

    def refused(self, said, config, *words):
        """So does the configuration @config."""
        self.write("mistake.json", config)
        return self.answered(said, 78, *(words or ("validate",)),
                             "mistake.json")

    def all_said(self, heading):
        """What is said in the page's section @heading was, or elsewhere."""
        section = PAGE.split(f"## {heading}\n")[1].split("\n## ")[0]
        wanted = {s for s in sayings() if f"| `{s}` |" in section}
        self.assertTrue(wanted)
        self.assertEqual(wanted - self.said - set(ELSEWHERE), set())

    def test_the_others_are_made_elsewhere(self):
        for said, where in ELSEWHERE.items():
            self.assertIn(said, sayings())
            file, words = where.split(": ", 1)
            self.assertIn(words, (ROOT / "tests/process" / file).read_text())

    def test_starting(self):
        self.answered("unknown verb … did you mean …?", 2, "shwo")
        self.answered("unknown option … did you mean …?", 2, "run",
                      "config.json", "--sett", "x")
        self.answered("config.json: No such file or directory", 74, "run",
                      "config.json")
        self.answered("state folder … holds no runs", 2, "show", "demo")
        self.all_said("Starting")

    def test_the_configuration(self):
        for text, near in (('{"app": {"name": "mlr" "data": "x"}}', '"data"'),
                           ('{"a": 1', None), ('{"a": [1 2]}', "2"),
                           ('{"a" 1}', "1"), ("{a: 1}", "a"),
                           ("{} {}", "{")):
            self.write("mistake.json", text)
            done = self.mltune("validate", "mistake.json")
            self.assert_code(done, 78)
            self.assertRegex(done.err, r"mistake\.json:1:\d+: ")
            self.assertRegex(done.err, "found .* where .* belongs" if near
                             else "found .*end of file", text)
            self.assertNotIn("expected near", done.err) if near else None
        self.refused("found … where a comma or } belongs",
                     '{"app": {"name": "mlr" "data": "x"}}')
        asks = "is this the configuration, or the data, which app.data names?"
        self.answered(asks, 78, "run", "ratings.dat")
        self.answered(asks, 78, "run", "noise.bin")
        self.refused(asks, "{" + " " * (5 << 20))
        self.refused("the smallest configuration: …", "{}")
        done = self.refused("the smallest configuration: …",
                            {"app": {"nam": "mlr"}})
        self.assertIn('did you mean "name"?', done.err)
        self.refused("expected one of the keys … did you mean …?",
                     {"app": {**DEMO["app"], "lamda": 1}})
        self.refused("found … did you mean …?",
                     {**DEMO, "tuner": {"strategy": "mltuna"}})
        done = self.refused(
            'expected one of "float", "int", "categorical", found …',
            {**DEMO, "tunables": {"learning_rate": {**RATE, "type": "floaty"},
                                  "momentum": {**RATE, "min": .9, "max": .5}}})
        self.assertEqual(done.err.count("floaty"), 1)
        self.assertIn('not below "min"', done.err)
        self.tells_all_of_a_tunable()
        self.refused("expected a setting that some application has … did you "
                     "mean …?", {"app": {**DEMO["app"], "name": "mrl",
                                         "lamda": 1, "loss": "squared"}})
        self.refused('expected a number not below "min", found …',
                     {**DEMO, "tunables": {"learning_rate":
                                           {**RATE, "min": 2}}})
        self.all_said("The configuration")

    def tells_all_of_a_tunable(self):
        """What is wrong with its form hides nothing that is said of the rest;
        and what cannot be judged is not spoken of."""
        for tunable, pointers in (
                ({"type": "floaty", "min": 2, "max": 1}, ("type", "max")),
                ({"min": 2, "max": 1}, ("type", "max")),
                ({"type": "flot", "values": [1, 2, 1]}, ("type", "values/2")),
                ({"type": "float", "min": -1, "max": 1, "scale": "log",
                  "retune": 1}, ("min", "retune")),
                ({"type": "int", "min": 0.5, "max": 3, "defalt": 1},
                 ("min", "defalt")),
                ({"type": "floaty", "min": 0, "max": 1, "default": 2},
                 ("type", "default")),
                ({"type": "floaty", "min": "0", "max": 1}, ("type", "min"))):
            self.write("mistake.json",
                       {"app": {"command": ["python3", "-V"]},
                        "tunables": {"x": tunable}})
            done = self.mltune("validate", "mistake.json")
            self.assert_code(done, 78)
            told = re.findall(r" /tunables/x/(\S+): ", done.err)
            self.assertEqual(sorted(told), sorted(pointers), tunable)

    def test_the_data(self):
        """With --dry-run and without; no run is left of it."""
        for data, said in (
                ("nowhere.csv", "open …: No such file or directory"),
                ("ratings.dat", "or is it ratings: user, item, rating? app "
                                "mf reads those"),
                ("reg.csv", "is it a number to predict: nn with loss "
                            "squared?")):
            config = {"app": {"name": "mlr", "data": data}}
            self.refused(said, config, "run", "--dry-run")
            done = self.refused(said, config, "run")
            self.assertIn("nothing was begun, and no run is left", done.err)
        self.assertIn("no runs in", self.mltune("ls").out)
        self.assertEqual(list((self.folder / ".mltune/runs").iterdir()), [])
        self.answered("… cannot be read: it is binary, and begins like no "
                      "format that is known here", 78, "data", "info",
                      "noise.bin")
        self.all_said("The data")

    def train(self):
        return self.run_config(mlr_config(max_epochs=1), "--no-tune",
                               "--json").result["run"]

    def test_runs_and_models(self):
        run = self.train()
        self.answered("no run … mltune ls lists them", 2, "show", "nope")
        self.answered("no run … did you mean …?", 2, "show", "small-mrl")
        self.answered("is not running: it ended as …", 2, "pause", run)
        said = self.answered("there is nothing to resume", 2, "resume", run)
        self.assertIn("--set tuner.warm_start=auto", said.err)
        self.answered("--format: … there are:", 2, "export", run, "--format",
                      "cvs")
        self.answered("expected a model folder (with model.json in it) or a "
                      "run of …, found neither", 74, "eval", "nope",
                      "reg.csv")
        self.answered("expected images (IDX files, as of MNIST, or CIFAR "
                      "batches), found a table of numbers", 78, "predict", run,
                      "reg.csv")
        self.train()
        self.answered("several runs begin with …, give more of the id", 2,
                      "show", "small-m")
        self.all_said("Runs")
        self.all_said("Models")

    def test_servers(self):
        self.train()
        with socket.socket() as other:
            other.bind(("127.0.0.1", 0))
            place = "127.0.0.1:%d" % other.getsockname()[1]
            self.answered("nobody answers at …: Connection refused", 69, "ls",
                          "--server", f"http://{place}/")
            done = self.mltune("doctor", "--server", f"http://{place}/")
            self.assert_code(done, 1)
            self.assertRegex(done.out, rf"missing +server +nobody answers at "
                                       rf"http://{place}/: Connection refused "
                                       rf"+mltune serve begins one, mltune open "
                                       rf"names one that hangs")
            other.listen()
            self.answered("in use", 74, "serve", "--listen", place)
        self.answered("… is no address: expected http://127.0.0.1:PORT/", 2,
                      "ls", "--server", "localhost:8080")
        self.answered("will not listen on 0.0.0.0", 78, "serve", "--listen",
                      "0.0.0.0:8080")
        service = self.start("serve", "--listen", "127.0.0.1:0")
        way = self.folder / ".mltune/serve.page"
        self.wait_until(lambda: (self.folder / ".mltune/serve.url").exists()
                        and way.exists(), "the service")
        self.answered("a service (process …) has the state folder … already",
                      74, "serve", "--listen", "127.0.0.1:0")
        first = self.mltune("open").out.strip()
        urllib.request.urlopen(first, timeout=60).close()
        with self.assertRaises(urllib.error.HTTPError) as again:
            urllib.request.urlopen(first, timeout=60)
        said = "this address was good once"
        self.assertIn(said, again.exception.read().decode())
        self.said.add(said)
        service.terminate()
        self.finish(service)
        self.all_said("Servers")
