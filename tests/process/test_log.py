"""`mltune log` and GET /runs/{run}/log: what a run's training system wrote."""
import http.client
import json
import os
import pathlib
import shutil
import subprocess
import time

import harness
import test_serve

PYTHON = "/usr/bin/python3"
LINE = pathlib.Path(__file__).parent / "fixtures/programs/line.py"


def line_config(name="line", epochs=6, **ways):
    words = [f"{k}={json.dumps(v)}" for k, v in ways.items()]
    return {"name": name, "app": {"command": [PYTHON, "line.py", *words]},
            "tunables": {"learning_rate": harness.RATE},
            "tuner": {"searcher": "random", "trial_clocks": 8},
            "stop": {"max_epochs": epochs, "plateau_epochs": 1000000},
            "seed": 7}


class Log(harness.Case):
    def setUp(self):
        super().setUp()
        shutil.copy(LINE, self.folder)

    def file(self, run, node=0):
        return self.folder / f".mltune/runs/{run}/node-{node}.log"

    def bytes_of(self, *words):
        done = subprocess.run([harness.MLTUNE, "log", *map(str, words)],
                              capture_output=True, timeout=60, env=self.env,
                              cwd=self.folder, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_whole_and_last_lines(self):
        run = self.run_config(line_config(), "--json").result["run"]
        whole = self.file(run).read_bytes()
        self.assertIn(b"a line's program", whole)
        self.assertEqual(self.bytes_of("line"), whole)
        for n in (0, 1, 7, 100000):
            last = b"".join(whole.splitlines(True)[-n:] if n else [])
            self.assertEqual(self.bytes_of("line", "--lines", n), last)
        self.assertEqual(self.bytes_of("line", "-f", "--lines", 2),
                         b"".join(whole.splitlines(True)[-2:]))

    def test_any_bytes_and_several_pieces(self):
        run = self.run_config(line_config(), "--json").result["run"]
        whole = b"".join(b"%d \x00\xff\x1b[31m\r\n" % i for i in range(150000))
        self.file(run).write_bytes(whole + b"no end")
        self.assertEqual(self.bytes_of("line"), whole + b"no end")
        for n in (1, 2, 100000):
            self.assertEqual(self.bytes_of("line", "--lines", n),
                             b"\n".join((whole + b"no end").split(b"\n")[-n:]))

    def test_several_processes(self):
        run = self.run_config({**line_config(), "cluster": {"nodes": 2}},
                              "--json").result["run"]
        for node in (0, 1):
            self.assertEqual(self.bytes_of("line", "--node", node),
                             self.file(run, node).read_bytes())
        done = self.mltune("log", "line", "--node", 2)
        self.assertIn("has no log of node 2", done.err)
        self.assert_code(done, 2)

    def test_misuse(self):
        for words in (), ("a", "b"), ("a", "--node", "64"), \
                ("a", "--lines", "x"):
            self.assert_code(self.mltune("log", *words), 2)
        self.run_config(line_config())
        self.assert_code(self.mltune("log", "nobody"), 2)

    def test_follows_until_the_run_ends(self):
        self.write("config.json", line_config(epochs=100000))
        tuner = self.start("run", "config.json")
        self.wait_until(lambda: list(self.folder.glob(
            ".mltune/runs/*/node-0.log")), "the log")
        out = self.folder / "out"
        with open(out, "wb") as f:
            following = self.start("log", "line", "-f", stdout=f)
        self.wait_until(lambda: b"clock" in out.read_bytes(), "what comes")
        tuner.terminate()
        self.finish(tuner)
        self.assert_code(self.finish(following, 20), 0)
        path = next(self.folder.glob(".mltune/runs/*/node-0.log"))
        self.assertEqual(out.read_bytes(), path.read_bytes())

    def test_a_server_that_goes_away_ends_it(self):
        self.write("config.json", line_config(epochs=1000000))
        tuner = self.start("run", "config.json")
        url = self.wait_until(lambda: [
            p.read_text() for p in self.folder.glob(".mltune/runs/*/url")],
            "the server")[0]
        self.wait_until(lambda: list(self.folder.glob(
            ".mltune/runs/*/node-0.log")), "the log")
        following = self.start("log", "line", "-f", "--server", url,
                               stdout=subprocess.DEVNULL)
        time.sleep(1)
        tuner.kill()
        begun = time.monotonic()
        done = self.finish(following, 40)
        self.assertLess(time.monotonic() - begun, 30)
        self.assert_code(done, 69)
        self.assertIn("the server is gone since 10 s", done.err)

    def test_a_server_that_ends_with_its_run_is_no_failure(self):
        self.write("config.json", line_config(epochs=1000000))
        tuner = self.start("run", "config.json")
        url = self.wait_until(lambda: [
            p.read_text() for p in self.folder.glob(".mltune/runs/*/url")],
            "the server")[0]
        out = self.folder / "out"
        with open(out, "wb") as f:
            following = self.start("log", "line", "-f", "--server", url,
                                   stdout=f)
        self.wait_until(lambda: b"clock" in out.read_bytes(), "what comes")
        tuner.terminate()
        self.finish(tuner)
        self.assert_code(self.finish(following, 20), 0)
        path = next(self.folder.glob(".mltune/runs/*/node-0.log"))
        self.assertTrue(path.read_bytes().startswith(out.read_bytes()))

    def test_no_log_of_a_run_that_is_over_is_an_error(self):
        self.run_config(line_config())
        done = self.mltune("log", "line", "-f", "--node", 5)
        self.assertIn("has no log of node 5", done.err)
        self.assert_code(done, 2)

    def test_the_runs_own_log_is_bounded_too(self):
        """What a searcher says is in it: nobody knows how much that is."""
        self.write("config.json", line_config(epochs=1000000))
        tuner = self.start("run", "config.json")
        path = self.wait_until(lambda: list(self.folder.glob(
            ".mltune/runs/*/log")), "the log")[0]
        with open(path, "ab") as f:
            for i in range(65):
                f.write(b"%1023d\n" % i * 1024)
        self.wait_until(lambda: path.stat().st_blocks * 512 < 40 << 20,
                        "the cut")
        tuner.terminate()
        self.assert_code(self.finish(tuner), 143)

    def test_a_long_log_keeps_its_newest_part(self):
        """64 MiB are too many: half of them stay, at their places."""
        self.write("config.json", line_config(epochs=1000000))
        tuner = self.start("run", "config.json")
        path = self.wait_until(lambda: list(self.folder.glob(
            ".mltune/runs/*/node-0.log")), "the log")[0]
        out = self.folder / "out"
        with open(path, "ab") as f:
            for i in range(65 * 1024):
                f.write(b"%1022d\n\n" % i)
        self.wait_until(lambda: path.stat().st_blocks * 512 < 40 << 20,
                        "the cut")
        with open(out, "wb") as f:
            following = self.start("log", "line", "-f", stdout=f)
        end = path.stat().st_size
        self.wait_until(lambda: path.stat().st_size > end, "more of it")
        tuner.terminate()
        self.finish(tuner)
        followed = self.finish(following)
        self.assert_code(followed, 0)
        with open(path, "rb") as f:
            first = os.lseek(f.fileno(), 0, os.SEEK_DATA)
            f.seek(first)
            kept = f.read()
        self.assertGreater(first, 30 << 20)
        self.assertGreater(len(kept), 32 << 20)
        self.assertIn(b"%1022d" % 65535, kept)
        self.assertEqual(out.read_bytes(), kept)
        self.assertIn(f"bytes 0 to {first} of the log are not kept any more",
                      followed.err)
        self.assertEqual(self.bytes_of("line"), kept)
        lines = kept.split(b"\n")
        for n in (3, 1000, 1000000):
            self.assertEqual(self.bytes_of("line", "--lines", n),
                             b"\n".join(lines[-n - 1:]))


class Served(test_serve.Service):
    OPTIONS = ("--allow-programs",)

    def piece(self, run, query):
        connection = http.client.HTTPConnection(*self.address, timeout=60)
        connection.request("GET", f"/api/v1/runs/{run}/log?{query}")
        reply = connection.getresponse()
        body = reply.read()
        connection.close()
        return reply, body

    def test_following_ends_with_a_run_that_is_deleted(self):
        shutil.copy(LINE, self.folder)
        config = {**line_config(epochs=1000000),
                  "app": {**line_config()["app"], "folder": str(self.folder)}}
        lives, waits = self.submit(config), self.submit(config)
        self.wait_for_clock(lives)
        following = self.start("log", waits, "-f", "--server",
                               "http://%s:%d" % self.address)
        time.sleep(1.5)
        self.assertIsNone(following.poll(), "it waits for the log")
        self.assertEqual(self.ask("DELETE", f"/api/v1/runs/{waits}")[0], 200)
        done = self.finish(following, 20)
        self.assertIn(f'there is no run "{waits}"', done.err)
        self.assert_code(done, 2)

    def test_pieces_and_following_over_http(self):
        shutil.copy(LINE, self.folder)
        config = line_config()
        config["app"]["folder"] = str(self.folder)
        run = self.submit(config)
        following = self.start("log", run, "-f", "--server",
                               "http://%s:%d" % self.address)
        self.wait_for_status(run, "finished")
        whole = (self.folder / f".mltune/runs/{run}/node-0.log").read_bytes()
        self.assertEqual(self.finish(following, 20).out, whole.decode())
        reply, body = self.piece(run, "offset=5&limit=7")
        self.assertEqual(body, whole[5:12])
        self.assertEqual(reply.headers["Content-Type"],
                         "text/plain; charset=utf-8")
        self.assertEqual(reply.headers["X-Content-Type-Options"], "nosniff")
        self.assertEqual(reply.headers["Log-Offset"], "5")
        self.assertEqual(reply.headers["Log-Next-Offset"], "12")
        # It is never an answer that was given before.
        with open(self.folder / f".mltune/runs/{run}/node-0.log", "ab") as f:
            f.write(b"more")
        self.assertEqual(self.piece(run, "offset=-4")[1], b"more")
        with open(self.folder / f".mltune/runs/{run}/node-0.log", "ab") as f:
            f.write(b" yet")
        self.assertEqual(self.piece(run, "offset=-4")[1], b" yet")
        self.assertEqual(self.piece(run, "offset=99999999")[1], b"")
        path = self.folder / f".mltune/runs/{run}/node-0.log"
        path.unlink()
        path.symlink_to("/etc/passwd")
        reply, body = self.piece(run, "")
        self.assertEqual(reply.status, 500)
        self.assertNotIn(b"root", body)
