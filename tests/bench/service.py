#!/usr/bin/env python3
"""What the service costs, measured on the program itself.

    /usr/bin/python3 tests/bench/service.py reads|instructions|streams [SECONDS]
    /usr/bin/python3 tests/bench/service.py runs [RUNS]

One measurement a line, `name params value unit`:

reads         us of the service's CPU a read on a kept connection, while a run of
              one worker trains: its threads' time by the kernel's scheduler, less
              what following the run takes when nobody reads
instructions  instructions a clock of `mltune run` without its HTTP thread, with
              nobody reading and with a client that reads all the time, counted by
              valgrind (callgrind): they do not depend on the machine's load
streams       500 event streams of a run that trains, held open: events lost, and
              the service's CPU for one event in one stream
runs          a service on a state folder of so many runs that are over (5000):
              seconds until it is ready, resident memory, how many it lists, and
              that it takes one more

MLTUNE_BUILD names the build (build/release).
"""
import http.client
import json
import os
import pathlib
import re
import resource
import selectors
import shutil
import socket
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/process"))
import harness  # noqa: E402
import many_runs  # noqa: E402
import test_serve  # noqa: E402

STREAMS = 500
READS = 3000
ROUNDS = 5


def say(name, params, value, unit):
    print(name, " ".join(f"{k}={v}" for k, v in params.items()),
          f"{value:.4g}", unit, flush=True)


class Service(test_serve.Service):
    """A service with a run of one worker that goes on."""

    def runTest(self):
        pass

    def train(self):
        """A network, so that a clock takes a while: what tells of thousands of
        clocks a second is told faster than 500 can be read in Python."""
        config = harness.endless_config()
        config["app"] = {"name": "nn", "preset": "mlp",
                         "data": "gen:digits?samples=10000&size=28"}
        config["memory"] = {"limit": "1GiB"}
        self.run_id = self.submit(config)
        self.wait_for_status(self.run_id, "training")

    def cpu_us(self):
        """Time that the service's threads have run."""
        tasks = pathlib.Path(f"/proc/{self.service.pid}/task")
        return sum(int((t / "schedstat").read_text().split()[0])
                   for t in tasks.iterdir()) / 1000


def serving(part, *args):
    service = Service()
    service.setUp()
    try:
        service.train()
        part(service, *args)
    finally:
        service.doCleanups()


# ---- reads -------------------------------------------------------------------

def read_all(service, target):
    connection = http.client.HTTPConnection(*service.address, timeout=60)
    size = 0
    for _ in range(READS):
        connection.request("GET", target)
        reply = connection.getresponse()
        size = len(reply.read())
        assert reply.status == 200, (target, reply.status)
    connection.close()
    return size


def wrk_reads(service, target, idle):
    """Of wrk's 16 kept connections, where it is installed; else None."""
    if not shutil.which("wrk"):
        return None
    url = "http://%s:%d%s" % (*service.address, target)
    before, begin = service.cpu_us(), time.monotonic()
    done = subprocess.run(["wrk", "-t", "1", "-c", "16", "-d", "3s", url],
                          capture_output=True, text=True, check=True)
    spent = service.cpu_us() - before - idle * (time.monotonic() - begin)
    assert "Non-2xx" not in done.stdout, done.stdout
    return spent / int(re.search(r"(\d+) requests in", done.stdout).group(1))


def idle_us_s(service):
    """The service's CPU in a second in which nobody asks."""
    before, begin = service.cpu_us(), time.monotonic()
    time.sleep(3)
    return (service.cpu_us() - before) / (time.monotonic() - begin)


