"""Verbs that answer from what is built in: help, validate, schema, lists."""
import json
import os
import re
import shutil
import subprocess

from harness import BUILD, ROOT, Case, mlr_config

VERBS = ["run", "ls", "show", "watch", "log", "validate", "schema", "apps",
         "searchers", "strategies", "data"]


class Verbs(Case):
    def test_help_on_every_verb(self):
        overview = self.mltune("--help")
        self.assert_code(overview, 0)
        for verb in VERBS:
            self.assertIn(f"  {verb} ", overview.out)
            for words in (verb, "--help"), ("help", verb):
                done = self.mltune(*words)
                self.assert_code(done, 0)
                self.assertIn(f"Usage: mltune {verb}", done.out)
                self.assertEqual(done.err, "")

    def test_version_is_one_line(self):
        done = self.mltune("--version")
        self.assert_code(done, 0)
        self.assertRegex(done.out, r"^mltune \d+\.\d+\.\d+\n$")

    def test_misuse_ends_with_2(self):
        for words in [], ["vaildate"], ["--frobnicate"], ["validate"], \
                ["validate", "a", "b"], ["schema", "--jsn"]:
            done = self.mltune(*words)
            self.assert_code(done, 2)
            self.assertEqual(done.out, "")
        self.assertIn("did you mean validate?", self.mltune("vaildate").err)

    def test_output_that_is_lost_is_an_error(self):
        with open("/dev/full", "w", encoding="ascii") as full:
            done = self.mltune("schema", stdout=full)
        self.assert_code(done, 74)
        self.assertIn("No space left", done.err)

    def test_no_color_unless_a_terminal(self):
        self.assertNotIn("\033", self.mltune("vaildate").err)


class Manual(Case):
    """What is made from the tables of verbs and options."""

    def verbs(self):
        text = self.mltune("--help").out
        return re.findall(r"^  ([a-z-]+) +\S", text, re.M)

    def options_of(self, verb):
        return re.findall(r"^ {2,6}(?:-\w, )?--([a-z-]+)",
                          self.mltune(verb, "--help").out, re.M)

    def test_every_verb_has_a_page_with_its_options(self):
        overview = (ROOT / "docs/man/mltune.1").read_text()
        verbs = self.verbs()
        self.assertIn("serve", verbs)
        for verb in verbs:
            self.assertRegex(overview, rf"\b{verb}\b", "not in mltune.1")
            page = self.mltune("man", verb)
            self.assert_code(page, 0)
            options = self.options_of(verb)
            self.assertIn("help", options)
            for option in options:
                self.assertIn("Fl \\-" + option.replace("-", "\\-"), page.out)
            told = self.mltune(verb, "--help").out.split("\nExamples:\n")[1]
            for line in re.findall(r"^  (mltune .*)", told, re.M):
                self.assertIn(
                    "$ " + line.replace("\\", "\\e").replace("-", "\\-"),
                    page.out.split(".Sh EXAMPLES")[1])
            if shutil.which("groff"):
                done = subprocess.run(
                    ["groff", "-mdoc", "-Tutf8", "-ww"], input=page.out,
                    capture_output=True, text=True, timeout=60, check=False)
                self.assertEqual(done.stderr, "", verb)
        self.assert_code(self.mltune("man", "frobnicate"), 2)

    def test_the_overviews_examples_are_taken(self):
        """Those of each verb's own page a unit test parses."""
        page = (ROOT / "docs/man/mltune.1").read_text()
        lines = re.findall(r"^\.Dl \$ mltune (.*)", page, re.M)
        self.assertGreater(len(lines), 4)
        for line in lines:
            words = line.replace("\\-", "-").split(" | ")[0].split()
            done = self.mltune(*words, "--help")
            self.assert_code(done, 0)


class Doctor(Case):
    def test_what_this_machine_can_do(self):
        """Where tests run, nothing is missing; a state folder that cannot be
        is."""
        done = self.mltune("doctor", "--json")
        self.assert_code(done, 0)
        found = {line["check"]: line for line in done.result}
        for check in ("cores", "memory", "huge pages", "open files", "disk",
                      "port", "libraries", "https", "namespaces"):
            self.assertIn(found[check]["verdict"], ("ok", "note"))
            self.assertEqual(found[check]["verdict"] == "note",
                             found[check]["advice"] != "")
        gpu = [line for line in done.result
               if line["check"] == "gpu" or line["check"].startswith("cuda:")]
        self.assertTrue(gpu)
        for line in gpu:
            self.assertEqual(line["verdict"] == "note", line["advice"] != "")
        # Built where there is a compiler, used where there is a driver.
        there = (BUILD / "libmltune-cuda.so").exists()
        words = "driver|cuda:0" if there else "libmltune-cuda.so is not beside"
        self.assertRegex(gpu[0]["found"] + gpu[0]["check"], words)
        self.assertFalse((self.folder / ".mltune").exists())
        text = self.mltune("doctor")
        self.assert_code(text, 0)
        self.assertIn("huge pages", text.out)
        done = self.mltune("doctor", "--json", "--state", "/proc/nowhere/x")
        if os.geteuid() != 0:
            self.assert_code(done, 1)
        self.assertEqual(done.code, int("missing" in done.out))


