"""Pods of Kubernetes (`mltune deploy kubernetes`, `cluster.launcher` kubernetes): the
job's own command with the engine's variables, a network namespace a pod.
"""
import copy
import fcntl
import json
import pathlib
import shutil
import signal
import socket
import subprocess

from harness import ROOT, Case, endless_config
from kube import Kube, printed
from test_cluster import fixed
from test_openapi import MODULES, tool
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
        """With a code for which no pod is started again. A pod to which the
        tuner's last word did not come waits for the next one: Kubernetes ends
        it with the job."""
        config = fixed("mlr")
        config["app"] = {**config["app"], "data": "/data/none.csv"}
        self.kube = kube = Kube(self, printed(
            self, config, "--data-claim", "digits", "--wait", "60s", nodes=2))
        kube.start_all()
        tuner, other = kube.end_of(0), kube.end_of(1)
        rules = kube.job["podFailurePolicy"]["rules"]
        self.assertIn(tuner.code, [r for r in rules if r["action"] == "FailJob"]
                      [0]["onExitCodes"]["values"])
        self.assertIn("/data/none.csv", tuner.err)
        if other.code != 0:
            self.assert_code(other, 75)
            self.assertIn("has not answered", other.err)
        self.assert_nothing_left()

    def test_outside_of_pods(self):
        """It says what it lacks, and starts nothing."""
        config = {**fixed("mlr"), "cluster": {"launcher": "kubernetes"}}
        done = self.run_config(config)
        self.assert_code(done, 78)
        self.assertIn("works in pods of a job", done.err)
        self.assertEqual(json.loads(self.mltune("ls", "--json").out or "[]"),
                         [])

    def test_a_lock_that_outlives_its_pod_is_waited_for(self):
        """And what goes wrong at the desk never ends the job for good."""
        taken = socket.socket()
        self.addCleanup(taken.close)
        taken.bind(("", 0))
        taken.listen()
        self.env.update(MLTUNE_JOB="job", JOB_COMPLETION_INDEX="0",
                        MLTUNE_PODS="2", MLTUNE_POD_WAIT="1",
                        MLTUNE_KEY="beef" * 16,
                        MLTUNE_ROOT=f"tcp://a:{taken.getsockname()[1]}")
        place = self.folder / "state/kubernetes/job"
        place.mkdir(parents=True, mode=0o700)
        config = {**fixed("mlr"), "cluster": {"launcher": "kubernetes"}}
        self.write("job.json", config)
        words = "run", "job.json", "--state", "state"
        with open(place / "lock", "w") as lock:
            fcntl.lockf(lock, fcntl.LOCK_EX)
            done = self.mltune(*words)
            self.assert_code(done, 75)
            self.assertRegex(done.err, "index 0: another one has held .*/job "
                             "for 1 s")
            self.env["MLTUNE_POD_WAIT"] = str(LONG_S)
            waits = self.start(*words)
            self.assertIn("another one holds", waits.stderr.readline())
        done = self.finish(waits)
        self.assert_code(done, 74)
        self.assertIn("cannot listen for the job's pods", done.err)
        self.assertIn("nothing else in the pod may listen at that port", done.err)
        self.assertNotIn("cluster.address", done.err)

    def test_the_pods_script(self):
        """It goes on with what may be gone on with, and with nothing that its user
        has stopped; no failure of it is that of a run."""
        self.write("job.json", fixed("mlr"))
        done = self.mltune("deploy", "kubernetes", "job.json", "--image", "a")
        pod = json.loads(done.out)["items"][2]["spec"]["template"]["spec"]
        command = pod["containers"][0]["command"]
        script = command[2].replace("/var/lib/mltune", str(self.folder))
        (self.folder / "bin").mkdir()
        self.write("bin/mltune", "#!/bin/sh\n[ $1 != show ] && echo $1 $2 ||"
                   " echo '{\"status\":\"'$STATUS'\"}'\n").chmod(0o755)
        runs = self.folder / "state/kubernetes"

        def said(status):
            return self.finish(subprocess.Popen(
                [*command[:2], script], text=True, stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                env={"PATH": f"{self.folder}/bin:/usr/bin:/bin",
                     "MLTUNE_JOB": "j", "JOB_COMPLETION_INDEX": "0",
                     "STATUS": status}))

        runs.parent.mkdir()
        runs.write_text("no folder")
        self.assert_code(said(""), 74)
        runs.unlink()
        (runs / "j.run").mkdir(parents=True)
        (runs / "j.run/a").touch()
        self.assert_code(said(""), 74)
        shutil.rmtree(runs / "j.run")
        (runs / "j.run").write_text("digits-1")
        for status, out in (("interrupted", "resume digits-1\n"),
                            ("failed", "resume digits-1\n"),
                            ("finished", ""), ("stopped", "")):
            done = said(status)
            self.assert_code(done, 0)
            self.assertEqual(done.out, out)


