"""Strangers at full speed at ports of mltune, and what share of a core they take."""
import os
import pathlib
import select
import subprocess
import time

SHARE_MAX = 0.05  # of a core: so much training may lose to strangers
SECONDS = 0.5  # of a round
DEADLINE_S = 60
# Kinds, and how often each is tried in a round at least, however slow the machine:
# more than a server takes at once, more than it has places.
KINDS = {"connect": 600, "hold": 1000, "bytes": 1, "ask": 1, "handshake": 1}

# argv: `plain` or `tls`, host:port...  Says when it is there. Each line of stdin, `KIND
# SECONDS LEAST PATIENCE`, is a round, which says how often it tried, and how often it
# got through: its bytes were taken, it was connected, or it was answered.
STRANGER = """
import socket, ssl, sys, time
over_tls = sys.argv[1] == "tls"
to = [(a.rpartition(":")[0], int(a.rpartition(":")[2])) for a in sys.argv[2:]]
junk, held = b"\\xff" * 65536, []
any_server = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
any_server.check_hostname, any_server.verify_mode = False, ssl.CERT_NONE
def ask(s, port):
    s.sendall(b"GET /api/v1/runs HTTP/1.1\\r\\nHost: 127.0.0.1:%d\\r\\n"
              b"Connection: close\\r\\n\\r\\n" % port)
    got = 0
    while part := s.recv(65536):
        got += len(part)
    return got > 0
def connected(s):
    try:
        return bool(s.getpeername())
    except OSError:
        return False
print("there", flush=True)
for line in sys.stdin:
    kind, seconds, least, patience = line.split()
    end = time.monotonic() + float(seconds)
    n = through = 0
    while n < int(least) or time.monotonic() < end:
        s = socket.socket()
        s.settimeout(0 if kind in ("connect", "hold") else float(patience))
        place = to[n % len(to)]
        n += 1
        try:
            if kind in ("connect", "hold"):
                s.connect_ex(place)
            else:
                s.connect(place)
            if kind == "connect":
                s.send(junk[:64])
                through += 1
            elif kind == "bytes":
                while time.monotonic() < end:
                    s.sendall(junk)
                    through += 1
            elif kind == "hold":
                held.append(s)
                if len(held) < 900:
                    continue
                s = held.pop(0)
                through += connected(s)
            else:
                if over_tls or kind == "handshake":
                    s = any_server.wrap_socket(s)
                if kind == "handshake" or ask(s, place[1]):
                    through += 1
        except OSError:
            pass
        s.close()
    print(n, through, flush=True)
"""


class Flood:
    """One stranger, whose rounds come one after the other. @enter begins a command
    on another host; @options are subprocess.Popen's."""

    def __init__(self, way, addresses, enter=(), **options):
        self.stranger = subprocess.Popen(
            [*enter, "/usr/bin/python3", "-c", STRANGER, way, *addresses],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd="/",
            **options)
        self.line()

    def line(self):
        if not self.ended(DEADLINE_S):
            raise AssertionError(f"a stranger says nothing for {DEADLINE_S} s")
        return self.stranger.stdout.readline()

    def begin(self, kind, seconds, least, patience=0.2):
        """@patience: for how many seconds it waits for us."""
        self.stranger.stdin.write(f"{kind} {seconds} {least} {patience}\n")
        self.stranger.stdin.flush()

    def ended(self, seconds):
        """Whether the round is over, after @seconds at most."""
        return bool(select.select([self.stranger.stdout], [], [], seconds)[0])

    def figures(self):
        """How often it tried in the round, and got through."""
        return tuple(map(int, self.line().split()))

    def close(self):
        self.stranger.kill()
        self.stranger.communicate()


def used(pid, names=("",)):
    """Seconds of processor time of the threads whose names begin so."""
    return sum(int((task / "schedstat").read_text().split()[0]) / 1e9
               for task in pathlib.Path(f"/proc/{pid}/task").iterdir()
               if (task / "comm").read_text().startswith(tuple(names)))


def nobody():
    """Another account, for Flood."""
    return {"user": 65534, "group": 65534, "extra_groups": []}


def ask_the_share(case, flood, spent, kind, least_through=0, meanwhile=None):
    """Rounds of @kind, until all that it has cost since it began is less than
    SHARE_MAX of a core (what is allowed at once comes first), and so many tries got
    through. @spent() is the processor time so far. @meanwhile() is done again and
    again in each round. Returns how many got through."""
    before, begun, tried, through, share = spent(), time.monotonic(), 0, 0, 1
    while (share >= SHARE_MAX or through < least_through) and (
            time.monotonic() < begun + DEADLINE_S):
        flood.begin(kind, SECONDS, KINDS[kind])
        while meanwhile and not flood.ended(0):
            meanwhile()
        figures = flood.figures()
        tried, through = tried + figures[0], through + figures[1]
        share = (spent() - before) / (time.monotonic() - begun)
    print(f"{case.id()} {kind}: {100 * share:.2f} % of a core, {tried} tries, "
          f"{through} through, {time.monotonic() - begun:.1f} s, "
          f"load {os.getloadavg()[0]:.0f}", flush=True)
    case.assertLess(share, SHARE_MAX, f"{kind}: {tried} tries")
    case.assertGreaterEqual(through, least_through, kind)
    return through
