"""Nodes that Slurm starts (`cluster.launcher` slurm) inside an allocation, by a real
slurmctld and slurmd of the test's own: the same bits as on one machine, and nothing
left behind.
"""
import json
import os
import pathlib
import re
import signal
import subprocess
import time

from harness import MLTUNE, Case, endless_config
from runner import TEST_SECONDS
from slurm import NODES, Slurm
from test_cluster import fixed
from test_resume import Journal

GONE_S = 90


class SlurmCase(Case):
    """A Slurm of its own, and runs whose nodes it starts."""

    SILENCE_S = 120  # of a slurmd that is taken for gone

    def setUp(self):
        super().setUp()
        self.slurm = Slurm(self, silence_s=self.SILENCE_S)
        self.addCleanup(self.slurm.stop)
        self.slurm.start()

    def far_config(self, config, **cluster):
        config["cluster"] = {"launcher": "slurm", "workers": 1,
                             "command": MLTUNE, "address": "127.0.0.1",
                             **cluster}
        return config

    def nodes(self):
        """Pids of the nodes themselves, not of what stands for them."""
        return [pid for pid in self.marked()
                if self.words_of(pid)[1:2] == ["node"] and
                "--tether" in self.words_of(pid)]

    def tuner(self):
        """Pid of the tuner itself, whose parent is salloc or a script."""
        for pid in self.marked():
            if self.words_of(pid)[:1] == [MLTUNE] and \
                    self.words_of(pid)[1] in ("run", "resume"):
                return pid
        return None

    def words_of(self, pid):
        try:
            words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            return []
        return words.decode(errors="replace").split("\0")

    def assert_nodes_gone(self):
        self.wait_until(lambda: not self.nodes(), "the nodes to end", GONE_S)
        self.assert_no_fault_in_logs()

    def tables(self, model):
        return {p.name: p.read_bytes()
                for p in pathlib.Path(model).glob("*.npy")}


class Launcher(SlurmCase):
    def in_allocation(self, *words, **options):
        return subprocess.Popen(
            ["salloc", "--quiet", f"--nodes={len(NODES)}", MLTUNE,
             *map(str, words)], stdin=subprocess.DEVNULL, text=True,
            env={**self.env, **self.slurm.env}, cwd=self.folder,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)

    def same_as_local(self, app):
        here = fixed(app)
        here["cluster"] = {"workers": 1, "nodes": 2}
        one = self.run_config(here, "--json", "--state", "here")
        self.assert_code(one, 0)
        self.write("there.json", self.far_config(fixed(app)))
        two = self.finish(self.in_allocation(
            "run", "there.json", "--json", "--state", "there"), 150)
        self.assert_code(two, 0)
        self.assertEqual(self.tables(one.result["model"]),
                         self.tables(two.result["model"]))
        self.assertEqual(one.result["clocks"], two.result["clocks"])
        self.assert_nodes_gone()

    def test_mf_is_the_same_to_the_last_bit(self):
        """As many nodes as the allocation has hosts."""
        self.same_as_local("mf")

    def test_nn_is_the_same_to_the_last_bit(self):
        self.same_as_local("nn")

    def begin(self):
        self.write("config.json", self.far_config(endless_config()))
        process = self.in_allocation("run", "config.json", "--json")
        self.wait_for_training(seconds=150)
        self.assertEqual(len(self.nodes()), len(NODES))
        return process

    def test_ctrl_c_leaves_nothing(self):
        process = self.begin()
        os.kill(self.tuner(), signal.SIGINT)
        done = self.finish(process, 150)
        self.assert_code(done, 128 + signal.SIGINT)
        self.assert_nodes_gone()

    def test_a_killed_tuner_leaves_nothing(self):
        process = self.begin()
        os.kill(self.tuner(), signal.SIGKILL)
        process.communicate(timeout=100)
        self.assert_nodes_gone()

    def test_no_allocation(self):
        """It says what it lacks, and starts nothing."""
        self.write("config.json", self.far_config(fixed("mlr")))
        done = self.mltune("run", "config.json")
        self.assert_code(done, 78)
        self.assertIn("works inside an allocation", done.err)
        self.assertIn("salloc", done.err)

    def test_no_such_program(self):
        self.write("config.json", self.far_config(
            fixed("mlr"), command="/nowhere/mltune"))
        done = self.finish(self.in_allocation("run", "config.json"), 150)
        self.assertNotEqual(done.code, 0)
        self.assertIn("no program `/nowhere/mltune`", done.err)
        self.assertRegex(done.err, r"node \d on n[12]: ")
        self.assert_nodes_gone()


