"""The HTTP side of `mltune run`, as a client meets it while a job trains."""
import http.client
import json
import re
import resource
import selectors
import signal
import socket
import subprocess
import time

import harness
from harness import ROOT, Case, endless_config, mlr_config


class Served(Case):
    """A run that goes on until the test has seen enough of it."""

    def setUp(self):
        super().setUp()
        self.write("config.json", self.config())
        self.process = self.start("run", "config.json")
        self.address = self.wait_until(self.find_address, "the address")
        self.addCleanup(self.end)

    def config(self):
        return endless_config()

    def find_address(self):
        """Host and port as the run's log has them."""
        for log in self.folder.glob(".mltune/runs/*/log"):
            found = re.search(r"url=http://(127\.0\.0\.1):(\d+)/",
                              log.read_text())
            if found:
                return found.group(1), int(found.group(2))
        self.assertIsNone(self.process.poll(), "the run has ended")
        return None

    def end(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        self.finish(self.process)

    # ---- a client --------------------------------------------------------

    def ask(self, target, method="GET", headers=None, body=None):
        connection = http.client.HTTPConnection(*self.address, timeout=30)
        try:
            connection.request(method, target, body, headers or {})
            reply = connection.getresponse()
            return reply.status, reply.headers, reply.read()
        finally:
            connection.close()

    def get(self, target, status=200):
        code, headers, body = self.ask(target)
        self.assertEqual(code, status, body)
        self.assertEqual(headers["X-Content-Type-Options"], "nosniff")
        return json.loads(body)

    def raw(self, request):
        """Everything that the server says to these bytes until it closes."""
        reply = b""
        with socket.create_connection(self.address, timeout=30) as connection:
            connection.sendall(request)
            try:
                while chunk := connection.recv(65536):
                    reply += chunk
            except ConnectionResetError:
                pass
        return reply

    def run_id(self):
        return self.get("/api/v1/runs")["runs"][0]["run"]

    def wait_for_clock(self, past=0):
        """The run, once it has trained past that clock."""
        target = f"/api/v1/runs/{self.run_id()}"

        def look():
            run = self.get(target)
            return run if run["clocks"] > past else None
        return self.wait_until(look, f"clock {past}")


class Reading(Served):
    def test_a_run_from_its_first_trial(self):
        """Runs, trials, branches, progress and slices tell one story."""
        run = self.wait_for_clock()
        base = f"/api/v1/runs/{run['run']}"
        self.assertEqual(run["name"], "endless")
        self.assertEqual(run["job"]["app"], "mlr")
        self.assertIn(run["status"], ("tuning", "training"))
        trial = self.wait_until(
            lambda: next(iter(self.get(base + "/trials")["trials"]), None),
            "a trial")
        self.assertIn("learning_rate", trial["setting"])
        self.assertEqual(self.get(f"{base}/trials/{trial['trial']}")["branch"],
                         trial["branch"])
        branch = self.get(f"{base}/branches/{trial['branch']}")
        self.assertEqual(branch["role"], "trial")

        def points():
            answer = self.get(
                f"{base}/branches/{trial['branch']}/progress?max_points=5")
            return answer["points"]
        found = self.wait_until(points, "progress")
        self.assertLessEqual(len(found), 5)
        for point in found:
            self.assertGreater(point["samples"], 0)
            self.assertIn("loss", point)
        slices = self.get(base + "/slices?page_size=1000")["slices"]
        ends = [s["first_clock"] + s["scheduled_clocks"] for s in slices]
        self.assertEqual([s["first_clock"] for s in slices[1:]], ends[:-1],
                         "every clock belongs to exactly one branch")
        self.wait_until(lambda: self.get(base + "/decisions")["total"] > 0,
                        "a decision")

    def test_pages_cover_the_list(self):
        """Page by page, the branches are those of one large page."""
        self.wait_for_clock(past=20)
        target = f"/api/v1/runs/{self.run_id()}/branches"
        seen, token = [], None
        while True:
            page = self.get(target + "?page_size=2" +
                            (f"&page_token={token}" if token else ""))
            seen += [b["branch"] for b in page["branches"]]
            token = page["next_page_token"]
            if token is None or len(seen) > 200:
                break
        whole = self.get(target + "?page_size=1000")["branches"]
        self.assertEqual(seen, [b["branch"] for b in whole][:len(seen)])
        self.assertEqual(seen, sorted(set(seen)))

    def test_the_program_about_itself(self):
        """Health, version, plug-ins, schema; the page with its parts."""
        self.assertEqual(self.get("/healthz"), {"status": "ok"})
        self.assertEqual(self.get("/readyz"), {"status": "ready"})
        version = self.mltune("--version")
        self.assertIn(self.get("/version")["version"], version.out)
        names = [s["name"] for s in self.get("/api/v1/searchers")["searchers"]]
        self.assertIn("random", names)
        names = [s["name"]
                 for s in self.get("/api/v1/strategies")["strategies"]]
        self.assertIn("mltuner", names)
        names = [a["name"] for a in self.get("/api/v1/apps")["apps"]]
        self.assertIn("mlr", names)
        self.assertEqual(self.get("/api/v1/schema"),
                         json.loads(self.mltune("schema").out))
        for target, kind in (("/", "text/html"), ("/web/app.js", "javascript"),
                             ("/web/style.css", "text/css")):
            code, headers, body = self.ask(target)
            self.assertEqual(code, 200)
            self.assertIn(kind, headers["Content-Type"])
            self.assertGreater(len(body), 200)

    def test_openapi_is_valid(self):
        """By a validator that is not ours."""
        document = self.get("/api/v1/openapi.json")
        self.assertEqual(document, self.get("/openapi.json"))
        done = subprocess.run(
            ["node", str(ROOT / "tests/browser/openapi.mjs")],
            input=json.dumps(document), capture_output=True, text=True,
            timeout=120, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_metrics_pass_promtool(self):
        """What Prometheus's own checker says of /metrics: nothing."""
        self.wait_for_clock()
        code, headers, body = self.ask("/metrics")
        self.assertEqual(code, 200)
        self.assertEqual(headers["Content-Type"],
                         "text/plain; version=0.0.4; charset=utf-8")
        self.assertIn(b"mltune_run_clocks_total", body)
        done = subprocess.run(["promtool", "check", "metrics"], input=body,
                              capture_output=True, check=False)
        self.assertEqual((done.returncode, done.stdout, done.stderr),
                         (0, b"", b""))

    def test_head_and_other_methods(self):
        """HEAD is GET without the body; the rest is refused with Allow."""
        code, headers, body = self.ask("/api/v1/searchers", "HEAD")
        self.assertEqual((code, body), (200, b""))
        self.assertGreater(int(headers["Content-Length"]), 20)
        for method in ("POST", "PUT", "PATCH", "DELETE", "OPTIONS"):
            code, headers, _ = self.ask("/api/v1/apps", method)
            self.assertEqual((code, headers["Allow"]), (405, "GET, HEAD"))

    def test_the_end_closes_the_port(self):
        """Clients that stay connected hold nothing up."""
        silent = socket.create_connection(self.address, timeout=30)
        idle = http.client.HTTPConnection(*self.address, timeout=30)
        idle.request("GET", "/healthz")
        self.assertEqual(idle.getresponse().read(), b'{"status":"ok"}')
        half = socket.create_connection(self.address, timeout=30)
        half.sendall(b"GET / HTTP/1.1\r\n")
        self.wait_for_clock()
        self.process.send_signal(signal.SIGINT)
        self.assert_code(self.finish(self.process), 130)
        self.assertEqual(idle.sock.recv(1), b"")
        with self.assertRaises((ConnectionResetError, BrokenPipeError)):
            silent.sendall(b"G")
            silent.recv(1)
        silent.close()
        half.close()
        idle.close()
        with self.assertRaises(ConnectionRefusedError):
            socket.create_connection(self.address, timeout=30)
        self.assert_nothing_left()


class Described(Served):
    """A run on a table with texts and missing values."""

    def config(self):
        self.write("t.csv", "age,plan,kind\n" + "".join(
            f"{'?' if k % 10 == 0 else k},{'pro' if k % 3 else 'basic'},"
            f"{'yes' if k % 4 else 'no'}\n" for k in range(400)))
        config = endless_config()
        config["app"] = {"name": "mlr", "data": "t.csv", "test": "t.csv"}
        return config

    def test_the_data_are_told(self):
        path = "/api/v1/runs/" + self.run_id()
        told = self.wait_until(lambda: self.get(path + "/data")["data"],
                               "what the data hold")
        self.assertEqual((told["kind"], told["samples"], told["missing"]),
                         ("table", 400, 40))
        age, plan, kind = told["columns"]
        self.assertEqual((age["kind"], age["missing"], age["max"]),
                         ("number", 40, 399.0))
        self.assertEqual(plan, {"name": "plan", "kind": "category",
                                "missing": 0, "categories": 2})
        self.assertEqual(kind["classes"], [{"name": "no", "samples": 100},
                                           {"name": "yes", "samples": 300}])


class RatingsDescribed(Served):
    def config(self):
        return harness.mf_config(max_epochs=1000000, plateau_epochs=1000000)

    def test_ratings_are_told(self):
        """Those for training: a tenth is split off."""
        path = "/api/v1/runs/" + self.run_id()
        told = self.wait_until(lambda: self.get(path + "/data")["data"],
                               "what the data hold")
        self.assertEqual(told["kind"], "ratings")
        self.assertTrue(8500 < told["samples"] < 9500, told)
        self.assertTrue(0 < told["users"] <= 300 and 0 < told["items"] <= 200)
        self.assertLess(told["min"], told["mean"])
        self.assertLess(told["mean"], told["max"])


class DocumentsDescribed(Served):
    def config(self):
        return {"name": "topics", "tunables": {},
                "app": {"name": "lda", "topics": 4, "test_fraction": 0.2,
                        "data": "gen:bow?docs=100&words=50&tokens=4000&topics=4"},
                "stop": {"max_epochs": 1000000, "plateau_epochs": 1000000}}

    def test_documents_are_told(self):
        path = "/api/v1/runs/" + self.run_id()
        told = self.wait_until(lambda: self.get(path + "/data")["data"],
                               "what the data hold")
        self.assertEqual((told["kind"], told["samples"], told["words"]),
                         ("documents", 80, 50))
        self.assertGreaterEqual(told["tokens"], told["entries"])


class Hostile(Served):
    def assert_trains_on(self):
        before = self.wait_for_clock()["clocks"]
        self.wait_for_clock(past=before)

    def test_pages_of_other_sites(self):
        """Neither their origin nor a name that they point at us gets in."""
        for headers in ({"Origin": "https://evil.example"},
                        {"Origin": "null"},
                        {"Sec-Fetch-Site": "cross-site"}):
            for method in ("GET", "POST", "PUT", "PATCH", "DELETE"):
                code, answer, _ = self.ask("/api/v1/runs", method, headers)
                self.assertEqual(code, 403)
                self.assertNotIn("Access-Control-Allow-Origin", answer)
        code, _, _ = self.ask("/", headers={"Host": "evil.example"})
        self.assertEqual(code, 421)
        self.assert_trains_on()

    def test_malformed_requests(self):
        """Answered 400 and closed, or just closed; the run goes on."""
        host = b"Host: 127.0.0.1:%d\r\n" % self.address[1]
        for request in (
                b"GET / HTTP/1.1\r\n" + host + host + b"\r\n",
                b"GET /\0 HTTP/1.1\r\n" + host + b"\r\n",
                b"GET /%00 HTTP/1.1\r\n" + host + b"\r\n",
                b"GET / HTTP/1.1\r\n" + host + b" folded\r\n\r\n",
                b"GET / HTTP/1.1\n" + host + b"\n",
                b"POST / HTTP/1.1\r\n" + host +
                b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
                b"POST / HTTP/1.1\r\n" + host +
                b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n"):
            reply = self.raw(request)
            self.assertTrue(reply.startswith(b"HTTP/1.1 400"), reply[:80])
        for request in (b"\xff" * 100000,
                        b"GET /" + b"a" * 100000,
                        b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 10000):
            self.assertNotIn(b" 200 ", self.raw(request + b"\r\n\r\n"))
        self.assertEqual(self.get("/healthz"), {"status": "ok"})
        self.assert_trains_on()

    def test_slow_clients(self):
        """Clients that dribble, more than there are places for, are cut;
        others are served."""
        attackers = selectors.DefaultSelector()
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        if most < 2000:
            self.fail("fewer than 2000 files may be open: ulimit -Hn 2000")
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
        for _ in range(750):
            connection = socket.create_connection(self.address, timeout=30)
            connection.setblocking(False)
            connection.send(b"GET / HTTP/1.1\r\nX-Slow: ")
            attackers.register(connection, selectors.EVENT_READ)
        worst, end = 0.0, time.monotonic() + 6
        while time.monotonic() < end:
            began = time.monotonic()
            self.assertEqual(self.get("/healthz"), {"status": "ok"})
            worst = max(worst, time.monotonic() - began)
            for key in list(attackers.get_map().values()):
                try:
                    key.fileobj.send(b"x")
                except OSError:
                    attackers.unregister(key.fileobj)
                    key.fileobj.close()
            time.sleep(0.2)
        left = len(attackers.get_map())
        for key in list(attackers.get_map().values()):
            key.fileobj.close()
        self.assertLess(left, 560, "attackers hold their places")
        self.assertLess(worst, 5, "others had to wait")
        self.assert_trains_on()


class FixedAddress(Case):
    def test_listen_on_a_given_port(self):
        """The result names the address that was asked for."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            address = f"127.0.0.1:{free.getsockname()[1]}"
        done = self.run_config(mlr_config(), "--listen", address, "--json")
        self.assert_code(done, 0)
        self.assertEqual(done.result["url"], f"http://{address}/")