def reads(service):
    run = f"/api/v1/runs/{service.run_id}"
    idle = idle_us_s(service)
    say("service_idle", {}, idle, "us/s")
    for name, target in (("healthz", "/healthz"), ("runs", "/api/v1/runs"),
                         ("run", run), ("trial", run + "/trials/1"),
                         ("trials_20", run + "/trials?page_size=20"),
                         ("schedule", run + "/schedule")):
        rounds, size = [], 0
        for _ in range(ROUNDS):
            before, begin = service.cpu_us(), time.monotonic()
            size = read_all(service, target)
            rounds.append((service.cpu_us() - before -
                           idle * (time.monotonic() - begin)) / READS)
        say("service_reads", {"route": name, "clients": 1, "bytes": size},
            sorted(rounds)[ROUNDS // 2], "us")
        many = wrk_reads(service, target, idle)
        if many is not None:
            say("service_reads", {"route": name, "clients": 16,
                                  "by": "wrk", "bytes": size}, many, "us")


# ---- instructions ------------------------------------------------------------

# A stand-in for pidfd_open, which valgrind 3.19 has not: something that can be read once
# the process has ended; and /proc/self/exe, which is valgrind's own program.
SHIM = r"""
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>
static int pids[64], fds[64];
static void *watch(void *arg)
{
    int i = (int)(intptr_t)arg;
    siginfo_t info;
    uint64_t one = 1;

    waitid(P_PID, (id_t)pids[i], &info, WEXITED | WNOWAIT);
    return (void *)(intptr_t)write(fds[i], &one, sizeof(one));
}
int pidfd_open(int pid, unsigned flags)
{
    static int n;
    pthread_t thread;

    (void)flags;
    pids[n] = pid;
    fds[n] = eventfd(0, EFD_CLOEXEC);
    pthread_create(&thread, 0, watch, (void *)(intptr_t)n);
    pthread_detach(thread);
    return fds[n++];
}
int execv(const char *path, char *const argv[])
{
    extern char **environ;

    return execve(strcmp(path, "/proc/self/exe") ? path : getenv("MLTUNE_EXE"),
                  argv, environ);
}
"""


def preload(folder):
    (folder / "shim.c").write_text(SHIM)
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", folder / "shim.so",
                    folder / "shim.c"], check=True)
    return str(folder / "shim.so")


def trained(folder, epochs, reads_too):
    """Instructions without the HTTP thread, clocks, reads of one run."""
    config = harness.mlr_config(max_epochs=epochs, plateau_epochs=1000)
    config["app"]["data"] = "gen:digits?samples=2000&size=28"
    config["tuner"]["max_trials"] = 3
    (folder / "c.json").write_text(json.dumps(config))
    process = subprocess.Popen(
        ["valgrind", "-q", "--tool=callgrind", "--separate-threads=yes",
         "--trace-children=yes", f"--callgrind-out-file={folder}/cg.%p",
         harness.MLTUNE, "run", "c.json", "--json", "-q"],
        cwd=folder, stdout=subprocess.PIPE, text=True,
        env={**os.environ, "LD_PRELOAD": preload(folder),
             "MLTUNE_EXE": harness.MLTUNE})
    count = read_while(process, folder) if reads_too else 0
    out, _ = process.communicate()
    result = json.loads(out.strip().splitlines()[-1])
    assert result["epochs"] == epochs, result
    return instructions_in(folder), result["clocks"], count


def read_while(process, folder):
    """Reads run and trials until the run ends; how often."""
    count, connection = 0, None
    while process.poll() is None:
        try:
            if connection is None:
                url = next(folder.glob(".mltune/runs/*/url")).read_text()
                port = int(url.strip().rstrip("/").split(":")[-1])
                run = next(folder.glob(".mltune/runs/*")).name
                connection = http.client.HTTPConnection(
                    "127.0.0.1", port, timeout=60)
            for target in ("", "/trials?page_size=20"):
                connection.request("GET", f"/api/v1/runs/{run}{target}")
                connection.getresponse().read()
                count += 1
        except (OSError, StopIteration, ValueError, http.client.HTTPException):
            connection = None
            time.sleep(0.05)
    return count


def instructions_in(folder):
    """Of all threads of all processes, but for the one that serves."""
    total = 0
    for file in folder.glob("cg.*"):
        text = file.read_text(errors="replace")
        if "MHD_run" in text and "MHD_start_daemon" not in text:
            continue
        found = re.search(r"^(?:totals|summary): (\d+)", text, re.M)
        total += int(found.group(1)) if found else 0
    return total


def a_clock(reads_too):
    """Between a short and a long run, so that what begins and ends is out."""
    runs = []
    for epochs in (2, 12):
        with tempfile.TemporaryDirectory(prefix="mltune-bench-") as folder:
            runs.append(trained(pathlib.Path(folder), epochs, reads_too))
    (short, few, _), (long, many, count) = runs
    return (long - short) / (many - few), count


def instructions():
    alone, _ = a_clock(False)
    read, count = a_clock(True)
    say("service_instructions", {"reads": 0}, alone, "instructions/clock")
    say("service_instructions", {"reads": count}, read, "instructions/clock")
    say("service_instructions", {"reads": count, "vs": "none"}, read / alone,
        "ratio")


