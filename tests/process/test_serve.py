"""`mltune serve`: many runs, submitted over HTTP, each a process of its own."""
import contextlib
import http.client
import json
import os
import re
import resource
import shutil
import signal
import sqlite3
import time

import harness
from harness import Case, journal_as_failed, mlr_config, without_copies
from test_resume import Journal


def endless_config():
    """Smaller than the harness's: many of them are begun here."""
    config = harness.endless_config()
    config["app"]["data"] = "gen:digits?samples=20000&size=12"
    return config


class Service(Case):
    """A service on a port of its own, with one slot."""
    OPTIONS = ()
    READ = ("--read", "user")  # many tests read without the token

    def setUp(self):
        super().setUp()
        self.service = None
        self.launch()
        self.addCleanup(self.end)

    def launch(self, *words):
        self.service = self.start("serve", "--listen", "127.0.0.1:0",
                                  *self.READ, *self.OPTIONS, *words)
        self.wait_until(self.find_service, "the service")

    def find_service(self):
        """Its address and token, once it is ready."""
        self.assertIsNone(self.service.poll(), "the service has ended")
        try:
            url = (self.folder / ".mltune/serve.url").read_text()
            self.address = ("127.0.0.1", int(url.rstrip("/").split(":")[-1]))
            self.token = self.env.get("MLTUNE_TOKEN") or (
                self.folder / ".mltune/token").read_text().strip()
            return self.ask("GET", "/readyz")[0] == 200
        except OSError:
            return False

    def end(self, number=signal.SIGTERM):
        if self.service.poll() is None:
            self.service.send_signal(number)
        return self.finish(self.service)

    # ---- a client --------------------------------------------------------

    def ask(self, method, target, body=None, **headers):
        """Status, headers and JSON of an answer."""
        headers = {k.replace("_", "-"): v for k, v in headers.items()}
        if method != "GET" or not self.READ:
            headers.setdefault("Authorization", f"Bearer {self.token}")
        if body is not None:
            headers.setdefault("Content-Type", "application/json")
            body = body if isinstance(body, (str, bytes)) else json.dumps(body)
        connection = http.client.HTTPConnection(*self.address, timeout=60)
        try:
            connection.request(method, target, body, headers)
            reply = connection.getresponse()
            text = reply.read()
            return reply.status, reply.headers, text and json.loads(text)
        finally:
            connection.close()

    def get(self, target, status=200):
        code, _, answer = self.ask("GET", target)
        self.assertEqual(code, status, answer)
        return answer

    def submit(self, config, query="", status=201, **headers):
        code, reply, answer = self.ask("POST", f"/api/v1/runs{query}", config,
                                       **headers)
        self.assertEqual(code, status, answer)
        if status == 201:
            self.assertEqual(reply["Location"],
                             f"/api/v1/runs/{answer['run']}")
            return answer["run"]
        return answer

    def command(self, run, name, status=200):
        code, _, answer = self.ask("POST", f"/api/v1/runs/{run}:{name}")
        self.assertEqual(code, status, answer)
        return answer

    def run_now(self, run):
        return self.get(f"/api/v1/runs/{run}")

    def wait_for_status(self, run, *wanted):
        def look():
            now = self.run_now(run)
            return now if now["status"] in wanted else None
        return self.wait_until(look, f"run {run} to be {wanted}", 120)

    def wait_for_clock(self, run, past=0):
        def look():
            now = self.run_now(run)
            return now if now["clocks"] > past else None
        return self.wait_until(look, f"clock {past} of run {run}")

    def tuner_of(self, run):
        """The process of a run that lives."""
        text = (self.folder / f".mltune/runs/{run}/lock").read_text()
        return int(text)


class Submitting(Service):
    def test_runs_one_after_the_other(self):
        """Each is trained to its end, in its turn, and can be read after."""
        runs = [self.submit(mlr_config()) for _ in range(3)]
        ended = [self.wait_for_status(run, "finished", "failed")
                 for run in runs]
        self.assertEqual([run["status"] for run in ended], ["finished"] * 3)
        begun = [run["started_at"] for run in ended]
        self.assertEqual(begun, sorted(begun))
        self.assertEqual([run["epochs"] for run in ended], [4] * 3)
        for run, after in zip(ended, ended[1:]):
            self.assertLessEqual(run["finished_at"], after["started_at"])
        trials = self.get(f"/api/v1/runs/{runs[0]}/trials")
        self.assertGreater(trials["total"], 0)
        self.assertTrue(
            (self.folder / f".mltune/runs/{runs[0]}/model/model.json").exists())
        self.assert_code(self.end(), 143)
        self.assert_nothing_left()

    def test_every_fault_of_a_configuration_is_listed(self):
        """With its pointer and place; nothing is made."""
        answer = self.submit(
            {"app": {"name": "mlr", "data": "../secret"}, "sede": 1,
             "cluster": {"workers": 200}, "memory": {"limit": "900000GiB"},
             "tuner": {"searcher": {"command": ["touch", "ran"]}}},
            status=422)
        self.assertEqual(answer["code"], "invalid_configuration")
        self.assertEqual(
            [e["pointer"] for e in answer["errors"]],
            ["/app/data", "/sede", "/cluster/workers", "/memory/limit",
             "/tuner/searcher"])
        self.assertIn("did you mean \"seed\"", answer["errors"][1]["detail"])
        self.assertFalse((self.folder / "ran").exists())
        for body in ("[]", "7", ""):
            self.submit(body, status=422)
        self.submit('{"app": {}, "app": {}}', status=400)
        self.assertEqual(self.get("/api/v1/runs")["total"], 0)
        code, _, answer = self.ask("POST", "/api/v1/runs:validate",
                                   {"app": {"name": "mlr"}, "sede": 1})
        self.assertEqual((code, answer["valid"]), (200, False))
        self.assertIn("/sede", [p["pointer"] for p in answer["problems"]])
        code, _, answer = self.ask("POST", "/api/v1/runs:validate",
                                   mlr_config())
        self.assertEqual((code, answer["valid"]), (200, True))
        self.assertEqual(answer["config"]["stop"]["max_epochs"], 4)

    def test_who_may_submit(self):
        """The token, this server's name, JSON; a page of another site not."""
        for headers, status in (({"Authorization": "Bearer wrong"}, 401),
                                ({"Host": "evil.example"}, 421),
                                ({"Origin": "https://evil.example"}, 403),
                                ({"Content_Type": "text/plain"}, 415)):
            code, _, answer = self.ask("POST", "/api/v1/runs", mlr_config(),
                                       **headers)
            self.assertEqual(code, status, answer)
            code, _, _ = self.ask("POST", "/api/v1/runs/x:stop", "{}",
                                  **headers)
            self.assertEqual(code, status)
        self.assertEqual(self.get("/api/v1/runs")["total"], 0)

    def test_a_key_is_good_for_one_run(self):
        """Also after the service was killed; with another body never."""
        first = self.submit(mlr_config(), Idempotency_Key="once")
        self.assertEqual(
            self.submit(mlr_config(), Idempotency_Key="once"), first)
        self.submit(mlr_config(max_epochs=3), status=422,
                    Idempotency_Key="once")
        self.service.kill()
        self.finish(self.service)
        self.launch()
        self.assertEqual(
            self.submit(mlr_config(), Idempotency_Key="once"), first)
        self.assertEqual(self.get("/api/v1/runs")["total"], 1)
        self.wait_for_status(first, "finished")

    def test_lists_have_pages_and_filters(self):
        """By status, name and group; a walk through the pages sees each."""
        runs = []
        for i in range(5):
            config = mlr_config()
            config["name"] = f"name-{i % 2}"
            runs.append(self.submit(config,
                                    f"?held=true&group=g-{i % 3}"))
        seen, token = [], None
        while True:
            page = self.get("/api/v1/runs?page_size=2" +
                            (f"&page_token={token}" if token else ""))
            seen += [run["run"] for run in page["runs"]]
            token = page["next_page_token"]
            if token is None:
                break
        self.assertEqual(seen, runs)
        for query, wanted in (("name=name-1", [1, 3]), ("group=g-0", [0, 3]),
                              ("status=held", [0, 1, 2, 3, 4]),
                              ("status=finished", []),
                              ("name=name-0&group=g-1", [4])):
            found = self.get(f"/api/v1/runs?{query}")["runs"]
            self.assertEqual([run["run"] for run in found],
                             [runs[i] for i in wanted], query)


