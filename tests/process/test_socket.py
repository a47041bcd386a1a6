"""The Unix socket of a service and of a run: the command line's way in, where the
token is not needed and other accounts are not let in."""
import fcntl
import http.client
import os
import signal
import socket
import ssl
import struct
import subprocess
import time

import harness
import test_serve
from test_access import NOBODY, need_root


class ByPath(http.client.HTTPConnection):
    """HTTP by a Unix socket."""

    def __init__(self, path):
        super().__init__("localhost", timeout=60)
        self.path = str(path)

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


def status_by(path, target="/api/v1/runs"):
    connection = ByPath(path)
    try:
        connection.request("GET", target)
        return connection.getresponse().status
    finally:
        connection.close()


# Connects to argv[1] and asks; prints what came of it.
ASK = """
import socket, sys
s = socket.socket(socket.AF_UNIX)
s.settimeout(60)
try:
    s.connect(sys.argv[1])
    s.sendall(b"GET /api/v1/runs HTTP/1.1\\r\\nHost: localhost\\r\\n\\r\\n")
    print("answer" if s.recv(100) else "hung up")
except PermissionError:
    print("refused")
except (BrokenPipeError, ConnectionResetError):
    print("hung up")
"""


def as_nobody(path):
    done = subprocess.run(
        ["/usr/bin/python3", "-c", ASK, str(path)], stdout=subprocess.PIPE,
        cwd="/", text=True, user=NOBODY, group=NOBODY, extra_groups=[],
        timeout=120, check=True)
    return done.stdout.strip()


class ServiceSocket(test_serve.Service):
    READ = ()

    def setUp(self):
        super().setUp()
        self.state = self.folder / ".mltune"
        self.path = self.state / "serve.sock"

    def test_verbs_need_no_token(self):
        """The folder has none: what looks and what steers goes by the socket,
        of the service and from there to the run."""
        (self.state / "token").unlink()
        self.write("c.json", test_serve.endless_config())
        done = self.mltune("submit", "c.json")
        self.assert_code(done, 0)
        run = done.out.split(":")[0]
        self.wait_for_clock(run)
        self.assert_code(self.mltune("pause", run), 0)
        self.wait_until(lambda: "paused" in self.mltune("ls").out,
                        "the run to pause")
        for words in (("show", run), ("trials", run), ("log", run),
                      ("continue", run), ("stop", run)):
            self.assert_code(self.mltune(*words), 0)
        self.wait_for_status(run, "stopped")
        # By the address, none of it.
        url = ("--server", f"http://127.0.0.1:{self.address[1]}")
        self.assert_code(self.mltune("ls", *url), 2)
        self.assertNotEqual(self.mltune("submit", "c.json", *url).code, 0)
        self.assertEqual(self.end().code, 143)
        self.assertFalse(self.path.exists())
        self.assert_nothing_left()

    def test_a_killed_services_socket_is_in_no_way(self):
        """It is left, nobody listens there; the next service takes its place."""
        self.submit(harness.mlr_config(), "?held=true")
        self.service.kill()
        self.finish(self.service)
        self.assertTrue(self.path.is_socket())
        self.assertIn("held", self.mltune("ls").out)
        config = self.write("c.json", harness.mlr_config())
        self.assert_code(self.mltune("submit", config), 69)
        self.launch()
        self.assertEqual(status_by(self.path), 200)
        self.assertIn("held", self.mltune("ls").out)

    def test_a_second_service_leaves_it_alone(self):
        """It is refused before it looks at the socket."""
        done = self.mltune("serve", "--listen", "127.0.0.1:0")
        self.assert_code(done, 74)
        self.assertIn("has the state folder", done.err)
        self.assertEqual(status_by(self.path), 200)

    def test_other_accounts_are_not_let_in(self):
        """By the mode of folder and file; and where these would, by the
        kernel's word about who connects."""
        need_root(self)
        self.assertEqual(self.path.stat().st_mode & 0o777, 0o600)
        self.assertEqual(as_nobody(self.path), "refused")
        self.folder.chmod(0o755)
        self.state.chmod(0o755)
        self.assertEqual(as_nobody(self.path), "refused")
        self.path.chmod(0o666)
        self.assertEqual(as_nobody(self.path), "hung up")
        self.assertEqual(status_by(self.path), 200)

    def test_idle_connections_end_no_other(self):
        """All its places are taken: the verbs go by the address."""
        held = []

        def hold():
            # 128 are in; as many and one more wait.
            while len(held) < 128 + 128 + 1:
                s = socket.socket(socket.AF_UNIX)
                s.setblocking(False)
                try:
                    s.connect(str(self.path))
                except BlockingIOError:
                    s.close()
                    return False
                held.append(s)
            return True
        self.wait_until(hold, "all places to be taken")
        self.assertEqual(self.ask("GET", "/api/v1/runs")[0], 200)
        self.assert_code(self.mltune("ls"), 0)
        for s in held:
            s.close()

        def free():
            try:
                return status_by(self.path) == 200
            except BlockingIOError:
                return False
        self.wait_until(free, "a place")