class Data(Case):
    def test_generated_ratings_are_described_as_asked_for(self):
        spec = "gen:ratings?users=50&items=20&ratings=300"
        self.assert_code(self.mltune("data", "gen", spec, "r.tsv"), 0)
        done = self.mltune("data", "info", "r.tsv")
        self.assert_code(done, 0)
        info = json.loads(done.out)
        self.assertEqual((info["kind"], info["ratings"]), ("ratings", 300))

    def test_a_table_says_what_its_columns_hold(self):
        """Kinds, what is missing, categories and classes; of many columns the
        first, and how many more there are."""
        self.write("t.csv", "age,plan,kind\n30,pro,b\n?,basic,a\n41,pro,b\n"
                   "10,,b\n")
        info = json.loads(self.mltune("data", "info", "t.csv").out)
        self.assertEqual(info["missing"], 2)
        self.assertEqual(info["columns_left_out"], 0)
        self.assertEqual(info["columns"], [
            {"name": "age", "kind": "number", "missing": 1, "min": 10.0,
             "max": 41.0, "mean": 27.0},
            {"name": "plan", "kind": "category", "missing": 1,
             "categories": 2},
            {"name": "kind", "kind": "label", "missing": 0, "classes": [
                {"name": "a", "samples": 1}, {"name": "b", "samples": 3}],
             "classes_left_out": 0}])
        wide = [",".join(f"{row + k}.5" for k in range(300))
                for row in range(299)]
        self.write("wide.csv", "\n".join(wide) + "\n")
        info = json.loads(self.mltune("data", "info", "wide.csv").out)
        self.assertEqual(len(info["columns"]), 101)
        self.assertEqual(info["columns_left_out"], 199)
        label = info["columns"][-1]
        self.assertEqual((label["kind"], label["name"], label["min"]),
                         ("label", None, 299.5))
        self.write("many.csv", "".join(f"{k},{k}\n" for k in range(80)))
        info = json.loads(self.mltune("data", "info", "many.csv").out)
        label = info["columns"][-1]
        self.assertEqual(len(label["classes"]), 50)
        self.assertEqual(label["classes_left_out"], 30)

    def test_a_table_is_read_as_the_settings_have_it(self):
        """The label, the columns to ignore, the categories and the separator of
        the application; also where a table of numbers looks like ratings."""
        self.write("t.csv", "id|kind|age|code\nx1|b|30|1\n7|a|31|2\n")
        words = ("data", "info", "t.csv", "--label", "kind", "--ignore", "id",
                 "--categories", "code", "--separator", "|")
        info = json.loads(self.mltune(*words).out)
        self.assertEqual(
            [(c["name"], c["kind"]) for c in info["columns"]],
            [("age", "number"), ("code", "category"), ("kind", "label")])
        self.write("r.csv", "1,2,3\n2,3,4\n")
        self.assertEqual(json.loads(self.mltune("data", "info", "r.csv").out)
                         ["kind"], "ratings")
        info = json.loads(self.mltune("data", "info", "r.csv", "--ignore", "1",
                                      "--label", "first").out or "{}")
        self.assertEqual(info, {})
        info = json.loads(self.mltune("data", "info", "r.csv", "--ignore",
                                      "1").out)
        self.assertEqual([c["kind"] for c in info["columns"]],
                         ["number", "label"])
        done = self.mltune("data", "info", "t.csv", "--separator", "|",
                           "--ignore", "nothing")
        self.assert_code(done, 78)
        self.assertIn("expected a column nothing", done.err)
        done = self.mltune("data", "info", "t.csv", "--separator", "||")
        self.assert_code(done, 2)

    def test_what_cannot_be_read_says_why_and_what_to_do(self):
        """Texts among the columns, what is missing, other kinds of data."""
        rows = "".join(f"{k},{k + 1},yes\n" for k in range(30))
        for name, content, kind, why, advice in [
                ("churn.csv", "id,plan,age,churn\n1,basic,31,yes\n"
                 "2,7,42,no\n", "csv",
                 "line 3, column 2 (plan): expected a text, as on line 2",
                 '"categories"'),
                ("na.csv", "a,b,c\n" + rows + "1,2,NA\n", "csv",
                 "line 32, column 3 (c)", "a label is never missing"),
                ("prose", b"caf\xe9 au lait\nwords\n", "text",
                 "line 1: expected UTF-8", "iconv"),
                ("t.parquet", "PAR1\0\0", "binary", "Parquet",
                 "read_parquet"),
                ("none", "", "empty", "it is empty", "download")]:
            with self.subTest(name):
                self.write(name, content)
                done = self.mltune("data", "info", name)
                self.assert_code(done, 78)
                info = json.loads(done.out)
                self.assertEqual((info["kind"], info["readable"]),
                                 (kind, False))
                self.assertIn(why, info["why"])
                self.assertIn(advice, info["advice"])
                self.assertIn(f"{name} cannot be read: ", done.err)
                self.assertIn("what to do: ", done.err)

    def test_faults_have_their_codes(self):
        self.assert_code(self.mltune("data", "gen", "gen:digits?x=1", "d"), 78)
        self.assert_code(self.mltune("data", "info", "nothing"), 74)
        self.assert_code(self.mltune("data", "gen", "gen:digits"), 2)


