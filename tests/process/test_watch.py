"""`mltune watch`: a run in a terminal, live, and as lines elsewhere."""
import codecs
import fcntl
import http.server
import json
import os
import pty
import re
import resource
import select
import signal
import socket
import struct
import subprocess
import termios
import threading
import time

from harness import MLTUNE, Case, endless_config, mlr_config
from test_serve import Service

RESET = "\033[?1049l"


class Screen:
    """As much of a terminal as mltune uses; anything else fails the test."""
    PIECE = re.compile(r"\033\[(\?)?([\d;]*)([A-Za-z])|([^\033]+)|(\033)", re.S)

    def __init__(self, width, height):
        self.width, self.height = width, height
        self.cells = {}
        self.at = [0, 0]
        self.full = False  # the row's last cell was written
        self.overflows = 0
        self.modes = {}
        self.unknown = []

    def feed(self, text):
        for m in self.PIECE.finditer(text):
            if m[3]:
                self.control(m[1], m[2], m[3])
            elif m[4]:
                self.put(m[4])
            else:
                self.unknown.append(text[m.start():m.start() + 8])

    def control(self, private, numbers, kind):
        if private:
            self.modes[int(numbers)] = kind == "h"
        elif kind == "H":
            self.at = [int(n) - 1 for n in numbers.split(";")]
            self.full = False
        elif kind == "K":
            for x in range(self.at[1], 1000):
                self.cells.pop((self.at[0], x), None)
        elif kind == "J" and numbers == "2":
            self.cells = {}
            self.overflows = 0
        elif kind != "m":
            self.unknown.append(numbers + kind)

    def put(self, text):
        for c in text:
            if c == "\n":
                self.at[0] += 1
            elif c == "\r":
                self.at[1] = 0
            elif ord(c) < 32 or 0x7f <= ord(c) < 0xa0:
                self.unknown.append(c)
            else:
                self.move_on(c)

    def move_on(self, c):
        """Without wrapping the cursor stays on the last column."""
        last = self.width - 1
        self.overflows += self.full or self.at[1] > last
        self.at[1] = min(self.at[1], last)
        self.cells[tuple(self.at)] = c
        self.full = self.at[1] == last
        self.at[1] = min(self.at[1] + 1, last)

    def rows(self):
        return ["".join(self.cells.get((y, x), " ")
                        for x in range(self.width)).rstrip()
                for y in range(self.height)]

    def text(self):
        return "\n".join(self.rows())


