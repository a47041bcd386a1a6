"""What clients with ill will send to a service while a run trains: each gets its
status or is cut, memory stays bounded, and the run is not touched."""
import http.client
import json
import os
import pathlib
import re
import resource
import selectors
import socket
import time

from test_serve import Service, endless_config

MEMORY_MAX = 64 << 20  # of the service, beyond what it had


class Abused(Service):
    def setUp(self):
        super().setUp()
        self.run_id = self.submit(endless_config())
        self.clock = self.wait_for_clock(self.run_id)["clocks"]
        self.tuner = self.tuner_of(self.run_id)
        self.host = "Host: 127.0.0.1:%d\r\n" % self.address[1]
        self.memory = self.memory_of_service()

    def tearDown(self):
        """Whatever was done: the run went on, and the service is as it was."""
        self.assertLess(self.memory_of_service(), self.memory + MEMORY_MAX)
        self.assertEqual(self.get("/readyz"), {"status": "ready"})
        self.assertEqual(self.tuner_of(self.run_id), self.tuner)
        now = self.wait_for_clock(self.run_id, past=self.clock)
        self.wait_for_clock(self.run_id, past=now["clocks"])
        self.assertEqual(self.get("/api/v1/runs")["total"], 1)
        self.assertEqual(now["stop"]["max_epochs"], 1000000)

    def memory_of_service(self):
        """Bytes that are resident, at most so far."""
        text = pathlib.Path(f"/proc/{self.service.pid}/status").read_text()
        return int(re.search(r"VmHWM:\s+(\d+) kB", text).group(1)) << 10

    def raw(self, data, shut=False):
        """All that is said to these bytes until the connection ends."""
        reply = b""
        with socket.create_connection(self.address, timeout=60) as connection:
            try:
                connection.sendall(data if isinstance(data, bytes)
                                   else data.encode())
                if shut:
                    connection.shutdown(socket.SHUT_WR)
                while chunk := connection.recv(65536):
                    reply += chunk
            except (ConnectionResetError, BrokenPipeError):
                pass
        return reply

    def head(self, first, *fields):
        return (first + " HTTP/1.1\r\n" + self.host +
                "".join(f + "\r\n" for f in fields) + "\r\n")

    def status_of(self, reply):
        found = re.match(rb"HTTP/1.1 (\d{3}) ", reply)
        return int(found.group(1)) if found else 0

    def assert_refused(self, data, *statuses):
        """Answered with one of these (0: not at all), and nothing that follows
        is; then the end. (libmicrohttpd 0.9.75 writes the head of its own
        refusals twice.)"""
        reply = self.raw(data)
        self.assertIn(self.status_of(reply), statuses,
                      (data[:200], reply[:200]))
        self.assertNotRegex(reply, rb"HTTP/1\.1 2")

    def bearer(self):
        return f"Authorization: Bearer {self.token}"

    # ---- form ------------------------------------------------------------

    def test_smuggling(self):
        """A request that two programs could read differently is 400, and what
        follows on the connection is nobody's request."""
        inner = self.head("GET /healthz")
        chunk = "0\r\n\r\n"
        for fields, body in (
                (("Content-Length: 6", "Transfer-Encoding: chunked"), chunk),
                (("Transfer-Encoding: chunked", "Content-Length: 6"), chunk),
                (("Content-Length: 0", "Content-Length: 6"), ""),
                (("Content-Length: 5", "Content-Length: 5"), "12345"),
                (("Content-Length: 5, 5",), "12345"),
                (("Content-Length: +5",), "12345"),
                (("Content-Length: 0x5",), "12345"),
                (("Content-Length: -1",), ""),
                (("Content-Length: 99999999999999999999",), ""),
                (("Content-Length : 5",), "12345"),
                (("Transfer-Encoding: chunked",
                  "Transfer-Encoding: identity"), chunk),
                (("Transfer-Encoding: xchunked",), chunk),
                (("Transfer-Encoding: identity",), ""),
                (("Transfer-Encoding: gzip, chunked",), chunk),
                (("Transfer-Encoding : chunked",), chunk),
                (("X: y\r\n Transfer-Encoding: chunked",), chunk),
                (("X: y\nContent-Length: 5",), "12345"),
                (("X: y\rContent-Length: 5",), "12345"),
                (("X: y\0Content-Length: 5",), "12345"),
                (("X\0: y",), ""),
                (("Host: 127.0.0.1:1",), ""),
                ((": y",), ""),
                (("no colon",), "")):
            for first in (f"POST /api/v1/runs/{self.run_id}:stop",
                          "GET /api/v1/runs"):
                self.assert_refused(
                    self.head(first, self.bearer(), *fields) + body + inner,
                    400, 413, 0)
        for first in ("GET  /", "GET /\t", "get\0 /", "GET http://x/", "GET *",
                      "G@T /", "GET /a b"):
            self.assert_refused(self.head(first) + inner, 400, 0)
        for line in ("GET / HTTP/1.2\r\n", "GET / HTTP/0.9\r\n",
                     "GET / HTTP/2.0\r\n", "GET /\r\n", "GET / HTTP/1.1\n",
                     "\0\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n"):
            self.assert_refused(line + self.host + "\r\n" + inner,
                                400, 505, 0)

    def test_a_head_without_a_host_is_refused_by_us(self):
        """As every other refusal: once, as a problem. (What the library
        refuses itself has its head twice.)"""
        reply = self.raw("GET /api/v1/runs HTTP/1.1\r\nX: y\r\n\r\n")
        self.assertEqual(self.status_of(reply), 400)
        self.assertEqual(reply.count(b"HTTP/1.1 "), 1)
        self.assertIn(b"application/problem+json", reply)
        self.assertIn(b"no header field Host", reply)

    def test_chunks(self):
        """Chunks that are none end the connection, and do nothing."""
        head = self.head("POST /api/v1/runs", self.bearer(),
                         "Content-Type: application/json",
                         "Transfer-Encoding: chunked")
        for body in ("zz\r\n{}\r\n0\r\n\r\n", "-1\r\n{}\r\n0\r\n\r\n",
                     "fffffffffffffffff\r\n{}", "2\r\n{}xx0\r\n\r\n",
                     "5\n{}\n0\n\n"):
            reply = self.raw(head + body, shut=True)
            self.assertNotIn(self.status_of(reply), range(200, 300), reply)

    def test_nothing_is_served_behind_chunks(self):
        """The library takes chunks with bare LF, which others on the way may
        read otherwise: what follows any chunks is no request."""
        head = self.head("POST /api/v1/runs", self.bearer(),
                         "Content-Type: application/json",
                         "Transfer-Encoding: chunked")
        for end in ("\r\n", "\n"):
            body = end.join(("2", "{}", "0", "", ""))
            reply = self.raw(head + body + self.head("GET /version"))
            self.assertIn(self.status_of(reply), (400, 422), reply)
            self.assertEqual(reply.count(b"HTTP/1.1 "), 1, reply)

    def test_header_floods(self):
        """Too many, too long or without end: 431, or cut; never read on."""
        self.assert_refused(
            self.head("GET /", *(f"X-{i}: y" for i in range(100))), 431)
        self.assert_refused(self.head("GET /", "X: " + "y" * 17000), 431)
        self.assert_refused(self.head("GET /", "X: " + "y" * 1000000), 431, 0)
        self.assert_refused(self.head("GET /", *(["X: y"] * 300000)), 431, 0)
        self.assert_refused(self.head("GET /" + "a" * 3000), 414)
        self.assert_refused(self.head("GET /" + "a" * 3000000), 414, 431, 0)
        self.assert_refused("A" * 3000000, 400, 414, 431, 0)

    # ---- paths, names, tokens --------------------------------------------

    def test_paths(self):
        """No way of writing a path leads to a file."""
        for path, statuses in (
                ("/../../../../etc/passwd", (404,)),
                ("/web/../../etc/passwd", (404,)),
                ("/web/..%2f..%2f..%2fetc%2fpasswd", (404,)),
                ("/web/%2e%2e/%2e%2e/etc/passwd", (404,)),
                ("/web/%252e%252e%252fetc%252fpasswd", (404,)),
                ("/web//etc/passwd", (404,)), ("//etc/passwd", (404,)),
                ("/web/app.js%00.png", (400,)), ("/web/%c0%ae%c0%ae", (400,)),
                ("/web/%ff", (400,)), ("/web/%zz", (400,)), ("/%", (400,)),
                ("/web/.", (404,)), ("/web/", (404,)),
                ("/api/v1/runs/..%2ftoken", (400, 404)),
                ("/api/v1/runs/%2e%2e", (400, 404)),
                ("/api/v1/runs/../../token", (400, 404)),
                ("/.mltune/token", (404,)), ("/token", (404,)),
                ("/proc/self/environ", (404,)), ("/file:///etc/passwd", (404,)),
                ("/api/v1/runs/" + "a" * 1500, (400, 404)),
                ("/" + "/".join("a" * 900), (404,)),
                (f"/api/v1/runs/{self.run_id}/branches/0/progress"
                 "?after=-1&max_points=99999999999999999999", (400,))):
            reply = self.raw(self.head("GET " + path, "Connection: close"))
            self.assertIn(self.status_of(reply), statuses, (path, reply[:300]))
            self.assertNotIn(b"root:", reply)
            self.assertNotIn(self.token.encode(), reply)

    def test_tokens(self):
        """Only the whole token, as a bearer's, stops a run."""
        target = f"POST /api/v1/runs/{self.run_id}:stop"
        token = self.token
        for value in (None, "", "Bearer", "Bearer ", f"Bearer {token[:-1]}",
                      f"Bearer {token}0", f"Bearer {token[1:]}",
                      f"Bearer {token[:-1]}" + ("0" if token[-1] != "0"
                                                else "1"),
                      f"Bearer {token.upper()}x", f"Basic {token}", token,
                      f"Bearer {token} {token}", "Bearer " + "x" * 8000,
                      f"Bearer {token * 40}"):
            fields = [] if value is None else [f"Authorization: {value}"]
            self.assert_refused(self.head(target, *fields), 401, 400)
        self.assert_refused(self.head(target, self.bearer(), self.bearer()),
                            400)
        self.assert_refused(self.head(target + "?token=" + token), 401,
                            400)

    def test_names_and_origins(self):
        """Of others, whatever the method: 421 and 403, the token or not."""
        for method in ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE",
                       "OPTIONS"):
            target = f"{method} /api/v1/runs/{self.run_id}"
            for origin in ("https://evil.example", "null",
                           "http://localhost:1", "http://127.0.0.1",
                           "https://127.0.0.1:%d" % self.address[1]):
                self.assert_refused(
                    self.head(target, self.bearer(), f"Origin: {origin}"), 403)
            self.assert_refused(
                self.head(target, self.bearer(),
                          "Sec-Fetch-Site: cross-site"), 403)
            for host in ("evil.example", "127.0.0.1", "127.0.0.1:1",
                         "localhost.evil.example:%d" % self.address[1],
                         "127.0.0.1:%d.evil.example" % self.address[1]):
                self.assert_refused(
                    f"{target} HTTP/1.1\r\nHost: {host}\r\n"
                    f"{self.bearer()}\r\n\r\n", 421)

    # ---- bodies ----------------------------------------------------------

    def body(self, data, *fields):
        data = data if isinstance(data, bytes) else data.encode()
        return self.head("POST /api/v1/runs", self.bearer(),
                         "Content-Type: application/json",
                         f"Content-Length: {len(data)}", "Connection: close",
                         *fields).encode() + data

    def test_bodies_that_are_no_configuration(self):
        """Deep, with keys twice, or no UTF-8: 400; what can be read, 422."""
        deep = 200000
        for data, status in (
                ("[" * deep + "]" * deep, 400), ("[" * deep, 400),
                ('{"a":' * (deep // 2) + "1" + "}" * (deep // 2), 400),
                ('{"app": {}, "app": {}}', 400),
                ('{"name": "x", "name": "y"}', 400),
                (b'{"name": "\xff\xfe"}', 400), (b'\xef\xbb\xbf{}', 400),
                (b'{"name": "\xc0\xaf"}', 400),
                ('{"name": "\\ud800"}', 400), ('{"name": "\\u0000"}', 400),
                (b'{"name": "a\0b"}', 400), ('{"seed": 1e999}', 400),
                ('{"seed": 123456789012345678901234567890}', 400),
                ("{} {}", 400), ("{", 400), ('{"seed": 01}', 400),
                ('{"name": NaN}', 400), ("nul", 400),
                ('{"name": "' + "x" * 1000000 + '"}', 422),
                ("{" + ",".join(f'"k{i}": 1' for i in range(60000)) + "}",
                 422)):
            reply = self.raw(self.body(data))
            self.assertEqual(self.status_of(reply), status,
                             (data[:80], reply[:300]))
        self.assert_refused(
            self.body("{}").replace(b"application/json", b"text/plain"), 415)

    def test_bodies_of_100_megabytes(self):
        """Refused before they are read, with a token or not; in chunks, soon
        after the first."""
        size = 100 << 20
        piece = b"x" * (1 << 20)
        for fields, status in (([self.bearer()], 413), ([], 413),
                               (["Expect: 100-continue"], 413)):
            reply = self.raw(
                self.head("POST /api/v1/runs", f"Content-Length: {size}",
                          "Content-Type: application/json",
                          *fields).encode() + piece * 4)
            # A client that is still sending may see the end before the answer.
            self.assertIn(self.status_of(reply), (status, 0), reply[:200])
        head = self.head("POST /api/v1/runs", self.bearer(),
                         "Content-Type: application/json",
                         "Transfer-Encoding: chunked").encode()
        chunk = b"%x\r\n%s\r\n" % (len(piece), piece)
        sent = 0
        with socket.create_connection(self.address, timeout=60) as connection:
            try:
                connection.sendall(head)
                for _ in range(100):
                    connection.sendall(chunk)
                    sent += 1
            except OSError:
                pass
        self.assertLess(sent, 50, "the body was read on")

    # ---- many ------------------------------------------------------------

    def connect_many(self, count, sent):
        """Connections that have begun; what cannot be opened is not there."""
        selector = selectors.DefaultSelector()
        for _ in range(count):
            connection = socket.socket()
            connection.setblocking(False)
            try:
                connection.connect(self.address)
            except BlockingIOError:
                pass
            except OSError:
                connection.close()
                continue
            selector.register(connection, selectors.EVENT_WRITE, sent)
        return selector

    def answers_in_the_crowd(self):
        """Once; who is not let in at first knocks 1, 3, 7, 15, 31 and 63 s
        after."""
        connection = http.client.HTTPConnection(*self.address, timeout=180)
        try:
            connection.request("GET", "/healthz")
            return connection.getresponse().status == 200
        finally:
            connection.close()

    def test_ten_thousand_connections(self):
        """More than there are places for, silent, in the middle of a head, or
        idle: others are answered meanwhile, and all is well after."""
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        if most < 4000:
            self.fail("fewer than 4000 files may be open: ulimit -Hn 4000")
        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE,
                        (soft, most))
        at_once = min(most - 500, 3400)
        opened = 0
        for sent in (b"", b"GET / HTTP/1.1\r\nX-Slow: ",
                     self.head("GET /healthz").encode()):
            crowd = self.connect_many(at_once, sent)
            opened += len(crowd.get_map())
            for key, _ in crowd.select(1):
                try:
                    key.fileobj.send(key.data)
                except OSError:
                    pass
            # Behind all that queue before it, and is not cut with them.
            self.assertTrue(self.answers_in_the_crowd())
            for key in list(crowd.get_map().values()):
                key.fileobj.close()
            crowd.close()
        self.assertGreaterEqual(opened, min(10000, 3 * at_once))

        def files():
            return len(os.listdir(f"/proc/{self.service.pid}/fd"))
        # One that takes no answer has 60 s (DEADLINE_HTTP_ANSWER).
        self.wait_until(lambda: files() < 64, "the connections to be closed",
                        seconds=180)

    def test_slow_loris(self):
        """Clients that send a byte now and then, more than there are places
        for, are cut; others are answered."""
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        if most < 2000:
            self.fail("fewer than 2000 files may be open: ulimit -Hn 2000")
        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE,
                        (soft, most))
        crowd = self.connect_many(800, None)
        left = len(crowd.get_map())
        end = time.monotonic() + 60
        while left > 560 and time.monotonic() < end:
            for key in list(crowd.get_map().values()):
                try:
                    key.fileobj.send(b"G")
                except BlockingIOError:
                    pass
                except OSError:
                    crowd.unregister(key.fileobj)
                    key.fileobj.close()
                    left -= 1
            self.assertEqual(self.ask("GET", "/healthz")[0], 200)
        for key in list(crowd.get_map().values()):
            key.fileobj.close()
        self.assertLessEqual(left, 560, "attackers hold their places")