class Queue(Service):
    def test_groups_take_turns(self):
        """Who submits one run does not wait for who submitted four."""
        long = self.submit(endless_config(), "?group=first")
        self.wait_for_clock(long)
        many = [self.submit(mlr_config(), "?group=many") for _ in range(4)]
        one = self.submit(mlr_config(), "?group=one")
        self.assertEqual(self.run_now(one)["status"], "queued")
        self.command(long, "stop", 202)
        self.wait_for_status(long, "stopped")
        ended = [self.wait_for_status(run, "finished")
                 for run in (*many, one)]
        begun = [run["started_at"] for run in ended]
        self.assertEqual(begun[:4], sorted(begun[:4]))
        self.assertLess(begun[4], begun[1])

    def test_commands_to_runs_that_wait(self):
        """Held and put back, stopped; what needs a run is refused."""
        long = self.submit(endless_config())
        first, second = self.submit(mlr_config()), self.submit(mlr_config())
        self.wait_for_clock(long)
        self.assertTrue(self.command(first, "pause")["changed"])
        self.assertFalse(self.command(first, "pause")["changed"])
        self.assertFalse(self.command(second, "continue")["changed"])
        held = self.run_now(first)
        self.assertEqual(held["status"], "held")
        self.assertIn("continue", held["status_reason"])
        for name in ("retune", "snapshot"):
            self.assertEqual(self.command(second, name, 409)["code"],
                             "not_yet")
        self.assertTrue(self.command(second, "stop")["changed"])
        self.assertEqual(self.run_now(second)["status"], "stopped")
        self.command(second, "pause", 409)
        self.command("no-such-run", "pause", 404)
        # The verbs find the service through the state folder.
        for verb in ("continue", "pause"):
            done = self.mltune(verb, first)
            self.assert_code(done, 0)
            self.assertIn("queue", done.out)
        self.assertIn("held", self.mltune("ls").out)
        # All that outlives the service.
        self.service.kill()
        self.finish(self.service)
        self.launch()
        self.assertEqual(self.run_now(first)["status"], "held")
        self.assertEqual(self.run_now(second)["status"], "stopped")
        self.assertTrue(self.command(first, "continue")["changed"])
        self.command(long, "stop", 202)
        self.wait_for_status(first, "finished")
        # One that was stopped goes on when it is told to.
        self.assertTrue(self.command(second, "continue")["changed"])
        self.wait_for_status(second, "finished")
        self.command(second, "continue", 409)

    def delete(self, run, status=200):
        code, _, answer = self.ask("DELETE", f"/api/v1/runs/{run}")
        self.assertEqual(code, status, answer)
        return answer

    def test_runs_are_deleted(self):
        """Those that have ended or wait, with all that is theirs; one that
        lives is not; what comes after is a run as any other."""
        done = self.submit(mlr_config())
        waits = self.submit(mlr_config())
        self.assertTrue((self.folder / f".mltune/runs/{waits}").is_dir())
        self.wait_for_status(done, "finished")
        self.wait_for_status(waits, "finished")
        lives = self.submit(endless_config())
        queued = self.submit(mlr_config())
        self.wait_for_clock(lives)
        self.assertEqual(self.delete(lives, 409)["code"], "run_alive")
        self.assertEqual(self.delete(queued)["command"], "delete")
        self.delete(done)
        self.assertEqual(self.delete(done, 404)["code"], "run_not_found")
        left = [r["run"] for r in self.get("/api/v1/runs")["runs"]]
        self.assertEqual(left, [waits, lives])
        self.assertEqual(sorted(p.name for p in
                                (self.folder / ".mltune/runs").iterdir()),
                         sorted(left))
        journal = sqlite3.connect(self.folder / ".mltune/mltune.db")
        self.addCleanup(journal.close)
        self.assertEqual(journal.execute(
            "SELECT count(*) FROM records WHERE run NOT IN "
            "(SELECT key FROM runs)").fetchone(), (0,))
        # Its number in the journal is that of the one that was deleted.
        again = self.submit(mlr_config())
        self.command(lives, "stop", 202)
        self.wait_for_status(again, "finished")
        self.assert_code(self.mltune("delete", lives), 0)
        self.assert_code(self.end(), 143)
        self.launch()
        self.assertEqual([r["run"] for r in self.get("/api/v1/runs")["runs"]],
                         [waits, again])
        # One that cannot be read is listed, and is deleted all the same.
        self.assert_code(self.end(), 143)
        with journal:
            without_copies(self.folder / ".mltune", journal)
            journal.execute("UPDATE runs SET config = '{' WHERE id = ?",
                            (again,))
        self.launch()
        self.assertEqual([r["run"] for r in self.get("/api/v1/runs")["runs"]],
                         [waits, again])
        self.delete(again)
        self.delete(again, 404)
        self.assertEqual(journal.execute("SELECT id FROM runs").fetchall(),
                         [(waits,)])

    def test_commands_reach_a_run_that_lives(self):
        """Through the service, as through the run's own server."""
        run = self.submit(endless_config())
        self.wait_for_clock(run)
        events = self.get(f"/api/v1/runs/{run}/events?after=0")
        self.assertFalse(events["missed"])
        self.assertEqual(events["events"][0]["id"], 1)
        self.assertTrue(self.command(run, "pause", 202)["changed"])
        paused = self.wait_for_status(run, "paused")
        self.assertTrue(self.command(run, "continue", 202)["changed"])
        self.wait_for_clock(run, paused["clocks"])
        code, _, answer = self.ask("PATCH", f"/api/v1/runs/{run}",
                                   {"stop": {"max_epochs": 0, "x": 1}})
        self.assertEqual((code, len(answer["errors"])), (422, 2))
        code, _, answer = self.ask("PATCH", f"/api/v1/runs/{run}",
                                   {"stop": {"max_epochs": 500000}})
        self.assertEqual((code, answer["stop"]["max_epochs"]), (200, 500000))
        self.wait_until(
            lambda: self.run_now(run)["stop"]["max_epochs"] == 500000,
            "the limit")
        self.command(run, "stop", 202)
        self.wait_for_status(run, "stopped")
        # "not_yet" for the moment that its tuner takes to end.
        self.wait_until(lambda: self.command(run, "pause", 409)["code"] ==
                        "run_ended", "the end of its tuner")

    def test_a_stream_follows_a_run_from_the_queue_to_its_end(self):
        """All its records, in order, once; then the stream ends."""
        run = self.submit(mlr_config(), "?held=true")
        stream = http.client.HTTPConnection(*self.address, timeout=120)
        self.addCleanup(stream.close)
        stream.request("GET", f"/api/v1/runs/{run}/events",
                       headers={"Connection": "close"})
        answer = stream.getresponse()
        self.assertEqual(answer.status, 200)
        self.command(run, "continue")
        text = answer.read()
        ids = [int(line[4:]) for line in text.split(b"\n")
               if line.startswith(b"id: ")]
        self.assertEqual(ids, list(range(1, len(ids) + 1)))
        self.assertIn(b"event: run_finished", text)


