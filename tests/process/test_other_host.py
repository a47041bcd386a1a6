"""Another host, while two nodes train over TCP: a network namespace with a cable
to this one. Nothing is joined or read from there, and what is sent at full speed
costs bounded memory and descriptors, and changes no loss. While they train nobody
else can connect to them at all.

It needs root, and `ip` that makes namespaces: what cannot be asked there fails.
"""
import os
import pathlib
import re
import shutil
import subprocess
import time

import floods
import harness
from test_meet import Nodes, Tuner, free_port

KEY = "5eed" * 16
MEMORY_MAX = 128 << 20
FILES_MAX = 4096
# 5 s without a sign of life, 8 s to come back, and what a machine at work adds.
GONE_S = 5 + 8 + 12

# What the other host does: argv are its source address, seconds, the place
# where nodes meet, and addresses of data ports. Says when some of its connections
# are there, from when on the seconds count, and at the end how much it did and got.
STRANGER = """
import socket, struct, sys, time
import zmq
from zmq.utils import z85
source, seconds, place, lie = sys.argv[1], float(sys.argv[2]), *sys.argv[3:5]
ports = [a.rpartition("//")[2].rpartition(":") for a in sys.argv[5:]]
GREETING = (b"\\xff" + bytes(8) + b"\\x7f\\x03\\x00" + b"NULL".ljust(20, b"\\0")
            + bytes(32))
READY = b"\\x04\\x1a\\x05READY\\x0bSocket-Type\\x00\\x00\\x00\\x04PUSH"
CURVE = GREETING.replace(b"NULL".ljust(20, b"\\0"), b"CURVE".ljust(20, b"\\0"))
kinds = [b"\\xff" * 65536, b"GET / HTTP/1.1\\r\\n", GREETING + READY,
         GREETING[:40], CURVE + b"\\x04\\xff" + b"\\x05HELLO" * 40, b"",
         b"\\x03" + struct.pack(">Q", 1 << 20) + bytes(1 << 16)]
context = zmq.Context()
liars = []
for key in (None, "bad0" * 16):
    s = context.socket(zmq.DEALER)
    if key:
        secret = z85.encode(bytes.fromhex(key))
        s.curve_secretkey = secret
        s.curve_publickey = s.curve_serverkey = zmq.curve_public(secret)
    s.setsockopt(zmq.LINGER, 0)
    s.connect(place)
    s.send(lie.encode())
    liars.append(s)
made, got, answers, held, there = 0, 0, 0, [], 0
end = None
def drop(s):
    global got
    try:
        while True:
            n = len(s.recv(65536))
            got = max(got, n)
            if n == 0:
                break
    except OSError:
        pass
    s.close()
while end is None or time.monotonic() < end:
    if end is None and there >= 20:
        print("there", flush=True)
        end = time.monotonic() + seconds
    _, _, port = ports[made % len(ports)]
    host = ports[made % len(ports)][0]
    s = socket.socket()
    s.settimeout(0.02)
    try:
        s.bind((source, 0))
        s.connect((host, int(port)))
        s.setblocking(False)
        there += 1
        s.send(kinds[made % len(kinds)])
    except OSError:
        pass
    made += 1
    held.append(s)
    if len(held) > 100:
        drop(held.pop(0))
for s in held:
    drop(s)
for s in liars:
    answers += s.poll(0)
    s.close()
context.term()
print(made, there, got, answers)
"""

PORTS = """
import socket, sys
for port in map(int, sys.argv[2:]):
    s = socket.socket()
    s.settimeout(1)
    try:
        s.connect((sys.argv[1], port))
        print(port)
    except OSError:
        pass
    s.close()
"""