class BatchCase(SlurmCase):
    SAY_S = 15  # of the test's time, to say why it failed

    def setUp(self):
        self.ends = time.monotonic() + TEST_SECONDS - self.SAY_S
        super().setUp()

    def submit(self, config, *words):
        """Number of the job."""
        self.write("config.json", config)
        done = self.finish(subprocess.Popen(
            [MLTUNE, "submit", "config.json", "--launcher", "slurm", "--json",
             *words],
            stdin=subprocess.DEVNULL, text=True, cwd=self.folder,
            env={**self.env, **self.slurm.env}, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE))
        self.assert_code(done, 0)
        self.log = pathlib.Path(done.result["log"])
        return done.result["job"]

    def words_in_log(self):
        return self.log.read_text() if self.log.exists() else "no log"

    def wait_job(self, job, condition, what):
        """As long as the test has; else the job's state and log are said."""
        try:
            self.wait_until(condition, what,
                            max(int(self.ends - time.monotonic()), 1))
        except AssertionError as e:
            raise AssertionError(
                f"{e}: job {job} is {self.slurm.state(job)}\n"
                f"{self.words_in_log()}\n{self.slurm.said()}") from e

    def wait_state(self, job, state):
        self.wait_job(job, lambda: self.slurm.state(job) == state,
                      f"job {job} to be {state}")

    def start_again(self, job):
        self.wait_state(job, "PENDING")
        self.wait_job(job, lambda: self.slurm.start_again(job),
                      "the job to be let start")

    def show(self, name, state=".mltune"):
        done = self.mltune("show", name, "--json", "--state", state)
        return done.result if done.code == 0 else {}

    def begin(self):
        """Submits a run without end, and waits for its first snapshot."""
        config = self.far_config(endless_config())
        config["snapshot"] = {"every": 0.2}
        job = self.submit(config, "--nodes", str(len(NODES)))
        self.wait_job(job, lambda: self.records("snapshot_written"),
                      "a snapshot")
        self.assertEqual(len(self.nodes()), len(NODES))
        return job

    def records(self, *kinds):
        """None where there is no run yet."""
        run = self.show("endless").get("run")
        return Journal(self.folder / ".mltune", run).of(*kinds) if run else []

    def resumes(self):
        return len(self.records("run_resumed"))

    def wait_resumed(self, job, before):
        """The run goes on, more often than the @before times until now, and trains.
        It may end and ask for another start meanwhile, as where Slurm has no room
        on a host yet that has just come back."""
        def look():
            state = self.slurm.state(job)
            if state == "PENDING":
                self.slurm.start_again(job)
            self.assertNotIn(state, ("FAILED", "CANCELLED", "COMPLETED"))
            kinds = [r["kind"] for r in self.records("run_resumed",
                                                     "snapshot_written")]
            return kinds.count("run_resumed") > before and \
                kinds[-1] == "snapshot_written"
        self.wait_job(job, look, "the run to go on")

    def assert_one_run(self):
        listed = json.loads(self.mltune("ls", "--json").out)
        self.assertEqual(len(listed), 1, listed)

    def assert_all_gone(self):
        """Processes of the run, and folders of theirs."""
        self.wait_until(lambda: not self.nodes() and not self.tuner(),
                        "the run's processes to end", GONE_S)
        left = [p for p in self.folder.rglob("*")
                if p.is_socket() and "slurm" not in p.parts[-3:] or
                p.suffix == ".tmp" and "slurm" not in p.parts]
        left += list((self.folder / ".mltune/runs").glob("*/m[0-9]*"))
        left += [*self.folder.rglob("slurm-*.out"),
                 *pathlib.Path.cwd().glob("slurm-*.out")]
        self.assertEqual(left, [])
        self.assert_no_fault_in_logs()

    def end(self, job):
        """As the shell's Ctrl-C: a snapshot, and then the end."""
        self.slurm.ask("scancel", "--batch", "--signal=INT", job)
        self.wait_state(job, "FAILED")  # its exit code is 143
        self.assertEqual(self.show("endless")["status"], "interrupted")
        self.assert_all_gone()