class TwoSlots(Service):
    OPTIONS = ("--slots", "2", "--workers", "2")

    def test_a_run_that_dies_harms_no_other(self):
        """Killed tuners and nodes: the run goes on; another never stopped."""
        one, other = (self.submit(endless_config()) for _ in range(2))
        self.wait_for_clock(one)
        before = self.wait_for_clock(other)
        tuner = self.tuner_of(other)
        os.kill(self.tuner_of(one), signal.SIGKILL)
        self.wait_until(
            lambda: self.run_now(one)["queue"]["attempts"] == 2,
            "the run to be begun again")
        self.wait_for_clock(one, self.run_now(one)["clocks"])
        self.wait_for_clock(other, before["clocks"])
        self.assertEqual(self.tuner_of(other), tuner)
        self.assertEqual(self.get("/healthz"), {"status": "ok"})

    def test_a_service_that_is_killed(self):
        """Its runs go on; the next service finds them, steers and ends them."""
        one, other, waiting = (self.submit(endless_config())
                               for _ in range(3))
        self.wait_for_clock(one)
        self.wait_for_clock(other)
        self.assertEqual(self.run_now(waiting)["status"], "queued")
        tuners = self.tuner_of(one), self.tuner_of(other)
        self.service.kill()
        self.finish(self.service)
        self.launch()
        self.assertEqual((self.tuner_of(one), self.tuner_of(other)), tuners)
        clocks = self.run_now(one)["clocks"]
        self.wait_for_clock(one, clocks)
        self.assertEqual(self.run_now(waiting)["status"], "queued")
        self.command(one, "stop", 202)
        self.wait_for_status(one, "stopped")
        self.wait_for_clock(waiting)
        self.assert_code(self.end(signal.SIGINT), 130)
        self.assert_nothing_left()
        # Runs interrupted so go on when there is a service again.
        self.launch()
        clocks = self.run_now(waiting)["clocks"]
        self.wait_for_clock(waiting, clocks)
        self.wait_for_clock(other)
        self.assertEqual(self.run_now(one)["status"], "stopped")


