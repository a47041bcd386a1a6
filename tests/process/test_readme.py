"""README.md and the examples: every command that they show is one."""
import re
import shlex

from harness import ROOT, Case


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
