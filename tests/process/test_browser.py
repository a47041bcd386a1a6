"""The dashboard in a real browser, where there is one: tests/browser says how."""
import os
import shutil
import subprocess

from harness import ROOT, endless_config
import test_http
import test_serve


def without():
    """What is missing, or None."""
    if not shutil.which("node"):
        return "node"
    if not os.path.exists(os.environ.get("CHROMIUM", "/usr/bin/chromium")):
        return "chromium"
    found = subprocess.run(["node", "-e", "require('playwright-core')"],
                           cwd=ROOT / "tests/browser", capture_output=True)
    return "playwright-core (npm; NODE_PATH names its folder)" \
        if found.returncode else None


class Browser(test_http.Served):
    def setUp(self):
        missing = without()
        if missing:
            self.skipTest(f"no {missing}")
        super().setUp()

    def config(self):
        """One worker: the browser needs a core too."""
        return {**endless_config(), "cluster": {"workers": 1}}

    def test_a_person_follows_and_steers_a_run(self):
        token = (self.folder / ".mltune/token").read_text().strip()
        shots = os.environ.get("MLTUNE_SHOTS", str(self.folder))
        host, port = self.address
        done = subprocess.run(
            ["node", str(ROOT / "tests/browser/dashboard.js"),
             f"http://{host}:{port}/", token, shots],
            capture_output=True, text=True, timeout=600, env=self.env)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.finish(self.process)
        runs = self.mltune("ls", "--json").out
        self.assertIn('"stopped"', runs)


class Service(test_serve.Service):
    def setUp(self):
        missing = without()
        if missing:
            self.skipTest(f"no {missing}")
        super().setUp()

    def story(self, part):
        shots = os.environ.get("MLTUNE_SHOTS", str(self.folder))
        host, port = self.address
        done = subprocess.run(
            ["node", str(ROOT / "tests/browser/service.js"), part,
             f"http://{host}:{port}/", self.token, shots],
            capture_output=True, text=True, timeout=600, env=self.env)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_a_person_submits_forks_and_finds_all_again(self):
        """Two runs, a branch forked and promoted by hand, a restart."""
        self.story("before")
        self.end()
        self.launch()
        self.story("after")