class Terminal:
    """A process with a terminal of its own."""

    def __init__(self, case, *words, width=80, height=24, **env):
        self.case = case
        self.screen = Screen(width, height)
        self.all, self.held = "", ""
        self.decoder = codecs.getincrementaldecoder("utf-8")()
        self.master, slave = pty.openpty()
        self.resize(width, height)
        self.before = termios.tcgetattr(slave)
        self.slave = slave
        self.process = subprocess.Popen(
            [MLTUNE, *map(str, words)], stdin=slave, stdout=slave,
            stderr=slave, cwd=case.folder, start_new_session=True,
            preexec_fn=self.begin,
            env={**case.env, "TERM": "xterm", "LC_ALL": "C.UTF-8", **env})
        case.addCleanup(self.close)

    @staticmethod
    def begin():
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        # A shell in the background may have these signals ignored.
        for number in signal.SIGINT, signal.SIGQUIT, signal.SIGHUP:
            signal.signal(number, signal.SIG_DFL)

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self.master)
        os.close(self.slave)

    def resize(self, width, height):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ,
                    struct.pack("HHHH", height, width, 0, 0))
        self.screen.width, self.screen.height = width, height

    def type(self, text):
        os.write(self.master, text.encode())

    def read(self, seconds=0.05):
        while select.select([self.master], [], [], seconds)[0]:
            text = self.held + self.decoder.decode(
                os.read(self.master, 65536))
            # A sequence may be cut in two.
            cut = re.search(r"\033(\[\??[\d;]*)?$", text)
            self.held = cut[0] if cut else ""
            text = text[:len(text) - len(self.held)]
            self.screen.feed(text)
            self.all += text
            seconds = 0
        return self.screen.text()

    def wait_for(self, condition, what, seconds=60):
        if isinstance(condition, str):
            wanted = condition
            condition = lambda text: wanted in text  # noqa: E731
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if condition(self.read()):
                return self.screen.text()
            if self.process.poll() is not None:
                break
        self.read()
        if condition(self.screen.text()):
            return self.screen.text()
        self.case.fail(f"waited for {what} on\n{self.screen.text()}\n"
                       f"code {self.process.poll()}")
        return None

    def wait(self, code, seconds=60):
        """The process ends with @code; what it writes is read meanwhile, or it
        would wait for room."""
        end = time.monotonic() + seconds
        while self.process.poll() is None and time.monotonic() < end:
            self.read()
        self.read()
        self.case.assertEqual(self.process.poll(), code, self.screen.text())

    def end(self, code, seconds=60):
        """The same, and the terminal is as it was; returns what it wrote last,
        after its picture."""
        self.wait(code, seconds)
        self.case.assertEqual(termios.tcgetattr(self.slave), self.before)
        self.case.assertEqual(self.screen.modes,
                              {1049: False, 25: True, 7: True})
        self.case.assertEqual(self.screen.unknown, [])
        return self.all.rpartition(RESET)[2]


class OnScreen(Case):
    def begin(self, config=None):
        self.write("config.json", config or endless_config())
        tuner = self.start("run", "config.json", "-q")
        self.wait_for_training()
        return tuner

    def test_picture_is_live_and_follows_the_size(self):
        tuner = self.begin()
        t = Terminal(self, "watch", "endless")
        t.wait_for("loss over clocks", "the chart")
        self.assertTrue(t.screen.modes[1049])
        # Clocks go on, which the picture says without being asked. A row may
        # be seen half drawn: what is read of it is compared with the least.
        clocks = []

        def goes_on(text):
            clocks.extend(map(int, re.findall(r"clock (\d+)", text)[:1]))
            return clocks and clocks[-1] > min(clocks)
        t.wait_for(goes_on, "later clocks")
        t.wait_for("trial verdict", "trials")
        t.wait_for(lambda text: "endless" in text.split("\n")[0] and
                   "q leaves" in text.split("\n")[23], "head and foot")
        for width, height in (60, 15), (140, 45), (20, 5):
            t.resize(width, height)
            t.wait_for(lambda text, last=height - 1:
                       "q leaves" in text.split("\n")[last],
                       f"{width} x {height}")
            self.assertTrue(all(y < height for y, _ in t.screen.cells))
            self.assertEqual(t.screen.overflows, 0)
        # The last column is seen, too.
        t.wait_for(lambda text: re.search("^ q leaves.{10}\u2026$", text, re.M),
                   "a full row")
        t.type("q")
        self.assertEqual(t.end(0), "")
        self.assertIsNone(tuner.poll(), "the run has ended")
        tuner.terminate()
        self.finish(tuner)

    def test_signals_give_the_terminal_back(self):
        tuner = self.begin()
        t = Terminal(self, "watch")
        t.wait_for("q leaves", "the picture")
        t.type("\x03")
        t.end(130)
        t = Terminal(self, "watch")
        t.wait_for("q leaves", "the picture")
        t.type("\x1c")
        t.end(-signal.SIGQUIT)
        deadly = (signal.SIGABRT, signal.SIGXCPU, signal.SIGSYS,
                  signal.SIGALRM, signal.SIGUSR1, signal.SIGUSR2)
        for number, code in (signal.SIGTERM, 143), (signal.SIGHUP, 129), \
                *((number, -number) for number in deadly):
            t = Terminal(self, "watch", "endless")
            t.wait_for("q leaves", "the picture")
            t.process.send_signal(number)
            t.end(code)
        # Ctrl-Z: the shell has its terminal back, and the picture comes again.
        t = Terminal(self, "watch", "endless")
        t.wait_for("q leaves", "the picture")
        t.type("\x1a")
        t.wait_for(lambda _: os.waitid(
            os.P_PID, t.process.pid, os.WSTOPPED | os.WNOHANG | os.WNOWAIT)
            is not None, "it to stop")
        self.assertEqual(t.screen.modes[1049], False)
        self.assertEqual(termios.tcgetattr(t.slave), t.before)
        t.screen.cells = {}
        t.process.send_signal(signal.SIGCONT)
        t.wait_for("q leaves", "the picture again")
        t.type("q")
        t.end(0)
        tuner.terminate()
        self.finish(tuner)

    def test_the_end_prints_a_summary_and_a_code(self):
        tuner = self.begin()
        t = Terminal(self, "watch", "endless", NO_COLOR="1")
        t.wait_for("q leaves", "the picture")
        self.assert_code(self.mltune("stop", "endless"), 0)
        last = t.end(0)
        self.assertIn("status    stopped", last)
        self.assertIn("tuning    ", last)
        self.assertNotRegex(t.all, r"\033\[0;3\d", "coloured")
        self.finish(tuner)
        # One that is over is shown until the user has seen it.
        t = Terminal(self, "watch", "endless")
        t.wait_for("stopped", "its end")
        t.type("q")
        t.end(0)

    def test_a_tuner_that_is_killed_is_seen(self):
        tuner = self.begin()
        t = Terminal(self, "watch", "endless", LC_ALL="C")
        t.wait_for("q leaves", "the picture")
        tuner.kill()
        self.finish(tuner)
        self.assertIn("status    interrupted", t.end(75))
        self.assertTrue(t.all.isascii())

    def test_a_dumb_terminal_gets_lines(self):
        self.assert_code(self.run_config(mlr_config(), "-q"), 0)
        for words, env in ((), {"TERM": "dumb"}), (("--lines",), {}):
            t = Terminal(self, "watch", *words, **env)
            t.wait(0)
            self.assertNotIn("\033", t.all)
            self.assertIn("trial 1: ", t.all)


