"""Another account of the machine, while a run of two nodes and a service train:
it reads nothing of them, reaches none of their sockets, and what it sends at
full speed costs bounded memory and changes no result.

Which files, sockets and processes there are is looked up, not listed: what is
new is asked for, too."""
import json
import os
import pathlib
import re
import stat
import subprocess
import time

import harness
from test_access import NOBODY, need_root
from test_cluster import fixed

CONNECTIONS_MAX = 704
MEMORY_MAX = 64 << 20  # of a process, beyond what it had
SHARE_MAX = 0.05  # of a core, that training may lose to strangers

# What of the named paths and sockets can be had; JSON in, JSON out.
PROBE = """
import json, os, socket, sys
ask = json.load(sys.stdin)
got = []
for path in ask["paths"]:
    try:
        if os.path.isdir(path):
            os.listdir(path)
        else:
            with open(path, "rb") as f:
                f.read(1)
        got.append(path)
    except OSError:
        pass
for path in ask["links"]:
    try:
        got.append(path + " -> " + os.readlink(path))
    except OSError:
        pass
for path in ask["sockets"]:
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(30)
    try:
        s.connect(path)
        got.append("socket " + path)
    except OSError:
        pass
    s.close()
for pid in ask["pids"]:
    try:
        os.kill(pid, 0)
        got.append("signals to %d" % pid)
    except OSError:
        pass
print(json.dumps(got))
"""

# Connections with junk, half a head, or nothing, as fast as one can, for
# argv[2] seconds; tells how many.
FLOOD = """
import socket, sys, time
end = time.monotonic() + float(sys.argv[2])
kinds = (b"\\xff" * 65536, b"GET / HTTP/1.1\\r\\n", b"",
         b"GET /api/v1/runs HTTP/1.1\\r\\nHost: 127.0.0.1:%d\\r\\n\\r\\n"
         % int(sys.argv[1]))
held, n = [], 0
while n < 200 or time.monotonic() < end:
    n += 1
    s = socket.socket()
    s.setblocking(False)
    try:
        s.connect(("127.0.0.1", int(sys.argv[1])))
    except BlockingIOError:
        pass
    except OSError:
        s.close()
        continue
    held.append((s, kinds[n % 4]))
    if len(held) > 200:
        old, kind = held.pop(0)
        try:
            old.send(kind)
        except OSError:
            pass
        old.close()
print(n)
"""


