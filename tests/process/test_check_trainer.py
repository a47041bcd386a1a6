"""`mltune check-trainer`: programs that keep the rules pass, and each of many
that break one is told which.

The programs are fixtures/trainer.py, which knows the protocol and nothing of our
code, and `mltune node`.
"""
import concurrent.futures
import json
import re
import sys

from harness import BUILD, MLTUNE, ROOT, Case, mlr_config

FIXTURES = ROOT / "tests/process/fixtures"
sys.path.insert(0, str(FIXTURES))

import trainer  # noqa: E402

PROGRAM = [sys.executable, FIXTURES / "trainer.py"]
# What shows a fault: slow clocks, random losses, and the check that sees it.
SHOWS = {
    "no_beats": (["--sleep", "5"], ["--only", "forks"]),
    "no_answer": ([], ["--only", "forks", "--timeout", "5"]),
    "ignores_stop": ([], ["--only", "stop"]),
    "bad_exit": ([], ["--only", "stop"]),
    "outlives": ([], ["--only", "loss"]),
    "reports_late": (["--sleep", "0.1"], ["--only", "order"]),
    "frees_at_once": (["--sleep", "0.02"], ["--only", "order"]),
    "late_fork": (["--sleep", "0.1"], ["--only", "order"]),
    "ignores_cut": (["--sleep", "0.04"], ["--only", "cuts"]),
    "runs_cut": (["--sleep", "0.01"], ["--only", "cuts"]),
    "global_random": (["--noise"], []),
    "seeds_by_branch": (["--noise"], []),
    "runs_broken": (["--overflow"], ["--only", "broken"]),
    "forks_are_whole": (["--overflow"], ["--only", "broken"]),
    "saves_broken": (["--overflow"], ["--only", "broken"]),
    "snapshots_broken": (["--overflow"], ["--only", "broken"]),
    "no_limit": (["--branch-bytes", str(1 << 26)], ["--only", "memory"]),
    "no_count": ([], ["--only", "memory"]),
    "limit_is_nomem": ([], ["--only", "memory"]),
    "free_keeps_room": ([], ["--only", "memory"]),
    "full_forgets": ([], ["--only", "memory"]),
    "loads_anything": ([], ["--only", "unloadable"]),
    "stays_unloaded": ([], ["--only", "unloadable"]),
    "unloaded_exit": ([], ["--only", "unloadable"]),
    "ignores_signals": ([], ["--only", "signals"]),
    "signal_exit": ([], ["--only", "signals"]),
    "ends_at_nan": ([], ["--nodes", "2", "--only", "divergence"]),
}


# Without the checks that wait for seconds: those of a program that speaks by the
# same code as one that passed them are not made again.
SHORT = ("--skip", "beats,loss")


