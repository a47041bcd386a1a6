"""A Slurm of a test's own: a controller and two virtual nodes on loopback, with
their own ports, folders and munge, beside whatever runs on this machine. Nothing
under /etc is read or changed.
"""
import os
import pathlib
import pwd
import re
import shutil
import signal
import socket
import subprocess
import time

SBIN = pathlib.Path("/usr/sbin")
NODES = ("n1", "n2")


def free_ports(n):
    """Ports of loopback that nobody listens at now."""
    held = [socket.socket() for _ in range(n)]
    try:
        for s in held:
            s.bind(("127.0.0.1", 0))
        return [s.getsockname()[1] for s in held]
    finally:
        for s in held:
            s.close()


class Slurm:
    """@case's own. `env` is what its commands need. After @silence_s a slurmd
    that does not answer is down."""

    def __init__(self, case, silence_s=120):
        self.case = case
        self.silence_s = silence_s
        self.folder = case.folder / "slurm"
        self.env = {}
        self.processes = []

    def path(self, name):
        return self.folder / name

    def spawn(self, *words):
        with open(self.path(f"{pathlib.Path(words[0]).name}.log"), "ab") as log:
            process = subprocess.Popen(
                [str(w) for w in words], stdin=subprocess.DEVNULL, stdout=log,
                stderr=log, env={**self.case.env, **self.env},
                start_new_session=True)
        self.processes.append(process)
        return process

    def start(self):
        for _ in range(5):
            if self.try_start():
                return self
            self.stop()
        self.case.fail("Slurm does not start:\n" + "".join(
            p.read_text(errors="replace")[-2000:]
            for p in self.folder.glob("*log")))
        return None

    def write_config(self):
        host = socket.gethostname().split(".")[0]
        ports = free_ports(1 + len(NODES))
        user = pwd.getpwuid(os.geteuid()).pw_name
        nodes = "\n".join(
            f"NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 "
            f"Port={port} CPUs=4 RealMemory=1000 State=UNKNOWN"
            for name, port in zip(NODES, ports[1:]))
        self.path("slurm.conf").write_text(f"""
ClusterName=mltest
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={self.folder}/munge/socket
CredType=cred/munge
StateSaveLocation={self.folder}/state
SlurmdSpoolDir={self.folder}/spool-%n
SlurmctldPidFile={self.folder}/slurmctld.pid
SlurmdPidFile={self.folder}/slurmd-%n.pid
SlurmctldLogFile={self.folder}/slurmctld.file.log
SlurmdLogFile={self.folder}/slurmd-%n.file.log
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
SlurmctldTimeout=120
SlurmdTimeout={self.silence_s}
MessageTimeout=60
InactiveLimit=0
KillWait=30
SchedulerParameters=sched_interval=1,batch_sched_delay=0
{nodes}
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
""")

    def try_start(self):
        shutil.rmtree(self.folder, ignore_errors=True)
        for name in ("state", "munge", *(f"spool-{n}" for n in NODES)):
            self.path(name).mkdir(parents=True, mode=0o755)
        key = self.path("key")
        key.write_bytes(os.urandom(1024))
        key.chmod(0o400)
        self.write_config()
        self.env = {"SLURM_CONF": str(self.path("slurm.conf"))}
        self.spawn(SBIN / "munged", "--foreground", "--force",
                   f"--key-file={key}", f"--socket={self.folder}/munge/socket",
                   f"--pid-file={self.folder}/munge.pid",
                   f"--log-file={self.folder}/munged.file.log",
                   f"--seed-file={self.folder}/seed")
        if not self.wait(lambda: self.path("munge/socket").exists()):
            return False
        self.spawn(SBIN / "slurmctld", "-D", "-c")
        self.slurmd = {n: self.spawn(SBIN / "slurmd", "-D", "-N", n)
                       for n in NODES}
        return self.wait(self.is_idle)

    def ask(self, *words):
        """What a command of Slurm's says."""
        done = subprocess.run(
            words, env={**self.case.env, **self.env}, text=True,
            stdin=subprocess.DEVNULL, timeout=60, capture_output=True)
        if done.returncode != 0:
            self.case.fail(f"{words}: {done.stdout}{done.stderr}")
        return done.stdout

    def state(self, job):
        """As PENDING, RUNNING, COMPLETED."""
        told = self.ask("scontrol", "--oneliner", "show", "job", job)
        return re.search(r"JobState=(\S+)", told).group(1)

    def said(self):
        """The end of what the controller wrote down."""
        return self.path("slurmctld.file.log").read_text(
            errors="replace")[-6000:]

    def start_again(self, job):
        """The job waits to be started again: now, not in two minutes. It is
        refused while the last start is not over. A word of that start's end that
        comes late would be taken for the next one's: who brings it is waited for."""
        if self.has_steps():
            return False
        done = subprocess.run(
            ["scontrol", "update", f"JobId={job}", "StartTime=now"],
            env={**self.case.env, **self.env}, text=True,
            stdin=subprocess.DEVNULL, timeout=60, capture_output=True)
        return done.returncode == 0

    def crash(self, name):
        """The host is gone: its slurmd, and all that it has started, in the
        order in which none tells of another's end."""
        host = self.slurmd.pop(name)
        self.processes.remove(host)
        host.kill()
        host.wait()
        log = str(self.path(f"slurmd-{name}.file.log"))
        self.end_all(lambda entry: log in {
            os.path.realpath(fd) for fd in (entry / "fd").iterdir()})
        mine = f"SLURMD_NODENAME={name}".encode()
        conf = f"SLURM_CONF={self.path('slurm.conf')}".encode()
        self.end_all(lambda entry: {mine, conf} <= set(
            (entry / "environ").read_bytes().split(b"\0")))

    def back(self, name):
        """It has been started again."""
        self.slurmd[name] = self.spawn(SBIN / "slurmd", "-D", "-N", name)

    def has_steps(self):
        """Whether a slurmstepd of ours is there."""
        mine = f"SLURM_CONF={self.path('slurm.conf')}".encode()
        for entry in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                if (entry / "comm").read_text() == "slurmstepd\n" and \
                        mine in (entry / "environ").read_bytes().split(b"\0"):
                    return True
            except OSError:
                pass
        return False

    def end_all(self, which):
        for entry in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                if int(entry.name) != os.getpid() and which(entry):
                    os.kill(int(entry.name), signal.SIGKILL)
            except OSError:  # it has ended, or is not ours
                pass

    def wait(self, condition, seconds=25):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if any(p.poll() is not None for p in self.processes):
                return False
            if condition():
                return True
            time.sleep(0.1)
        return False

    def is_idle(self):
        try:
            done = subprocess.run(["sinfo", "-h", "-t", "idle", "-o", "%D"],
                                  env={**self.case.env, **self.env}, text=True,
                                  stdin=subprocess.DEVNULL, timeout=10,
                                  capture_output=True)
        except subprocess.TimeoutExpired:
            return False
        return done.stdout.split() == [str(len(NODES))]

    def stop(self):
        for process in reversed(self.processes):
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.wait()
        self.processes = []
        self.end_steps()

    def end_steps(self):
        """slurmstepd tells slurmctld of a step's end, again and again."""
        mine = f"SLURM_CONF={self.path('slurm.conf')}".encode()
        self.end_all(
            lambda entry: mine in (entry / "environ").read_bytes().split(
                b"\0") and "slurm" in (entry / "comm").read_text())
