"""mltune.Client against real runs of a built-in application."""
import fcntl
import json
import math
import pathlib
import signal
import socket
import socketserver
import struct
import subprocess
import sys
import tarfile
import threading
import time
import unittest
import unittest.mock

from harness import ROOT, Case, endless_config, mlr_config
from test_access import need_root

sys.path.insert(0, str(ROOT / "apps/python"))

from mltune import client as api  # noqa: E402
from mltune.client import Client  # noqa: E402


class Alive(Case):
    """A run that goes on until the test has seen enough of it."""

    def setUp(self):
        super().setUp()
        self.write("config.json", self.config())
        self.process = self.start("run", "config.json")
        self.addCleanup(self.end)
        self.run_of = self.wait_until(self.find, "the run")

    def config(self):
        return endless_config()

    def find(self):
        try:
            return Client.of(state=self.folder / ".mltune")
        except api.NotRunning:
            return None

    def end(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        self.finish(self.process)

    def wait_for_epochs(self, count=1):
        return self.wait_until(
            lambda: self.run_of.look()["epochs"] >= count, "an epoch")


class Reading(Alive):
    def test_a_run_is_found_by_id_name_and_beginning(self):
        """Address and token come from the state folder."""
        state = self.folder / ".mltune"
        for word in (self.run_of.id, "endless", self.run_of.id[:9]):
            found = Client.of(word, state=state)
            self.assertEqual(found.id, self.run_of.id)
            self.assertEqual(found.look()["name"], "endless")
        with self.assertRaisesRegex(api.NotRunning, "nobody"):
            Client.of("nobody", state=state)

    def test_lists_are_whole_and_their_items_can_be_had(self):
        run = self.run_of
        self.wait_for_epochs()
        self.assertIn(run.status, ("tuning", "training"))
        self.assertEqual(run.config()["app"]["name"], "mlr")
        self.assertEqual(run.result()["run"], run.id)
        trials = run.trials()
        self.assertEqual([t["trial"] for t in trials],
                         list(range(1, len(trials) + 1)))
        self.assertEqual(run.trial(1)["setting"], trials[0]["setting"])
        self.assertTrue(run.searches() and run.decisions() and run.slices())
        self.assertTrue(run.schedule() and run.epochs(surviving=True))
        branches = run.branches(live=True)
        self.assertTrue(all(b["live"] for b in branches))
        branch = run.look()["branch"]
        self.assertEqual(run.branch(branch)["branch"], branch)
        self.assertTrue(run.progress(branch, lineage=True)["points"])
        self.assertEqual(run.curve(spans=10)["spans"], 10)
        self.assertTrue(run.survey()["columns"]["trial"])
        self.assertTrue(run.tree()["branches"])
        self.wait_until(lambda: len(run.nodes()) == 1, "the node's figures")
        self.assertTrue(run.traffic()["nodes"])
        client = run.client
        self.assertEqual([r["run"] for r in client.runs()], [run.id])
        self.assertEqual(client.runs(status="finished"), [])
        self.assertEqual(client.version()["name"], "mltune")
        self.assertTrue(client.ready())
        self.assertIn("mltune_run_clocks_total", client.metrics())
        self.assertIn("tpe", [s["name"] for s in client.searchers()])
        self.assertIn("mltuner", [s["name"] for s in client.strategies()])
        self.assertIn("mlr", [a["name"] for a in client.apps()])
        self.assertIn("properties", client.schema())

    def test_pages_are_followed_to_the_end(self):
        """A list of small pages is that of one large page."""
        run = self.run_of
        self.wait_for_epochs()
        small = run.client.list(f"/runs/{run.id}/decisions", "decisions",
                                page_size=2)
        self.assertGreater(len(small), 4)
        self.assertEqual(small, run.decisions()[:len(small)])

    def test_events_come_in_order_from_any_number_on(self):
        self.wait_for_epochs()
        seen = []
        for event in self.run_of.events(after=0, timeout=60):
            seen.append(event)
            if event.kind == "epoch_ended":
                break
        self.assertEqual(seen[0].kind, "run_started")
        ids = [e.id for e in seen]
        self.assertEqual(ids, list(range(ids[0], ids[0] + len(ids))))
        again = next(self.run_of.events(after=ids[2]))
        self.assertEqual(again, seen[3])

    def test_events_have_a_deadline(self):
        self.run_of.pause()
        began = time.monotonic()
        with self.assertRaises(TimeoutError):
            for _ in self.run_of.events(timeout=1):
                pass
        self.assertLess(time.monotonic() - began, 10)

    def test_the_log_comes_in_pieces(self):
        """Piece by piece it is what it is in one."""
        self.wait_for_epochs()
        path = next(self.folder.glob(".mltune/runs/*/node-0.log"))
        with open(path, "a", encoding="utf-8") as file:
            file.write("a line of the node\n" * 10)
        text, end = self.run_of.log(offset=0)
        self.assertIn("a line of the node\n", text)
        at, pieces = 0, []
        while at < end:
            piece, at = self.run_of.log(offset=at, limit=50)
            pieces.append(piece)
        self.assertEqual("".join(pieces), text)
        with self.assertRaises(api.NotFound) as caught:
            self.run_of.log(node=7)
        self.assertEqual(caught.exception.code, "log_not_found")

    def test_export_is_written_whole(self):
        self.wait_for_epochs()
        path = self.folder / "run.tar"
        self.run_of.export(path)
        with tarfile.open(path) as archive:
            self.assertTrue(any(n.endswith("trials.csv")
                                for n in archive.getnames()))
        lines = self.folder / "run.jsonl"
        self.run_of.export(lines, "jsonl")
        self.assertEqual(json.loads(lines.read_text().splitlines()[0])["kind"],
                         "run_started")


class Steering(Alive):
    def test_pause_and_go_on(self):
        run = self.run_of
        self.wait_for_epochs()
        self.assertTrue(run.pause()["changed"])
        self.wait_until(lambda: run.status == "paused", "the pause")
        self.assertFalse(run.pause()["changed"])
        self.assertTrue(run.go_on()["changed"])
        self.wait_until(lambda: run.status != "paused", "its end")
        self.assertTrue(run.retune()["changed"])
        # A search writes one, too: not while that is under way.
        self.wait_until(lambda: run.snapshot()["changed"], "a snapshot")

    def test_limit_and_wait(self):
        """The run ends by its limit; waiting tells why, though its server is
        gone by then."""
        told = self.run_of.limit(max_epochs=1, max_time=None)
        self.assertEqual(told["stop"]["max_epochs"], 1)
        end = self.run_of.wait(timeout=60)
        self.assertEqual(end["status"], "finished")
        self.assertEqual(end["reason"], "max_epochs")
        with self.assertRaisesRegex(api.NotRunning, "no run"):
            self.finish(self.process)
            Client.of(self.run_of.id, state=self.folder / ".mltune")

    def test_fork_promote_free(self):
        run = self.run_of
        self.wait_for_epochs()
        parent = run.look()["branch"]
        first = run.fork(parent, {"learning_rate": 0.003}, clocks=3)
        second = run.fork(parent, {"learning_rate": 0.004}, epochs=1)
        self.assertEqual(run.branch(first)["origin"], "user")
        run.free(first)
        run.promote(second)
        self.wait_until(lambda: run.look()["branch"] == second,
                        "the promotion")

    def test_rows_are_read_and_added_to(self):
        run = self.run_of
        self.wait_for_epochs()
        table = run.tables()[0]
        rows = run.rows(table["table"], 2, count=3, offset=5, values=4)
        self.assertEqual([len(r) for r in rows], [4, 4, 4])
        run.pause()
        self.wait_until(lambda: run.status == "paused", "the pause")
        before = run.rows("weights", 0)[0]
        self.assertTrue(run.increment("weights", 0, [1.0], offset=7,
                                      key="one")["changed"])
        self.assertTrue(run.increment("weights", 0, [1.0], offset=7,
                                      key="one")["changed"])
        after = run.rows("weights", 0)[0]
        moved = [a - b for a, b in zip(after, before)]
        self.assertLess(moved[7], 0, "a gradient")
        self.assertEqual(max(moved, key=abs), moved[7], "of that value")

    def test_refusals_have_the_servers_code_and_reason(self):
        run = self.run_of
        with self.assertRaises(api.NotFound) as caught:
            run.client.run("no-such-run").look()
        self.assertEqual(caught.exception.code, "run_not_found")
        with self.assertRaises(api.Invalid) as caught:
            run.suggest({"learning_rate": -1, "colour": 2})
        self.assertEqual(caught.exception.status, 422)
        self.assertEqual({e["pointer"] for e in caught.exception.errors},
                         {"/settings/0/learning_rate", "/settings/0/colour"})
        self.assertIn("/settings/0/colour", str(caught.exception))
        with self.assertRaises(api.TokenRequired):
            Client(run.client.url, "wrong").run(run.id).pause()
        with self.assertRaises(api.Conflict) as caught:
            run.delete()
        self.assertEqual(caught.exception.code, "not_supported")
        with self.assertRaises(api.Invalid):
            run.trials(search="many")


class Asking(Alive):
    def config(self):
        config = endless_config()
        config["tuner"] = {"searcher": "rest", "trial_clocks": 20}
        config["stop"] = {"max_epochs": 2}
        config["app"]["data"] = "gen:digits?samples=2000&size=12"
        return config

    def test_a_search_from_outside(self):
        """Three settings are proposed, one after the other, each told of the
        ones before; the run trains with the best."""
        rates = [0.001, 0.03, 0.3]
        told = []

        def propose(search):
            told.append(len(search["trials"]))
            return {"learning_rate": rates.pop(0)} if rates else None
        last = None
        try:
            last = self.run_of.ask_and_tell(propose)
        except api.NoAnswer:
            pass  # the run is short, and takes its server along
        self.assertEqual(told[:4], [0, 1, 2, 3])
        self.assertTrue(last is None or last["state"] == "ended")
        done = self.finish(self.process)
        self.assert_code(done, 0)


class Strangers(Alive):
    """By a state folder a server is asked by its Unix socket; the port that it
    had hears no word of it."""

    def take_the_port(self):
        """The run is killed; a stranger has its port, and a lock that lives,
        as of a run that only begins, is in its folder."""
        port = int(self.run_of.client.url.rstrip("/").rpartition(":")[2])
        self.process.kill()
        self.finish(self.process)
        heard = socket.socket()
        self.addCleanup(heard.close)
        heard.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        heard.bind(("127.0.0.1", port))
        heard.listen(16)
        heard.setblocking(False)
        lock = open(self.place / "lock", "r+b", buffering=0)
        self.addCleanup(lock.close)
        fcntl.fcntl(lock, fcntl.F_OFD_SETLK,
                    struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 0, 0, 0))
        return heard

    def setUp(self):
        super().setUp()
        self.state = self.folder / ".mltune"
        self.place = self.state / "runs" / self.run_of.id

    def test_no_token_is_needed(self):
        """The folder has none: all goes by the socket."""
        self.wait_for_epochs()
        (self.state / "token").unlink()
        run = Client.of(state=self.state)
        run.pause()
        self.assertEqual(next(run.events(after=0)).kind, "run_started")
        run.go_on()
        with self.assertRaises(api.TokenRequired):
            Client(run.client.url).run(run.id).pause()

    def test_a_dead_runs_port_gets_nothing(self):
        """Not from who knew the run alive, nor from who looks for it now."""
        heard = self.take_the_port()
        for ask in (self.run_of.look, self.run_of.pause,
                    lambda: Client.of(state=self.state).pause()):
            with self.assertRaises(api.NoAnswer):
                ask()
            with self.assertRaises(BlockingIOError):
                heard.accept()

    def test_a_run_that_has_ended_has_no_server(self):
        self.process.kill()
        self.finish(self.process)
        with self.assertRaisesRegex(api.NoAnswer, "has ended"):
            self.run_of.look()
        with self.assertRaises(api.NotRunning):
            Client.of(state=self.state)

    def test_without_a_socket_the_address_and_token_serve(self):
        """Where the server says so, in this boot of this machine; of another
        one the word counts for nothing."""
        address = self.place / "url"
        (self.place / "http.sock").unlink()
        with self.assertRaises(api.NoAnswer):
            self.run_of.pause()
        boot = pathlib.Path("/proc/sys/kernel/random/boot_id").read_text()
        url = self.run_of.client.url
        address.write_text(f"{url}\nno socket {'0' + boot[1:]}x\n")
        with self.assertRaises(api.NoAnswer):
            self.run_of.pause()
        address.write_text(f"{url}\nno socket {boot.strip()}\n")
        self.run_of.pause()
        self.run_of.go_on()

    def test_a_socket_of_another_account_is_not_asked(self):
        """Who listens there is looked at before anything is said."""
        need_root(self)
        path = self.place / "http.sock"
        path.unlink()
        listener = subprocess.Popen(
            [sys.executable, "-c", """if True:
                import os, socket, sys
                s = socket.socket(socket.AF_UNIX)
                s.bind(sys.argv[1])
                os.setgid(65534), os.setuid(65534)
                s.listen()  # the kernel tells this one's user
                print(flush=True)
                c = s.accept()[0]
                c.settimeout(60)
                print(len(c.recv(1)), flush=True)""", path.name],
            stdout=subprocess.PIPE, text=True, cwd=self.place)
        self.addCleanup(listener.wait)
        self.addCleanup(listener.kill)
        listener.stdout.readline()
        with self.assertRaisesRegex(api.NoAnswer, "user 65534 listens"):
            self.run_of.pause()
        self.assertEqual(listener.stdout.readline(), "0\n")


