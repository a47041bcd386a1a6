"""Webhooks: events of a run, sent to a server of somebody's."""
import hashlib
import hmac
import http.server
import json
import signal
import socket
import ssl
import threading
import time

import harness
import test_serve
from harness import Case, mlr_config

SECRET = "a secret of twenty-some characters"


class Receiver(http.server.BaseHTTPRequestHandler):
    """Answers by the list of its server: a status, or a function."""
    protocol_version = "HTTP/1.1"

    def do_POST(self):  # the name is http.server's
        body = self.rfile.read(int(self.headers["Content-Length"]))
        server = self.server
        server.got.append((self.path, dict(self.headers), body, time.time()))
        answer = server.answers.pop(0) if server.answers else 200
        if callable(answer):
            answer = answer()
        self.wfile.write(server.first)
        self.send_response(answer)
        if answer in (301, 302, 307, 308):
            self.send_header("Location", server.elsewhere)
        self.send_header("Content-Length", "0")
        self.end_headers()
        server.hangs_up.wait()

    def log_message(self, *args):
        pass


class Webhooks(Case):
    def setUp(self):
        super().setUp()
        harness.make_certificate(self.folder)
        self.write("secret", SECRET + "\n").chmod(0o600)
        self.env["MLTUNE_CACERT"] = str(self.folder / "cert.pem")
        self.server = self.serve()

    def serve(self):
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.folder / "cert.pem",
                                self.folder / "key.pem")
        server.socket = context.wrap_socket(server.socket, server_side=True)
        server.daemon_threads = True
        server.got, server.answers, server.elsewhere = [], [], ""
        server.first, server.hangs_up = b"", threading.Event()
        server.hangs_up.set()
        self.addCleanup(server.hangs_up.set)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        return server

    def url(self, server=None, path="/hook?by=mltune"):
        port = (server or self.server).server_address[1]
        return f"https://127.0.0.1:{port}{path}"

    def hooked(self, config, **members):
        return {**config, "hooks": {"url": self.url(), "secret": "secret",
                                    "private": True, "on": ["end"], **members}}

    def run_hooked(self, **members):
        """The run's result and its log."""
        done = self.run_config(self.hooked(mlr_config(), **members), "--json")
        self.assert_code(done, 0)
        path = self.folder / f".mltune/runs/{done.result['run']}/log"
        return done.result, path.read_text()

    def events(self, server=None):
        return [json.loads(body) for _, _, body, _ in
                (server or self.server).got]

    def test_a_run_that_cannot_be_set_up(self):
        """The server hears of it, though there is no such run afterwards."""
        taken = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(taken.close)
        port = taken.getsockname()[1]
        done = self.run_config(self.hooked(mlr_config(), on=["failure"]),
                               "--listen", f"127.0.0.1:{port}")
        self.assertNotEqual(done.code, 0)
        event, = self.events()
        self.assertEqual((event["event"], event["status"]),
                         ("failure", "failed"))
        self.assertIn(str(port), event["message"])

    def test_signed_events(self):
        """Every one in its order, signed by what both know."""
        run, log = self.run_hooked(on=["best", "end"])
        events = self.events()
        self.assertEqual(events[-1]["event"], "end")
        self.assertEqual(events[-1]["run"], run["run"])
        self.assertEqual({e["event"] for e in events[:-1]}, {"best"})
        for path, headers, body, at in self.server.got:
            self.assertEqual(path, "/hook?by=mltune")
            parts = dict(p.split("=") for p in
                         headers["X-Mltune-Signature"].split(","))
            self.assertEqual(parts["v1"], hmac.new(
                SECRET.encode(), parts["t"].encode() + b"." + body,
                hashlib.sha256).hexdigest())
            self.assertLess(abs(int(parts["t"]) - at), 60)
            self.assertEqual(headers["X-Mltune-Event"],
                             json.loads(body)["event"])
            self.assertEqual(headers["Content-Type"], "application/json")
        keys = [headers["Idempotency-Key"] for _, headers, _, _ in
                self.server.got]
        self.assertEqual(len(set(keys)), len(keys))
        self.assertIn("end delivered, attempt 1", log)
        self.assertNotIn(SECRET, log)

    def test_less_than_a_second(self):
        """A second is the least that it is tried for."""
        _, log = self.run_hooked(timeout="0.2s")
        self.assertIn("end delivered, attempt 1", log)

    def test_a_server_that_does_not_hang_up(self):
        """Its answer counts, once it is there: the event comes once."""
        self.server.hangs_up.clear()
        _, log = self.run_hooked(timeout="5s")
        self.assertIn("end delivered, attempt 1", log)
        self.assertEqual(len(self.server.got), 1)

    def test_answers_that_come_first(self):
        """Those of 1xx are none."""
        self.server.first = b"HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n"
        _, log = self.run_hooked(timeout="5s")
        self.assertIn("end delivered, attempt 1", log)

    def test_500_then_200(self):
        """Tried again after a second and after two more, by one key."""
        self.server.answers = [500, 503]
        _, log = self.run_hooked()
        self.assertEqual(len(self.server.got), 3)
        self.assertIn("end delivered, attempt 3", log)
        self.assertEqual(len({h["Idempotency-Key"] for _, h, _, _ in
                              self.server.got}), 1)
        times = [at for _, _, _, at in self.server.got]
        self.assertGreater(times[1] - times[0], 0.9)
        self.assertGreater(times[2] - times[1], 1.9)

    def test_what_is_not_tried_again(self):
        """A refusal, and a redirect, which nobody follows."""
        other = self.serve()
        self.server.elsewhere = self.url(other)
        for status in (404, 302, 307):
            self.server.got.clear()
            self.server.answers = [status]
            _, log = self.run_hooked()
            self.assertEqual(len(self.server.got), 1)
            self.assertIn(f"not delivered after 1 attempt: it answers {status}",
                          log)
        self.assertIn("redirects are not followed", log)
        self.assertEqual(other.got, [])

    def test_a_private_address(self):
        """Nothing is sent there unless that is allowed, whatever its name."""
        port = self.server.server_address[1]
        for host in ("127.0.0.1", "localhost", "[::1]", "0.0.0.0", "10.0.0.1",
                     "169.254.169.254"):
            _, log = self.run_hooked(private=False, timeout="3s",
                                     url=f"https://{host}:{port}/")
            self.assertIn("has no address of the public network", log, host)
            self.assertIn("after 1 attempt", log, host)
        self.assertEqual(self.server.got, [])

    def test_a_stated_end(self):
        """Nobody is there, or never answers: the run ends, and says so."""
        for gone in (True, False):
            if gone:
                port = self.serve()
                url = self.url(port)
                port.shutdown()
                port.server_close()
            else:
                self.server.answers = [lambda: time.sleep(60) or 200]
                url = self.url()
            began = time.monotonic()
            _, log = self.run_hooked(url=url, timeout="3s")
            self.assertLess(time.monotonic() - began, 30)
            self.assertIn("not delivered after", log)
            self.assertIn("hook_ended event=end", log)

    def test_one_that_hangs_keeps_no_run_from_its_end(self):
        """The run trains on meanwhile; after a signal there is a second. Of
        the bests that could not be told the last one waits."""
        self.server.answers = [lambda: time.sleep(60) or 200]
        self.write("config.json", self.hooked(
            harness.endless_config(), on=["best", "end"], timeout="50s"))
        process = self.start("run", "config.json")
        self.wait_for_training()
        self.wait_until(lambda: self.server.got, "the first event")
        clocks = self.mltune("show", "endless", "--json").result["clocks"]
        self.wait_until(lambda: self.mltune(
            "show", "endless", "--json").result["clocks"] > clocks, "clocks")
        process.send_signal(signal.SIGTERM)
        self.assert_code(self.finish(process), 143)
        self.assertEqual(len(self.server.got), 1)
        self.assert_nothing_left()

    def test_a_server_that_is_not_trusted(self):
        self.env["MLTUNE_CACERT"] = "/etc/ssl/certs/ca-certificates.crt"
        _, log = self.run_hooked(timeout="2s")
        self.assertIn("is not to be trusted", log)
        self.assertEqual(self.server.got, [])

    def test_a_secret_that_others_may_read(self):
        (self.folder / "secret").chmod(0o644)
        _, log = self.run_hooked()
        self.assertIn("nobody else can read", log)
        self.write("secret", "short").chmod(0o600)
        _, log = self.run_hooked()
        self.assertIn("16 to 256 characters", log)
        self.assertEqual(self.server.got, [])

    def test_configurations_that_are_wrong(self):
        for members, part in (
                ({"url": "http://127.0.0.1/x"}, "https://HOST"),
                ({"url": "https://user@host/"}, "https://HOST"),
                ({"url": "https://"}, "https://HOST"),
                ({"secret": None}, "/hooks/secret")):
            config = self.hooked(mlr_config(), **members)
            config["hooks"] = {k: v for k, v in config["hooks"].items()
                               if v is not None}
            done = self.run_config(config)
            self.assert_code(done, 78)
            self.assertIn(part, done.err)