class CheckTrainerTest(Case):
    def check(self, *words, options=(), seconds=300):
        return self.mltune("check-trainer", "--json", *options, "--", *words,
                           seconds=seconds)

    def test_a_correct_program_passes(self):
        """Every check is made and passed, with and without random losses,
        where the one about batches cannot be made; so by two processes, whose
        halves of two batches are not those of one. That about broken branches
        needs a slice that fails."""
        for words, options, missing in (
                ([], (), []),
                (["--noise"], SHORT, ["batches"]),
                ([], ("--nodes", 2, *SHORT), ["batches"])):
            done = self.check(*PROGRAM, *words, options=options)
            self.assertEqual(done.code, 0, done.out + done.err)
            self.assertTrue(done.result["passed"])
            results = {c["name"]: c["result"] for c in done.result["checks"]}
            self.assertGreater(len(results), 28 if options == () else 26)
            self.assertEqual([n for n, r in results.items() if r != "passed"],
                             [*missing, "broken"])
        done = self.check(*PROGRAM, "--overflow", options=["--only", "broken"])
        self.assertEqual([c["result"] for c in done.result["checks"]],
                         ["passed"])
        self.assert_nothing_left()

    def test_wrong_conversations_are_told_their_rule(self):
        self.tell_rules("WCLM")

    def test_wrong_training_and_ends_are_told_their_rule(self):
        self.tell_rules("SDE")

    def tell_rules(self, families):
        """Each wrong program fails, and the first failure names the rule that
        it breaks, with the sentence of docs/protocol.md."""
        page = (ROOT / "docs/protocol.md").read_text()
        names = [n for n, (rule, _) in trainer.WRONG.items()
                 if rule[0] in families]
        self.assertGreaterEqual(len(names), 15)

        def wrong(name):
            words, options = SHOWS.get(name, ([], []))
            return self.check(*PROGRAM, "--wrong", name, *words, options=[
                "--first", "--timeout", 12, "--skip", "beats", *options])

        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            for name, done in zip(names, pool.map(wrong, names)):
                rule, what = trainer.WRONG[name]
                with self.subTest(name=name, what=what):
                    self.assertEqual(done.code, 1, done.out + done.err)
                    told = done.result["checks"][-1]
                    self.assertEqual((told["result"], told["rule"]),
                                     ("failed", rule), told)
                    self.assertTrue(told["expected"] and told["came"])
                    self.assertRegex(page, rf"\*\*{rule}\*\*")
        self.assert_nothing_left()

    def test_a_program_in_c_passes_and_is_tuned(self):
        """apps/examples/least_squares.c, plain C over ZeroMQ and jansson: all
        rules are kept, and a run tunes it to its noise, with a model."""
        program = str(BUILD.resolve() / "least_squares")
        done = self.check(program)
        self.assertEqual(done.code, 0, done.out + done.err)
        self.assertEqual([c["name"] for c in done.result["checks"]
                          if c["result"] != "passed"], ["penalties", "broken"])
        done = self.run_config({
            "name": "squares", "seed": 7, "app": {"command": [program]},
            "tuner": {"searcher": "random", "trial_clocks": 20},
            "stop": {"max_epochs": 6}}, "--json")
        self.assertEqual(done.code, 0, done.out + done.err)
        self.assertEqual(done.result["status"], "finished")
        # It begins at about 3.8.
        self.assertLess(done.result["metric"], 0.5, done.result)
        self.assertNotIn("killed", done.err)
        self.assertTrue(list(self.folder.rglob("weights")))
        self.assert_nothing_left()

    def test_our_own_node_passes(self):
        """`mltune node` with softmax regression keeps all rules, alone and as
        two processes."""
        for nodes in (1, 2):
            config = mlr_config()
            config["app"]["data"] = "gen:digits?samples=400&size=12"
            config["cluster"]["nodes"] = nodes
            self.write("config.json", config)
            done = self.check(MLTUNE, "node", options=[
                "--config", "config.json", "--nodes", nodes,
                *(SHORT if nodes > 1 else ())])
            self.assertEqual(done.code, 0, done.out + done.err)
        self.assert_nothing_left()

    def test_words_for_people(self):
        """Without --json: a line a check, and of a failure the rule, what was
        expected and what came. Programs that never speak are told, too."""
        done = self.mltune("check-trainer", "--first", "--", *PROGRAM,
                           "--wrong", "half_test")
        self.assertEqual(done.code, 1)
        self.assertIn("rule L6: ", done.out)
        self.assertRegex(done.out, r"expected: .*validation_samples")
        self.assertRegex(done.out, r"came: 15 samples in 1 clocks, of 30")
        self.assertIn("1 failed", done.out)
        done = self.mltune("check-trainer", "--", "false")
        self.assertEqual(done.code, 1)
        self.assertRegex(done.out, r"rule C1(.|\n)*exit code 1")
        self.assert_nothing_left()

    def test_wrong_usage_is_told(self):
        """What cannot be checked is an error of usage."""
        for words, text in (
                (["--", "no-such-program"], "no such program"),
                (["--settings", "[]", "--", "true"], "JSON object"),
                (["--nodes", "17", "--", "true"], "1 to 16"),
                (["--only", "dance", "--", "true"], "no check dance"),
                (["--skip", "beats,dance,loss", "--", "true"],
                 "no check dance\n"),
                ([], "COMMAND")):
            done = self.mltune("check-trainer", *words)
            self.assertEqual(done.code, 2, done.err)
            self.assertRegex(done.err, re.escape(text))

    def test_settings_reach_the_program(self):
        """--settings is config.app.settings, and --folder where it works."""
        (self.folder / "there").mkdir()
        self.write("there/look.py", "\n".join([
            "import json, os, zmq",
            "s = zmq.Context().socket(zmq.DEALER)",
            "s.connect(os.environ['MLTUNE_TUNER'])",
            "s.send_json({'kind': 'hello', 'version': 1, 'node': 0,",
            "             'workers': 1, 'pid': os.getpid()})",
            "m = json.loads(s.recv())",
            "open('seen.json', 'w').write(json.dumps(m))"]))
        self.mltune("check-trainer", "--settings", '{"width": 3}', "--folder",
                    "there", "--", sys.executable, "look.py")
        seen = json.loads((self.folder / "there/seen.json").read_text())
        self.assertEqual(seen["config"]["app"]["settings"], {"width": 3})
        self.assertEqual(seen["folder"], str(self.folder / "there"))