class Lines(Case):
    def test_a_line_an_event_then_the_summary(self):
        self.assert_code(self.run_config(mlr_config(), "-q"), 0)
        done = self.mltune("watch", "small-mlr")
        self.assert_code(done, 0)
        self.assertIn("trial 1: ", done.out)
        self.assertIn("epoch 4: ", done.out)
        self.assertIn("status    finished", done.out)
        self.assertNotIn("\033", done.out)
        # No name: there is one run.
        self.assertEqual(self.mltune("watch").out, done.out)

    def test_json_is_every_record_once(self):
        self.write("config.json", mlr_config())
        tuner = self.start("run", "config.json", "-q")
        self.wait_until(
            lambda: self.mltune("ls", "--json").out.strip() != "[]",
            "the run")
        done = self.mltune("watch", "--json")
        self.finish(tuner)
        self.assert_code(done, 0)
        events = [json.loads(line) for line in done.out.splitlines()]
        self.assertEqual([e["id"] for e in events],
                         list(range(1, len(events) + 1)))
        self.assertIn("run_finished", [e["event"] for e in events])
        self.assertTrue(all(e["event"] == e["data"]["kind"] for e in events))
        self.assertEqual(self.mltune("watch", "--json").out, done.out)

    def test_what_is_not_there_is_said(self):
        done = self.mltune("watch")
        self.assert_code(done, 2)
        self.assertIn("holds no runs", done.err)
        done = self.mltune("watch", "x", "--server", "http://127.0.0.1:1/")
        self.assert_code(done, 69)
        self.assertIn("nobody answers", done.err)
        config = mlr_config()
        for name in "one", "two":
            self.assert_code(self.run_config(
                {**config, "name": name}, "-q"), 0)
        done = self.mltune("watch")
        self.assert_code(done, 2)
        self.assertIn("name one: two-", done.err)
        self.assert_code(self.mltune("watch", "three"), 2)
        with open("/dev/full", "w", encoding="ascii") as full:
            done = self.mltune("watch", "one", stdout=full)
        self.assert_code(done, 74)
        self.assertEqual(done.err.count("No space left"), 1)