class FarDown(Strangers):
    """The socket's path is longer than an address can be."""

    def setUp(self):
        far = "d" * 120
        Case.setUp(self)
        self.folder = self.folder / far
        self.folder.mkdir()
        self.write("config.json", self.config())
        self.process = self.start("run", "config.json")
        self.addCleanup(self.end)
        self.run_of = self.wait_until(self.find, "the run")
        self.state = self.folder / ".mltune"
        self.place = self.state / "runs" / self.run_of.id


class Serving(Case):
    def test_submissions_to_a_service(self):
        """Checked, submitted, followed to the end, deleted."""
        service = self.start("serve", "--listen", "127.0.0.1:0")
        self.addCleanup(self.finish, service)
        self.addCleanup(service.send_signal, signal.SIGTERM)
        state = self.folder / ".mltune"

        def find():
            try:
                client = Client.serving(state)
                return client if client.ready() else None
            except api.NotRunning:
                return None
        client = self.wait_until(find, "the service")
        bad = mlr_config()
        bad["stop"] = {"max_epochs": -1}
        self.assertFalse(client.validate(bad)["valid"])
        with self.assertRaises(api.Invalid) as caught:
            client.submit(bad)
        self.assertEqual(caught.exception.code, "invalid_configuration")
        run = client.submit(mlr_config(), key="k1")
        same = client.submit(mlr_config(), key="k1")
        self.assertEqual(run.id, same.id)
        self.assertEqual(Client.of("small-mlr", state=state).id, run.id)
        end = run.wait(timeout=60)
        self.assertEqual((end["status"], end["epochs"]), ("finished", 4))
        kinds = [e.kind for e in run.events(after=0, timeout=60)]
        self.assertEqual((kinds[0], kinds[-1]),
                         ("run_started", "run_finished"))

        def deleted():
            try:
                run.delete()
            except api.Conflict:  # its process outlives its end by a moment
                return False
            return True
        self.wait_until(deleted, "the run to be deleted")
        self.assertEqual(client.runs(), [])


