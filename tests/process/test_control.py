"""A run that is steered while it trains, as its user meets it."""
import http.client
import json
import signal
import stat

from harness import mlr_config
import test_http


class Steered(test_http.Served):
    def setUp(self):
        super().setUp()
        self.token = (self.folder / ".mltune/token").read_text().strip()

    def write_to(self, target, method="POST", body=None, status=202, **headers):
        """The answer to a write with the token."""
        headers = {"Authorization": f"Bearer {self.token}",
                   **{k.replace("_", "-"): v for k, v in headers.items()}}
        if body is not None:
            headers["Content-Type"] = "application/json"
            body = json.dumps(body)
        code, _, answer = self.ask(target, method, headers, body)
        self.assertEqual(code, status, answer)
        return json.loads(answer)

    def command(self, name, status=202, **headers):
        return self.write_to(f"/api/v1/runs/{self.run_id()}:{name}",
                             status=status, **headers)

    def limits(self, stop, status=200):
        return self.write_to(f"/api/v1/runs/{self.run_id()}", "PATCH",
                             {"stop": stop}, status)

    def run_now(self):
        return self.get(f"/api/v1/runs/{self.run_id()}")

    def wait_for_status(self, *wanted):
        def look():
            run = self.run_now()
            return run if run["status"] in wanted else None
        return self.wait_until(look, f"status {wanted}")

    def texts(self):
        base = f"/api/v1/runs/{self.run_id()}"
        return [d["text"] for d in
                self.get(base + "/decisions?order=desc")["decisions"]]


class Control(Steered):
    def test_pause_and_continue(self):
        """Nothing runs while it is paused; then it goes on, and says so."""
        self.wait_for_clock()
        self.assertTrue(self.command("pause")["changed"])
        run = self.wait_for_status("paused")
        self.assertFalse(self.command("pause", 200)["changed"])
        self.get("/healthz")
        self.assertEqual(self.run_now()["clocks"], run["clocks"])
        self.assertTrue(self.command("continue")["changed"])
        self.wait_for_clock(past=run["clocks"])
        self.assertIn(self.run_now()["status"], ("tuning", "training"))
        self.assertTrue(any("pauses the run" in t for t in self.texts()))
        self.assertTrue(any("do not count" in t for t in self.texts()))

    def test_retune_and_snapshot(self):
        """A search more than there would be; a snapshot on the disk."""
        self.wait_for_status("training")
        before = self.run_now()["tuning"]["searches"]
        self.command("retune")
        self.wait_until(
            lambda: self.run_now()["tuning"]["searches"] > before, "a search")
        self.wait_for_status("training")
        code, _, _ = self.ask(f"/api/v1/runs/{self.run_id()}:snapshot", "POST",
                              {"Authorization": f"Bearer {self.token}"})
        self.assertIn(code, (200, 202), "done, or under way already")
        self.wait_until(
            lambda: list(self.folder.glob(".mltune/runs/*/snapshots/0*")),
            "a snapshot")

    def test_stop(self):
        """The best model so far is kept; the run ends as stopped."""
        self.wait_for_status("training")
        self.command("stop")
        done = self.finish(self.process)
        self.assert_code(done, 0)
        self.assertIn("stopped", done.out)
        self.assertEqual(len(list(
            self.folder.glob(".mltune/runs/*/model/model.json"))), 1)
        self.assertEqual(list(self.folder.glob(".mltune/runs/*/url")), [])
        self.assert_nothing_left()

    def test_limits_end_the_run(self):
        """What is set while it runs ends it, and is shown."""
        self.wait_for_clock()
        self.assertIsNone(self.run_now()["stop"]["max_time"])
        answer = self.limits({"target_loss": 1e9, "max_time": "1h"})
        self.assertEqual(answer["stop"]["max_time"], 3600)
        self.assertEqual(self.run_now()["stop"]["target_loss"], 1e9)
        self.assertFalse(self.limits({"max_time": 3600})["changed"])
        done = self.finish(self.process)
        self.assert_code(done, 0)
        self.assertIn("target loss", done.out)

    def test_what_was_steered_outlives_the_tuner(self):
        """Limits hold in a run that is resumed; a pause is over by that."""
        self.wait_for_status("training")
        self.limits({"max_epochs": 900000, "target_loss": 1e-9})
        self.command("pause")
        self.wait_for_status("paused")
        self.process.send_signal(signal.SIGKILL)
        self.process.communicate()
        self.process = self.start("resume", "endless")
        log = next(self.folder.glob(".mltune/runs/*/log"))
        self.address = self.wait_until(
            lambda: self.newest_address(log), "the address of the second")
        self.wait_for_status("training", "tuning")
        self.assertEqual(self.run_now()["stop"]["max_epochs"], 900000)
        self.assertTrue(any("who resumes it" in t for t in self.texts()))
        self.limits({"target_loss": 1e9})
        self.assert_code(self.finish(self.process), 0)

    @staticmethod
    def newest_address(log):
        found = [line.split("http://")[1].split("/")[0]
                 for line in log.read_text().splitlines() if "url=http" in line]
        host, port = found[-1].split(":")
        return (host, int(port)) if len(found) > 1 else None

    def test_keys_make_a_repetition_harmless(self):
        """The same key asks once; another request with it is refused."""
        self.wait_for_clock()
        first = self.command("pause", Idempotency_Key="k-1")
        self.wait_for_status("paused")
        self.command("continue")
        again = self.command("pause", Idempotency_Key="k-1")
        self.assertEqual(first, again)
        self.assertNotEqual(self.run_now()["status"], "paused")
        self.command("stop", 422, Idempotency_Key="k-1")