class Verbs(Service):
    def steer(self, *words, code=0):
        done = self.mltune(*words)
        self.assert_code(done, code)
        return done

    def test_the_verbs_of_a_client(self):
        """Runs are submitted, listed, shown and steered, by the state folder's
        service or one that is named."""
        url = "http://%s:%d/" % self.address
        self.write("small.json", mlr_config())
        self.write("wrong.json", {"app": {"name": "mlr"}, "sede": 1})
        done = self.steer("submit", "wrong.json", code=78)
        self.assertIn("/sede: line 1", done.err)
        self.assertIn("not valid",
                      self.steer("submit", "wrong.json", "--check",
                                 code=78).out)
        self.steer("submit", "small.json", "--check")
        self.steer("submit", "small.json", "--group", "Not One", code=2)
        self.steer("submit", "small.json", "--state", "elsewhere", code=69)
        words = ("submit", "small.json", "--key", "k", "--held", "--json")
        run = self.steer(*words).result["run"]
        self.assertEqual(self.steer(*words).result["run"], run)
        other = self.steer("submit", "small.json", "--group", "g",
                           "--json").result["run"]
        self.wait_for_status(other, "finished")
        self.steer("continue", run)
        self.wait_for_status(run, "finished")
        here = self.steer("ls").out.splitlines()
        there = self.steer("ls", "--server", url).out.splitlines()
        self.assertEqual([line.split()[0] for line in here],
                         [line.split()[0] for line in there])
        self.assertEqual(len(there), 3)
        listed = self.steer("ls", "--server", url, "--json").result
        self.assertEqual([r["run"] for r in listed], [other, run])
        self.env["MLTUNE_SERVER"] = url
        shown = self.steer("show", run, "--json").result
        self.assertEqual(shown["run"], run)
        self.assertEqual(
            len([e for e in shown["epoch_list"] if e["surviving"]]), 4)
        text = self.steer("show", run[:-2]).out
        for word in ("finished: max_epochs", "group small-mlr", "of 4: accuracy",
                     "learning_rate=", "decisions"):
            self.assertIn(word, text)
        for verb in ("trials", "branches"):
            there = self.steer(verb, run, "--json").result
            del self.env["MLTUNE_SERVER"]
            self.assertEqual(self.steer(verb, run, "--json").result, there)
            self.env["MLTUNE_SERVER"] = url
        self.steer("show", "small-mlr")
        self.steer("show", "small-mlr-", code=2)
        self.steer("trials", "none", code=2)