class Strangers(test_serve.Service):
    """Whoever binds the port of a service that was killed hears nothing."""
    READ = ()

    def listen(self):
        heard = socket.socket()
        self.addCleanup(heard.close)
        heard.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        heard.bind(tuple(self.address))
        heard.listen(16)
        heard.settimeout(2.5)
        return heard

    def test_a_dead_services_port_gets_nothing(self):
        """Not from a verb that follows a run there, nor from those that come
        later, although the folder still names the port."""
        run = self.submit(harness.mlr_config(), "?held=true")
        follower = self.start("log", run, "-f")
        time.sleep(1.5)
        self.assertIsNone(follower.poll(), "it waits for the log")
        self.service.kill()
        self.finish(self.service)
        heard = self.listen()
        state = self.folder / ".mltune"
        self.assertTrue((state / "serve.url").exists())
        # Somebody holds the lock, as a service that only begins does.
        with open(state / "serve.lock", "r+") as lock:
            fcntl.fcntl(lock, fcntl.F_OFD_SETLK,
                        struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 0, 0, 0))
            self.assertNotEqual(self.mltune("pause", run).code, 0)
            self.assert_code(self.mltune("ls"), 0)
            with self.assertRaises(socket.timeout):
                heard.accept()
        follower.terminate()
        self.finish(follower)


class Named(test_serve.Service):
    """A server that is named by its address gets the folder's token where it is
    one of the folder's, and lives."""
    READ = ()

    def told(self, heard, *words):
        """What a verb says to who listens there."""
        process = self.start(*words)
        connection, _ = heard.accept()
        connection.settimeout(60)
        head = b""
        while b"\r\n\r\n" not in head:
            some = connection.recv(4096)
            self.assertTrue(some, head)
            head += some
        connection.close()
        self.finish(process)
        return head

    def test_a_stranger_is_sent_no_token(self):
        """Nor one that has the port of a dead service, which the folder still
        names; who gives a token by hand has it sent."""
        run = self.submit(harness.mlr_config(), "?held=true")
        self.assert_code(self.mltune(
            "ls", "--server", f"http://127.0.0.1:{self.address[1]}"), 0)
        self.service.kill()
        self.finish(self.service)
        heard = socket.socket()
        self.addCleanup(heard.close)
        heard.settimeout(60)
        heard.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        heard.bind(tuple(self.address))
        heard.listen(16)
        url = f"http://127.0.0.1:{self.address[1]}/"
        self.assertIn(url.encode(), (self.folder / ".mltune/serve.url")
                      .read_bytes() + b"/")
        config = self.write("c.json", harness.mlr_config())
        for words in (("pause", run), ("ls",), ("show", run),
                      ("submit", config), ("doctor",)):
            head = self.told(heard, *words, "--server", url)
            self.assertNotIn(b"authorization", head.lower(), words)
        self.env["MLTUNE_TOKEN"] = ""  # as if it were not there
        for words in (("pause", run), ("ls",), ("submit", config),
                      ("doctor",)):
            head = self.told(heard, *words, "--server", url)
            self.assertNotIn(b"authorization", head.lower(), words)
        self.env["MLTUNE_TOKEN"] = "given-by-hand-0123456789"
        self.assertIn(b"Bearer given-by-hand",
                      self.told(heard, "pause", run, "--server", url))


    def test_a_good_certificate_makes_no_server_the_folders(self):
        """Another program's https address, which the user trusts: it hears what
        is asked, and no token but one that is given by hand."""
        harness.make_certificate(self.folder)
        self.env["MLTUNE_CACERT"] = str(self.folder / "cert.pem")
        run = self.submit(harness.mlr_config(), "?held=true")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.folder / "cert.pem",
                                self.folder / "key.pem")
        heard = context.wrap_socket(socket.create_server(("127.0.0.1", 0)),
                                    server_side=True)
        self.addCleanup(heard.close)
        heard.settimeout(60)
        url = f"https://127.0.0.1:{heard.getsockname()[1]}/"
        config = self.write("c.json", harness.mlr_config())
        for words in (("pause", run), ("ls",), ("show", run),
                      ("submit", config), ("doctor",)):
            head = self.told(heard, *words, "--server", url)
            self.assertNotIn(b"authorization", head.lower(), words)
        self.env["MLTUNE_TOKEN"] = "given-by-hand-0123456789"
        self.assertIn(b"Bearer given-by-hand",
                      self.told(heard, "pause", run, "--server", url))


