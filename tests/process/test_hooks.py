"""Hooks: programs that a run starts at ends, failures and new bests."""
import json
import os
import signal
import socket

import harness
import test_serve
from harness import Case, mlr_config

HOOK = """import json, os, sys
event = json.load(sys.stdin)
assert os.environ["MLTUNE_EVENT"] == event["event"]
assert os.environ["MLTUNE_RUN"] == event["run"]
assert "MLTUNE_TOKEN" not in os.environ
with open("told.jsonl", "a") as out:
    print(json.dumps(event), file=out)
print("the hook was here")
"""


def with_hook(config, **members):
    return {**config, "hooks": {"command": ["python3", "hook.py"], **members}}


class Hooks(Case):
    def setUp(self):
        super().setUp()
        self.write("hook.py", HOOK)

    def told(self):
        path = self.folder / "told.jsonl"
        return [json.loads(line) for line in
                path.read_text().splitlines()] if path.exists() else []

    def test_bests_and_the_end(self):
        done = self.run_config(with_hook(mlr_config()), "--json")
        self.assert_code(done, 0)
        run = done.result
        told = self.told()
        self.assertEqual(told[-1]["event"], "end")
        self.assertTrue(told[:-1])
        self.assertEqual({e["event"] for e in told[:-1]}, {"best"})
        for member in ("run", "status", "reason", "model", "best", "epochs",
                       "loss", "state"):
            self.assertEqual(told[-1][member], run[member], member)
        self.assertNotIn("schedule", told[-1])
        epochs = [e["best"]["epoch"] for e in told]
        self.assertEqual(epochs, sorted(epochs))
        self.assertEqual(told[-2]["best"], run["best"])
        log = (self.folder / f".mltune/runs/{run['run']}/log").read_text()
        self.assertIn("the hook was here", log)

    def test_a_failed_run(self):
        """Its failure is told, no end besides."""
        config = with_hook(mlr_config())
        config["app"] = {"command": ["false"]}
        self.assert_code(self.run_config(config), 1)
        self.assertEqual([e["event"] for e in self.told()], ["failure"])
        self.assertEqual(self.told()[0]["status"], "failed")
        self.assertTrue(self.told()[0]["message"])

    def test_data_that_cannot_be_read(self):
        """Found when the run begins; it is told as any failure, and why."""
        self.write("bad.csv", "a,b,kind\n1,2,u\n3,x,v\n")
        config = with_hook(mlr_config())
        config["app"] = {"name": "mlr", "data": "bad.csv"}
        self.assert_code(self.run_config(config), 78)
        told, = self.told()
        self.assertEqual((told["event"], told["status"], told["reason"]),
                         ("failure", "failed", "load_failed"))
        self.assertIn("line 3, column 2 (b)", told["message"])

    def test_a_run_that_cannot_be_set_up(self):
        """Somebody else has its address, before there is a journal of it."""
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            done = self.run_config(with_hook(mlr_config()), "--listen",
                                   f"127.0.0.1:{port}")
        self.assertNotEqual(done.code, 0)
        told, = self.told()
        self.assertEqual((told["event"], told["status"], told["reason"]),
                         ("failure", "failed", "busy"))
        self.assertIn(str(port), told["message"])
        self.assertEqual(self.mltune("ls", "--json").out.strip(), "[]")

    def test_a_lost_node(self):
        """The run goes on, and its hook knows why."""
        self.write("config.json",
                   with_hook(harness.endless_config(), on=["failure"]))
        process = self.start("run", "config.json")
        self.wait_for_training()
        os.kill(self.node_of(process), signal.SIGKILL)
        self.wait_until(self.told, "the hook")
        self.assertEqual(self.told()[0]["event"], "failure")
        self.assertIn("restart 1", self.told()[0]["message"])
        process.send_signal(signal.SIGINT)
        self.assert_code(self.finish(process), 130)

    def test_one_that_hangs_keeps_no_run_from_its_end(self):
        """After a signal it has a second."""
        self.write("hang.py", "import time\nprint('I hang', flush=True)\n"
                   "time.sleep(600)\n")
        config = with_hook(harness.endless_config(), on=["end"])
        config["hooks"]["command"][1] = "hang.py"
        self.write("config.json", config)
        process = self.start("run", "config.json")
        self.wait_for_training()
        process.send_signal(signal.SIGTERM)
        self.assert_code(self.finish(process), 143)
        run = json.loads(self.mltune("ls", "--json").out)[0]["run"]
        log = (self.folder / f".mltune/runs/{run}/log").read_text()
        self.assertIn("the run was to end at once", log)
        self.assert_nothing_left()

    def test_one_that_talks_is_bounded(self):
        """Also once the run is over, which is seen to live meanwhile: the hook
        waits until its own words are cut and the run has given a sign."""
        self.write("flood.py", """import os, time
at = os.environ["PWD"] + "/.mltune/runs/" + os.environ["MLTUNE_RUN"]
seen = os.stat(at + "/lock").st_mtime_ns
for i in range(96):
    os.write(1, b"x" * (1 << 20))
end = time.monotonic() + 30
while os.stat(at + "/log").st_blocks * 512 > 64 << 20 or (
        os.stat(at + "/lock").st_mtime_ns == seen):
    assert time.monotonic() < end
    time.sleep(0.05)
print("\\ncut")
""")
        config = with_hook(mlr_config(), on=["end"], timeout="60s")
        config["hooks"]["command"][1] = "flood.py"
        done = self.run_config(config, "--json")
        self.assert_code(done, 0)
        log = self.folder / f".mltune/runs/{done.result['run']}/log"
        with open(log, "rb") as file:
            file.seek(-1000, os.SEEK_END)
            self.assertRegex(file.read().decode(),
                             r"\ncut\n.*hook_ended.*exit code 0")

    def test_one_that_is_not_there(self):
        config = with_hook(mlr_config())
        config["hooks"]["command"] = ["./nothing"]
        done = self.run_config(config)
        self.assert_code(done, 0)
        self.assertIn("there is no program ./nothing", done.err)


class OfAService(test_serve.Service):
    def test_hooks_are_programs(self):
        """A service that runs none takes no configuration with one."""
        self.write("hook.py", HOOK)
        answer = self.submit(with_hook(mlr_config()), status=403)
        self.assertEqual(answer["code"], "programs_not_allowed")
        self.assertEqual(answer["errors"][0]["pointer"], "/hooks/command")
        self.assert_code(self.end(), 143)
        self.launch("--allow-programs")
        run = self.submit(with_hook(mlr_config(), on=["end"]))
        self.wait_for_status(run, "finished")
        path = self.folder / "told.jsonl"
        self.wait_until(lambda: path.exists() and path.read_text(), "the hook")
        self.assertEqual(json.loads(path.read_text())["run"], run)
        # A run whose configuration was taken before waits.
        self.assertEqual(os.listdir(self.folder / ".mltune/runs"), [run])