# ---- event streams -----------------------------------------------------------

class Stream:
    """What one stream has been sent: numbers without a gap, nothing dropped."""

    def __init__(self, address, run):
        self.socket = socket.create_connection(address, timeout=60)
        self.socket.sendall(
            (f"GET /api/v1/runs/{run}/events HTTP/1.1\r\nHost: "
             f"{address[0]}:{address[1]}\r\nLast-Event-ID: 0\r\n\r\n").encode())
        self.socket.setblocking(False)
        self.chunked, self.rest, self.last = b"", b"", 0
        self.events, self.lost = 0, 0

    def whole_chunks(self):
        """What has come, behind the head, without the lengths of chunks."""
        out = b""
        if not self.last and self.chunked.startswith(b"HTTP/"):
            head, found, self.chunked = self.chunked.partition(b"\r\n\r\n")
            if not found:
                self.chunked = head
                return out
            assert b" 200 " in head, head
        while (at := self.chunked.find(b"\r\n")) >= 0:
            size = int(self.chunked[:at], 16)
            if len(self.chunked) < at + 4 + size:
                break
            out += self.chunked[at + 2:at + 2 + size]
            self.chunked = self.chunked[at + 4 + size:]
        return out

    def read(self):
        """False: it was cut."""
        try:
            data = self.socket.recv(1 << 20)
        except BlockingIOError:
            return True
        self.chunked += data
        text = self.rest + self.whole_chunks()
        end = text.rfind(b"\n\n") + 2 if b"\n\n" in text else 0
        text, self.rest = text[:end], text[end:]
        for number in map(int, re.findall(rb"^id: (\d+)$", text, re.M)):
            self.lost += number - self.last - 1
            self.last = number
            self.events += 1
        self.lost += text.count(b"event: dropped")
        return bool(data)


def streams(service, seconds):
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    selector = selectors.DefaultSelector()
    all_streams = [Stream(service.address, service.run_id)
                   for _ in range(STREAMS)]
    for stream in all_streams:
        selector.register(stream.socket, selectors.EVENT_READ, stream)
    before, end, cut = service.cpu_us(), time.monotonic() + seconds, 0
    while time.monotonic() < end:
        for key, _ in selector.select(1):
            if not key.data.read():
                selector.unregister(key.fileobj)
                cut += 1
    spent = service.cpu_us() - before
    events = sum(s.events for s in all_streams)
    params = {"streams": STREAMS, "seconds": seconds,
              "events": min(s.events for s in all_streams)}
    say("service_streams", {**params, "what": "cut"}, cut, "streams")
    say("service_streams", {**params, "what": "lost"},
        sum(s.lost for s in all_streams), "events")
    say("service_streams", {**params, "what": "cpu"}, spent / max(1, events),
        "us/event")


# ---- many runs ---------------------------------------------------------------

def runs(count):
    service = Service()
    service.setUp()
    try:
        service.end()
        done = service.run_config(many_runs.CONFIG)
        assert done.code == 0, done.err
        service.mltune("ls")
        many_runs.multiply(service.folder / ".mltune/mltune.db", count, 1000)
        begin = time.monotonic()
        service.launch()
        ready = time.monotonic() - begin
        status = pathlib.Path(f"/proc/{service.service.pid}/status").read_text()
        resident = int(re.search(r"VmRSS:\s+(\d+)", status).group(1)) / 1024
        listed = service.get("/api/v1/runs?page_size=1")["total"]
        say("service_runs", {"runs": count, "listed": listed,
                             "resident_mb": round(resident, 1)}, ready, "s")
        run = service.submit(many_runs.CONFIG)
        service.wait_for_status(run, "finished")
        assert service.get("/api/v1/runs?page_size=1")["total"] >= listed
    finally:
        service.doCleanups()


def main():
    part = sys.argv[1] if len(sys.argv) > 1 else ""
    if part == "reads":
        serving(reads)
    elif part == "instructions":
        instructions()
    elif part == "streams":
        serving(streams, int(sys.argv[2]) if len(sys.argv) > 2 else 60)
    elif part == "runs":
        runs(int(sys.argv[2]) if len(sys.argv) > 2 else 5000)
    else:
        sys.exit(__doc__)


main()