# Connections that are tried as fast as can be, as many at once as may be open:
# argv are seconds and addresses. Says how many were tried, and got through.
FLOOD = """
import select, socket, sys, time
ports = [a.rpartition("//")[2].rpartition(":") for a in sys.argv[2:]]
made, there, held = 0, 0, []
end = time.monotonic() + float(sys.argv[1])
while time.monotonic() < end:
    host, _, port = ports[made % len(ports)]
    s = socket.socket()
    s.setblocking(False)
    s.connect_ex((host, int(port)))
    held.append(s)
    made += 1
    if len(held) == 900:
        poll = select.poll()
        for s in held:
            poll.register(s, select.POLLOUT)
        there += len(poll.poll(0))
        for s in held:
            s.close()
        held = []
print(made, there)
"""


class Cable:
    """Another host: ours is @here, its own @there. @enter begins a command that
    runs on it."""

    def __init__(self, mark):
        number = os.getpid() % 250
        self.name, self.far = f"mlt-{mark[:8]}", f"vb{mark[:8]}"
        self.here, self.there = f"10.213.{number}.1", f"10.213.{number}.2"
        near, far = f"va{mark[:8]}", self.far
        try:
            for words in (f"netns add {self.name}",
                          f"link add {near} type veth peer name {far} "
                          f"netns {self.name}",
                          f"addr add {self.here}/30 dev {near}",
                          f"link set {near} up",
                          f"-n {self.name} addr add {self.there}/30 dev {far}",
                          f"-n {self.name} link set {far} up"):
                subprocess.run(["ip", *words.split()], check=True,
                               capture_output=True, timeout=60)
            self.enter = ["ip", "netns", "exec", self.name]
        except (OSError, subprocess.SubprocessError) as e:
            self.remove()
            said = getattr(e, "stderr", None) or b""
            raise AssertionError(
                "no other host can be made: run this as root where `ip netns "
                f"add` works ({e} {said.decode().strip()})") from e

    def plug(self, in_or_out):
        subprocess.run(["ip", "-n", self.name, "link", "set", self.far,
                        "up" if in_or_out else "down"], check=True, timeout=60)

    def mute(self, ours):
        """From here on nothing that we (or the other host) send arrives, and nobody
        is told: it goes to a card that is not there."""
        where = ([], "va" + self.far[2:], self.there) if ours else (
            ["-n", self.name], self.far, self.here)
        subprocess.run(["ip", *where[0], "neigh", "replace", where[2], "lladdr",
                        "02:00:00:00:00:01", "dev", where[1], "nud",
                        "permanent"], check=True, timeout=60)

    def heal(self):
        """Of being mute."""
        for place, card, whom in (([], "va" + self.far[2:], self.there),
                                  (["-n", self.name], self.far, self.here)):
            subprocess.run(["ip", *place, "neigh", "flush", "to", whom, "dev",
                            card, "nud", "all"], check=True, timeout=60)

    def remove(self):
        if shutil.which("ip"):
            subprocess.run(["ip", "netns", "del", self.name], check=False,
                           capture_output=True, timeout=60)