class AtService(Service):
    def url(self):
        return "http://{}:{}/".format(*self.address)

    def test_picture_and_lines_at_a_service(self):
        run = self.submit(mlr_config())
        lines = self.start("watch", run, "--json", "--server", self.url())
        done = self.finish(lines)
        self.assert_code(done, 0)
        here = self.mltune("watch", run, "--json")
        self.assertEqual(done.out, here.out)
        run = self.submit(endless_config())
        t = Terminal(self, "watch", "--server", self.url())
        t.wait_for("faint: what was tried", "the chart")
        t.wait_for(self.url(), "the server's address")
        self.command(run, "pause", 202)
        t.wait_for("paused", "the pause")
        self.end(signal.SIGKILL)
        text = t.wait_for("no answer for", "that it is gone")
        self.assertIn("paused", text)
        t.type("q")
        t.end(0)

    def test_a_service_begun_anew_shows_what_it_has(self):
        run = self.submit(endless_config())
        before = self.wait_for_clock(run)["clocks"]
        self.end()
        self.launch()
        self.wait_for_clock(run, past=before + 1)
        out = self.folder / "lines"
        with out.open("w", encoding="utf-8") as file:
            lines = self.start("watch", run, "--json", "--server", self.url(),
                               stdout=file)
        self.wait_until(lambda: "\n" in out.read_text(), "an event")
        self.command(run, "stop", 202)
        done = self.finish(lines)
        self.assert_code(done, 0)
        events = [json.loads(line) for line in out.read_text().splitlines()]
        self.assertIn(f" {events[0]['id'] - 1} events were not kept", done.err)
        # Events from before anybody watched that are still there.
        self.assertIn("run_resumed", [e["event"] for e in events])
        self.assertEqual(events[-1]["event"], "run_finished")


HOSTILE = "\033]0;owned\a\033[2J\u009b31m\u202e"


def decision(number):
    """Event @number."""
    return {"id": number, "event": "decision", "data": {
        "kind": "decision", "at_s": 1.0, "next_clock": 1, "decision": "told",
        "text": f"{HOSTILE}number {number}", "numbers": {}}}


class Fake(http.server.BaseHTTPRequestHandler):
    """A server that says what it likes."""
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        path, _, query = self.path.partition("?")
        server = self.server
        if path.endswith("/events"):
            self.events(query)
            return
        if server.trouble:
            self.reply(*server.trouble)
            return
        name = path.rsplit("/", 1)[1]
        run = {"run": "a-1", "name": HOSTILE + "name",
               "status": server.status, "message": HOSTILE + "told",
               "setting": {HOSTILE + "rate": HOSTILE + "x"},
               "tuning": {"strategy": HOSTILE}, "epochs": 3}
        answers = {
            "a-1": run,
            "runs": {"runs": [run], "next_page_token": None},
            "decisions": {"decisions": [{"text": HOSTILE + "because"}]},
        }
        self.reply(200, answers.get(name, {name: []}))

    def reply(self, status, body):
        body = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)

    def events(self, query):
        server = self.server
        if query:
            after = int(query.removeprefix("after="))
            server.polled.append(after)
            if server.refuses == 404:
                self.reply(404, {"detail": "none"})
                return
            events = [e for e in server.log if e["id"] > after][:2]
            self.reply(200, {
                "events": events, "missed": False,
                "next_after": events[-1]["id"] if events else after})
            return
        after = self.headers.get("Last-Event-ID")
        server.asked.append(after)
        if server.refuses:
            self.reply(server.refuses, {"detail": "no stream"})
        else:
            self.stream(int(after or 0))

    def stream(self, after):
        server = self.server
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        if after < server.kept_after:
            self.say("event: dropped\ndata: " + json.dumps({
                "last": after, "newest": server.log[-1]["id"],
                "kept_after": server.kept_after}))
        else:
            for e in server.log:
                if after < e["id"] <= server.cut:
                    self.say(f"id: {e['id']}\nevent: {e['event']}\n"
                             f"data: {json.dumps(e['data'])}")
            if server.log[-1]["id"] <= server.cut:
                server.hold.wait(60)
        self.close_connection = True

    def say(self, event):
        text = f"{event}\n\n".encode()
        self.wfile.write(b"%x\r\n%s\r\n" % (len(text), text))
        self.wfile.flush()