class Trouble(Service):
    def test_a_schedulers_warning_goes_on_to_its_runs(self):
        """They write snapshots, and all goes on."""
        config = endless_config()
        config["snapshot"] = {"every": 3600}
        run = self.submit(config)
        self.wait_for_clock(run)

        def snapshots():
            db = sqlite3.connect(self.folder / ".mltune/mltune.db")
            n, = db.execute("SELECT count(*) FROM records WHERE"
                            " kind = 'snapshot_written'").fetchone()
            db.close()
            return n
        before, tuner = snapshots(), self.tuner_of(run)
        self.service.send_signal(signal.SIGUSR1)
        self.wait_until(lambda: snapshots() > before, "a snapshot")
        self.assertEqual(self.tuner_of(run), tuner)
        self.wait_for_clock(run, self.run_now(run)["clocks"])
        self.assert_code(self.end(), 143)

    def test_who_started_it_ignored_children(self):
        """That is inherited; ends of runs are noticed all the same."""
        self.assert_code(self.end(), 143)
        self.service = self.start(
            "serve", "--listen", "127.0.0.1:0", *self.READ,
            preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN))
        self.wait_until(self.find_service, "the service")
        runs = [self.submit(mlr_config()) for _ in range(2)]
        for run in runs:
            self.wait_for_status(run, "finished")
        self.assert_code(self.end(), 143)
        self.assert_nothing_left()

    def test_data_that_are_not_there(self):
        """The run has failed and says why; the next one is not kept."""
        config = mlr_config()
        config["app"]["data"] = "nowhere"
        lost = self.submit(config)
        fine = self.submit(mlr_config())
        ended = self.wait_for_status(lost, "failed", "held")
        self.assertEqual(ended["status"], "failed")
        self.assertIn("nowhere", ended["message"])
        answer = self.ask("POST", "/api/v1/runs:validate", config)[2]
        self.assertTrue(answer["valid"])
        said, = answer["problems"]
        self.assertEqual((said["pointer"], said["severity"]),
                         ("/app/data", "warning"))
        self.assertIn("nowhere", said["expected"])
        self.wait_for_status(fine, "finished")

    def test_a_run_that_cannot_go_on_is_held(self):
        """It is not started for ever, and says how to try again."""
        run = self.submit(endless_config(), "?held=true")
        (self.folder / f".mltune/runs/{run}/session.json").write_text("{}")
        (self.folder / f".mltune/runs/{run}/checkpoint").unlink()
        self.command(run, "continue")
        held = self.wait_for_status(run, "held")
        self.assertIn("session.json", held["status_reason"])
        self.assertIn("continue", held["status_reason"])
        self.command(run, "stop")
        self.assertEqual(self.run_now(run)["status"], "stopped")

    def test_a_run_whose_data_have_changed_is_held(self):
        """It says which file, and how to go on all the same; so it does."""
        def write(shift):
            (self.folder / "new.csv").write_text("a,b,y\n" + "".join(
                f"{i % 7},{(i + shift) % 5},{i % 2}\n" for i in range(4000)))
            os.rename(self.folder / "new.csv", self.folder / "table.csv")
        config = endless_config()
        config["app"] = {"name": "mlr", "data": "table.csv",
                         "test_fraction": 0.1}
        write(0)
        run = self.submit(config)
        self.wait_for_clock(run)
        write(1)
        os.kill(self.tuner_of(run), signal.SIGKILL)
        held = self.wait_for_status(run, "held")
        self.assertIn("table.csv has other content", held["status_reason"])
        self.assertIn("--other-data", held["status_reason"])
        self.assertIn("continue tries again", held["status_reason"])
        journal = Journal(self.folder / ".mltune", run)
        slices = len(journal.of("slice_scheduled"))
        self.command(run, "continue")
        held = self.wait_for_status(run, "held")
        self.assertIn("table.csv has other content", held["status_reason"])
        done = self.mltune("continue", run, "--other-data", "--state",
                           ".mltune")
        self.assert_code(done, 0)
        self.wait_until(
            lambda: len(Journal(self.folder / ".mltune", run).of(
                "slice_scheduled")) > slices, "the run to go on")
        def refused():
            status, _, answer = self.ask(
                "POST", f"/api/v1/runs/{run}:continue", {"other_data": True})
            self.assertEqual(status, 409, answer)
            return answer["code"] == "not_supported"
        self.wait_until(refused, "the run to say that it has its data")
        # It was for that start alone: data that change again are refused.
        write(2)
        os.kill(self.tuner_of(run), signal.SIGKILL)
        held = self.wait_for_status(run, "held")
        self.assertIn("table.csv has other content", held["status_reason"])
        process = self.start("resume", run, "--other-data", "--state",
                             ".mltune")
        slices = len(Journal(self.folder / ".mltune", run).of(
            "slice_scheduled"))
        self.wait_until(
            lambda: len(Journal(self.folder / ".mltune", run).of(
                "slice_scheduled")) > slices, "the run to go on here")
        process.send_signal(signal.SIGINT)
        self.assert_code(self.finish(process), 130)
        self.wait_until(
            lambda: self.ask("POST", f"/api/v1/runs/{run}:continue")[0] == 200,
            "the service to have it back")
        self.wait_for_status(run, "tuning", "training")
        self.command(run, "stop", 202)
        self.wait_for_status(run, "stopped")

    def test_a_run_that_cannot_be_started_yet(self):
        """It says why, and is started once it can be."""
        run = self.submit(mlr_config(), "?held=true")
        log = self.folder / f".mltune/runs/{run}/tuner.log"
        log.mkdir()
        self.command(run, "continue")
        def look():
            now = self.run_now(run)
            return now["status_reason"] and now
        now = self.wait_until(look, "a start that failed")
        self.assertEqual(now["status"], "queued")
        self.assertIn("not started yet", now["status_reason"])
        self.assertIn("tuner.log", now["status_reason"])
        log.rmdir()
        self.wait_for_status(run, "finished")

    def test_a_run_that_can_never_be_started_is_held(self):
        """After ten starts, between which it rests 2 s, 4 s, ..., 64 s by a
        clock that is 200 times as fast; and no eleventh one."""
        run = self.submit(endless_config())
        self.wait_for_clock(run)
        self.assert_code(self.end(), 143)
        folder = self.folder / f".mltune/runs/{run}"
        log = folder / "tuner.log"
        log.unlink()
        log.mkdir()
        usual = dict(self.env)
        self.env.update(
            LD_PRELOAD=str(harness.BUILD / "tests/faults/shim.so"),
            FAULT_ROLE="serve", FAULT_CLOCK="200", ASAN_OPTIONS=self.env.get(
                "ASAN_OPTIONS", "") + ":verify_asan_link_order=0")
        service = self.start("serve", "--listen", "127.0.0.1:0")
        self.env.clear()
        self.env.update(usual)
        job = folder / "job.json"
        held = self.wait_until(
            lambda: json.loads(job.read_text()).get("held") and
            json.loads(job.read_text()), "the run to be held", 120)
        self.assertRegex(held["reason"], "^10 starts failed: .*tuner.log.*; "
                         "continue tries again$")
        time.sleep(0.4)  # 80 s of its own
        service.kill()   # by its clock it has no time for an orderly end
        starts = re.findall(r"run_not_started .*attempt=(\d+) of=10",
                            self.finish(service).err)
        self.assertEqual(list(map(int, starts)), list(range(1, 11)))
        log.rmdir()
        self.launch()
        now = self.run_now(run)
        self.assertEqual((now["status"], now["status_reason"]),
                         ("held", held["reason"]))
        self.command(run, "continue")
        self.wait_for_clock(run)

    def test_a_submission_that_was_cut_off(self):
        """Registered, but without its folder: the next service takes it out."""
        run = self.submit(mlr_config(), "?held=true")
        kept = self.submit(mlr_config(), "?held=true")
        self.assert_code(self.end(), 143)
        shutil.rmtree(self.folder / f".mltune/runs/{run}")
        self.launch()
        self.assertEqual(self.ask("GET", f"/api/v1/runs/{run}")[0], 404)
        self.assertEqual(self.run_now(kept)["status"], "held")
        shown = self.mltune("ls", "--json", "--state", ".mltune")
        self.assertNotIn(run, shown.out)
        self.assertIn(kept, shown.out)

    def test_runs_that_are_away_are_kept(self):
        """The disk of the runs is not mounted when the service begins."""
        run = self.submit(mlr_config(), "?held=true")
        self.assert_code(self.end(), 143)
        runs = self.folder / ".mltune/runs"
        runs.rename(self.folder / "away")
        self.launch()
        self.assertEqual(self.ask("GET", f"/api/v1/runs/{run}")[0], 200)
        self.assert_code(self.end(), 143)
        shutil.rmtree(runs, ignore_errors=True)
        (self.folder / "away").rename(runs)
        self.launch()
        self.assertEqual(self.run_now(run)["status"], "held")
        self.command(run, "continue")
        self.wait_for_status(run, "finished")

    def test_a_failed_run_goes_on_when_it_is_continued(self):
        """It is not started by itself; its snapshot is what it goes on from."""
        run = self.submit(endless_config())
        self.wait_for_clock(run)
        self.assert_code(self.end(), 143)
        journal_as_failed(self.folder / ".mltune", run)
        self.launch()
        failed = self.wait_for_status(run, "failed")
        before = failed["clocks"]
        self.command(run, "continue")
        self.wait_for_clock(run, before)
        self.command(run, "stop", 202)
        self.wait_for_status(run, "stopped")

    def test_one_service_a_state_folder(self):
        """The second one says who has it, and the same port twice."""
        done = self.mltune("serve", "--listen", "127.0.0.1:0")
        self.assert_code(done, 74)
        self.assertIn(f"process {self.service.pid}", done.err)
        done = self.mltune("serve", "--listen",
                           f"127.0.0.1:{self.address[1]}", "--state", "other")
        self.assert_code(done, 74)
        self.assertIn("address already in use", done.err)
        for words, code in ((("--listen", "0.0.0.0:0", "--state", "o"), 78),
                            (("--slots", "0"), 2), (("--memory", "x"), 2),
                            (("--data", "nowhere"), 2), (("operand",), 2)):
            self.assert_code(self.mltune("serve", *words), code)
        self.assertEqual(self.get("/readyz"), {"status": "ready"})

    def test_runs_of_others_in_the_folder(self):
        """`mltune run` there is seen, followed and steered, not ended."""
        self.write("config.json", endless_config())
        process = self.start("run", "config.json")
        run = self.wait_until(
            lambda: next(iter(self.get("/api/v1/runs")["runs"]), None),
            "the run")["run"]
        self.wait_for_clock(run)
        self.assertIsNone(self.run_now(run)["queue"])
        self.command(run, "pause", 202)
        self.wait_for_status(run, "paused")
        self.assert_code(self.end(), 143)
        self.assertIsNone(process.poll())
        process.send_signal(signal.SIGINT)
        self.assert_code(self.finish(process), 130)
        self.launch()
        self.assertEqual(self.run_now(run)["status"], "interrupted")
        self.assertTrue(self.command(run, "continue")["changed"])
        clocks = self.run_now(run)["clocks"]
        self.wait_for_clock(run, clocks)

    def test_a_run_that_went_on_between_two_looks(self):
        """A tuner of others that began and ended unseen is noticed."""
        self.write("config.json", endless_config())
        process = self.start("run", "config.json")
        run = self.wait_until(
            lambda: next(iter(self.get("/api/v1/runs")["runs"]), None),
            "the run")["run"]
        self.wait_for_clock(run)
        process.send_signal(signal.SIGINT)
        self.assert_code(self.finish(process), 130)
        self.wait_for_status(run, "interrupted")
        before = self.run_now(run)["clocks"]

        def records():
            db = sqlite3.connect(self.folder / ".mltune/mltune.db", timeout=60)
            with contextlib.closing(db):
                return db.execute("SELECT max(seq) FROM records").fetchone()[0]
        seen = records()
        self.service.send_signal(signal.SIGSTOP)
        try:
            process = self.start("resume", run)
            self.wait_until(lambda: records() > seen + 50, "records")
            process.send_signal(signal.SIGINT)
            self.assert_code(self.finish(process), 130)
        finally:
            self.service.send_signal(signal.SIGCONT)
        self.wait_until(lambda: self.run_now(run)["clocks"] > before,
                        "clocks that are shown", seconds=30)
        self.wait_for_status(run, "interrupted")

    def test_runs_that_rest_are_read_again(self):
        """What runs that are over did is not in memory; it is shown all the
        same, and one that is continued goes on."""
        self.assert_code(self.end(), 143)
        done = self.run_config(mlr_config(max_epochs=2), "--json")
        self.assert_code(done, 0)
        over = done.result["run"]
        self.write("config.json", endless_config())
        process = self.start("run", "config.json", "--json")

        def trained():
            done = self.mltune("show", "endless", "--json")
            return done.code == 0 and done.result["epochs"] >= 2
        self.wait_until(trained, "two epochs")
        process.send_signal(signal.SIGINT)
        stopped = self.finish(process)
        self.assert_code(stopped, 130)
        stopped = stopped.result["run"]
        self.launch()
        for run in (over, stopped):
            path = f"/api/v1/runs/{run}"
            shown = self.mltune("show", run, "--json").result
            row = self.get(path)
            for member in ("status", "epochs", "clocks"):
                self.assertEqual(row[member], shown[member], member)
            trials = self.mltune("trials", run, "--json").result
            self.assertEqual(len(trials), row["tuning"]["trials"])
            self.assertEqual(self.get(path + "/trials")["trials"], trials)
            self.assertEqual(self.get(path + "/config")["name"], shown["name"])
            self.assertTrue(self.get(path + "/epochs")["epochs"])
            self.assertEqual(self.get(path), row)
        self.assertEqual(self.get(f"/api/v1/runs/{over}/result")["run"], over)
        clocks = self.run_now(stopped)["clocks"]
        self.command(stopped, "continue")
        self.wait_for_clock(stopped, clocks)
        trained = self.get(f"/api/v1/runs/{stopped}/epochs")["epochs"]
        self.assertEqual(trained[0]["epoch"], 1)

    def test_of_very_many_runs_those_in_use_are_listed(self):
        """However old: a held one is before more than the list can have."""
        held = self.submit(mlr_config(), "?held=true")
        self.assert_code(self.end(), 143)
        path = self.folder / ".mltune/mltune.db"
        with contextlib.closing(sqlite3.connect(path)) as journal, journal:
            journal.execute(
                "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 "
                "FROM n WHERE i < 4100) INSERT INTO runs (id, name, config, "
                "began_ns, status, ended_ns) SELECT 'bulk-' || i, 'bulk', "
                "'{}', 0, 'finished', 1 FROM n")
        self.launch()
        self.assertEqual(self.run_now(held)["status"], "held")
        page = self.get("/api/v1/runs?page_size=2")
        self.assertEqual([r["run"] for r in page["runs"]], [held, "bulk-6"])
        self.assertEqual(page["total"], 4096)
        one_more = self.submit(mlr_config(), "?held=true")
        self.assertEqual(self.run_now(one_more)["status"], "held")
        self.assertEqual(self.get("/api/v1/runs?page_size=1")["total"], 4096)

    def test_a_run_that_could_not_be_read_is_tried_again(self):
        """Meanwhile it stands in the list, with the reason."""
        self.assert_code(self.end(), 143)
        self.assert_code(self.run_config(mlr_config()), 0)
        journal = sqlite3.connect(self.folder / ".mltune/mltune.db")
        self.addCleanup(journal.close)
        without_copies(self.folder / ".mltune", journal)
        journal.execute("UPDATE runs SET config = config || '}'")
        journal.commit()
        self.launch()
        unread, = self.get("/api/v1/runs")["runs"]
        self.assertEqual(unread["status"], "finished")
        self.assertIn("cannot be read", unread["status_reason"])
        refused = self.get(f"/api/v1/runs/{unread['run']}", 503)
        self.assertEqual(refused["code"], "run_not_read")
        self.assertIn("cannot be read", refused["detail"])
        journal.execute("UPDATE runs SET config = "
                        "substr(config, 1, length(config) - 1)")
        journal.commit()
        self.wait_until(lambda: "cannot be read" not in (
            self.get("/api/v1/runs")["runs"][0]["status_reason"] or ""),
            "the run")
        self.assertEqual(self.get("/api/v1/runs")["runs"][0]["status"],
                         "finished")

    def test_an_accepted_run_whose_files_do_not_open(self):
        """It is no 404: list and answers say what is wrong, nothing is done
        with it, and it is begun once they open."""
        run = self.submit(mlr_config())
        held = self.submit(endless_config(), "?held=true")
        self.wait_for_status(run, "finished")
        self.assert_code(self.end(), 143)
        job = self.folder / f".mltune/runs/{held}/job.json"
        said = job.read_text()
        job.unlink()
        job.mkdir()
        self.launch()
        unread = next(r for r in self.get("/api/v1/runs")["runs"]
                      if r["run"] == held)
        self.assertEqual(unread["status"], "queued")
        self.assertIn("job.json: Is a directory", unread["status_reason"])
        self.assertEqual(self.run_now(held)["status_reason"],
                         unread["status_reason"])
        self.assertEqual(self.command(held, "continue", 503)["code"],
                         "run_not_read")
        self.assertTrue(job.is_dir())
        self.assertEqual(self.run_now(run)["status"], "finished")
        job.rmdir()
        job.write_text(said)
        self.wait_for_status(held, "held")
        self.command(held, "continue")
        self.wait_for_clock(held)

    def test_the_end_is_told(self):
        """While runs write their snapshots: reads work, /readyz and writes
        say 503."""
        run = self.submit(endless_config())
        self.wait_for_clock(run)
        os.kill(self.tuner_of(run), signal.SIGSTOP)
        self.service.send_signal(signal.SIGTERM)
        self.wait_until(lambda: self.ask("GET", "/readyz")[0] == 503,
                        "the end to be told")
        answer = self.submit(mlr_config(), status=503)
        self.assertEqual(answer["code"], "not_ready")
        self.assertEqual(self.get("/healthz"), {"status": "ok"})
        self.assertEqual(self.run_now(run)["run"], run)
        os.kill(self.tuner_of(run), signal.SIGCONT)
        self.assert_code(self.finish(self.service), 143)
        self.assert_nothing_left()

    def test_metrics_and_openapi_know_the_service(self):
        """What there is for many runs is described and counted."""
        self.submit(mlr_config(), "?held=true")
        connection = http.client.HTTPConnection(*self.address, timeout=60)
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode()
        connection.close()
        self.assertIn("mltune_service_runs 1\n", text)
        self.assertIn("mltune_service_queue_runs 0\n", text)
        paths = self.get("/openapi.json")["paths"]
        self.assertIn("201", paths["/api/v1/runs"]["post"]["responses"])
        self.assertIn("/api/v1/runs:validate", paths)