class Branches(Steered):
    def branch(self, number):
        return self.get(f"/api/v1/runs/{self.run_id()}/branches/{number}")

    def at_branch(self, number, what, body=None, status=202):
        return self.write_to(
            f"/api/v1/runs/{self.run_id()}/branches/{number}:{what}",
            body=body, status=status)

    def test_fork_promote_and_free(self):
        """Tried beside the training, then trained; another is given up."""
        self.wait_for_status("training")
        tip = self.run_now()["branch"]
        answer = self.at_branch(tip, "fork", {
            "setting": {"learning_rate": 0.0123}, "clocks": 30})
        fork = answer["branch"]
        shown = self.branch(fork)
        self.assertEqual(shown["origin"], "user")
        self.assertEqual(shown["parent"], tip)
        self.assertEqual(shown["setting"]["learning_rate"], 0.0123)
        self.wait_until(lambda: self.branch(fork)["clocks"] >= 30,
                        "the fork has run")
        self.assertEqual(self.branch(fork)["clocks"], 30)
        self.assertTrue(self.branch(fork)["live"])
        other = self.at_branch(tip, "fork")["branch"]
        self.assertEqual(
            self.branch(other)["setting"], self.branch(tip)["setting"])
        self.at_branch(other, "free")
        self.wait_until(lambda: not self.branch(other)["live"], "it is freed")
        self.assertEqual(self.branch(other)["freed_reason"],
                         "freed by the user")
        self.at_branch(fork, "promote")
        self.wait_until(lambda: self.run_now()["branch"] == fork,
                        "the fork is trained")
        self.assertEqual(self.run_now()["setting"]["learning_rate"], 0.0123)
        self.assertEqual(self.at_branch(fork, "promote", status=200)["changed"],
                         False)
        self.assertFalse(self.branch(tip)["live"])

    def test_what_cannot_be_is_refused(self):
        """With every fault of a setting; the run goes on."""
        self.wait_for_status("training")
        tip = self.run_now()["branch"]
        problem = self.at_branch(tip, "fork", {
            "setting": {"learning_rate": 7, "momentums": 0.5}}, 422)
        self.assertEqual([e["pointer"] for e in problem["errors"]],
                         ["/setting/learning_rate", "/setting/momentums"])
        self.assertEqual(self.at_branch(999999, "fork", {}, 404)["code"],
                         "branch_not_found")
        self.assertEqual(self.at_branch(999999, "promote", None, 404)["code"],
                         "branch_not_found")
        self.assertEqual(self.at_branch(tip, "free", None, 409)["code"],
                         "not_supported")

    def test_the_verbs_and_a_killed_tuner(self):
        """A fork that lived begins again in the resumed run."""
        self.wait_for_status("training")
        tip = str(self.run_now()["branch"])
        done = self.mltune("fork", "endless", tip, "learning_rate=0.0321",
                           "--epochs", "1000", "--json")
        self.assert_code(done, 0)
        fork = done.result["branch"]
        self.wait_until(lambda: self.branch(fork)["clocks"] > 0, "it runs")
        self.assert_code(self.mltune("fork", "endless", "x"), 2)
        self.assert_code(
            self.mltune("fork", "endless", tip, "learning_rate=9"), 2)
        self.process.send_signal(signal.SIGKILL)
        self.process.communicate()
        self.process = self.start("resume", "endless")
        log = next(self.folder.glob(".mltune/runs/*/log"))
        self.address = self.wait_until(
            lambda: Control.newest_address(log), "the address of the second")
        base = f"/api/v1/runs/{self.run_id()}"

        def again():
            return [b for b in self.get(
                base + "/branches?live=true&page_size=1000")["branches"]
                    if b["origin"] == "user" and b["branch"] > fork]
        self.wait_until(again, "the fork again")
        found, = again()
        self.assertEqual(found["setting"]["learning_rate"], 0.0321)
        done = self.mltune("promote", "endless", str(found["branch"]))
        self.assert_code(done, 0)
        self.wait_until(
            lambda: self.run_now()["branch"] == found["branch"], "promoted")
        self.assert_code(self.mltune("free", "endless", tip), 2)


