"""Ask and tell over HTTP: settings that come from outside the run."""
import json
import re
import signal
import subprocess
import sys

from harness import ROOT, mlr_config
import test_control
import test_serve

SEARCHER = ROOT / "apps/plugins/rest_searcher.py"


def asking_config(wait="10m"):
    """A job whose settings all come from outside."""
    config = mlr_config()
    config["tuner"] = {"searcher": "rest", "trial_clocks": 20,
                       "searcher_settings": {"wait": wait}}
    return config


class Outside:
    """Starts the example; for cases that are served or that serve."""

    def outside(self, run, *words):
        host, port = self.address
        return subprocess.Popen(
            [sys.executable, SEARCHER, "--server", f"http://{host}:{port}",
             "--state", self.folder / ".mltune", *words, run],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, env=self.env, cwd=self.folder)

    def check_told(self, printed, trials):
        """What the example was told is what the run's trials say."""
        told = {int(n): (outcome, speed, json.loads(setting))
                for n, outcome, speed, setting in re.findall(
                    r"trial (\d+): (\w+) (\S+) (.*)", printed)}
        self.assertGreater(len(told), 4)
        for t in trials:
            if t["trial"] not in told:
                continue
            outcome, speed, setting = told[t["trial"]]
            self.assertEqual(setting, t["setting"])
            if t["label"] in ("converging", "unstable") and t["ended"]:
                self.assertEqual(outcome, "speed")
                self.assertGreaterEqual(float(speed), 0)
        return told


class Asking(Outside, test_control.Steered):
    """A run with a server of its own."""

    def config(self):
        return asking_config()

    def search(self):
        return self.get(f"/api/v1/runs/{self.run_id()}/search")

    def suggest(self, body, status=202, **headers):
        return self.write_to(f"/api/v1/runs/{self.run_id()}/trials:suggest",
                             body=body, status=status, **headers)

    def suggestion(self, number):
        return self.get(
            f"/api/v1/runs/{self.run_id()}/suggestions/{number}")

    def wait_for_trial(self, number):
        """Suggestion @number once it is no longer waiting."""
        def look():
            found = self.suggestion(number)
            return found if found["state"] != "waiting" else None
        return self.wait_until(look, f"suggestion {number} to be tried")

    def wait_until_it_waits(self):
        def look():
            search = self.search()
            return search if search["waits"] else None
        return self.wait_until(look, "the search to wait")