class Retention(Service):
    """Runs that have ended are removed, where the service is told to."""

    def add(self, run, status="finished", ended_ns=1, job=True, records=()):
        """A run that has ended, as the journal and its folder tell of it."""
        path = self.folder / ".mltune"
        (path / "runs" / run).mkdir(parents=True)
        if job:
            (path / "runs" / run / "job.json").write_text(json.dumps(
                {"group": "bulk", "number": 1, "submitted_ns": 1,
                 "held": False, "reason": "", "key": "", "body_hash": "0"}))
        with contextlib.closing(
                sqlite3.connect(path / "mltune.db")) as journal, journal:
            key = journal.execute(
                "INSERT INTO runs (id, name, config, began_ns, status, "
                "ended_ns) VALUES (?, 'bulk', '{}', 0, ?, ?)",
                (run, status, ended_ns)).lastrowid
            for kind, text in records:
                journal.execute(
                    "INSERT INTO records (run, seq, wall_ns, kind, json) "
                    "VALUES (?, 1, 1, ?, ?)", (key, kind, text))

    def listed(self):
        return {r["run"] for r in self.get("/api/v1/runs")["runs"]}

    def folders(self):
        return {p.name for p in (self.folder / ".mltune/runs").iterdir()}

    def test_what_is_kept_and_what_goes(self):
        """At the start: the newest stay, and all that are not over, could go
        on, or were never given to the service. Each removal is logged."""
        held = self.submit(mlr_config(), "?held=true")
        self.assert_code(self.end(), 143)
        now = time.time_ns()
        old = [f"old-{i}" for i in range(5)]
        for i, run in enumerate(old):
            self.add(run, ended_ns=now - (10 + i) * 10 ** 12)
        self.add("new", ended_ns=now - 10 ** 12)
        self.add("own", job=False)
        self.add("halted", "stopped")
        self.add("broken", "failed")
        self.add("paused", "interrupted")
        self.launch("--keep", "2")
        stay = {held, "new", "old-0", "own", "halted", "paused"}
        self.wait_until(lambda: self.listed() == stay, "the removal")
        self.assertEqual(self.folders(), stay)
        self.assertEqual(
            {line.split()[0] for line in
             self.mltune("ls").out.splitlines()[1:]}, stay)
        done = self.end()
        self.assertIn("run_not_kept run=old-4 reason=\"there are newer ones: 2",
                      done.err)
        self.assertNotIn("run_not_kept run=old-0", done.err)
        # Those that could go on, where it is said so; but no interrupted one.
        self.launch("--keep-days", "3000", "--remove-resumable")
        self.wait_until(lambda: self.listed() == stay - {"halted"},
                        "the removal")
        self.assertIn("run_not_kept run=halted reason=\"ended before 3000 days",
                      self.end().err)

    def test_one_that_cannot_be_removed(self):
        """It keeps no other: those behind it go, and it is told of."""
        self.assert_code(self.end(), 143)
        for i in range(4):
            self.add(f"old-{i}", ended_ns=10 - i)
        (self.folder / ".mltune/runs/old-0/lock").mkdir()
        self.launch("--keep-days", "1")
        self.wait_until(lambda: self.folders() == {"old-0"}, "the removal")
        self.assertIn("run_not_removed run=old-0", self.end().err)

    def test_one_that_cannot_be_read(self):
        """A failed one may have a snapshot to go on from: it stays."""
        self.assert_code(self.end(), 143)
        for name in ("old", "unread"):
            self.add(name, status="failed")
        job = self.folder / ".mltune/runs/unread/job.json"
        job.unlink()
        job.mkdir()
        self.launch("--keep-days", "1")
        self.wait_until(lambda: self.folders() == {"unread"}, "the removal")
        self.wait_until(lambda: self.listed() == {"unread"}, "the list")
        self.assertNotIn("run=unread", self.end().err)

    def test_an_end_makes_room(self):
        """A run that ends takes the place of the oldest. That one ended long
        ago; of two that end now both stay for a while."""
        self.assert_code(self.end(), 143)
        self.add("old")
        self.launch("--keep", "1")
        self.assertEqual(self.listed(), {"old"})
        runs = {self.submit(mlr_config()) for _ in range(2)}
        for run in runs:
            self.wait_for_status(run, "finished")
        self.wait_until(lambda: self.listed() == runs, "the removal")
        self.assertEqual(self.folders(), runs)

    def test_one_that_is_not_listed(self):
        """A service lists 4,096; it removes others as well."""
        self.assert_code(self.end(), 143)
        self.add("first")
        path = self.folder / ".mltune/mltune.db"
        with contextlib.closing(sqlite3.connect(path)) as journal, journal:
            journal.execute(
                "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 "
                "FROM n WHERE i < 4100) INSERT INTO runs (id, name, config, "
                "began_ns, status, ended_ns) SELECT 'bulk-' || i, 'bulk', "
                "'{}', 0, 'finished', 1 FROM n")
        self.launch()
        # The folder has more than the service: the list tells of all.
        done = self.mltune("ls")
        self.assertEqual(len(done.out.splitlines()), 4102)
        self.assertIn("\nfirst ", done.out)
        every = json.loads(self.mltune("ls", "--json").out)
        self.assertEqual(len({r["run"] for r in every}), 4101)
        url = f"http://127.0.0.1:{self.address[1]}/"
        done = self.mltune("ls", "--server", url)
        self.assertEqual(len(done.out.splitlines()), 4097)
        self.assertIn("the service lists 4096 runs; older ones", done.err)
        self.assert_code(self.end(), 143)
        self.launch("--keep-days", "1")
        self.wait_until(lambda: "first" not in self.mltune("ls").out,
                        "the removal")
        self.assertEqual(self.folders(), set())
        self.assertIn("run_not_kept run=first", self.end().err)

    def settings(self, text):
        (self.folder / ".mltune/service.json").write_text(text)

    def test_the_folder_says_what_is_kept(self):
        """runs.keep of service.json, by number and by age; options of the
        service come before it."""
        self.assert_code(self.end(), 143)
        now = time.time_ns()
        for i in range(4):
            self.add(f"old-{i}", ended_ns=now - (10 + i) * 10 ** 12)
        self.add("halted", "stopped")
        self.settings('{"runs": {"keep": {"number": 2}}}')
        self.launch("--keep", "4")
        time_of_look = {"halted"} | {f"old-{i}" for i in range(4)}
        self.assertEqual(self.listed(), time_of_look)
        self.assertNotIn("run_not_kept", self.end().err)
        self.launch()
        stay = {"old-0", "old-1", "halted"}
        self.wait_until(lambda: self.listed() == stay, "the removal")
        self.assertIn("there are newer ones: 2", self.end().err)
        self.settings('{"runs": {"keep": {"age": "3h", "resumable": false}}}')
        self.launch()
        self.wait_until(lambda: self.listed() == {"old-0"}, "the removal")
        self.assertIn("run_not_kept run=old-1 reason=\"ended before 0.125 days",
                      self.end().err)

    def test_settings_that_are_wrong(self):
        """All mistakes at once, each with its place; nothing starts, nothing
        goes."""
        self.assert_code(self.end(), 143)
        self.add("old")
        for text, parts in (
                ('{"runs": {"kep": 1}}',
                 ("1:11: /runs/kep", 'did you mean "keep"')),
                ('{"runs": {"keep": {"number": 0, "age": "3 fortnights"}}}',
                 ("/runs/keep/number: expected", "/runs/keep/age: expected")),
                ("{", ("service.json:1:2: ", "valid JSON"))):
            with self.subTest(text):
                self.settings(text)
                done = self.mltune("serve", "--listen", "127.0.0.1:0")
                self.assert_code(done, 78)
                for part in (*parts, "service.json", "schema --service"):
                    self.assertIn(part, done.err)
        self.assertEqual(self.folders(), {"old"})
        (self.folder / "run.json").write_text(
            '{"app": {"name": "mlr"}, "runs": {"keep": 3}}')
        self.assertIn("/runs: expected one of the keys",
                      (done := self.mltune("validate", "run.json")).err)
        self.assertIn("service.json", done.err)
        keys = json.loads(self.mltune("schema", "--service").out)
        self.assertIn("number", keys["properties"]["runs"]["properties"]
                      ["keep"]["properties"])
        self.assertIn("runs.keep.age", self.mltune("man", "config").out)

    def test_options_that_are_wrong(self):
        for words, part in (
                (("--keep", "0"), "--keep: expected 1 to 1000000"),
                (("--keep-days", "36501"), "--keep-days: expected 1 to 36500"),
                (("--remove-resumable",), "alone it removes nothing")):
            done = self.mltune("serve", "--state", "elsewhere", *words)
            self.assert_code(done, 2)
            self.assertIn(part, done.err)