class Guarded(Steered):
    def test_the_token_guards_writes(self):
        """Of mode 0600, asked for by every write, in no log."""
        path = self.folder / ".mltune/token"
        self.assertEqual(stat.S_IMODE(path.stat().st_mode), 0o600)
        self.assertEqual(len(self.token), 64)
        target = f"/api/v1/runs/{self.run_id()}:stop"
        for headers in ({}, {"Authorization": "Bearer wrong"},
                        {"Authorization": f"Bearer {self.token[:-1]}"},
                        {"Authorization": f"Bearer {self.token}",
                         "Origin": "http://evil.example"},
                        {"Authorization": f"Bearer {self.token}",
                         "Sec-Fetch-Site": "cross-site"}):
            code, _, _ = self.ask(target, "POST", headers)
            self.assertIn(code, (401, 403))
        code, _, _ = self.ask(
            target, "POST", {"Authorization": f"Bearer {self.token}",
                             "Content-Type": "text/plain"}, "{}")
        self.assertEqual(code, 415)
        self.assertIn(self.run_now()["status"],
                      ("waiting", "tuning", "training"))
        for log in self.folder.rglob("*log"):
            self.assertNotIn(self.token, log.read_text(errors="replace"))
        for pid in self.nodes_of(self.process):
            with open(f"/proc/{pid}/environ", "rb") as environ:
                self.assertNotIn(self.token.encode(), environ.read())

    def test_bodies_that_are_no_json(self):
        """Each is refused with what is wrong; the run goes on."""
        for body in (b"{", b'{"stop": {}, "stop": {}}', b"[" * 1000,
                     b"\xff\xfe", b'{"stop": {"max_epochs": 1e999}}', b"nan",
                     b'{"stop": {}} trailing'):
            code, _, answer = self.ask(
                f"/api/v1/runs/{self.run_id()}", "PATCH",
                {"Authorization": f"Bearer {self.token}",
                 "Content-Type": "application/json"}, body)
            self.assertEqual(code, 400, answer)
            self.assertEqual(json.loads(answer)["code"], "malformed_json")
        before = self.run_now()["clocks"]
        self.wait_for_clock(past=before)