class Elsewhere(harness.Case):
    """State folders where a socket is not a matter of course, and runs."""

    def begin(self, state, *words):
        service = self.start("serve", "--listen", "127.0.0.1:0", "--state",
                             state, *words)
        self.wait_until(lambda: (state / "serve.url").exists() and
                        self.mltune("ls", "--state", state).code == 0,
                        "the service")
        return service

    def test_where_no_socket_can_be(self):
        """The service says so, once, and the verbs use address and token."""
        state = self.folder / "state"
        (state / "serve.sock").mkdir(parents=True, mode=0o700)
        service = self.begin(state)
        config = self.write("c.json", harness.mlr_config())
        self.assert_code(self.mltune("submit", config, "--held", "--state",
                                     state), 0)
        self.assertIn("held", self.mltune("ls", "--state", state).out)
        (state / "token").unlink()
        done = self.mltune("submit", config, "--state", state)
        self.assertIn("token", done.err)
        self.assertNotEqual(done.code, 0)
        service.terminate()
        said = self.finish(service).err
        self.assertEqual(said.count("cannot listen at"), 1, said)
        self.assertIn("uses the address and the token", said)
        self.assertTrue((state / "serve.sock").is_dir())

    def test_a_path_longer_than_an_address(self):
        """Of 300 bytes and more."""
        state = self.folder / ("d" * 120) / ("e" * 120) / "state"
        service = self.begin(state)
        self.assertTrue((state / "serve.sock").is_socket())
        (state / "token").unlink()
        config = self.write("c.json", harness.mlr_config())
        self.assert_code(self.mltune("submit", config, "--held", "--state",
                                     state), 0)
        service.terminate()
        self.finish(service)
        self.assertFalse((state / "serve.sock").exists())

    def test_a_run_of_its_own(self):
        """Its socket is in its folder; a killed one's is in no way of its
        resume."""
        run = self.start("run", self.write("c.json",
                                           harness.endless_config()))
        self.wait_for_training()
        path, = self.folder.glob(".mltune/runs/*/http.sock")
        self.assertEqual(path.stat().st_mode & 0o777, 0o600)
        (self.folder / ".mltune/token").unlink()
        self.assert_code(self.mltune("pause", "endless"), 0)
        self.assert_code(self.mltune("continue", "endless"), 0)
        run.kill()
        self.finish(run)
        self.assertTrue(path.is_socket())
        run = self.start("resume", "endless")
        self.wait_until(lambda: self.mltune("pause", "endless").code == 0,
                        "the resumed run")
        self.assertEqual(status_by(path), 200)
        run.send_signal(signal.SIGTERM)
        self.assert_code(self.finish(run), 143)
        self.assert_nothing_left()
