"""The dashboard in a real browser: tests/browser says how."""
import os
import shutil
import subprocess
import unittest

from harness import ROOT, endless_config, mlr_config
import test_http
import test_log
import test_serve


class Modules(unittest.TestCase):
    """Of the page, without a server."""

    def tell(self, story):
        done = subprocess.run(["node", str(ROOT / "tests/browser" / story)],
                              capture_output=True, text=True, timeout=300,
                              check=False)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_what_the_page_reckons(self):
        self.tell("figures.js")

    def test_plots_draw_whatever_they_are_given(self):
        self.tell("plots.js")

    def test_a_list_of_ten_thousand_runs(self):
        self.tell("runs.js")

    def test_what_the_page_must_not_say(self):
        self.tell("odd.js")

    def test_what_a_role_lets_a_person_do(self):
        self.tell("people.js")

    def test_what_people_write(self):
        self.tell("written.js")

    def test_the_tree_of_ten_and_of_a_thousand_branches(self):
        self.tell("branches.js")

    def test_settings_on_their_own_scales(self):
        self.tell("settings.js")

    def test_what_is_said_of_an_end_and_of_time(self):
        self.tell("states.js")

    def test_what_is_asked_in_each_state(self):
        self.tell("prompts.js")

    def test_the_cluster_s_figures_agree(self):
        self.tell("cluster.js")

    def test_the_log_of_several_processes_and_its_end(self):
        self.tell("log.js")


class Browser(test_http.Served):
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


class Configuration(test_serve.Service):
    def test_a_person_sees_what_a_run_was_begun_with(self):
        for name, n in (("train.csv", 320), ("test.csv", 80)):
            self.write(name, "a,b,plan,y\n" + "".join(
                f"{i % 7},{i % 5 if i % 8 else '?'},{'pro' if i % 3 else 'basic'},"
                f"{'yes' if i % 7 > i % 5 else 'no'}\n" for i in range(n)))
        run = self.submit({"app": {"name": "mlr", "data": "train.csv",
                                   "test": "test.csv"},
                           "metric": "macro_f1", "stop": {"max_epochs": 2}})
        self.wait_for_status(run, "finished")
        given = self.get(f"/api/v1/runs/{run}/config?form=given")
        self.assertEqual(given["stop"], {"max_epochs": 2})
        self.assertNotIn("cluster", given)
        host, port = self.address
        done = subprocess.run(
            ["node", str(ROOT / "tests/browser/config.js"),
             f"http://{host}:{port}/", run,
             os.environ.get("MLTUNE_SHOTS", str(self.folder))],
            capture_output=True, text=True, timeout=300, env=self.env)
        self.assertEqual(done.returncode, 0, done.stderr)
        other = self.submit(mlr_config(max_epochs=1))  # answers are kept
        self.wait_for_status(other, "finished")
        (self.folder / f".mltune/runs/{other}/given.json").unlink()
        missing = self.get(f"/api/v1/runs/{other}/config?form=given", 404)
        self.assertEqual(missing["code"], "config_not_found")


class Programs(test_serve.Service):
    OPTIONS = ("--allow-programs",)

    def test_a_person_reads_the_log_of_a_program_that_failed(self):
        shutil.copy(test_log.LINE, self.folder)
        config = test_log.line_config(
            wrong="raise", after=20, say="<img src=x onerror=alert(1)>\x1b[31m")
        config["app"]["folder"] = str(self.folder)
        run = self.submit(config)
        self.wait_for_status(run, "failed")
        host, port = self.address
        done = subprocess.run(
            ["node", str(ROOT / "tests/browser/program.js"),
             f"http://{host}:{port}/", run,
             os.environ.get("MLTUNE_SHOTS", str(self.folder))],
            capture_output=True, text=True, timeout=300, env=self.env)
        self.assertEqual(done.returncode, 0, done.stderr)