class Asked(Asking):
    """All that is tried comes from outside."""

    def test_the_example_tunes_a_run(self):
        """Every trial but the incumbents' is one of its settings."""
        outside = self.outside(self.run_id(), "--trials", "7", "--patience",
                               "5")
        done = self.finish(self.process)
        self.assert_code(done, 0)
        printed, complaints = outside.communicate(timeout=60)
        # The server goes with the run: it may end before the example has
        # seen the end.
        if outside.returncode != 0:
            self.assertIn("no answer", complaints)
        shown = self.mltune("trials", "small-mlr", "--json")
        self.assert_code(shown, 0)
        trials = shown.result["trials"] if isinstance(
            shown.result, dict) else shown.result
        told = self.check_told(printed, trials)
        self.assertGreaterEqual(len(trials), len(told))
        for t in trials:
            self.assertTrue(t["suggestion"] or t["incumbent"], t)
        self.assert_nothing_left()

    def test_a_suggestion_finds_its_trial(self):
        """Numbers lead from the answer to the trial; the same again is known;
        what is not given has the value in use."""
        search = self.wait_until_it_waits()
        self.assertEqual(search["state"], "open")
        self.assertEqual(search["tunables"]["learning_rate"]["max"], 1)
        self.assertGreater(search["wanted"], 0)
        first, second = self.suggest({"settings": [
            {"learning_rate": 0.02}, {"learning_rate": 0.03,
                                      "batch_size": 16}]})["suggestions"]
        found = self.wait_for_trial(second)
        self.assertEqual(found["state"], "begun")
        self.assertEqual(found["setting"], {
            "learning_rate": 0.03, "momentum": 0.9, "batch_size": 16})
        trial = self.get(f"/api/v1/runs/{self.run_id()}/trials/"
                         f"{found['trial']}")
        self.assertEqual(trial["suggestion"], second)
        self.assertEqual(trial["setting"], found["setting"])
        again, = self.suggest({"setting": {"learning_rate": 0.02}})[
            "suggestions"]
        known = self.wait_for_trial(again)
        self.assertEqual(known["state"], "known")
        self.assertEqual(known["trial"], self.suggestion(first)["trial"])
        told = self.wait_until_it_waits()["trials"]
        self.assertEqual([t["suggestion"] for t in told], [first, second])
        self.assertEqual({t["outcome"] for t in told}, {"speed"})
        # A pause is no answer: it waits on.
        self.command("pause")
        self.wait_for_status("paused")
        self.assertEqual(self.search()["state"], "not_now")
        self.command("continue")
        self.suggest({"exhausted": True})
        self.assert_code(self.finish(self.process), 0)

    def test_what_cannot_be_is_refused(self):
        """Every fault with its place; and nothing is accepted by halves."""
        self.wait_until_it_waits()
        problem = self.suggest({"settings": [
            {"learning_rate": 7}, {"momentums": 1, "momentum": 1},
            {"learning_rate": 0.1}]}, 422)
        self.assertEqual(sorted(e["pointer"] for e in problem["errors"]), [
            "/settings/0/learning_rate", "/settings/1/momentum",
            "/settings/1/momentums"])
        for body, pointers in [
                ({}, [""]), ([], [""]), ({"setting": 3}, ["/setting"]),
                ({"settings": [1, {}, 2]}, ["/settings/0", "/settings/2"]),
                ({"settings": []}, ["/settings"]),
                ({"settings": [{}] * 17}, ["/settings"]),
                ({"setting": {}, "settings": [{}]}, ["/settings"]),
                ({"exhausted": 1, "when": 2}, ["/exhausted", "/when"])]:
            problem = self.suggest(body, 422)
            self.assertEqual(sorted(e["pointer"] for e in problem["errors"]),
                             pointers, body)
        self.assertEqual(self.get(
            f"/api/v1/runs/{self.run_id()}/suggestions")["total"], 0)
        self.get(f"/api/v1/runs/{self.run_id()}/suggestions/1", 404)
        self.assert_code(self.mltune("suggest", "small-mlr"), 2)
        done = self.mltune("suggest", "small-mlr", "learning_rate=7", "foo=1")
        self.assert_code(done, 2)
        self.assertIn("learning_rate: expected a number", done.err)
        self.assertRegex(done.err, r"\nfoo: expected .*; they are .*learning_rate")
        done = self.mltune("suggest", "small-mlr", "learning_rat=0.1")
        self.assertIn('did you mean "learning_rate"?', done.err)

    def resume(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.communicate()
        self.process = self.start("resume", "small-mlr")
        log = next(self.folder.glob(".mltune/runs/*/log"))
        seen = log.read_text().count("url=http")
        self.address = self.wait_until(
            lambda: self.address_number(log, seen), "the next address")

    @staticmethod
    def address_number(log, seen):
        found = re.findall(r"url=http://(127\.0\.0\.1):(\d+)/",
                           log.read_text())
        return (found[-1][0], int(found[-1][1])) if len(found) > seen else None

    def test_a_killed_tuner_loses_none_and_repeats_none(self):
        """What was accepted is tried by the resumed run, once; who is not sure
        asks again with the same key."""
        self.wait_until_it_waits()
        first = self.suggest({"setting": {"learning_rate": 0.02}},
                             Idempotency_Key="one")["suggestions"]
        self.wait_for_trial(first[0])
        self.command("pause")
        self.wait_for_status("paused")
        waiting = self.suggest({"settings": [
            {"learning_rate": 0.03}, {"learning_rate": 0.04}]},
            Idempotency_Key="two")["suggestions"]
        self.resume()
        again = self.suggest({"settings": [
            {"learning_rate": 0.03}, {"learning_rate": 0.04}]}, 200,
            Idempotency_Key="two")
        self.assertEqual(again["suggestions"], waiting)
        self.assertFalse(again["changed"])
        for number in first + waiting:
            self.assertEqual(self.wait_for_trial(number)["state"], "begun")
        self.wait_until_it_waits()
        trials = self.get(f"/api/v1/runs/{self.run_id()}/trials")["trials"]
        self.assertEqual([t["suggestion"] for t in trials], first + waiting)
        self.assertEqual([t["setting"]["learning_rate"] for t in trials],
                         [0.02, 0.03, 0.04])
        self.suggest({"exhausted": True})
        self.assert_code(self.finish(self.process), 0)


class Hunch(Asking):
    """A user's hunch beside a searcher that has settings of its own."""

    def config(self):
        return test_control.test_http.endless_config()

    def test_the_verb(self):
        """It is tried in the next search, as any trial."""
        self.wait_for_status("training")
        done = self.mltune("suggest", "endless", "learning_rate=0.0123",
                           "--json")
        self.assert_code(done, 0)
        number, = done.result["suggestions"]
        self.assertEqual(self.suggestion(number)["state"], "waiting")
        self.assertEqual(self.search()["state"], "not_now")
        self.command("retune")
        found = self.wait_for_trial(number)
        self.assertEqual(found["state"], "begun")
        self.assertEqual(found["setting"]["learning_rate"], 0.0123)
        self.assertTrue(any("suggestion 1" in t for t in self.texts()))
        done = self.mltune("suggest", "endless", "--exhausted")
        self.assert_code(done, 2)
        self.assertIn("only it knows", done.err)


class Silent(Asking):
    """Nobody suggests anything."""

    def config(self):
        return asking_config(0.5)

    def test_it_trains_with_the_defaults(self):
        done = self.finish(self.process)
        self.assert_code(done, 0)
        shown = self.mltune("show", "-v", "small-mlr")
        self.assertIn("searcher  search 1 waits no longer: nobody has "
                      "suggested a setting", shown.out)
        self.assertIn("mltune: search 1 waits no longer", done.err)
        self.assertIn("no setting was suggested: the defaults", shown.out)


class Left(Asking):
    """A run that trains on for long after its search."""

    def config(self):
        config = test_control.test_http.endless_config()
        config["tuner"] = {**config.get("tuner", {}),
                           **asking_config()["tuner"]}
        return config

    def test_the_example_ends_well_with_its_run(self):
        """The server is gone with it: nothing was wanted any more."""
        outside = self.outside(self.run_id(), "--trials", "3", "--patience",
                               "2")
        for line in outside.stdout:
            if line == "the search is over\n":
                break
        self.process.send_signal(signal.SIGINT)
        self.finish(self.process)
        printed, complaints = outside.communicate(timeout=100)
        self.assertEqual(outside.returncode, 0, complaints)
        self.assertIn("the end: no search went on, and nobody answers",
                      printed)


class ThroughTheService(Outside, test_serve.Service):
    def test_the_example_tunes_a_run_of_a_service(self):
        """The same through `mltune serve`, over a tuner that is killed."""
        config = asking_config()
        config["stop"] = {"max_epochs": 40, "plateau_epochs": 40}
        run = self.submit(config)
        base = f"/api/v1/runs/{run}"

        def look():
            code, _, answer = self.ask("GET", base + "/search")
            return code == 200 and answer["waits"]
        self.wait_until(look, "the search to wait")
        code, _, problem = self.ask("POST", base + "/trials:suggest",
                                    {"setting": {"learning_rate": 9}})
        self.assertEqual(code, 422, problem)
        outside = self.outside(run, "--trials", "8", "--patience", "60")
        self.wait_until(
            lambda: self.get(base + "/suggestions")["total"] >= 3,
            "suggestions")
        try:
            tuner = self.tuner_of(run)
            subprocess.run(["kill", "-KILL", str(tuner)], check=False)
        except (OSError, ValueError):
            pass
        self.wait_for_status(run, "finished")
        printed, complaints = outside.communicate(timeout=120)
        self.assertEqual(outside.returncode, 0, complaints)
        self.assertIn("the end:", printed)
        trials = self.get(base + "/trials?page_size=1000")["trials"]
        self.check_told(printed, trials)
        for t in trials:
            self.assertTrue(t["suggestion"] or t["incumbent"], t)
        for s in self.get(base + "/suggestions?page_size=1000")["suggestions"]:
            tried = [t for t in trials if t["suggestion"] == s["suggestion"]
                     and t["label"] != "interrupted"]
            self.assertEqual(len(tried), s["state"] == "begun", s)
            self.assertNotEqual(s["state"], "waiting")
        search = self.get(base + "/search")
        self.assertEqual((search["state"], search["wanted"]), ("ended", 0))
        code, _, problem = self.ask("POST", base + "/trials:suggest",
                                    {"setting": {"learning_rate": 0.1}})
        self.assertEqual((code, problem["code"]), (409, "run_ended"))