class Events(test_http.Served):
    def stream(self, last=None, query=""):
        """An open event stream of the run, as a file of bytes."""
        connection = http.client.HTTPConnection(*self.address, timeout=60)
        self.addCleanup(connection.close)
        connection.request(
            "GET", f"/api/v1/runs/{self.run_id()}/events{query}",
            headers={} if last is None else {"Last-Event-ID": str(last)})
        reply = connection.getresponse()
        self.assertEqual(reply.status, 200)
        self.assertEqual(reply.headers["Content-Type"], "text/event-stream")
        return reply

    @staticmethod
    def events(reply, count):
        """The next events: number, kind, data."""
        found, event = [], {}
        while len(found) < count:
            line = reply.readline().decode()
            if not line:
                return found
            name, _, value = line.rstrip("\n").partition(": ")
            if name:
                event[name] = value
            elif "data" in event:
                found.append((int(event["id"]), event["event"],
                              json.loads(event["data"])))
                event = {}
        return found

    def test_events_come_as_they_happen(self):
        """Each once, in order; who comes back goes on where it was."""
        first = self.events(self.stream(), 50)
        numbers = [n for n, _, _ in first]
        self.assertEqual(numbers,
                         list(range(numbers[0], numbers[0] + 50)))
        for _, kind, data in first:
            self.assertEqual(data["kind"], kind)
        again = self.events(self.stream(numbers[9]), 30)
        self.assertEqual(again[0][0], numbers[10])
        self.assertEqual(again[:30], first[10:40])
        answer = self.get(f"/api/v1/runs/{self.run_id()}/events"
                          f"?after={numbers[9]}")
        self.assertEqual([e["id"] for e in answer["events"][:20]],
                         numbers[10:30])

    def test_some_kinds_alone(self):
        """In a stream, from its first event to its end, and when polled."""
        self.wait_for_clock()
        reply = self.stream(0, "?kinds=run_started,run_finished")
        target = f"/api/v1/runs/{self.run_id()}/events?after=0&kinds="
        answer = self.get(target + "slice_ended,node")
        self.assertEqual({e["event"] for e in answer["events"]} -
                         {"slice_ended", "node"}, set())
        self.assertTrue(answer["events"])
        nothing = self.get(target + "increment")
        self.assertEqual(nothing["events"], [])
        self.assertGreaterEqual(nothing["next_after"], 5)
        for kinds in "progres", "node,", ",", "":
            code, _, body = self.ask(target + kinds)
            self.assertEqual(code, 400, kinds)
            fault, = json.loads(body)["errors"]
            self.assertEqual(fault["pointer"], "/query/kinds")
            self.assertIn("run_started, run_status", fault["detail"])
        self.process.send_signal(signal.SIGINT)
        self.assertEqual([kind for _, kind, _ in self.events(reply, 10 ** 9)],
                         ["run_started", "run_finished"])

    def test_the_end_of_the_run_is_an_event(self):
        """Everything up to the last record comes, then the stream ends."""
        self.wait_for_clock()
        reply = self.stream()
        self.events(reply, 5)
        self.process.send_signal(signal.SIGINT)
        rest = self.events(reply, 10 ** 9)
        self.assertEqual(rest[-1][1], "run_finished")
        self.assert_code(self.finish(self.process), 130)


