"""Pods of Kubernetes (`mltune deploy kubernetes`, `cluster.launcher` kubernetes): the
job's own command with the engine's variables, a network namespace a pod.
"""
import json
import pathlib
import signal

from harness import Case, endless_config
from kube import Kube, printed
from test_cluster import fixed
from test_resume import Journal

LONG_S = 150


class Pods(Case):
    def begin(self, config, *words, nodes=3):
        config.setdefault("cluster", {})["workers"] = 1
        self.kube = Kube(self, printed(self, config, *words, nodes=nodes))
        return self.kube

    def tables(self, folder):
        return {p.name: p.read_bytes()
                for p in pathlib.Path(folder).rglob("*.npy")}

    def run_folder(self):
        runs = list((self.kube.volume / "state/runs").iterdir())
        self.assertEqual(len(runs), 1, runs)
        return runs[0]

    def records(self, *kinds):
        state = self.kube.volume / "state"
        done = self.mltune("ls", "--json", "--state", state)
        runs = done.result if done.code == 0 and done.out else []
        return Journal(state, runs[0]["run"]).of(*kinds) if runs else []

    def test_mf_is_the_same_to_the_last_bit(self):
        """And all pods end well; what each node wrote is at the tuner."""
        here = fixed("mf")
        here["cluster"] = {"workers": 1, "nodes": 3}
        one = self.run_config(here, "--json", "--state", "here")
        self.assert_code(one, 0)
        kube = self.begin(fixed("mf"))
        for index in 2, 1, 0:  # they come in any order
            kube.start(index)
        ended = [kube.end_of(i) for i in range(3)]
        for done in ended:
            self.assert_code(done, 0)
        result = ended[0].result
        self.assertEqual(result["status"], "finished")
        self.assertEqual(result["clocks"], one.result["clocks"])
        run = self.run_folder()
        self.assertEqual(self.tables(run / "model"),
                         self.tables(one.result["model"]))
        self.assertEqual(sorted(p.name for p in run.glob("node-*.log")),
                         ["node-0.log", "node-1.log", "node-2.log"])
        # Its pod is started again as if Kubernetes had not seen the end.
        kube.start(0)
        done = kube.end_of(0)
        self.assert_code(done, 0)
        self.assertIn("has finished", done.err)
        self.assertEqual(self.run_folder(), run)
        self.assert_nothing_left()

    def trains_on(self, pods, times):
        """It was resumed so often, and has trained since."""
        seen = len(self.records("run_resumed"))
        self.wait_until(
            lambda: len(self.records("run_resumed")) >= times,
            f"the run to go on (it has {seen} times)", LONG_S)
        before = len(self.records("snapshot_written"))
        self.wait_until(
            lambda: len(self.records("snapshot_written")) > before or
            any(p.poll() is not None for p in pods.values()),
            "a snapshot", LONG_S)
        self.assertEqual([p.poll() for p in pods.values()],
                         [None] * len(pods))

    def test_lost_pods_are_started_again_and_the_run_goes_on(self):
        """A worker's, that of the tuner, and both drained: new pods of the same
        index, at other addresses. Who is not lost waits for who is."""
        config = endless_config()
        config["app"]["data"] = "gen:digits?samples=1000&size=12"
        config["snapshot"] = {"every": 0.2}
        kube = self.begin(config, nodes=2)
        kube.start_all()
        self.trains_on(kube.pods, 0)
        kube.kill(1)
        kube.start(1)
        self.trains_on(kube.pods, 1)
        kube.kill(0)
        self.assertIsNone(kube.pods[1].poll())
        kube.start(0)
        self.trains_on(kube.pods, 2)
        # A drained pod of the tuner leaves a snapshot; the other goes on waiting.
        kube.signal(0, signal.SIGTERM)
        self.assert_code(kube.end_of(0), 128 + signal.SIGTERM)
        self.assertIsNone(kube.pods[1].poll())
        kube.signal(1, signal.SIGTERM)
        self.assert_code(kube.end_of(1), 128 + signal.SIGTERM)
        self.wait_until(lambda: not self.marked(), "all to end", LONG_S)
        self.run_folder()  # one run, all the time
        self.assert_no_fault_in_logs()

    def test_strangers_are_turned_away(self):
        """A pod with another key never takes part, and says what it lacks; so does
        one whose index 0 has no name yet, and index 0 that waits for them."""
        kube = self.begin(fixed("mlr"), "--wait", "2s", nodes=2)
        kube.start(1)
        alone = kube.end_of(1)
        self.assert_code(alone, 75)
        self.assertRegex(alone.err, r"index 1: index 0, which is the tuner, "
                         r"has not answered at tcp://cluster-0\.cluster:7700 "
                         r"for 2 s: .*cluster-0\.cluster")
        kube.start(0)
        kube.start(1, MLTUNE_KEY="bad0" * 16)
        stranger, tuner = kube.end_of(1), kube.end_of(0)
        self.assert_code(stranger, 75)
        self.assertIn("nobody with this job's key answers at 10.99.7.",
                      stranger.err)
        self.assert_code(tuner, 74)
        self.assertIn("index 1, of 2 of the job, has not come within 2 s",
                      tuner.err)
        self.assert_nothing_left()

    def test_a_failure_ends_the_job(self):
        """With a code for which no pod is started again."""
        config = fixed("mlr")
        config["app"] = {**config["app"], "data": "/data/none.csv"}
        self.kube = kube = Kube(self, printed(
            self, config, "--data-claim", "digits", nodes=2))
        kube.start_all()
        tuner, other = kube.end_of(0), kube.end_of(1)
        rules = kube.job["podFailurePolicy"]["rules"]
        self.assertIn(tuner.code, [r for r in rules if r["action"] == "FailJob"]
                      [0]["onExitCodes"]["values"])
        self.assertIn("/data/none.csv", tuner.err)
        self.assert_code(other, 0)
        self.assert_nothing_left()

    def test_outside_of_pods(self):
        """It says what it lacks, and starts nothing."""
        config = {**fixed("mlr"), "cluster": {"launcher": "kubernetes"}}
        done = self.run_config(config)
        self.assert_code(done, 78)
        self.assertIn("works in pods of a job", done.err)
        self.assertEqual(json.loads(self.mltune("ls", "--json").out or "[]"),
                         [])
