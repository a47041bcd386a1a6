"""Searchers that others wrote: plug-ins and programs, good ones and bad ones."""
import json
import re
import signal
import subprocess
import unittest

from harness import BUILD, Case, ROOT, mlr_config

GOOD = '''
import json, random, sys

for line in sys.stdin:
    m = json.loads(line)
    if m["type"] == "hello":
        answer = {"protocol": 1, "name": "dice", "settings": {"type": "object",
                  "properties": {"sides": {"type": "integer", "minimum": 2,
                                           "default": 6}}}}
    elif m["type"] == "open":
        axes, seed, told = m["axes"], m["seed"], 0
        assert m["settings"]["sides"] >= 2
        answer = {}
    elif m["type"] == "ask":
        dice = random.Random(seed + told + 1000 * len(m["running"]))
        answer = {"unit": [dice.random() for _ in axes]}
    else:
        told += 1
        continue
    print(json.dumps({"id": m["id"], **answer}), flush=True)
'''

# Behaves until it is asked for the third time, then does what it is told to.
BAD = '''
import json, os, sys, time

asks = 0
for line in sys.stdin:
    m = json.loads(line)
    if m["type"] == "tell":
        continue
    answer = {"id": m["id"]}
    if m["type"] == "hello":
        answer["protocol"] = 1
    elif m["type"] == "open":
        axes = m["axes"]
    else:
        asks += 1
        answer["unit"] = [asks / 10 for _ in axes]
        if asks == 3:
            %s
    print(json.dumps(answer), flush=True)
'''

MIDDLE = '''
#include <mltune/searcher.h>
static int my_ask(void *state, const struct mlt_searcher_query *q,
                  double unit[], struct mlt_searcher_error *err)
{
    (void)state; (void)err;
    for (size_t k = 0; k < q->axes; k++)
        unit[k] = 0.5;
    %s
    return MLT_SEARCHER_OK;
}
const struct mlt_searcher_ops mltune_searcher = {
    .version = MLT_SEARCHER_VERSION + %d, .name = "middle",
    .summary = "the middle of every range", .ask = my_ask };
'''


OPTUNA = ROOT / "apps/plugins/optuna_searcher.py"
PYTHON = "/usr/bin/python3"


class Talk:
    """The protocol from mltune's side, written from its document."""

    def __init__(self, case, *command):
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env=case.env, cwd=case.folder)
        self.id = 0

    def tell(self, **message):
        print(json.dumps(message), file=self.process.stdin, flush=True)

    def ask(self, **message):
        self.id += 1
        self.tell(id=self.id, **message)
        answer = json.loads(self.process.stdout.readline())
        assert answer["id"] == self.id, answer
        return answer

    def end(self):
        self.process.communicate(timeout=60)
        return self.process.returncode


