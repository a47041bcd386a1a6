"""A new run made by hand: what the page's form needs of the service, and the
form in a real browser (tests/browser/newrun.js)."""
import os
import subprocess

from harness import ROOT
import test_serve


class NewRun(test_serve.Service):
    OPTIONS = ("--data", "data")

    def launch(self, *words):
        (self.folder / "data/sub").mkdir(parents=True, exist_ok=True)
        (self.folder / "data/sub/there.csv").write_text("a,y\n1,2\n")
        super().launch(*words)

    def test_the_data_folder_is_listed(self):
        """Two folders deep; no link, nothing hidden, nothing outside."""
        data = self.folder / "data"
        (data / "sub/deep/deeper").mkdir(parents=True)
        (data / "sub/deep/deeper/file").write_text("x")
        (data / "sub/deep/x").write_text("12345")
        (data / ".hidden").write_text("x")
        (data / "link").symlink_to(self.folder)
        os.mkfifo(data / "pipe")
        self.assertEqual(self.get("/api/v1/data"), {"more": False, "files": [
            {"name": name, "folder": size is None, "bytes": size or 0}
            for name, size in (("sub", None), ("sub/deep", None),
                               ("sub/deep/deeper", None), ("sub/deep/x", 5),
                               ("sub/there.csv", 8))]})
        for i in range(1100):
            (data / f"many{i:04}").touch()
        answer = self.get("/api/v1/data")
        self.assertEqual((len(answer["files"]), answer["more"]), (1000, True))

    def test_each_example_of_the_schema_is_a_configuration(self):
        """Data that are not there are a warning."""
        examples = self.get("/api/v1/schema")["examples"]
        self.assertIn("demo", [e["name"] for e in examples])
        for example in examples:
            code, _, answer = self.ask("POST", "/api/v1/runs:validate", example)
            self.assertEqual((code, answer["valid"]), (200, True), answer)

    def test_a_person_fills_in_the_form(self):
        shots = os.environ.get("MLTUNE_SHOTS", str(self.folder))
        host, port = self.address
        done = subprocess.run(
            ["node", str(ROOT / "tests/browser/newrun.js"),
             f"http://{host}:{port}/", self.token, shots],
            capture_output=True, text=True, timeout=300, env=self.env)
        self.assertEqual(done.returncode, 0, done.stderr)


class OwnState(test_serve.Service):
    OPTIONS = ("--data", ".")

    def launch(self, *words):
        (self.folder / "state").mkdir(exist_ok=True)
        (self.folder / ".mltune").symlink_to("state")
        super().launch(*words)

    def test_the_services_own_folder_is_no_data(self):
        """Its state folder lies in the data folder here, by another name."""
        (self.folder / "a.csv").write_text("a,y\n")
        self.assertTrue((self.folder / "state/token").exists())
        names = [f["name"] for f in self.get("/api/v1/data")["files"]]
        self.assertIn("a.csv", names)
        self.assertFalse([n for n in names if "state" in n])