class OtherHost(Nodes):
    def setUp(self):
        super().setUp()
        self.env["MLTUNE_KEY"] = KEY
        self.bound_quarantine()
        self.cable = Cable(self.mark)
        self.addCleanup(self.cable.remove)
        self.place = f"tcp://{self.cable.here}:{free_port()}"
        self.data = [f"tcp://{self.cable.here}:{free_port(after)}"
                     for after in (1, 2)]

    def stranger(self, seconds):
        lie = f"mltune-meet 1 report 1 2 00000000deadbeef tcp://{self.cable.there}:9"
        return subprocess.Popen(
            [*self.cable.enter, "/usr/bin/python3", "-c", STRANGER,
             self.cable.there, str(seconds), self.place, lie, *self.data],
            stdout=subprocess.PIPE, text=True)

    def figures(self, stranger):
        out, _ = stranger.communicate(timeout=120)
        self.assertEqual(stranger.returncode, 0)
        return map(int, out.split())

    def status(self, node, what):
        text = pathlib.Path(f"/proc/{node.pid}/status").read_text()
        return int(re.search(what + r":\s+(\d+)", text).group(1))

    def files(self, node):
        return len(os.listdir(f"/proc/{node.pid}/fd"))

    def losses(self, attacked):
        """Of some slices, from a start, with a stranger or without."""
        stranger = self.stranger(2) if attacked else None
        nodes = [self.start_node(0, "--listen", self.data[0])]
        self.send_config(self.tuner, 2)
        if stranger:
            self.assertEqual(stranger.stdout.readline(), "there\n")
        nodes.append(self.start_node(1, "--listen", self.data[1]))
        self.send_config_to_last()
        self.assertEqual([a["kind"] for a in self.tuner.answers()],
                         ["ready", "ready"])
        before = [self.status(node, "VmHWM") << 10 for node in nodes]
        self.tuner.ask("fork", branch=1, parent=0, type="training",
                       setting={"learning_rate": 0.1})
        losses, first = [], 0
        while first < 60 or (attacked and stranger.poll() is None):
            self.tuner.tell("schedule", branch=1, first=first, count=20,
                            report_every=20)
            done, slice_losses = 0, []
            while done < len(nodes):
                message = self.tuner.receive()
                if message["kind"] == "report":
                    slice_losses += message["sum"]
                else:
                    self.assertEqual(message["kind"], "done", message)
                    done += 1
            losses.append(sorted(map(str, slice_losses)))
            first += 20
            for node, was in zip(nodes, before):
                self.assertLess(self.status(node, "VmHWM") << 10,
                                was + MEMORY_MAX)
                self.assertLess(self.files(node), FILES_MAX)
        if attacked:
            made, there, got, answers = self.figures(stranger)
            self.assertGreater(made, 40)
            self.assertGreaterEqual(there, 20)
            self.assertLessEqual(got, 64)  # a greeting, and not a byte more
            self.assertEqual(answers, 0)
        ports = [int(a.rpartition(":")[2]) for a in (self.place, *self.data)]
        done = subprocess.run(
            [*self.cable.enter, "/usr/bin/python3", "-c", PORTS,
             self.cable.here, *map(str, ports)], stdout=subprocess.PIPE,
            text=True, timeout=120, check=True)
        self.assertEqual(done.stdout, "")
        self.end(*nodes)
        return losses[:3]

    def test_nothing_joined_read_or_changed(self):
        """The stranger is first at the place where nodes meet, and sends all the
        while: the nodes find each other, and the losses are those of a run
        that nobody disturbs, to the bit."""
        quiet = self.losses(False)
        self.tuner.close()
        self.tuner = type(self.tuner)()
        self.assertEqual(self.losses(True), quiet)
        self.assertEqual(len(quiet), 3)

    def network_threads(self, node):
        """What ZeroMQ's own threads and the gate's have done: how often they
        were woken, and seconds of processor time."""
        woken, used = 0, 0
        for task in pathlib.Path(f"/proc/{node.pid}/task").iterdir():
            if (task / "comm").read_text().startswith(("ZMQbg", "gate")):
                status = (task / "status").read_text()
                woken += int(re.search(r"\nvoluntary_ctxt_switches:\s+(\d+)",
                                       status).group(1))
                used += int((task / "schedstat").read_text().split()[0]) / 1e9
        return woken, used

    def test_nothing_is_slowed_by_whoever_knocks(self):
        """Of thousands of connections that the other host tries while the nodes
        have nothing to do, none gets through, and no thread is woken for one."""
        nodes = [self.start_node(i, "--listen", address)
                 for i, address in enumerate(self.data)]
        self.configure()
        self.tuner.ask("fork", branch=1, parent=0, type="training",
                       setting={"learning_rate": 0.1})
        self.tuner.ask("schedule", branch=1, first=0, count=3, report_every=3)
        before = [self.network_threads(node) for node in nodes]
        done = subprocess.run(
            [*self.cable.enter, "/usr/bin/python3", "-c", FLOOD, "1",
             *self.data], stdout=subprocess.PIPE, text=True, timeout=120,
            check=True)
        made, there = map(int, done.stdout.split())
        self.assertGreater(made, 1000)
        self.assertEqual(there, 0)
        for node, was in zip(nodes, before):
            woken, used = (now - then for now, then in
                           zip(self.network_threads(node), was))
            self.assertLess(woken, made / 10)
            self.assertLess(used, 0.05)
        self.end(*nodes)

    def test_nothing_is_slowed_while_they_train(self):
        """Each kind of flood at the ports of both, while slices run: none gets
        through, so that no thread but the gate's could be woken, and that one
        takes less than its share of a core."""
        nodes = [self.start_node(i, "--listen", address)
                 for i, address in enumerate(self.data)]
        self.configure()
        self.tuner.ask("fork", branch=1, parent=0, type="training",
                       setting={"learning_rate": 0.1})
        self.first = 0

        def train():
            answers = self.tuner.ask("schedule", branch=1, first=self.first,
                                     count=20, report_every=20)
            self.assertEqual([a["kind"] for a in answers], ["done", "done"])
            self.first += 20

        train()
        flood = floods.Flood("plain", [a.rpartition("//")[2] for a in self.data],
                             enter=self.cable.enter)
        self.addCleanup(flood.close)
        for kind in ("connect", "hold", "bytes", "ask"):
            self.assertEqual(0, floods.ask_the_share(
                self, flood, lambda: sum(floods.used(node.pid, ["gate"])
                                         for node in nodes), kind,
                meanwhile=train))
        self.assertGreater(self.first, 20)
        self.end(*nodes)

    def start_there(self, number, *words):
        """A node on the other host."""
        node = subprocess.Popen(
            [*self.cable.enter, harness.MLTUNE, "node", "--tuner",
             self.tuner.endpoint, "--node", str(number), "--meet", self.place,
             *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, env=self.env, cwd=self.folder)
        self.assertEqual(self.tuner.receive()["kind"], "hello")
        return node

    def slices_over_the_cable(self, out_s):
        """Sums of some slices; the cable is out for a while in the midst of one.
        And what the nodes said."""
        nodes = [self.start_node(0, "--listen", self.data[0]),
                 self.start_there(1, "--listen", f"tcp://{self.cable.there}:"
                                  f"{self.data[1].rpartition(':')[2]}")]
        self.assertEqual([a["kind"] for a in self.configure()],
                         ["ready", "ready"])
        self.tuner.ask("fork", branch=1, parent=0, type="training",
                       setting={"learning_rate": 0.1})
        sums = []
        for first in range(0, 4000, 1000):
            self.tuner.tell("schedule", branch=1, first=first, count=1000,
                            report_every=100)
            if out_s and first == 2000:
                time.sleep(0.02)
                self.cable.plug(False)
                time.sleep(out_s)
                self.cable.plug(True)
            done = 0
            while done < len(nodes):
                message = self.tuner.receive()
                if message["kind"] == "report":
                    sums += map(str, message["sum"])
                else:
                    self.assertEqual(message["kind"], "done", message)
                    done += 1
        self.tuner.ask("stop", reason="test")
        said = ""
        for node in nodes:
            ended = self.finish(node, 60)
            self.assert_code(ended, 0)
            said += ended.err
        return sorted(sums), said

    def test_a_cable_is_out_for_a_while(self):
        """Longer than a node waits for a sign of life: connections are cut, and
        made again; no node ends, and no loss changes."""
        expected, said = self.slices_over_the_cable(0)
        self.assertNotIn("nodes_connected_again", said)
        self.tuner.close()
        self.tuner = Tuner()
        sums, said = self.slices_over_the_cable(7)
        self.assertEqual(sums, expected)
        self.assertIn("nodes_connected_again", said)

    def start_pair(self):
        nodes = [self.start_node(0, "--listen", self.data[0]),
                 self.start_there(1, "--listen", f"tcp://{self.cable.there}:"
                                  f"{self.data[1].rpartition(':')[2]}")]
        self.assertEqual([a["kind"] for a in self.configure()],
                         ["ready", "ready"])
        return nodes

    def slice_of(self, branch, first):
        """Sums of 200 clocks."""
        self.tuner.tell("schedule", branch=branch, first=first, count=200,
                        report_every=20)
        sums, done = [], 0
        while done < 2:
            message = self.tuner.receive()
            if message["kind"] == "report":
                sums += map(str, message["sum"])
            else:
                self.assertEqual(message["kind"], "done", message)
                done += 1
        return sorted(sums)

    def falls_silent(self, ours, snapshot):
        """A pair trains, and one of them is heard no more; returns what slices
        after the snapshot came to."""
        nodes = self.start_pair()
        self.tuner.ask("fork", branch=1, parent=0, type="training",
                       setting={"learning_rate": 0.1})
        self.slice_of(1, 0)
        self.tuner.ask("fork", branch=2, parent=1, type="kept",
                       setting={"learning_rate": 0.1})
        self.tuner.ask("snapshot", branch=2, path=snapshot)
        sums = self.slice_of(1, 200)
        # While there is nothing to do nothing is missed.
        self.tuner.tell("schedule", branch=1, first=400, count=10000000,
                        report_every=10000)
        begin = time.monotonic()
        self.cable.mute(ours)
        for i, node in enumerate(nodes):
            done = self.finish(node, 60)
            self.assert_code(done, 1)
            self.assertIn(f"node {1 - i} is gone: the connection was lost, and "
                          "did not come back within 8 s", done.err)
        self.assertLess(time.monotonic() - begin, GONE_S)
        self.cable.heal()
        return sums

    def test_one_direction_falls_silent(self):
        """What one of the hosts sends is lost, and nobody is told: both nodes say
        so and end in time. Others go on from the snapshot, to the bit."""
        for ours in True, False:
            snapshot = str(self.folder / f"snapshot-{ours}")
            expected = self.falls_silent(ours, snapshot)
            self.tuner.close()
            self.tuner = Tuner()
            nodes = self.start_pair()
            self.tuner.ask("restore", branch=3, path=snapshot)
            self.tuner.ask("fork", branch=4, parent=3, type="training",
                           setting={"learning_rate": 0.1})
            self.assertEqual(self.slice_of(4, 200), expected)
            self.end(*nodes)
            self.tuner.close()
            self.tuner = Tuner()

    def test_a_run_listens_on_no_other_address(self):
        """By default: of all that a run of two nodes listens on, the other host
        reaches nothing."""
        from harness import endless_config
        config = endless_config()
        config["cluster"] = {"nodes": 2, "workers": 1}
        config["app"]["data"] = "gen:digits?samples=2000&size=8"
        run = self.start("run", self.write("c.json", config))
        self.wait_for_training()
        ports = set()
        inodes = set()
        for pid in (run.pid, *self.nodes_of(run)):
            for fd in pathlib.Path(f"/proc/{pid}/fd").iterdir():
                try:
                    inodes.update(re.findall(r"socket:\[(\d+)\]",
                                             os.readlink(fd)))
                except OSError:
                    continue
        for table in ("tcp", "tcp6"):
            for line in pathlib.Path(f"/proc/net/{table}").read_text(
                    ).splitlines()[1:]:
                words = line.split()
                if words[3] == "0A" and words[9] in inodes:
                    ports.add((words[1].rpartition(":")[0],
                               int(words[1].rpartition(":")[2], 16)))
        self.assertEqual({host for host, _ in ports}, {"0100007F"})
        done = subprocess.run(
            [*self.cable.enter, "/usr/bin/python3", "-c", PORTS,
             self.cable.here, *(str(p) for _, p in ports)],
            stdout=subprocess.PIPE, text=True, timeout=120, check=True)
        self.assertEqual(done.stdout, "")
        run.terminate()
        self.finish(run)
        self.assert_nothing_left()