class AtFake(Case):
    def setUp(self):
        super().setUp()
        self.server = None
        self.addCleanup(self.leave)
        self.serve(0)

    def serve(self, port, first=1, **said):
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Fake)
        self.server.daemon_threads = True
        self.server.handle_error = lambda *_: None  # who asked has gone
        said = {"status": "training", "log": [decision(first),
                                              decision(first + 1)],
                "refuses": 0, "trouble": None, "kept_after": 0, "cut": 1000,
                **said}
        for name, value in said.items():
            setattr(self.server, name, value)
        self.server.asked, self.server.polled = [], []
        self.server.hold = threading.Event()
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, args=(0.01,),
                         daemon=True).start()

    def leave(self):
        if self.server:
            self.server.hold.set()
            self.server.shutdown()
            self.server.server_close()
        self.server = None

    def watch(self, *words, **options):
        return self.start("watch", *words, "--server",
                          f"http://127.0.0.1:{self.port}/", **options)

    def test_texts_of_a_server_are_harmless(self):
        t = Terminal(self, "watch", "--server",
                     f"http://127.0.0.1:{self.port}/")
        text = t.wait_for("because", "the feed")
        self.assertIn("name  a-1", text)
        self.assertNotIn("\a", t.all)
        self.server.status = "finished"
        self.server.hold.set()
        last = t.end(0)
        self.assertIn("told", last)
        self.assertNotIn("\033", last)

    def test_a_server_that_comes_back_is_followed_from_where_it_was(self):
        process = self.watch("--wait", "600")
        self.wait_until(lambda: self.server.asked, "the first stream")
        self.leave()
        # Until it has noticed: there is a line about it.
        line = process.stderr.readline()
        self.assertIn("trying again", line)
        self.serve(self.port, first=3)
        self.wait_until(lambda: self.server.asked, "the second stream")
        self.assertEqual(self.server.asked[0], "2")
        self.assertIn("answers again", process.stderr.readline())
        self.server.status = "finished"
        self.server.hold.set()
        done = self.finish(process)
        self.assert_code(done, 0)
        self.assertEqual(re.findall(r"number (\d)", done.out),
                         ["1", "2", "3", "4"])
        self.assertNotIn("\033", done.out)

    def test_a_server_that_stays_away_is_given_up(self):
        process = self.watch("--wait", "1")
        self.wait_until(lambda: self.server.asked, "the stream")
        self.leave()
        done = self.finish(process)
        self.assert_code(done, 69)
        self.assertIn("given up after 1 s", done.err)

    def numbers(self, done):
        return re.findall(r"number (\d+)", done.out)

    def test_what_a_server_still_has_is_shown(self):
        """Only what it has dropped is missing."""
        self.server.log = [decision(n) for n in range(1, 10)]
        self.server.kept_after = 5
        process = self.watch("--json")
        self.wait_until(lambda: len(self.server.asked) == 2, "two streams")
        self.assertEqual(self.server.asked, ["0", "5"])
        self.server.status = "finished"
        self.server.hold.set()
        done = self.finish(process)
        self.assert_code(done, 0)
        self.assertEqual(self.numbers(done), ["6", "7", "8", "9"])
        self.assertIn(" 5 events were not kept", done.err)
        self.assertNotIn("\u009b", done.out)

    def test_last_events_are_asked_for(self):
        """Of a run that was over when its stream broke."""
        self.server.log = [decision(n) for n in range(1, 6)]
        self.server.status = "finished"
        self.server.cut = 2
        done = self.finish(self.watch())
        self.assert_code(done, 0)
        self.assertEqual(self.numbers(done), ["1", "2", "3", "4", "5"])

    def test_a_server_without_a_stream_is_asked(self):
        self.server.log = [decision(n) for n in range(1, 6)]
        self.server.refuses = 503
        process = self.watch("--json")
        self.wait_until(lambda: 5 in self.server.polled, "the questions")
        self.server.status = "finished"
        done = self.finish(process)
        self.assert_code(done, 0)
        self.assertEqual(self.numbers(done), ["1", "2", "3", "4", "5"])
        self.assertIn("(status 503); it is asked", done.err)
        # One that has no events any more.
        self.server.refuses = 404
        done = self.finish(self.watch("--json"))
        self.assert_code(done, 2)
        self.assertIn("keeps no events of run a-1", done.err)
        done = self.finish(self.watch("--lines"))
        self.assert_code(done, 0)
        self.assertIn("keeps no events of run a-1", done.err)
        self.assertIn("status    finished", done.out)

    def test_an_end_that_was_taken_back_is_none(self):
        """A run that was resumed is not over when its server is away."""
        self.server.log = [
            {"id": 1, "event": "run_finished", "data": {
                "kind": "run_finished", "status": "stopped"}},
            {"id": 2, "event": "run_resumed", "data": {"kind": "run_resumed"}},
            decision(3)]
        process = self.watch("--wait", "600")
        self.wait_until(lambda: self.server.asked, "the stream")
        self.leave()
        self.assertIn("trying again", process.stderr.readline())
        self.serve(self.port, first=4, status="finished")
        self.server.hold.set()
        done = self.finish(process)
        self.assert_code(done, 0)
        self.assertEqual(self.numbers(done), ["3", "4", "5"])

    def test_what_stands_in_for_a_server_is_no_answer(self):
        for trouble in (502, b"<html>"), (200, b"<html>"), \
                (429, {"detail": HOSTILE}):
            process = self.watch("--wait", "600")
            self.wait_until(lambda: self.server.asked, "the stream")
            self.server.trouble = trouble
            self.server.hold.set()
            line = process.stderr.readline()
            self.assertIn("trying again", line)
            self.assertNotIn("\033", line)
            self.server.trouble = None
            self.assertIn("answers again", process.stderr.readline())
            self.server.status = "finished"
            self.assert_code(self.finish(process), 0)
            self.server.status = "training"
            self.server.asked.clear()
            self.server.hold.clear()

    def test_refusals_are_harmless(self):
        for status, code in (503, 69), (400, 2):
            self.server.trouble = (status, {"detail": HOSTILE + "no"})
            done = self.finish(self.watch())
            self.assert_code(done, code)
            self.assertIn("[2J", done.err)
            self.assertFalse(set("\033\a\u009b") & set(done.err), done.err)

    def test_signals_end_it_before_the_first_answer(self):
        with socket.create_server(("127.0.0.1", 0)) as silent:
            process = self.start(
                "watch", "--server",
                f"http://127.0.0.1:{silent.getsockname()[1]}/")
            silent.settimeout(60)
            with silent.accept()[0]:
                process.terminate()
                self.assertEqual(self.finish(process, 30).code, -15)