class Objects(Case):
    """What is printed, and what is refused; no pod is started."""

    def kinds(self, *words, config=None):
        objects = printed(self, config or fixed("mf"), *words)
        return objects, {o["kind"]: o for o in objects["items"]}

    def typed(self, objects):
        """As TypeScript, to which a name that the schema has not is an error."""
        lines = []
        for o in objects["items"]:
            place = "batch/v1" if o["kind"] == "Job" else "v1"
            lines.append(
                f"import type {{I{o['kind']}}} from "
                f"\"kubernetes-models/{place}/{o['kind']}\";\n"
                f"export const a{o['kind']}: I{o['kind']} = "
                f"{json.dumps(o, indent=1)};\n")
        return "".join(lines)

    def test_they_are_those_of_the_published_schema(self):
        """Of Kubernetes 1.36: with all options, and with none. Nothing is there
        that the schema does not know; and what is wrong would be found."""
        (self.folder / "node_modules").symlink_to(MODULES)
        shutil.copy(ROOT / "tests/browser/kube.mjs", self.folder)
        self.write("package.json", {"type": "module"})
        self.write("tsconfig.json", {
            "files": ["full.ts", "least.ts", "odd.ts"],
            "compilerOptions": {
                "strict": True, "module": "nodenext", "target": "es2022",
                "lib": ["es2022"], "noEmit": True, "types": [],
                "skipLibCheck": True}})
        config = {**fixed("mf"), "cluster": {"workers": 2}}
        full, _ = self.kinds(
            "--namespace", "ml", "--name", "all-of-it", "--data-claim", "data",
            "--data-path", "/srv/data", "--cpu", "3", "--memory", "2GiB",
            "--wait", "90s", "--user", "1000", "--pull-secret", "registry",
            config=config)
        self.write("job.json", {**fixed("mf"), "cluster": {}})
        done = self.mltune("deploy", "kubernetes", "job.json", "--image", "a")
        self.assert_code(done, 0)
        self.assertIn("without --state-claim", done.err)
        self.assertIn("ask for no cores", done.err)
        least = json.loads(done.out)
        bad = copy.deepcopy(full)
        spec = bad["items"][2]["spec"]
        spec["completions"] = "many"
        spec["completionMode"] = "Indexes"
        odd = copy.deepcopy(full)
        odd["items"][2]["spec"]["template"]["spec"]["restartsPolicy"] = "Never"
        for name, objects, code in (("full", full, 0), ("least", least, 0),
                                    ("odd", odd, 0), ("bad", bad, 1)):
            self.write(f"{name}.json", objects)
            self.write(f"{name}.ts", self.typed(objects))
            found = self.validated(name)
            self.assertEqual(found.code, code, found.out)
        self.assertRegex(found.out, "Job: .*(completions|completionMode)")
        said = tool("typescript/bin/tsc", "-p", ".", folder=self.folder, code=2)
        self.assertEqual({line.partition("(")[0] for line in said.splitlines()
                          if "error TS" in line}, {"odd.ts"}, said)
        self.assertIn("restartsPolicy", said)

    def validated(self, name):
        return self.finish(subprocess.Popen(
            ["node", "kube.mjs", f"{name}.json"], cwd=self.folder, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE))

    def test_what_is_asked_for_is_there(self):
        """And each object leads to the others."""
        _, of = self.kinds("--namespace", "ml", "--data-claim", "ratings",
                           "--cpu", "3", "--wait", "90s", "--user", "1000")
        job = of["Job"]["spec"]
        pod = job["template"]["spec"]
        container = pod["containers"][0]
        env = {v["name"]: v.get("value") for v in container["env"]}
        self.assertEqual([o["metadata"]["namespace"] for o in of.values()],
                         ["ml"] * 3)
        self.assertEqual((job["completionMode"], job["completions"],
                          job["parallelism"]), ("Indexed", 3, 3))
        self.assertEqual(pod["subdomain"], of["Service"]["metadata"]["name"])
        self.assertEqual(of["Service"]["spec"]["clusterIP"], "None")
        self.assertEqual(of["Service"]["spec"]["selector"],
                         {"batch.kubernetes.io/job-name": "cluster"})
        self.assertEqual(env["MLTUNE_ROOT"], "tcp://cluster-0.cluster:7700")
        self.assertEqual((env["MLTUNE_PODS"], env["MLTUNE_POD_WAIT"]),
                         ("3", "90"))
        self.assertRegex(env["MLTUNE_JOB"], r"^cluster-[0-9a-f]{8}$")
        claims = {v["name"]: v["persistentVolumeClaim"]["claimName"]
                  for v in pod["volumes"] if "persistentVolumeClaim" in v}
        self.assertEqual(claims, {"state": "runs", "data": "ratings"})
        mounts = {m["name"]: m["mountPath"] for m in container["volumeMounts"]}
        self.assertEqual(set(mounts), {v["name"] for v in pod["volumes"]})
        self.assertEqual(container["workingDir"], mounts["data"])
        # A third of memory.limit, 256 MiB; a quarter more, and 512 MiB.
        part = -(-(256 << 20) // 3)
        self.assertEqual(container["resources"]["limits"],
                         {"cpu": "3", "memory": str(part + part // 4 + (512 << 20))})
        self.assertEqual(pod["securityContext"]["runAsUser"], 1000)
        self.assertRegex(of["Secret"]["stringData"]["key"], r"^[0-9a-f]{64}$")
        self.assertEqual(json.loads(of["Secret"]["stringData"]["config.json"]),
                         fixed("mf"))
        # No key is in what `kubectl get job` shows.
        self.assertNotIn(of["Secret"]["stringData"]["key"],
                         json.dumps(of["Job"]))
        again = self.kinds()[1]["Secret"]["stringData"]["key"]
        self.assertNotEqual(again, of["Secret"]["stringData"]["key"])

    def test_what_is_refused(self):
        """Each in words that say what is wrong; nothing is printed."""
        self.write("good.json", fixed("mf"))
        relative = fixed("mf")
        relative["app"] = {**relative["app"], "data": "ratings.tsv"}
        self.write("relative.json", relative)
        absolute = {**relative, "app": {**relative["app"],
                                        "data": "/home/me/ratings.tsv"}}
        self.write("absolute.json", absolute)
        up = {**relative, "app": {**relative["app"], "data": "../r.tsv"}}
        self.write("up.json", up)
        self.write("none.json", {"app": {"name": "none"}})
        self.write("no.json", "no JSON")
        self.write("zero.json", {**fixed("mf"), "cluster": {"nodes": 0}})
        self.write("two.json", {**fixed("mf"), "cluster": {"nodes": 2}})
        self.write("own.json", {"app": {"command": ["true"]},
                                "tunables": {"learning_rate": {}}})
        image, long = ("--image", "mltune:0.1"), "a" * 64
        for words, code, says in (
                (["good.json"], 2, "--image IMAGE is missing"),
                (["good.json", "--image", ""], 2, "no image's name"),
                (["good.json", "--image", "a b"], 2, "no image's name"),
                (["good.json", *image, "--nodes", "0"], 2, "1 to 64"),
                (["good.json", *image, "--nodes", "65"], 2, "1 to 64"),
                (["good.json", *image, "--cpu", "0"], 2, "--cpu"),
                (["good.json", *image, "--user", "0"], 2, "not root"),
                (["good.json", *image, "--memory", "1"], 2, "64MiB"),
                (["good.json", *image, "--wait", "soon"], 2, "--wait"),
                (["good.json", *image, "--name", "My_job"], 2, "RFC 1123"),
                (["good.json", *image, "--name", "1st"], 2, "RFC 1035"),
                (["good.json", *image, "--name", "end-"], 2, "a dash"),
                (["good.json", *image, "--name", long], 2, "longer than 61"),
                (["good.json", *image, "--namespace", "a.b"], 2, "RFC 1123"),
                (["good.json", *image, "--state-claim", "a..b"], 2,
                 "a part without a character"),
                (["good.json", *image, "--data-claim", "A"], 2,
                 "--data-claim"),
                (["good.json", *image, "--pull-secret", "A"], 2,
                 "--pull-secret"),
                (["good.json", *image, "--data-path", "/d"], 2,
                 "--data-path needs --data-claim"),
                (["good.json", *image, "--data-claim", "d", "--data-path",
                  "d"], 2, "an absolute path"),
                (["good.json", *image, "--data-claim", "d", "--data-path",
                  "/var/lib/mltune"], 2, "found /var/lib/mltune"),
                (["good.json", *image, "--wait", "1500ms"], 2,
                 "whole seconds"),
                (["two.json", *image], 2, "--state-claim is missing"),
                (["relative.json", *image], 2, "on no volume of the pods"),
                (["absolute.json", *image, "--data-claim", "d"], 2,
                 "mounted at /data"),
                (["up.json", *image, "--data-claim", "d"], 2, "../r.tsv"),
                (["none.json", *image], 78, "none"),
                (["no.json", *image], 78, "no.json"),
                (["zero.json", *image], 78, "/cluster/nodes"),
                (["own.json", *image], 78, "/cluster/launcher"),
                (["missing.json", *image], 74, "missing.json")):
            done = self.mltune("deploy", "kubernetes", *words)
            self.assert_code(done, code)
            self.assertIn(says, done.err)
            self.assertEqual(done.out, "", words)
        done = self.mltune("deploy", "nomad", "good.json", *image)
        self.assert_code(done, 2)
        self.assertIn("expected kubernetes", done.err)
        for place in "ratings.tsv", "/data/ratings.tsv":
            relative["app"]["data"] = place
            self.kinds("--data-claim", "d", config=relative)