class Links(Service):
    """Links in the data folder that lead out of it."""

    def setUp(self):
        super().setUp()
        self.outside = pathlib.Path(f"{self.folder}-outside.csv")
        self.outside.write_text("x,y,label\n" + "1,2,a\n3,4,b\n" * 50)
        self.addCleanup(self.outside.unlink)

    def config(self, data):
        return {"app": {"name": "mlr", "data": data, "label": "label"},
                "stop": {"max_epochs": 2}, "tuner": {"trial_clocks": 4}}

    def test_links_lead_nowhere_else(self):
        """Named, in a pattern, in a folder: 422. The state folder, which lies
        in the data folder here, is none of a configuration's either."""
        (self.folder / "link.csv").symlink_to(self.outside)
        (self.folder / "set").mkdir()
        (self.folder / "set/link.csv").symlink_to(self.outside)
        for data in ("link.csv", "lin*.csv", "set", "set/*", ".mltune/token",
                     ".mltune", ".mltune/*"):
            answer = self.submit(self.config(data), status=422)
            self.assertEqual([e["pointer"] for e in answer["errors"]],
                             ["/app/data"], data)
            if data == "link.csv":
                self.assertIn("a link leads out of it: put the file itself",
                              json.dumps(answer))
        for data, pattern in (("../x.csv", False), ("s*/x.csv", True),
                              ("/etc/passwd", False)):
            answer = json.dumps(self.submit(self.config(data), status=422))
            self.assertEqual("which is a pattern" in answer, pattern, answer)
            self.assertNotIn("a link leads", answer)
        self.assertIn("lies in the data folder", self.said())

    def said(self):
        """What the service has said so far; it ends."""
        return self.end().err

    def test_a_file_that_becomes_a_link_is_not_read(self):
        """After it was looked at: the run ends, and says why."""
        (self.folder / "good.csv").write_text(self.outside.read_text())
        run = self.submit(self.config("good.csv"), "?held=true")
        (self.folder / "good.csv").unlink()
        (self.folder / "good.csv").symlink_to(self.outside)
        self.command(run, "continue")
        self.wait_until(lambda: self.says_why(run), "its end")

    def says_why(self, run):
        """That it has ended, and not as others do."""
        now = self.run_now(run)
        self.assertNotEqual(now["status"], "finished")
        return "leads out of" in json.dumps(now)


del Service  # its tests are test_serve's
