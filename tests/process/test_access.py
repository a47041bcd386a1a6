"""Who may read a service and a run on loopback: other accounts of the machine,
this user, a browser with the page's cookie."""
import http.client
import os
import pathlib
import subprocess
import threading
import time

import harness
import test_serve

NOBODY = 65534


def as_nobody(address, targets, seconds=0):
    """Statuses of GETs that another account makes, one after the other; again
    and again for some seconds."""
    program = (
        "import http.client, sys, time\n"
        "end = time.monotonic() + float(sys.argv[3])\n"
        "while True:\n"
        "    for target in sys.argv[4:]:\n"
        "        c = http.client.HTTPConnection(sys.argv[1],\n"
        "                                       int(sys.argv[2]), timeout=60)\n"
        "        c.request('GET', target)\n"
        "        print(c.getresponse().status)\n"
        "        c.close()\n"
        "    if time.monotonic() >= end: break\n")
    done = subprocess.run(
        ["/usr/bin/python3", "-c", program, address[0], str(address[1]),
         str(seconds), *targets], stdout=subprocess.PIPE, cwd="/", text=True,
        user=NOBODY, group=NOBODY, extra_groups=[], timeout=120, check=True)
    return [int(word) for word in done.stdout.split()]


HOLD = """
import socket, sys, time
held, said = [], []
for _ in range(int(sys.argv[4])):
    c = socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=60)
    c.sendall(b"GET " + sys.argv[3].encode() + b" HTTP/1.1\\r\\nHost: " +
              sys.argv[1].encode() + b":" + sys.argv[2].encode() +
              b"\\r\\n\\r\\n")
    said.append(c.recv(12).split()[1].decode())
    held.append(c)
print(*said, flush=True)
sys.stdin.readline()
"""