class OfAService(test_serve.Service):
    """Who submits may name only hosts that the service allows."""

    def test_hosts_are_allowed_by_name(self):
        self.write("secret", SECRET).chmod(0o600)
        hooks = {"url": "https://127.0.0.1:1/", "secret": "secret"}
        config = {**mlr_config(), "hooks": hooks}
        answer = self.submit(config, status=422)
        self.assertEqual(answer["errors"][0]["pointer"], "/hooks/url")
        self.assertIn("--hook-host", answer["errors"][0]["detail"])
        self.assert_code(self.end(), 143)
        self.launch("--hook-host", "example.org", "--hook-host", "127.0.0.1")
        self.submit(config, "?held=true")
        for members, pointer in (({"url": "https://example.com/"}, "url"),
                                 ({"private": True}, "private"),
                                 ({"secret": "/etc/passwd"}, "secret"),
                                 ({"secret": "../secret"}, "secret")):
            answer = self.submit({**config, "hooks": {**hooks, **members}},
                                 status=422)
            self.assertEqual(answer["errors"][0]["pointer"],
                             f"/hooks/{pointer}")
        self.assert_code(self.end(), 143)
        self.launch("--hook-host", "127.0.0.1", "--hook-private")
        self.submit({**config, "hooks": {**hooks, "private": True}},
                    "?held=true")