class Answers(socketserver.ThreadingTCPServer):
    """A server that says what it is told to, in parts, and closes."""
    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, *scripts):
        self.scripts, self.asked = list(scripts), []
        super().__init__(("127.0.0.1", 0), Talk)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self):
        return "http://127.0.0.1:%d/" % self.server_address[1]


class Talk(socketserver.BaseRequestHandler):
    def handle(self):
        head = b""
        while b"\r\n\r\n" not in head:
            part = self.request.recv(65536)
            if not part:
                return
            head += part
        self.server.asked.append(head.decode())
        script = self.server.scripts
        parts = script.pop(0) if len(script) > 1 else script[0]
        try:
            for part in parts:
                if isinstance(part, (int, float)):
                    time.sleep(part)
                else:
                    self.request.sendall(part)
        except OSError:
            pass


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
STREAM = (b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
          b"Transfer-Encoding: chunked\r\n\r\n")


def chunk(text):
    return b"%x\r\n%s\r\n" % (len(text), text)


def event(number, kind="decision", data="{}"):
    return chunk(f"id: {number}\nevent: {kind}\ndata: {data}\n\n".encode())


class Faults(unittest.TestCase):
    """Servers that are not there, slow, or no mltune."""

    def serve(self, *scripts):
        server = Answers(*scripts)
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        return server

    def test_nobody_there(self):
        with socket.socket() as sock:
            sock.bind(("127.0.0.1", 0))
            client = Client("http://127.0.0.1:%d" % sock.getsockname()[1])
        with self.assertRaisesRegex(api.NoAnswer, "nobody answers"):
            client.runs()
        self.assertFalse(client.ready())

    def test_a_slow_server_does_not_hold_a_call(self):
        """A byte now and then is no answer, in the head and in the body."""
        drip = [b"H", b"T"] + [0.1, b"x"] * 100
        body = [HEAD + b"Content-Length: 500\r\n\r\n"] + [0.1, b" "] * 100
        for script in (drip, body, [10]):
            server = self.serve(script)
            began = time.monotonic()
            with self.assertRaises(api.NoAnswer):
                Client(server.url, timeout=0.7).runs()
            self.assertLess(time.monotonic() - began, 3)

    def test_answers_that_are_no_mltunes(self):
        for script in ([b"hello\r\n\r\n"],
                       [HEAD + b"Content-Length: 2\r\n\r\n{]"],
                       [HEAD + b"Content-Length: 20\r\n\r\n{}"],
                       [b"HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\n"
                        b"no"],
                       [b"HTTP/1.1 302 Found\r\nLocation: http://x/\r\n"
                        b"Content-Length: 0\r\n\r\n"]):
            with self.assertRaises(api.BadAnswer):
                Client(self.serve(script).url, timeout=5).runs()

    def test_figures_that_are_not_finite_are_floats(self):
        text = (b'{"loss":"nan","name":"inf","noise":"-inf",'
                b'"numbers":{"a":"inf"}}')
        server = self.serve([HEAD + b"Content-Length: %d\r\n\r\n%s" %
                             (len(text), text)])
        told = Client(server.url).get("/x")
        self.assertTrue(math.isnan(told["loss"]))
        self.assertEqual(told["name"], "inf")
        self.assertEqual(told["noise"], -math.inf)
        self.assertEqual(told["numbers"]["a"], math.inf)

    def test_a_broken_stream_goes_on_after_its_last_event(self):
        """No event is lost, none comes twice, half an event is none."""
        server = self.serve(
            [STREAM + event(5) + event(6), chunk(b"id: 7\nevent: x\nda")],
            [b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 2\r\n\r\n"
             b"{}"],
            [STREAM + event(7) + event(9, "dropped",
                                       '{"last":7,"newest":30,'
                                       '"kept_after":20}') + b"0\r\n\r\n"],
            [STREAM + chunk(b": alive\n\n") + event(21) +
             event(22, "run_finished") + b"0\r\n\r\n"])
        got = list(Client(server.url).run("r").events(after=4, timeout=20))
        self.assertEqual([e.id for e in got], [5, 6, 7, 9, 21, 22])
        self.assertEqual([e.kind for e in got][3], "dropped")
        asked = [next(line.split()[1] for line in head.splitlines()
                      if line.startswith("Last-Event-ID"))
                 for head in server.asked]
        self.assertEqual(asked, ["4", "6", "6", "20"])

    def test_a_stream_without_a_server_gives_up(self):
        server = self.serve([STREAM + event(5)])
        began = time.monotonic()
        found = Client(server.url).run("r").events(patience=0.5)
        self.assertEqual(next(found).id, 5)
        server.scripts[:] = [[b""]]
        with self.assertRaises(api.NoAnswer):
            next(found)
        self.assertLess(time.monotonic() - began, 10)

    def test_patience_begins_where_the_stream_breaks(self):
        """Not at the last event: a run may be silent for longer than that."""
        server = self.serve(
            [STREAM + event(5)],
            [b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 2\r\n\r\n"
             b"{}"],
            [STREAM + event(6) + event(7, "run_finished") + b"0\r\n\r\n"])
        found = Client(server.url).run("r").events(patience=5)
        self.assertEqual(next(found).id, 5)
        now = time.monotonic
        with unittest.mock.patch.object(api.time, "monotonic",
                                        lambda: now() + 1000):
            self.assertEqual([e.id for e in found], [6, 7])

    def ask_about_dropped(self, newest):
        return STREAM + event(9, "dropped", '{"last":7,"newest":%d,'
                              '"kept_after":20}' % newest) + b"0\r\n\r\n"

    def test_a_log_that_turns_over_is_caught_up_with(self):
        """Where what is kept is gone, too, by the time it is asked for, events
        go on with the newest: "dropped" is never told for ever."""
        server = self.serve(
            [self.ask_about_dropped(30)], [self.ask_about_dropped(50)],
            [STREAM + event(51) + event(52, "run_finished") + b"0\r\n\r\n"])
        found = Client(server.url).run("r").events(after=4, timeout=20)
        self.assertEqual([e.kind for e in found],
                         ["dropped", "dropped", "decision", "run_finished"])
        asked = [next(line.split()[1] for line in head.splitlines()
                      if line.startswith("Last-Event-ID"))
                 for head in server.asked]
        self.assertEqual(asked, ["4", "20", "50"])

    def test_events_that_are_dropped_for_ever_have_a_deadline(self):
        server = self.serve([self.ask_about_dropped(30)])
        found = Client(server.url).run("r").events(after=4, timeout=0.5)
        with self.assertRaises(TimeoutError):
            for _ in range(10000):
                next(found)

    def test_events_that_lie_here_have_a_deadline(self):
        """Read already, in one piece: the time counts all the same."""
        many = b"".join(b"id: %d\nevent: decision\ndata: {}\n\n" % n
                        for n in range(1000))
        server = self.serve([STREAM + chunk(many) + b"0\r\n\r\n"])
        found = Client(server.url).run("r").events(after=0, timeout=100)
        next(found)
        now = time.monotonic
        with unittest.mock.patch.object(api.time, "monotonic",
                                        lambda: now() + 1000):
            with self.assertRaises(TimeoutError):
                next(found)

    def test_wait_has_a_deadline_in_each_of_its_calls(self):
        """A server that lets each of them wait: it is one time for all."""
        look = b'{"status":"training","loss":0.5}'
        told = HEAD + b"Content-Length: %d\r\n\r\n%s" % (len(look), look)
        ended = STREAM + event(5, "run_finished", '{"status":"finished"}')
        now = time.monotonic
        for scripts, timeout, settles_s, result in (
                ([[30]], 0.5, 1, TimeoutError),
                ([[told], [30]], 0.5, 1, TimeoutError),
                ([[told], [STREAM + b"0\r\n\r\n"], [30]], 0.5, 1, TimeoutError),
                ([[told], [ended], [30]], 60, 1, ("finished", None)),
                # It does not settle: what was last said of it, and its end. One
                # look at least has to be answered.
                ([[told], [ended], [told]], 60, 4, ("finished", 0.5))):
            server = self.serve(*scripts)
            began = now()
            try:
                with unittest.mock.patch.object(api, "SETTLES_S", settles_s):
                    run = Client(server.url).run("r").wait(timeout)
                got = run["status"], run.get("loss")
            except TimeoutError:
                got = TimeoutError
            self.assertEqual(got, result)
            self.assertLess(now() - began, 25)

    def test_addresses(self):
        """A token goes to this machine or over TLS."""
        for url in ("http://example.org/", "ftp://127.0.0.1/", "http://",
                    "http://127.0.0.1:port/", "http://u:p@127.0.0.1/",
                    "http://127.0.0.1.example.org:80/"):
            with self.assertRaises(api.ClientError):
                Client(url)
        self.assertEqual(Client("127.0.0.1:8080").url,
                         "http://127.0.0.1:8080/")
        self.assertEqual(Client("http://[::1]:8080").url,
                         "http://[::1]:8080/")
        self.assertEqual(Client("https://example.org").url,
                         "https://example.org:443/")
        with self.assertRaises(ValueError):
            Client("127.0.0.1:8080", timeout=0)


if __name__ == "__main__":
    unittest.main()