class Submitted(BatchCase):
    """`mltune submit --launcher slurm`: batch jobs."""

    def same_as_local(self, app):
        here = fixed(app)
        here["cluster"] = {"workers": 1, "nodes": 2}
        one = self.run_config(here, "--json", "--state", "here")
        self.assert_code(one, 0)
        config = self.far_config(fixed(app), nodes=2)
        del config["cluster"]["launcher"], config["cluster"]["command"]
        job = self.submit(config, "--state", "a place")
        self.wait_state(job, "COMPLETED")
        there = self.show(config["name"], "a place")
        self.assertEqual(there["status"], "finished", self.words_in_log())
        self.assertEqual(self.tables(one.result["model"]),
                         self.tables(there["model"]))
        self.assertEqual(one.result["clocks"], there["clocks"])
        self.assert_nodes_gone()

    def test_mf_is_the_same_to_the_last_bit(self):
        """What the configuration says for this machine is a batch job as it
        stands; folders may have spaces."""
        self.same_as_local("mf")

    def test_nn_is_the_same_to_the_last_bit(self):
        self.same_as_local("nn")

    def test_what_is_started_again_goes_on(self):
        """scontrol requeue; and once more, with one host instead of two. A
        warning writes a snapshot and ends nothing."""
        job = self.begin()
        self.slurm.ask("scontrol", "requeue", job)
        self.start_again(job)
        self.wait_resumed(job, 0)
        self.assertEqual(len(self.nodes()), len(NODES))
        before = self.resumes()
        self.slurm.ask("scontrol", "requeuehold", job)
        self.wait_state(job, "PENDING")
        self.slurm.ask("scontrol", "update", f"JobId={job}", "NumNodes=1-1")
        self.slurm.ask("scontrol", "release", job)
        self.start_again(job)
        self.wait_resumed(job, before)
        self.assertEqual(len(self.nodes()), 1)
        self.assert_one_run()
        self.end(job)

    def test_scancel_leaves_nothing(self):
        job = self.begin()
        self.slurm.ask("scancel", job)
        self.wait_state(job, "CANCELLED")
        self.assert_all_gone()


class Crashes(BatchCase):
    """Slurm starts the job again, once it has noticed, or the job asks for
    it."""

    SILENCE_S = 20

    def crashes(self, host):
        job = self.begin()
        self.slurm.crash(host)
        self.wait_state(job, "PENDING")
        self.slurm.back(host)
        self.wait_until(self.slurm.is_idle, "the hosts to be free", GONE_S)
        self.start_again(job)
        self.wait_resumed(job, 0)
        self.assert_one_run()
        self.end(job)

    def test_a_host_that_crashes(self):
        self.crashes("n2")

    def test_the_tuners_host_crashes(self):
        self.crashes("n1")


