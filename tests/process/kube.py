"""Pods for tests: what `mltune deploy kubernetes` prints, done as Kubernetes does it.

Each pod is a network namespace with an address of its own and a cable to the others,
and a process that is PID 1 of its own processes. It has the job's volumes at their
paths, a user who is not root, and the environment that the job and Kubernetes give
it. The names that the headless Service gives pods stand in the hosts' file. A pod
that is started again has another address, as a new one has.

It needs root, and `ip` that makes namespaces: what cannot be made there fails.
"""
import json
import os
import pathlib
import shutil
import signal
import subprocess

from harness import BUILD, MARK

# What the machine's programs need of /etc, as an image has it.
ETC = ("passwd", "group", "nsswitch.conf", "ld.so.cache", "alternatives")
PATH = "/opt/mltune:/usr/bin:/bin"

# In the pod's own mounts; its arguments are folder, build, user and command.
INSIDE = """
set -e
pod=$1 build=$2 user=$3
shift 3
mount --bind "$pod/etc" /etc
mount -t tmpfs tmpfs /opt
mkdir /opt/mltune
mount --bind "$build" /opt/mltune
mount -t tmpfs tmpfs /var/lib
mkdir /var/lib/mltune
mount --bind "$pod/../volume" /var/lib/mltune
cd /
exec setpriv --reuid "$user" --regid "$user" --clear-groups --no-new-privs \\
    --inh-caps=-all --bounding-set=-all "$@"
"""


def ip(*words):
    return subprocess.run(["ip", *words], check=True, capture_output=True,
                          text=True)


class Kube:
    """A job's pods, of a test @case. @objects: the List that was printed."""

    def __init__(self, case, objects):
        self.case = case
        of = {o["kind"]: o for o in objects["items"]}
        self.job, self.secret = of["Job"]["spec"], of["Secret"]["stringData"]
        self.service = of["Service"]
        self.spec = self.job["template"]["spec"]
        self.name = of["Job"]["metadata"]["name"]
        self.folder = case.folder / "pods"
        self.volume = self.folder / "volume"
        self.net = f"mk{os.getpid()}{id(self) % 9973}"
        self.made = 0  # pods so far: each has an address of its own
        self.names = {}
        self.pods = {}
        user = self.spec["securityContext"]["runAsUser"]
        self.volume.mkdir(parents=True)
        os.chown(self.volume, user, user)
        case.folder.chmod(0o755)
        case.addCleanup(self.remove)
        ip("netns", "add", self.net)
        ip("-n", self.net, "link", "add", "br0", "type", "bridge")
        ip("-n", self.net, "link", "set", "br0", "up")

    def remove(self):
        self.case.end_all()
        for i in range(self.made):
            subprocess.run(["ip", "netns", "del", f"{self.net}-{i}"],
                           check=False, capture_output=True)
        subprocess.run(["ip", "netns", "del", self.net], check=False,
                       capture_output=True)

    # ---- a pod -----------------------------------------------------------

    def new_place(self):
        """A namespace with a cable; its name and address."""
        place, address = f"{self.net}-{self.made}", f"10.99.7.{self.made + 1}"
        ip("netns", "add", place)
        self.made += 1
        cable = f"v{self.made}"
        ip("-n", self.net, "link", "add", cable, "type", "veth", "peer",
           "name", "eth0", "netns", place)
        ip("-n", self.net, "link", "set", cable, "master", "br0", "up")
        ip("-n", place, "addr", "add", f"{address}/24", "dev", "eth0")
        for link in "lo", "eth0":
            ip("-n", place, "link", "set", link, "up")
        return place, address

    def variables(self, index, address):
        """As the job says, and as Kubernetes does."""
        values = {}
        for v in self.spec["containers"][0]["env"]:
            source = v.get("valueFrom", {})
            if "fieldRef" in source:
                if source["fieldRef"]["fieldPath"] != "status.podIP":
                    raise AssertionError(v)
                values[v["name"]] = address
            elif "secretKeyRef" in source:
                values[v["name"]] = self.secret[source["secretKeyRef"]["key"]]
            else:
                values[v["name"]] = v["value"]
        return {**values, "PATH": PATH, "JOB_COMPLETION_INDEX": str(index),
                MARK: self.case.mark,
                **{k: v for k, v in os.environ.items() if "SAN_OPTIONS" in k}}

    def tell_names(self):
        """To all pods there are: in place, since it is mounted there."""
        text = "127.0.0.1 localhost\n" + "".join(
            f"{address} {name}\n" for name, address in self.names.items())
        for etc in self.folder.glob("*/etc"):
            (etc / "hosts").write_text(text)

    def make_folder(self, index):
        pod = self.folder / f"{index}-{self.made}"
        (pod / "etc/mltune").mkdir(parents=True)
        for name in ETC:
            source = pathlib.Path("/etc", name)
            if source.is_dir():
                shutil.copytree(source, pod / "etc" / name, symlinks=True)
            elif source.exists():
                shutil.copy(source, pod / "etc" / name)
        (pod / "etc/hosts").touch()
        (pod / "etc/mltune/config.json").write_text(
            self.secret["config.json"])
        return pod

    def start(self, index, **variables):
        """Pod @index, which may have been there before; the process that stands
        for it."""
        place, address = self.new_place()
        pod = self.make_folder(index)
        name = f"{self.name}-{index}.{self.service['metadata']['name']}"
        self.names[name] = address
        self.tell_names()
        env = {**self.variables(index, address), **variables}
        self.pods[index] = subprocess.Popen(
            ["ip", "netns", "exec", place, "unshare", "--mount", "--pid",
             "--uts", "--fork", "--mount-proc", "--kill-child", "sh", "-c",
             INSIDE, "sh", pod, BUILD,
             str(self.spec["securityContext"]["runAsUser"]),
             *self.spec["containers"][0]["command"]],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, env=env)
        return self.pods[index]

    def start_all(self):
        for index in range(self.job["completions"]):
            self.start(index)

    def children(self, pid):
        return pathlib.Path(f"/proc/{pid}/task/{pid}/children") \
            .read_text().split()

    def signal(self, index, number):
        """To the container's first process."""
        first = self.children(self.pods[index].pid)
        os.kill(int(first[0]), number)

    def kill(self, index):
        """All that is in the pod, at once, as its first process ends."""
        self.signal(index, signal.SIGKILL)
        return self.case.finish(self.pods[index])

    def end_of(self, index, seconds=150):
        return self.case.finish(self.pods[index], seconds)


def printed(case, config, *words, nodes=3):
    """What `mltune deploy` prints for @config."""
    case.write("job.json", config)
    done = case.mltune("deploy", "kubernetes", "job.json", "--image", "mltune",
                       "--nodes", nodes, "--state-claim", "runs", *words)
    case.assert_code(done, 0)
    return json.loads(done.out)