class FullDisk(Service):
    def limit_files(self, size):
        """How large a file the service may write."""
        _, hard = resource.prlimit(self.service.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(self.service.pid, resource.RLIMIT_FSIZE,
                         (size, hard))

    def test_a_state_folder_that_cannot_be_written(self):
        """Submissions are refused and leave nothing, /readyz says so, reads go
        on; once there is room all is as before."""
        run = self.submit(mlr_config(), "?held=true")
        self.limit_files(1)
        answer = self.submit(mlr_config(), status=507)
        self.assertEqual(answer["code"], "not_stored")
        self.assertIn("nothing was changed", answer["detail"])
        self.assertEqual(self.command(run, "continue", 507)["code"],
                         "not_stored")
        code, _, answer = self.ask("GET", "/readyz")
        self.assertEqual((code, answer["code"]), (503, "not_ready"))
        self.assertIn("cannot be written", answer["detail"])
        self.assertEqual(self.run_now(run)["status"], "held")
        self.assertEqual(
            [p.name for p in (self.folder / ".mltune/runs").iterdir()], [run])
        self.limit_files(resource.RLIM_INFINITY)
        self.wait_until(lambda: self.ask("GET", "/readyz")[0] == 200,
                        "the service to be ready again")
        self.command(run, "continue")
        self.wait_for_status(run, "finished")


class GivenToken(Service):
    def launch(self, *words):
        self.env["MLTUNE_TOKEN"] = "a-token-of-my-own-1234"
        super().launch(*words)

    def test_a_token_from_the_environment(self):
        """It reaches the runs' servers, and no file."""
        run = self.submit(endless_config())
        self.wait_for_clock(run)
        self.command(run, "pause", 202)
        self.wait_for_status(run, "paused")
        self.assertFalse((self.folder / ".mltune/token").exists())