class Verbs(Steered):
    def steer(self, *words, code=0):
        done = self.mltune(*words)
        self.assert_code(done, code)
        return done

    def test_the_verbs_steer_the_run(self):
        """Found by its name, through the state folder; told what was done."""
        self.wait_for_status("training")
        self.assertIn("pauses the run", self.steer("pause", "endless").out)
        self.wait_for_status("paused")
        self.assertIn("paused already", self.steer("pause", "endless").out)
        self.assertIn("go on", self.steer("continue", "endless").out)
        answer = self.steer("limit", self.run_id(), "max_time=2h",
                            "target_metric=0.9999", "--json").result
        self.assertEqual(answer["stop"]["max_time"], 7200)
        self.steer("limit", "endless", "target_metric=none")
        self.assertIsNone(self.run_now()["stop"]["target_metric"])
        self.steer("retune", "endless")
        self.steer("snapshot", "endless")
        done = self.steer("limit", "endless", "max_epochs=no", "colour=1",
                          code=2)
        self.assertIn("error: max_epochs: expected a whole number", done.err)
        self.assertIn("\ncolour: unknown", done.err)
        self.steer("limit", "endless", "max_epochs", code=2)
        done = self.steer("limit", "endless", "max_epochs=500000",
                          "max_epochs=600000", code=2)
        self.assertIn("max_epochs: given twice", done.err)
        done = self.steer("delete", "endless", code=2)
        self.assertIn("its tuner lives; `mltune stop", done.err)
        self.steer("stop", "endless")
        self.assert_code(self.finish(self.process), 0)
        done = self.steer("pause", "endless", code=2)
        self.assertIn("is not running: it ended as stopped", done.err)
        self.assertIn("is deleted", self.steer("delete", "endless").out)
        self.assertEqual(list((self.folder / ".mltune/runs").iterdir()), [])
        self.assertEqual(self.steer("ls", "--json").result, [])
        self.assertIn("endless", self.mltune("delete", "endless").err)

    def doctor(self, *words, code=0):
        """What the doctor finds of a server."""
        found = {line["check"]: line["verdict"] for line in
                 self.steer("doctor", "--json", *words, code=code).result}
        return {check: found[check] for check in ("server", "ready", "token")
                if check in found}

    def test_a_server_that_is_named(self):
        """By option or environment, with the run's id and a token."""
        run = self.run_id()
        url = "http://%s:%d/" % self.address
        self.assertIn(run, self.steer("pause", run, "--server", url).out)
        self.env["MLTUNE_SERVER"] = url
        self.assertIn(run, self.steer("continue", run).out)
        self.steer("stop", "another-run", code=2)
        self.assertEqual(self.doctor(), {"server": "ok", "ready": "ok",
                                         "token": "ok"})
        self.env["MLTUNE_TOKEN"] = "0123456789abcdef0123"
        self.assertIn("MLTUNE_TOKEN", self.steer("stop", run, code=2).err)
        self.assertEqual(self.doctor()["token"], "note")
        del self.env["MLTUNE_TOKEN"]
        del self.env["MLTUNE_SERVER"]
        self.assertEqual(self.doctor(), {})
        self.assertEqual(
            self.doctor("--server", "http://127.0.0.1:1/", code=1),
            {"server": "missing"})
        for wrong in ("ftp://127.0.0.1:1/", "http://example.com:80/",
                      "http://127.0.0.1/"):
            self.steer("stop", run, "--server", wrong, code=2)
        self.steer("stop", run, "--server", "http://127.0.0.1:1/", code=69)

    def test_a_run_that_was_killed(self):
        """Nobody is there to be told; how to go on is said."""
        self.wait_for_clock()
        self.process.send_signal(signal.SIGKILL)
        self.process.communicate()
        done = self.steer("stop", "endless", code=2)
        self.assertIn("mltune resume", done.err)
        self.steer("stop", "nothing-like-it", code=2)


class Token(test_http.Case):
    def test_a_token_that_others_may_read_is_refused(self):
        """And the environment's is used where there is one."""
        folder = self.folder / ".mltune"
        folder.mkdir()
        (folder / "token").write_text("0123456789abcdef0123456789abcdef\n")
        (folder / "token").chmod(0o644)
        done = self.run_config(mlr_config())
        self.assertNotEqual(done.code, 0)
        self.assertIn("chmod 600", done.err)
        self.env["MLTUNE_TOKEN"] = "short"
        done = self.run_config(mlr_config())
        self.assertIn("MLTUNE_TOKEN", done.err)
        self.env["MLTUNE_TOKEN"] = "a-token-of-my-own-1234"
        done = self.run_config(mlr_config())
        self.assert_code(done, 0)