class Accounts(harness.Case):
    def as_nobody(self, program, *words, data=""):
        done = subprocess.run(
            ["/usr/bin/python3", "-c", program, *map(str, words)], input=data,
            stdout=subprocess.PIPE, cwd="/", text=True, user=NOBODY,
            group=NOBODY, extra_groups=[], timeout=120, check=True)
        return done.stdout

    def setUp(self):
        super().setUp()
        self.bound_quarantine()

    def begin(self):
        """A run of two nodes; its folder's parents keep nobody out."""
        self.folder.chmod(0o755)
        config = harness.endless_config()
        config["app"]["data"] = "gen:digits?samples=2000&size=8"
        config["cluster"] = {"nodes": 2, "workers": 1}
        run = self.start("run", self.write("c.json", config))
        self.wait_for_training()
        return run

    def sockets_of(self, pids):
        """Unix sockets with a name, and listening TCP ports."""
        inodes = set()
        for pid in pids:
            for fd in pathlib.Path(f"/proc/{pid}/fd").iterdir():
                try:
                    inodes.update(re.findall(r"socket:\[(\d+)\]",
                                             os.readlink(fd)))
                except OSError:
                    continue
        lines = pathlib.Path("/proc/net/unix").read_text().splitlines()[1:]
        named = [w[7] for w in map(str.split, lines)
                 if len(w) > 7 and w[6] in inodes]
        ports = []
        for table in ("tcp", "tcp6"):
            lines = pathlib.Path(f"/proc/net/{table}").read_text()
            ports += [int(w[1].rpartition(":")[2], 16)
                      for w in map(str.split, lines.splitlines()[1:])
                      if w[3] == "0A" and w[9] in inodes]
        return named, ports

    def shared_files(self, pids):
        """Files that processes have in common: mapped, or open."""
        found = set()
        for pid in pids:
            for line in pathlib.Path(f"/proc/{pid}/maps").read_text(
                    ).splitlines():
                words = line.split(maxsplit=5)
                if len(words) == 6 and words[1][3] == "s" and (
                        words[5].startswith("/")):
                    found.add(words[5])
        return [p for p in found if os.path.exists(p)]

    def test_another_account_reads_nothing(self):
        """No file of the state folder, nothing of the processes but their
        names, no socket; and no secret stands in their words."""
        need_root(self)
        run = self.begin()
        pids = [run.pid, *self.nodes_of(run)]
        self.assertEqual(len(pids), 3)
        state = self.folder / ".mltune"
        files = [str(p) for p in state.rglob("*") if not p.is_socket()]
        self.assertGreater(len(files), 8)
        sockets, ports = self.sockets_of(pids)
        self.assertGreaterEqual(len(sockets), 2)  # the tuner's, the page's
        self.assertEqual([s for s in sockets if s.startswith("@")], [])
        url, = state.glob("runs/*/url")
        self.assertEqual(
            ports, [int(url.read_text().rstrip("/").rpartition(":")[2])])
        sockets += [str(p) for p in state.rglob("*") if p.is_socket()]
        of = [f"/proc/{pid}" for pid in pids]
        ask = {"paths": [str(state), *files, *self.shared_files(pids),
                         *(f"{p}/{name}" for p in of for name in
                           ("environ", "mem", "maps", "auxv", "io", "fd",
                            "map_files", "stack", "syscall"))],
               "links": [f"{p}/{name}" for p in of
                         for name in ("exe", "cwd", "root", "fd/0", "fd/3")],
               "sockets": sockets, "pids": pids}
        self.assertEqual(json.loads(self.as_nobody(
            PROBE, data=json.dumps(ask))), [])
        token = (state / "token").read_text().strip()
        for pid in pids:
            words = pathlib.Path(f"/proc/{pid}/cmdline").read_text()
            secrets = [token] + re.findall(
                r"MLTUNE_(?:KEY|TOKEN)=(\w+)",
                pathlib.Path(f"/proc/{pid}/environ").read_text())
            for secret in secrets:
                self.assertNotIn(secret, words)
        for path in [state, *state.rglob("*")]:
            mode = stat.S_IMODE(path.lstat().st_mode)
            if not path.is_symlink() and path.parent == state:
                self.assertEqual(mode & 0o077, 0, path)
        run.terminate()
        self.finish(run)
        self.assert_nothing_left()

    def resident(self, pid):
        """The most bytes that the process has held so far."""
        text = pathlib.Path(f"/proc/{pid}/status").read_text()
        return int(re.search(r"VmHWM:\s+(\d+) kB", text).group(1)) << 10

    def http_used(self, pid):
        """Seconds of processor time of the thread that strangers wake."""
        for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
            if (task / "comm").read_text().strip() == "http":
                return int((task / "schedstat").read_text().split()[0]) / 1e9
        raise OSError("it has ended")

    def train(self, flood):
        """Tables of the model, while another account floods the port or not: some
        seconds of training, else it is over before the flood has begun."""
        config = fixed("mlr", stop={"max_epochs": 400,
                                     "plateau_epochs": 1000000})
        config["cluster"] = {"nodes": 2, "workers": 1}
        self.write("c.json", config)
        state = self.folder / f"state-{flood}"
        run = self.start("run", "c.json", "--state", state, "--json")
        url, = self.wait_until(lambda: list(state.glob("runs/*/url")),
                               "the run's address")
        port = int(self.wait_until(url.read_text, "the address")
                   .rstrip("/").rpartition(":")[2])
        if flood:
            before, most, rounds = None, 0, 0
            begin, used = time.monotonic(), 0
            while run.poll() is None and rounds < 12:
                try:
                    before = before or self.resident(run.pid)
                    self.as_nobody(FLOOD, port, 0.2)
                    rounds += 1
                    used = self.http_used(run.pid)
                    # 500 at once cost up to a millisecond each where others
                    # compete for the core and its caches.
                    self.assertLess(used, 0.5 + SHARE_MAX *
                                    (time.monotonic() - begin))
                    most = max(most, len(os.listdir(f"/proc/{run.pid}/fd")))
                    self.assertLess(self.resident(run.pid),
                                    before + MEMORY_MAX)
                except (OSError, AttributeError):
                    break  # it has ended
            self.assertLess(most, CONNECTIONS_MAX + 100)
            self.assertGreater(used, 0)  # once at least
        done = self.finish(run)
        self.assert_code(done, 0)
        return {p.name: p.read_bytes() for p in
                pathlib.Path(done.result["model"]).glob("*.npy")}

    def test_a_flood_changes_no_result(self):
        """To the bit; memory and descriptors stay bounded, and so does what the
        flood takes of a processor."""
        need_root(self)
        quiet = self.train(False)
        self.assertGreater(len(quiet), 0)
        self.assertEqual(self.train(True), quiet)
        self.assert_nothing_left()