def held_by_nobody(address, target, n):
    """@n connections of another account that have asked for @target and do not
    close: the process that holds them, and the statuses that they got."""
    process = subprocess.Popen(
        ["/usr/bin/python3", "-c", HOLD, address[0], str(address[1]), target,
         str(n)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd="/",
        text=True, user=NOBODY, group=NOBODY, extra_groups=[])
    return process, [int(w) for w in process.stdout.readline().split()]


def need_root(case):
    """Only root can be another account. The gate is root; who is not sees that
    these tests have not been run."""
    if os.geteuid() != 0:
        case.fail("run this test as root: nobody else can be another account")


class Token(test_serve.Service):
    """As it is by default."""
    READ = ()

    def test_reads_need_the_token(self):
        """Of this user, too; but for the page and whether it lives. The verbs
        have the token from the state folder."""
        run = self.submit(harness.mlr_config(), "?held=true")
        for target, status in (("/", 200), ("/healthz", 200),
                               ("/readyz", 200), ("/version", 200),
                               ("/api/v1/runs", 401), ("/metrics", 401),
                               (f"/api/v1/runs/{run}/export?format=csv", 401),
                               (f"/api/v1/runs/{run}/model", 401),
                               (f"/api/v1/runs/{run}/events", 401),
                               ("/api/v1/openapi.json", 401),
                               ("/tables/weights/rows/0", 401),
                               ("/nowhere", 401)):
            connection = http.client.HTTPConnection(*self.address, timeout=60)
            connection.request("GET", target)
            self.assertEqual(connection.getresponse().status, status, target)
            connection.close()
        self.assertEqual(self.get("/api/v1/runs")["total"], 1)
        for words in (("ls",), ("show", run), ("trials", run)):
            self.assert_code(self.mltune(*words), 0)
        self.assertIn("held", self.mltune("ls").out)

    def test_the_page_by_its_one_time_address(self):
        """In Chromium: once, with a cookie that reads and that no script sees;
        then there is another address."""
        run = self.submit(harness.mlr_config())
        self.wait_for_status(run, "finished")
        file = self.folder / ".mltune/serve.page"
        self.assertEqual(file.stat().st_mode & 0o777, 0o600)
        url = f"http://127.0.0.1:{self.address[1]}/"
        first = file.read_text().strip()
        done = subprocess.run(
            ["node", str(harness.ROOT / "tests/browser/enter.js"), url,
             url + first, run], capture_output=True, text=True, timeout=120,
            env=self.env)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotEqual(file.read_text().strip(), first)
        said = self.end().err
        self.assertIn(f"the page, for one browser: {url}{first}", said)
        self.assertFalse(file.exists())

    def test_a_request_in_chunks_is_the_last(self):
        """Chunks may be read in several ways (the library takes bare line
        feeds): nothing that follows on the connection is read."""
        import socket
        head = ("POST /api/v1/runs:validate HTTP/1.1\r\n"
                f"Host: 127.0.0.1:{self.address[1]}\r\n"
                f"Authorization: Bearer {self.token}\r\n"
                "Content-Type: application/json\r\n"
                "Transfer-Encoding: chunked\r\n\r\n")
        more = (f"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1:{self.address[1]}"
                "\r\n\r\n")
        for body in ("2\r\n{}\r\n0\r\n\r\n", "2\n{}\n0\n\n"):
            with socket.create_connection(self.address, timeout=60) as c:
                c.sendall((head + body + more).encode())
                reply = b""
                try:
                    while chunk := c.recv(65536):
                        reply += chunk
                except ConnectionResetError:
                    pass
            self.assertLessEqual(reply.count(b"HTTP/1.1 "), 1, reply)
            self.assertNotIn(b'"status":"ok"', reply.replace(b" ", b""))


class User(test_serve.Service):
    """`--read user`, as a run's own server is by default."""

    def test_another_account_reads_nothing(self):
        """Of a service or a run: neither list, model nor export."""
        need_root(self)
        run = self.submit(test_serve.endless_config())
        self.wait_for_clock(run)
        url = (self.folder / f".mltune/runs/{run}/url").read_text()
        own = ("127.0.0.1", int(url.strip().rstrip("/").split(":")[-1]))
        targets = ("/api/v1/runs", f"/api/v1/runs/{run}",
                   "/api/v1/tables/weights/rows/0", "/metrics",
                   f"/api/v1/runs/{run}/export?format=csv",
                   f"/api/v1/runs/{run}/model",
                   f"/api/v1/runs/{run}/events")
        for address in (self.address, own):
            self.assertEqual(as_nobody(address, targets), [401] * len(targets))
            self.assertEqual(as_nobody(address, ("/", "/healthz")), [200, 200])
        # This user reads without the token.
        connection = http.client.HTTPConnection(*own, timeout=60)
        connection.request("GET", "/api/v1/runs")
        self.assertEqual(connection.getresponse().status, 200)
        connection.close()


    def http_used(self):
        """Seconds of processor time that the service's HTTP thread has used."""
        for task in pathlib.Path(f"/proc/{self.service.pid}/task").iterdir():
            if (task / "comm").read_text().strip() == "http":
                return int((task / "schedstat").read_text().split()[0]) / 1e9
        self.fail("the service has no HTTP thread")

    def test_a_flood_of_another_account_is_served_slowly(self):
        """As fast as it can ask: so many requests at once, then so many a
        second, each counted as a connection and a request. The thread that
        answers rests meanwhile; this user is answered."""
        need_root(self)
        got, begin, before = [], time.monotonic(), self.http_used()
        floods = [threading.Thread(target=lambda: got.extend(
            as_nobody(self.address, ("/api/v1/runs",), 3))) for _ in range(4)]
        for flood in floods:
            flood.start()
        time.sleep(1)
        self.assert_code(self.mltune("ls"), 0)
        for flood in floods:
            flood.join()
        seconds = time.monotonic() - begin
        self.assertEqual(set(got), {401})
        self.assertLessEqual(len(got), (500 + 100 * seconds) / 2 + 50)
        # Some 0.2 ms a request, more where others compete for the core: but
        # for the burst less than 5 % of it.
        self.assertLess(self.http_used() - before, 0.4 + 0.05 * seconds)


class Everyone(test_serve.Service):
    READ = ("--read", "everyone")

    def test_strangers_have_their_share_and_no_more(self):
        """Rows: a burst, then five a second over all of an account's
        connections, and the user has none less."""
        need_root(self)
        run = self.submit(test_serve.endless_config())
        self.wait_for_clock(run)
        row = f"/api/v1/tables/weights/rows/0?run={run}"
        got, begin = [], time.monotonic()
        readers = [threading.Thread(target=lambda: got.extend(
            as_nobody(self.address, (row,), 2))) for _ in range(4)]
        for reader in readers:
            reader.start()
        time.sleep(1)
        for _ in range(30):
            self.assertEqual(self.get(row)["table"], "weights")
        for reader in readers:
            reader.join()
        seconds = time.monotonic() - begin
        self.assertLessEqual(got.count(200), 21 + 5 * seconds)
        self.assertGreater(got.count(429), 0)
        self.assertEqual(set(got), {200, 429})

    def test_strangers_have_so_many_streams(self):
        """Streams count while they last; the user reads on beside them."""
        need_root(self)
        run = self.submit(test_serve.endless_config())
        self.wait_for_clock(run)
        process, got = held_by_nobody(
            self.address, f"/api/v1/runs/{run}/events", 67)
        try:
            self.assertEqual(got, [200] * 64 + [429] * 3)
            self.assertEqual(self.get(f"/api/v1/runs/{run}")["run"], run)
        finally:
            process.stdin.close()
            process.wait()
            process.stdout.close()

    def test_strangers_have_one_export(self):
        """While it is on its way; the user has others beside it."""
        need_root(self)
        run = self.submit(harness.mlr_config())
        self.wait_for_status(run, "finished")
        harness.lengthen(self.folder / ".mltune")
        export = f"/api/v1/runs/{run}/export?format=jsonl"
        process, got = held_by_nobody(self.address, export, 3)
        try:
            self.assertEqual(got, [200, 429, 429])
            self.assertEqual(self.ask("HEAD", export)[0], 200)
            process.stdin.close()
            process.wait()
            self.wait_until(lambda: as_nobody(self.address, (export,)) == [200],
                            "its place to be free")
        finally:
            process.stdin.close()
            process.wait()
            process.stdout.close()