class Script(Case):
    """The batch script, without Slurm: its programs are played."""

    def setUp(self):
        super().setUp()
        self.write("config.json", fixed("mlr"))
        self.bin = self.folder / "bin"
        self.bin.mkdir()
        self.env["PATH"] = f"{self.bin}:{os.environ['PATH']}"

    def play(self, name, script):
        path = self.write(f"bin/{name}", f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        return path

    def submit(self, *words):
        return self.mltune("submit", "config.json", "--launcher", "slurm",
                           *words)

    def in_job(self, mltune, **env):
        """The script as Slurm would start it, with @mltune for mltune."""
        done = self.submit("--print", "--nodes", "3")
        self.assert_code(done, 0)
        script = re.sub(r"(?m)^mltune=.*$", f"mltune='{mltune}'", done.out)
        (self.folder / ".mltune/slurm").mkdir(parents=True, exist_ok=True)
        return self.in_shell("sh", script, **env)

    def in_shell(self, shell, script, **env):
        """Signals are there as Slurm leaves them, however the tests began."""
        self.write("job.sh", script)
        return subprocess.Popen(
            ["env", "--default-signal", shell, "job.sh"],
            stdin=subprocess.DEVNULL, text=True,
            env={**self.env, "SLURM_JOB_ID": "7", "SLURM_JOB_NUM_NODES": "3",
                 **env}, cwd=self.folder, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE)

    def test_the_configuration_is_run(self):
        """As it stands, on as many nodes as there are hosts."""
        tool = self.play("tool", 'echo "$@"; cat')
        done = self.finish(self.in_job(tool))
        self.assert_code(done, 0)
        first, _, text = done.out.partition("\n")
        self.assertIn("run - --state ", first)
        self.assertIn("cluster.launcher=slurm", first)
        self.assertIn("cluster.nodes=3", first)
        self.assertEqual(json.loads(text), fixed("mlr"))

    def test_started_again_it_goes_on_with_its_run(self):
        """With none to go on with, it begins."""
        tool = self.play("tool", 'echo "$1"')
        done = self.finish(self.in_job(tool, SLURM_RESTART_COUNT="1"))
        self.assertEqual(done.out, "run\n")
        self.write(".mltune/slurm/7.run", "digits-abcdef\n")
        tool = self.play("tool", 'echo "$@"')
        done = self.finish(self.in_job(tool, SLURM_RESTART_COUNT="1"))
        self.assertIn("resume digits-abcdef --state ", done.out)
        self.assertIn("cluster.nodes=3", done.out)
        done = self.finish(self.in_job(tool))  # another job of that number
        self.assertIn("run - ", done.out)

    def test_an_interrupted_run_is_asked_for_again(self):
        """Up to five times, whoever else has the job started again meanwhile,
        and no other end is. Another job of that number begins anew."""
        self.play("scontrol", 'echo "scontrol $*"')
        tool = self.play("tool", "exit 75")

        def ends(code, says, restarts):
            done = self.finish(self.in_job(tool, SLURM_RESTART_COUNT=restarts))
            self.assert_code(done, code)
            self.assertEqual(done.out, says)
        for restarts in "0", "8", "9", "20", "21":
            ends(75, "scontrol requeue 7\n", restarts)
        ends(75, "", "22")
        ends(75, "", "23")
        ends(75, "scontrol requeue 7\n", "0")
        for code in 0, 1, 130, 143:
            tool = self.play("tool", f"exit {code}")
            ends(code, "", "1")

    LISTENER = r"""
import os, signal, sys, time
def say(word):
    with open("said", "a") as f:
        f.write(word + "\n")
def end(*_):
    say("ended")
    os._exit(9)
while os.path.exists("deaf"):
    time.sleep(0.02)
signal.signal(signal.SIGUSR1, lambda *_: say("warned"))
signal.signal(signal.SIGTERM, end if "ends" in sys.argv else lambda *_: None)
say("ready")
while True:
    time.sleep(0.02)
"""

    def listener(self, *words):
        """A tool that says in the file `said` what it hears."""
        self.write("listener.py", self.LISTENER)
        return self.play("tool", "exec /usr/bin/python3 listener.py " +
                         " ".join(words))

    def wait_said(self, *words):
        said = self.folder / "said"
        self.wait_until(
            lambda: said.exists() and said.read_text().split() == list(words),
            f"the tool to say {words}")

    def test_signals_to_the_script_are_mltunes(self):
        """But SIGTERM, which Slurm sends to all processes of a job."""
        job = self.in_job(self.listener())
        self.wait_said("ready")
        job.send_signal(signal.SIGTERM)
        job.send_signal(signal.SIGUSR1)
        self.wait_said("ready", "warned")
        job.send_signal(signal.SIGUSR1)
        self.wait_said("ready", "warned", "warned")
        self.assertIsNone(job.poll())
        self.end_all()
        job.communicate(timeout=60)

    def test_a_signal_ends_it(self):
        """scancel --batch --signal=INT: once, and with mltune's exit code."""
        job = self.in_job(self.listener("ends"))
        self.wait_said("ready")
        job.send_signal(signal.SIGINT)
        self.assert_code(self.finish(job), 9)
        self.wait_said("ready", "ended")

    def test_a_warning_while_mltune_starts_ends_nothing(self):
        """It does not listen yet."""
        self.write("deaf", "")
        tool = self.listener()
        job = self.in_job(tool)
        self.wait_until(lambda: b"listener.py" in self.first_words(job),
                        "the tool to start")
        job.send_signal(signal.SIGUSR1)
        (self.folder / "deaf").unlink()
        self.wait_said("ready")
        job.send_signal(signal.SIGUSR1)
        self.wait_until(lambda: "warned" in (self.folder / "said").read_text(),
                        "the tool to be warned")
        self.assertIsNone(job.poll())
        self.end_all()
        job.communicate(timeout=60)

    def first_words(self, job):
        """Of what @job has started."""
        try:
            children = pathlib.Path(
                f"/proc/{job.pid}/task/{job.pid}/children").read_text().split()
            return b" ".join(pathlib.Path(f"/proc/{c}/cmdline").read_bytes()
                             for c in children)
        except OSError:
            return b""

    def before_pid(self, tool, insert):
        """The script, which does @insert between start and `pid=$!`."""
        done = self.finish(self.in_job(self.play("other", "exit 0")))
        self.assert_code(done, 0)
        script = (self.folder / "job.sh").read_text()
        self.assertEqual(script.count("\npid=$!\n"), 1)
        script = script.replace("\npid=$!\n", f"\n{insert}\npid=$!\n")
        return self.in_shell("sh", re.sub(
            r"(?m)^mltune=.*$", f"mltune='{tool}'", script))

    WAIT_READY = "until grep -qs ready said; do sleep 0.05; done"

    def test_a_signal_before_mltunes_number_is_known(self):
        """An end is handed on once it is; a warning is none of the run's."""
        job = self.before_pid(self.listener("ends"),
                              f"{self.WAIT_READY}; kill -INT $$")
        self.assert_code(self.finish(job), 9)
        self.wait_said("ready", "ended")
        (self.folder / "said").unlink()
        job = self.before_pid(self.listener("ends"),
                              f"{self.WAIT_READY}; kill -USR1 $$; : >passed")
        self.wait_until((self.folder / "passed").exists, "the warning")
        job.send_signal(signal.SIGINT)
        done = self.finish(job)
        self.assert_code(done, 9)
        self.assertEqual(done.err, "")

    def test_an_end_as_a_signal_comes(self):
        """A shell that notices the end at once (bash) tells its code, not that
        its wait was broken: here mltune has ended before the trap has."""
        done = self.finish(self.in_job(self.play("other", "exit 0")))
        self.assert_code(done, 0)
        script = (self.folder / "job.sh").read_text()
        tool = self.listener("ends")
        script = re.sub(r"(?m)^mltune=.*$", f"mltune='{tool}'", script)
        slow = ("() { builtin kill \"$@\"; while builtin kill -0 \"$2\" "
                "2>/dev/null; do sleep 0.05; done; }")
        for shell in "bash", "sh":
            job = self.in_shell(shell, script, **(
                {"BASH_FUNC_kill%%": slow} if shell == "bash" else {}))
            self.wait_said("ready")
            job.send_signal(signal.SIGINT)
            self.assert_code(self.finish(job), 9)
            (self.folder / "said").unlink()

    def test_what_cannot_be_submitted(self):
        """Said before anything is made."""
        for words, says in (
                (["--launcher", "pbs"], "expected slurm"),
                (["--group", "a"], "--group is for a service"),
                (["--nodes", "65"], "1 to 64"), (["--nodes", "0"], "1 to 64"),
                (["--time", "soon!"], "--time"),
                (["--sbatch", "mem"], "--sbatch")):
            for more in [], ["--print"]:
                done = self.submit("--state", "far/new", *more, *words)
                self.assert_code(done, 2)
                self.assertIn(says, done.err)
                self.assertFalse((self.folder / "far").exists(), words)
        done = self.mltune("submit", "config.json", "--time", "5")
        self.assert_code(done, 2)
        self.assertIn("--time needs --launcher slurm", done.err)
        self.write("config.json", {"app": {"name": "none"}})
        self.assert_code(self.submit("--print"), 78)
        self.assert_code(self.submit(), 78)
        self.assertFalse((self.folder / ".mltune").exists())

    def test_printing_makes_nothing(self):
        """And says what sbatch lacks then."""
        for state in "new", "far/new", str(self.folder / "other/new"):
            done = self.submit("--print", "--state", state)
            self.assert_code(done, 0)
            place = self.folder / state
            self.assertIn(f'--output="{place}/slurm/%j.log"', done.out)
            self.assertIn(f"the folder {place}/slurm, which is not there",
                          done.err)
            self.assertFalse((self.folder / pathlib.Path(state).parts[0])
                             .exists() and not place.is_absolute())
            self.assertFalse(place.exists())
            self.assertFalse((self.folder / "other").exists())
        (self.folder / "new/slurm").mkdir(parents=True)
        done = self.submit("--print", "--state", "new")
        self.assert_code(done, 0)
        self.assertEqual(done.err, "")

    def test_sbatch_that_does_not_take_it(self):
        self.play("sbatch", "cat >/dev/null; echo 'invalid partition' >&2; "
                  "exit 1")
        done = self.submit("--partition", "none")
        self.assert_code(done, 69)
        self.assertIn("invalid partition", done.err)
        self.assertIn("sbatch did not take the job", done.err)
        self.play("sbatch", "exit 0")
        done = self.submit()
        self.assert_code(done, 69)
        self.assertIn("named no job", done.err)
        self.env["PATH"] = str(self.bin)
        (self.bin / "sbatch").unlink()
        done = self.submit()
        self.assert_code(done, 69)
        self.assertIn("`sbatch` is not on this machine", done.err)