class Validate(Case):
    def test_valid_configuration_is_printed_complete(self):
        self.write("c.json", mlr_config())
        done = self.mltune("validate", "c.json")
        self.assert_code(done, 0)
        self.assertEqual(done.err, "")
        config = json.loads(done.out)
        self.assertEqual(config["stop"]["plateau_epochs"], 5)
        self.assertEqual(config["ps"]["consistency"], "bsp")
        self.write("again.json", config)
        again = self.mltune("validate", "again.json")
        self.assertEqual(json.loads(again.out), config)

    def test_all_errors_at_once_with_their_places(self):
        self.write("c.json", '{"app": {"name": "mlr", "data": "x"},\n'
                             ' "stop": {"max_epoch": 1},\n'
                             ' "seed": "one"}\n')
        done = self.mltune("validate", "c.json", "--set", "tuner.max_trials=0")
        self.assert_code(done, 78)
        self.assertEqual(done.out, "")
        lines = done.err.splitlines()
        self.assertEqual(len(lines), 3, done.err)
        self.assertIn("c.json: /tuner/max_trials: expected", lines[0])
        self.assertIn("c.json:2:11: /stop/max_epoch: ", lines[1])
        self.assertIn('did you mean "max_epochs"?', lines[1])
        self.assertIn("c.json:3:10: /seed: expected a whole number", lines[2])

    def test_json_report_carries_problems(self):
        self.write("c.json", '{"app": {"name": "mlr"}, "sed": 1}')
        done = self.mltune("validate", "--json", "c.json")
        self.assert_code(done, 78)
        report = json.loads(done.out)
        self.assertFalse(report["valid"])
        self.assertIsNone(report["config"])
        pointers = [p["pointer"] for p in report["problems"]]
        self.assertIn("/sed", pointers)
        for problem in report["problems"]:
            self.assertEqual(problem["line"], 1)

    def test_files_that_cannot_be_read_end_with_74(self):
        self.assert_code(self.mltune("validate", "missing.json"), 74)
        self.assert_code(self.mltune("validate", "."), 74)

    def test_malformed_and_empty_files_end_with_78(self):
        for text in "", "{", "[]", '{"a": 1, "a": 2}':
            self.write("c.json", text)
            self.assert_code(self.mltune("validate", "c.json"), 78)


class Lists(Case):
    def test_lists_agree_as_text_and_json(self):
        for verb in "apps", "searchers", "strategies":
            text = self.mltune(verb)
            entries = json.loads(self.mltune(verb, "--json").out)
            self.assert_code(text, 0)
            self.assertTrue(entries)
            for entry in entries:
                self.assertIn(f"{entry['name']}: {entry['summary']}\n",
                              text.out)
                self.assertEqual(entry["settings"]["type"], "object")

    def test_one_entry_is_listed_with_its_presets(self):
        text = self.mltune("apps", "nn")
        self.assert_code(text, 0)
        self.assertTrue(text.out.startswith("nn: "))
        self.assertNotIn("mlr:", text.out)
        entry, = json.loads(self.mltune("apps", "nn", "--json").out)
        presets = entry["settings"]["properties"]["preset"]["x-presets"]
        for name, layers in presets.items():
            printed = text.out[text.out.index(f"{name} is [") + len(name) + 4:]
            self.assertEqual(json.JSONDecoder().raw_decode(printed)[0], layers)
        done = self.mltune("apps", "nm")
        self.assert_code(done, 2)
        for word in ("nm: no such app", "mlr", "did you mean"):
            self.assertIn(word, done.err)

    def test_schema_knows_what_is_listed(self):
        schema = json.loads(self.mltune("schema").out)
        self.assertEqual(schema["$schema"],
                         "https://json-schema.org/draft/2020-12/schema")
        apps = json.loads(self.mltune("apps", "--json").out)
        self.assertEqual(
            [one["title"] for one in schema["properties"]["app"]["oneOf"]],
            [app["name"] for app in apps] + ["program", "plugin"])
        self.assertEqual(schema["required"], ["app"])

    def test_schema_as_text_lists_the_tunables(self):
        done = self.mltune("schema", "--text")
        self.assert_code(done, 0)
        for word in "stop.max_epochs", "learning_rate", "bandwidth_mbps":
            self.assertIn(word, done.out)
