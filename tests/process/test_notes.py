"""Tags and notes of runs: over HTTP, by `mltune note`, over restarts."""
import json

import harness
import test_http
import test_serve


class Notes(test_serve.Service):
    def write(self, run, body, status=200):
        code, _, answer = self.ask("PATCH", f"/api/v1/runs/{run}/notes", body)
        self.assertEqual(code, status, answer)
        return answer

    def shown(self, run):
        run = self.get(f"/api/v1/runs/{run}")
        return run["tags"], run["note"]

    def test_a_run_is_found_by_what_was_written_to_it(self):
        """Members that are left out stay; the list goes by tags; all of it is
        there after a kill of the service, and gone with the run."""
        one = self.submit(harness.mlr_config(), "?held=true")
        two = self.submit(harness.mlr_config(), "?held=true")
        self.assertEqual(self.shown(one), ([], None))
        answer = self.write(one, {"tags": ["base", "paper", "base"]})
        self.assertEqual(answer["message"], "the run has 2 tags and no note")
        self.write(one, {"note": "two\nlines, <b>"})
        self.write(two, {"tags": ["paper"]})
        self.assertEqual(self.shown(one), (["base", "paper"],
                                           "two\nlines, <b>"))

        def tagged(tag):
            return {r["run"] for r in
                    self.get(f"/api/v1/runs?tag={tag}")["runs"]}

        self.assertEqual([tagged(t) for t in ("paper", "base", "none")],
                         [{one, two}, {one}, set()])
        self.end(9)
        self.launch()
        self.assertEqual(self.shown(one), (["base", "paper"],
                                           "two\nlines, <b>"))
        listed = json.loads(self.mltune("ls", "--json").out)
        self.assertEqual({r["run"]: r["tags"] for r in listed},
                         {one: ["base", "paper"], two: ["paper"]})
        self.write(one, {"tags": [], "note": None})
        self.assertEqual(self.shown(one), ([], None))
        self.assertEqual(self.ask("DELETE", f"/api/v1/runs/{two}")[0], 200)
        self.assertFalse((self.folder / f".mltune/runs/{two}").exists())
        last = (self.folder / ".mltune/audit").read_text().splitlines()
        notes = [json.loads(line) for line in last
                 if json.loads(line)["what"] == "note"]
        self.assertEqual([(n["on"], n["outcome"]) for n in notes],
                         [(one, "200"), (one, "200"), (two, "200"),
                          (one, "200")])

    def test_what_is_no_note_is_refused(self):
        run = self.submit(harness.mlr_config(), "?held=true")
        for body, pointer in (({}, ""), ({"tags": ["a b"]}, "/tags/0"),
                              ({"note": "x" * 4001}, "/note"),
                              ({"text": 1}, "/text")):
            answer = self.write(run, body, 422)
            self.assertEqual((answer["code"], answer["errors"][0]["pointer"]),
                             ("invalid_body", pointer))
        self.write("nothing-here", {"note": "a"}, 404)
        code, _, answer = self.ask("PATCH", f"/api/v1/runs/{run}/notes",
                                   {"note": "a"}, Authorization="Bearer x")
        self.assertEqual(code, 401)
        file = self.folder / f".mltune/runs/{run}/notes.json"
        self.assertFalse(file.exists())
        # A damaged file hides nothing else, and is left to people.
        file.write_text('{"version": 1, "tags": [1]}')
        self.end()
        self.launch()
        self.assertEqual(self.shown(run), ([], None))
        answer = self.write(run, {"note": "a"}, 507)
        self.assertIn("notes.json is damaged: /tags/0", answer["detail"])
        self.assertEqual(file.read_text(), '{"version": 1, "tags": [1]}')

    def test_the_verb(self):
        """Through a service, and into the folder without one."""
        run = self.submit(harness.mlr_config(), "?held=true")
        done = self.mltune("note", run, "the first", "--tags", "a,b")
        self.assert_code(done, 0)
        self.assertIn("2 tags and a note", done.out)
        self.assertEqual(self.shown(run), (["a", "b"], "the first"))
        self.end()
        self.assert_code(self.mltune("note", run, "--tags", ""), 0)
        done = self.mltune("note", run, "later", "--json")
        self.assertEqual(json.loads(done.out),
                         {"tags": [], "note": "later", "run": run})
        listed = json.loads(self.mltune("ls", "--json").out)
        self.assertEqual((listed[0]["tags"], listed[0]["note"]),
                         ([], "later"))
        for words, code, says in (
                ((run,), 2, "nothing is noted"),
                ((run, "--tags", "a b"), 2, "/tags/0: expected 1 to 40 bytes"),
                (("nothing", "x"), 2, "no run \"nothing\"")):
            done = self.mltune("note", *words)
            self.assert_code(done, code)
            self.assertIn(says, done.err)


class Alone(test_http.Served):
    def test_the_server_of_one_run_shows_what_is_written(self):
        """It writes nothing itself, and says who does."""
        run = self.get("/api/v1/runs")["runs"][0]["run"]
        # It answers a moment before it is in the journal.
        self.wait_until(lambda: run in self.mltune("ls").out, "the run listed")
        self.assert_code(self.mltune("note", run, "seen", "--tags", "t"), 0)
        self.wait_until(lambda: self.get(f"/api/v1/runs/{run}")["note"] == "seen",
                        "the note")
        self.assertEqual(self.get(f"/api/v1/runs/{run}")["tags"], ["t"])
        code, _, body = self.ask(
            f"/api/v1/runs/{run}/notes", "PATCH",
            {"Authorization": "Bearer " + (
                self.folder / ".mltune/token").read_text().strip(),
             "Content-Type": "application/json"}, '{"note": "a"}')
        self.assertEqual((code, json.loads(body)["code"]),
                         (409, "not_supported"))
        self.assertIn("`mltune note` does", json.loads(body)["detail"])