class Searchers(Case):
    def config(self, searcher, **tuner):
        config = mlr_config()
        config["tuner"] = {"searcher": searcher, "trial_clocks": 20,
                           "max_trials": 8, **tuner}
        return config

    def program(self, text, timeout="100s"):
        self.write("searcher.py", text)
        return {"command": [PYTHON, "searcher.py"],
                "timeout": timeout}

    def compile(self, body="", version=0):
        self.write("middle.c", MIDDLE % (body, version))
        subprocess.run(["cc", "-shared", "-fPIC", f"-I{ROOT / 'include'}",
                        "-o", "middle.so", "middle.c"],
                       cwd=self.folder, check=True)

    def fallbacks(self, done):
        """The decisions that a fallback takes over, from the journal."""
        shown = self.mltune("show", done.result["run"], "--json")
        self.assert_code(shown, 0)
        return [d["text"] for d in shown.result["decision_list"]
                if d["decision"] == "searcher_fallback"]

    def assert_clean(self, done):
        self.assert_code(done, 0)
        self.assertNotIn("searcher_failed", done.err)
        self.assertEqual(self.fallbacks(done), [])
        self.assertNotIn("searcher_failed", done.result["tuning"])
        self.assertEqual(done.result["tuning"]["trials"], 8)
        self.assert_nothing_left()

    def assert_one_warning(self, done, reason):
        self.assert_code(done, 0)
        self.assertEqual(done.result["status"], "finished")
        self.assertEqual(done.err.count("searcher_failed"), 1, done.err)
        self.assertIn(reason, done.err)
        texts = self.fallbacks(done)
        self.assertEqual(len(texts), 1, texts)
        self.assertIn(reason, texts[0])
        self.assertIn("tpe goes on", texts[0])
        self.assertIn(f"mltune: {texts[0]}\n", done.err)
        self.assertEqual(done.result["tuning"]["searcher_failed"], texts[0])
        shown = self.mltune("show", done.result["run"])
        self.assertIn(f"searcher  {texts[0]}\n", shown.out)
        self.assertEqual(done.result["tuning"]["trials"], 8)
        self.assert_nothing_left()

    def run_bad(self, action, timeout="100s", reason=""):
        text = BAD % action
        done = self.run_config(self.config(self.program(text, timeout)),
                               "--json")
        self.assert_one_warning(done, reason)

    def test_quiet_hides_no_broken_searcher(self):
        done = self.run_config(self.config(self.program(BAD % "sys.exit(3)")),
                               "--json", "--quiet")
        self.assert_code(done, 0)
        why = done.result["tuning"]["searcher_failed"]
        self.assertIn("; tpe goes on, with the ", why)
        self.assertEqual(done.err, f"mltune: {why}\n")

    # ---- good ones -------------------------------------------------------

    def test_a_program_proposes_all_settings(self):
        config = self.config(self.program(GOOD),
                             searcher_settings={"sides": 12})
        self.assert_clean(self.run_config(config, "--json"))

    def test_runs_with_a_program_are_reproducible(self):
        config = self.config(self.program(GOOD))
        first = self.run_config(config, "--json").result
        second = self.run_config(config, "--json").result
        self.assertEqual(first["setting"], second["setting"])
        self.assertEqual(first["loss"], second["loss"])

    def test_a_plugin_beside_the_configuration(self):
        self.compile()
        done = self.run_config(self.config({"plugin": "middle.so"}), "--json")
        self.assert_clean(done)

    def test_what_a_plugin_prints_is_no_answer(self):
        self.compile('extern int puts(const char *); puts("{\\"id\\": 1}");')
        done = self.run_config(self.config({"plugin": "middle.so"}), "--json")
        self.assert_clean(done)
        logs = "".join(p.read_text() for p in self.folder.rglob("*log")
                       if p.is_file())
        self.assertIn("searcher_says", logs)

    def test_the_example_plugin_is_found_by_name(self):
        config = self.config({"plugin": "hill.so"},
                             searcher_settings={"step": 0.5})
        self.assert_clean(self.run_config(config, "--json"))

    # ---- Optuna ----------------------------------------------------------

    def test_an_optuna_study(self):
        config = self.config({"command": [PYTHON, str(OPTUNA)],
                              "timeout": "100s"},
                             searcher_settings={"startup": 4}, max_trials=8)
        config["tunables"]["momentum"]["min"] = 0.01
        config["tunables"]["momentum"]["scale"] = "reverse_log"
        self.assert_clean(self.run_config(config, "--json"))

    def test_an_optuna_study_survives_a_restart(self):
        space = {
            "rate": {"type": "float", "min": 1e-5, "max": 1, "scale": "log",
                     "default": 0.01, "retune": True},
            "rule": {"type": "categorical", "values": ["sgd", "adam"],
                     "default": "sgd", "retune": True},
            "beta": {"type": "float", "min": 0.5, "max": 0.9, "scale":
                     "linear", "default": 0.7, "retune": True,
                     "when": {"rule": ["adam"]}},
            "batch": {"type": "int", "min": 1, "max": 64, "scale": "log",
                      "default": 8, "retune": True}}
        told = []

        def start():
            talk = Talk(self, PYTHON, str(OPTUNA))
            hello = talk.ask(type="hello", protocol=1)
            self.assertEqual(hello["protocol"], 1)
            self.assertIn("sampler", hello["settings"]["properties"])
            self.assertNotIn("error", talk.ask(
                type="open", seed=5, space=space, axes=list(space),
                settings={"sampler": "tpe", "startup": 5}))
            for message in told:
                talk.tell(**message)
            return talk

        def ask(talk):
            return talk.ask(type="ask", running=[], incumbent=None)["setting"]

        talk = start()
        for trial in range(14):
            setting = ask(talk)
            self.assertEqual("beta" in setting, setting["rule"] == "adam")
            outcome = "diverged" if trial % 5 == 4 else "speed"
            message = {"type": "tell", "trial": trial, "outcome": outcome,
                       "setting": {"beta": 0.7, **setting}, "resource": 1.0,
                       "speed": setting["rate"] * (trial % 5 != 4)}
            talk.tell(**message)
            told.append(message)
        again = start()
        self.assertEqual(ask(again), ask(talk))
        self.assertEqual(again.end(), 0)
        self.assertEqual(talk.end(), 0)

    # ---- bad ones --------------------------------------------------------

    def test_one_that_hangs(self):
        self.run_bad("time.sleep(1000)", "1s", "did not answer within 1 s")

    def test_one_that_dies(self):
        self.run_bad("sys.exit('out of ideas')",
                     reason="ended with exit code 1 (its last words: out of "
                            "ideas)")

    def test_one_that_crashes(self):
        self.run_bad("os.abort()", reason="was killed by SIGABRT")

    def test_one_that_talks(self):
        self.run_bad("print('thinking...')", reason="found: thinking...")

    def test_one_that_leaves_the_range(self):
        self.run_bad("answer['unit'][0] = 7",
                     reason="a number of 0 to 1")

    def test_one_that_hangs_from_the_start(self):
        done = self.run_config(
            self.config(self.program("import time\ntime.sleep(1000)", "1s")),
            "--json")
        self.assert_one_warning(done, "did not answer within 1 s")

    def test_one_with_a_syntax_error(self):
        config = self.config(self.program("this is no python"))
        done = self.run_config(config, "--json")
        self.assert_one_warning(done, "SyntaxError")
        done = self.mltune("validate", "config.json")
        self.assert_code(done, 0)
        self.assertIn("a run would go on without it", done.err)

    def test_a_plugin_that_crashes(self):
        self.compile("if (q->told_len == 2) *(volatile int *)0 = 1;")
        self.env["ASAN_OPTIONS"] = "handle_segv=0"  # would end it by exit(1)
        done = self.run_config(self.config({"plugin": "middle.so"}), "--json")
        self.assert_one_warning(done, "middle.so was killed by SIGSEGV")

    def test_a_plugin_that_never_returns(self):
        self.compile("for (volatile int i = 0; q->told_len == 2; i = 1);")
        done = self.run_config(
            self.config({"plugin": "middle.so", "timeout": "1s"}), "--json")
        self.assert_one_warning(done, "middle.so did not answer within 1 s")

    def test_a_plugin_that_proposes_no_number(self):
        self.compile("if (q->told_len == 2) unit[0] = 0.0 / 0.0;")
        done = self.run_config(self.config({"plugin": "middle.so"}), "--json")
        self.assert_one_warning(done, "expected 0 to 1")

    # ---- the document ----------------------------------------------------

    def test_the_document_can_be_pasted(self):
        """Every shell block of docs/write-a-searcher.md, as it stands."""
        text = (ROOT / "docs/write-a-searcher.md").read_text()
        blocks = re.findall(r"^```sh\n(.*?)^```$", text, re.S | re.M)
        self.assertEqual(len(blocks), 4)
        prefix = self.folder / "prefix"
        prefix.mkdir()
        (prefix / "include").symlink_to(ROOT / "include")
        pc = (ROOT / "deploy/mltune.pc.in").read_text()
        self.write("prefix/mltune.pc", pc.replace("@PREFIX@", str(prefix))
                   .replace("@VERSION@", "1"))
        self.env["PKG_CONFIG_PATH"] = str(prefix)
        self.env["PATH"] = f"{BUILD.resolve()}:{self.env['PATH']}"
        for block in blocks:
            done = subprocess.run(["sh", "-eu"], input=block, text=True,
                                  env=self.env, cwd=self.folder,
                                  capture_output=True, timeout=120)
            self.assertEqual(done.returncode, 0, block + done.stderr)
            self.assertNotIn("searcher_failed", done.stderr)
        self.assertIn("mine: dice, then steps around the best", done.stdout)
        runs = json.loads(self.mltune("ls", "--json").out)
        self.assertEqual([r["tuning"]["trials"] for r in runs], [12, 12, 12])
        self.assert_nothing_left()

    # ---- refused ---------------------------------------------------------

    def refused(self, searcher, words, **tuner):
        done = self.run_config(self.config(searcher, **tuner), "--json")
        self.assert_code(done, 78)
        self.assertIn(words, done.err)
        self.assert_nothing_left()

    def test_what_the_user_can_mend_is_refused(self):
        self.refused({"plugin": "no.so"}, "a shared object that is there")
        self.write("text.so", "no elf")
        self.refused({"plugin": "text.so"}, "cannot load")
        self.refused({"command": ["no-such-program"]}, "not found in PATH")
        self.refused({"command": ["./no.py"]}, "cannot start ./no.py")
        self.refused({"command": []}, "/tuner/searcher")
        self.refused({"plugin": "a", "command": ["b"]}, "either")
        for name in ("mine", "process", "plugin"):
            self.refused(name, 'one of your own is {"plugin": "FILE.so"}')
        self.compile(version=1)
        self.refused({"plugin": "middle.so"}, "was built for version 2")

    def test_settings_are_checked_by_the_searchers_schema(self):
        self.refused(self.program(GOOD), "searcher_settings: /sides",
                     searcher_settings={"sides": 1})
        self.refused(self.program(GOOD), "sdies",
                     searcher_settings={"sdies": 3})
        self.refused({"plugin": "hill.so"}, "searcher_settings: /step",
                     searcher_settings={"step": 7})

    # ---- the rest --------------------------------------------------------

    def test_no_searcher_outlives_a_killed_tuner(self):
        self.write("config.json",
                   self.config(self.program(BAD % "time.sleep(1000)")))
        tuner = self.start("run", "config.json")
        self.wait_until(lambda: self.hangs(tuner), "the searcher to hang")
        tuner.send_signal(signal.SIGKILL)
        self.finish(tuner)
        self.wait_until(lambda: not self.marked(), "its processes to end")

    def hangs(self, tuner):
        """Two trials are over, so that the third ask is under way."""
        done = self.mltune("ls", "--json")
        if done.code != 0 or not done.out.strip():
            return False
        runs = json.loads(done.out)
        return tuner.poll() is None and bool(runs) and \
            self.trials(runs[0]["run"]) >= 2

    def trials(self, run):
        shown = self.mltune("show", run, "--json")
        return len(shown.result.get("trial_list", [])) \
            if shown.code == 0 else 0

    def test_found_plugins_are_listed(self):
        self.compile()
        self.write("broken.so", "no elf")
        self.env["MLTUNE_PLUGIN_PATH"] = str(self.folder)
        done = self.mltune("searchers")
        self.assert_code(done, 0)
        for words in ("tpe: ", "marginal: ", "middle: the middle of every",
                      "hill: steps from", "step number", "broken.so",
                      str(BUILD.resolve() / "plugins")):
            self.assertIn(words, done.out)
        listed = {e["name"]: e for e in
                  json.loads(self.mltune("searchers", "--json").out)}
        self.assertEqual(listed["middle"]["plugin"],
                         str(self.folder / "middle.so"))
        self.assertIn("step", listed["hill"]["settings"]["properties"])
        self.assertFalse({"process", "plugin"} & set(listed))
        self.assertIn("cannot load", listed["broken.so"]["error"])
