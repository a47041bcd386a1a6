"""README.md and the examples: every command that they show is one."""
import pathlib
import platform
import re
import shlex

from harness import MLTUNE, ROOT, Case


def commands(page):
    """The words of each `mltune ...` in the page's shell blocks."""
    text = (ROOT / page).read_text()
    for block in re.findall(r"^```sh\n(.*?)^```", text, re.S | re.M):
        for line in block.replace("\\\n", " ").splitlines():
            words = shlex.shlex(line, posix=True, punctuation_chars=";&")
            words.whitespace_split = True
            words = list(words)
            while words:
                end = next((i for i, w in enumerate(words)
                            if set(w) <= set(";&")), len(words))
                part, words = words[:end], words[end + 1:]
                if "mltune" in part:
                    yield part[part.index("mltune") + 1:]


class Readme(Case):
    def test_every_command_is_a_verb_with_such_options(self):
        """A renamed verb or option shows here, not at a reader's terminal."""
        seen = 0
        for words in commands("README.md"):
            seen += 1
            done = self.mltune(words[0], "--help")
            self.assert_code(done, 0)
            for word in words[1:]:
                if word.startswith("--"):
                    self.assertRegex(done.out, rf"{word}\b", words)
        self.assertGreater(seen, 30)

    def test_the_first_command_finds_the_program(self):
        """The tour builds and sets PATH before it names the program."""
        text = (ROOT / "README.md").read_text()
        for part in ("## Bring your own", "## A five-minute tour"):
            tour = text[text.index(part):]
            self.assertLess(tour.index("build/release:$PATH"),
                            tour.index("\nmltune run "))

    def test_it_says_what_a_bare_debian_lacks(self):
        """Before the first section: git to fetch it, make to begin."""
        text = (ROOT / "README.md").read_text().split("\n## ")[0]
        self.assertIn("apt-get install git make", text)
        self.assertIn("make deps", text)

    def test_it_says_where_modules_of_python_come_from(self):
        """Those that `make deps` does not install."""
        text = (ROOT / "README.md").read_text()
        for module in "numpy", "torch":
            self.assertRegex(text, rf"\bimport {module}\b")
            self.assertIn(f"Debian's python3-{module}", text)

    def test_it_says_where_it_runs(self):
        """And where not; of the system and processor for which this is built,
        and the image of the container is made."""
        text = (ROOT / "README.md").read_text()
        section = text[text.index("## Where it runs"):].split("\n## ")[0]
        for word in ("Linux", "Windows", "macOS", "GPU", "docs/gpu.md",
                     "deploy/Containerfile"):
            self.assertIn(word, section)
        debian = re.search(r"Debian (\d+)", section).group(1)
        self.assertIn(f"debian:{debian}-slim",
                      (ROOT / "deploy/Containerfile").read_text())
        self.assertIn(platform.machine().replace("_", "-"), section)
        self.assertEqual(pathlib.Path(MLTUNE).read_bytes()[:4], b"\x7fELF")

    def test_the_program_it_prints_is_the_example(self):
        """What is typed as printed is what the gallery's tests run."""
        text = (ROOT / "README.md").read_text()
        for kind, name in (("python", "mnist_cnn.py"),
                           ("json", "mnist_cnn.json")):
            block = re.search(rf"^```{kind}\n(.*?)^```", text, re.S | re.M)
            self.assertEqual(block.group(1),
                             (ROOT / "apps/examples" / name).read_text())

    def test_every_example_is_a_valid_configuration(self):
        for path in sorted((ROOT / "docs/examples").glob("*.json")):
            done = self.mltune("validate", str(path))
            self.assert_code(done, 0)
