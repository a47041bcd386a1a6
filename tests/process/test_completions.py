"""Completion in bash, zsh and fish, each of which runs its script for real; and
the manual's page of the configuration."""
import json
import os
import pty
import re
import select
import shutil
import subprocess
import time

from harness import BUILD, ROOT, Case, mlr_config


class Completes:
    """What all three shells must know. @ask gives the words for a line."""
    SHELL = None

    def setUp(self):
        super().setUp()
        self.env["PATH"] = f"{BUILD.resolve()}:{self.env['PATH']}"
        self.env["HOME"] = str(self.folder)
        self.script = self.write("script." + self.SHELL, self.mltune(
            "completions", self.SHELL).out)
        self.run = self.run_config(mlr_config(max_epochs=1), "--no-tune",
                                   "--json", name="small.json").result["run"]
        self.assert_code(self.mltune("token", "add", "alice", "--role",
                                     "run"), 0)
        (self.folder / "sub").mkdir()

    def options_of(self, verb):
        return {"--" + name for name in re.findall(
            r"^ {2,6}(?:-\w, )?--([a-z-]+)",
            self.mltune(verb, "--help").out, re.M)}

    def test_words_of_every_kind(self):
        strategies = {s["name"] for s in json.loads(
            self.mltune("strategies", "--json").out)}
        for line, wanted in (
                ("mltune ser", {"serve"}),
                ("mltune help sch", {"schema"}),
                ("mltune serve --tls", {"--tls-cert", "--tls-key"}),
                ("mltune show ", {self.run, "small-mlr"}),
                ("mltune trials --state .mltune sm", {self.run, "small-mlr"}),
                ("mltune strategies ", strategies),
                ("mltune apps l", {"lda"}),
                ("mltune searchers t", {"tpe"}),
                ("mltune compare c.json --strategies tu", {"tupaq"}),
                ("mltune compare c.json --searchers gr", {"grid"}),
                ("mltune export r --format c", {"csv"}),
                ("mltune serve --read us", {"user"}),
                ("mltune token ", {"add", "limit", "ls", "revoke", "audit"}),
                ("mltune token revoke ", {"alice"}),
                ("mltune token add x --role r", {"read", "run"}),
                ("mltune completions ", {"bash", "zsh", "fish", "words"}),
                ("mltune run sma", {"small.json"}),
                ("mltune run --state su", {"sub"}),
                ("mltune serve --tls-cert sma", {"small.json"})):
            self.assertEqual({w.rstrip("/") for w in self.ask(line)}, wanted,
                             line)
        for line in ("mltune serve --slots sm", "mltune frobnicate sm",
                     "mltune token add "):
            self.assertEqual(self.ask(line), set(), line)

    def test_values_of_settings(self):
        """Behind --set: paths, then what stands there. bash takes the line
        apart at '=' and wants the rest alone."""
        cut = (lambda w: w.rpartition("=")[2]) if self.SHELL == "bash" \
            else (lambda w: w)
        for line, wanted in (
                ("mltune run small.json --set tuner.str",
                 {"tuner.strategy=", "tuner.strategy_settings="}),
                ("mltune run small.json --set tuner.strategy=tu",
                 {cut("tuner.strategy=tupaq")}),
                ("mltune run small.json --set tuner.retune=f",
                 {cut("tuner.retune=false")}),
                ("mltune run small.json --set app.name=ml",
                 {cut("app.name=mlr")})):
            self.assertEqual(self.ask(line), wanted, line)


class Bash(Completes, Case):
    """As bash calls the function: with the line taken apart."""
    SHELL = "bash"

    def ask(self, line):
        words = [w for w in re.split(r"(=)|\s+", line) if w] + (
            [""] if line[-1] in " =" else [])
        text = (f". {self.script}; compopt() {{ :; }}; "
                f"COMP_WORDS=({' '.join(repr(w) for w in words)}); "
                f"COMP_LINE={line!r}; COMP_POINT=${{#COMP_LINE}}; "
                "COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _mltune; "
                "printf '%s\\n' \"${COMPREPLY[@]}\"")
        done = subprocess.run(
            ["bash", "--norc", "-c", text], capture_output=True, text=True,
            timeout=60, check=False, cwd=self.folder, env=self.env)
        self.assertEqual(done.stderr, "")
        return {w for w in done.stdout.split("\n") if w}

    def test_options_of_every_verb(self):
        for verb in re.findall(r"^  ([a-z-]+) +\S", self.mltune("--help").out,
                               re.M):
            self.assertEqual(self.ask(f"mltune {verb} --"),
                             self.options_of(verb))
        self.assert_code(self.mltune("completions", "tcsh"), 2)

    def test_names_of_others_are_words_alone(self):
        """Who may submit a run names it: nothing of the name is run."""
        name = "Demo $(touch pwned); x"
        self.run_config(mlr_config(max_epochs=1), "--no-tune", "--name", name)
        word, = self.ask("mltune show D")
        done = subprocess.run(
            ["bash", "--norc", "-c", f"printf %s {word}"],
            capture_output=True, text=True, timeout=60, check=False,
            cwd=self.folder)
        self.assertEqual(done.stdout, name)
        self.assertFalse((self.folder / "pwned").exists())

    def test_the_keys_of_a_terminal(self):
        """Read from its script by an interactive bash: one tab."""
        with Terminal(self, ["bash", "--norc", "-i"]) as terminal:
            terminal.say(f". {self.script}; PS1=; bind 'set "
                         "enable-bracketed-paste off'; echo rea''dy\r")
            terminal.until("ready")
            terminal.say("mltune strategies tup\t")
            terminal.until("mltune strategies tupaq ")
            terminal.say("\025mltune run --set tuner.strategy=tup\t")
            terminal.until("--set tuner.strategy=tupaq")


class Fish(Completes, Case):
    SHELL = "fish"

    def ask(self, line):
        done = subprocess.run(
            ["fish", "--no-config", "-c",
             f"source {self.script}; complete -C {line!r}"],
            capture_output=True, text=True, timeout=60, check=False,
            cwd=self.folder, env=self.env)
        self.assertEqual(done.stderr, "")
        return {w.split("\t")[0] for w in done.stdout.split("\n") if w}

    def test_words_have_their_meaning(self):
        done = subprocess.run(
            ["fish", "--no-config", "-c",
             f"source {self.script}; complete -C 'mltune show small-mlr-'"],
            capture_output=True, text=True, timeout=60, check=False,
            cwd=self.folder, env=self.env)
        self.assertEqual(done.stdout, f"{self.run}\tfinished\n")


class Terminal:
    """A program on a terminal, which is typed to."""

    def __init__(self, case, words):
        self.case, self.words, self.text = case, words, ""

    def __enter__(self):
        self.master, slave = pty.openpty()
        self.process = subprocess.Popen(
            self.words, stdin=slave, stdout=slave, stderr=slave,
            cwd=self.case.folder, start_new_session=True,
            env={**self.case.env, "TERM": "dumb", "COLUMNS": "400"})
        os.close(slave)
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        os.close(self.master)

    def say(self, text):
        self.text = ""
        os.write(self.master, text.encode())

    def until(self, wanted, seconds=60):
        """Reads until @wanted was written; gives all of it."""
        end = time.monotonic() + seconds
        while wanted not in self.text:
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.master], [], [], left)[0]:
                self.case.fail(f"no {wanted!r} in {self.text!r}")
            self.text += os.read(self.master, 65536).decode(errors="replace")
        return self.text


# Each word that is offered on a line of its own: `compadd`, by which all of them
# come, is told to say what it would add.
ZSH = r"""
autoload -Uz compinit; compinit -u -D
compadd() {
    local -a hits
    builtin compadd -O hits "$@"
    (( $#hits )) && print -rl -- $hits >>$OFFERED
    builtin compadd "$@"
}
zle -C offers complete-word offer
offer() { _main_complete; compstate[insert]=; compstate[list]=; }
zle -N said; said() { BUFFER=; print -r -- do''ne; zle reset-prompt }
bindkey '^Xa' offers; bindkey '^Xb' said
PS1=
"""


class Zsh(Completes, Case):
    SHELL = "zsh"

    def setUp(self):
        super().setUp()
        self.offered = self.folder / "offered"
        self.env["OFFERED"] = str(self.offered)
        begin = self.write("begin.zsh", ZSH + f". {self.script}\n")
        self.terminal = Terminal(self, ["zsh", "-f", "-i"])
        self.terminal.__enter__()
        self.addCleanup(self.terminal.__exit__)
        self.terminal.say(f". {begin}; print rea''dy\r")
        self.terminal.until("ready\r\n")

    def ask(self, line):
        self.offered.write_text("")
        self.terminal.say(line + "\x18a\x18b")
        self.terminal.until("done")
        return {w for w in self.offered.read_text().split("\n") if w}

    def test_found_by_its_place(self):
        """Where `make install` puts it, compinit finds it by its first line."""
        place = self.folder / "site-functions"
        place.mkdir()
        shutil.copy(self.script, place / "_mltune")
        done = subprocess.run(
            ["zsh", "-f", "-c", f"fpath=({place} $fpath); "
             "autoload -Uz compinit; compinit -u -D; print $_comps[mltune]"],
            capture_output=True, text=True, timeout=60, check=True,
            env=self.env)
        self.assertEqual(done.stdout, "_mltune\n")


def paths(schema, path=""):
    """Each key of a configuration, by its path, as the schema has it."""
    found = set()
    for name, inner in schema.get("properties", {}).items():
        here = f"{path}.{name}" if path else name
        if "const" not in inner:
            found |= {here} | paths(inner, here)
    for suffix, key in ((".NAME", "additionalProperties"), ("[]", "items"),
                        ("", "then")):
        if isinstance(schema.get(key), dict):
            found |= paths(schema[key], path + suffix)
    for key in ("anyOf", "oneOf", "allOf"):
        for inner in schema.get(key, []):
            found |= paths(inner, path)
    return found


class Configuration(Case):
    def test_the_page_has_the_keys_of_the_schema(self):
        """And no others; groff has nothing to say, and man shows it."""
        page = self.mltune("man", "config")
        self.assert_code(page, 0)
        keys = re.findall(r'^\.It Cm "(.*)"$', page.out, re.M)
        keys = {k.replace("\\-", "-") for k in keys}
        schema = json.loads(self.mltune("schema").out)
        of_service = json.loads(self.mltune("schema", "--service").out)
        self.assertEqual(keys, paths(schema) | paths(of_service))
        self.assertIn("runs.keep.age", keys)
        self.assertIn("tuner.strategy_settings.eta", keys)
        self.assertIn("tunables.NAME.scale", keys)
        done = subprocess.run(["groff", "-mdoc", "-Tutf8", "-ww"],
                              input=page.out, capture_output=True, text=True,
                              timeout=60, check=False)
        self.assertEqual(done.stderr, "")
        done = subprocess.run(["man", "-l", "-"], input=page.out,
                              capture_output=True, text=True, timeout=60,
                              check=True, env={**self.env, "MANWIDTH": "80"})
        self.assertIn("stop.max_epochs", done.stdout)

    def test_installed_with_completions_for_each_shell(self):
        """`make install` puts them where man and the shells look."""
        subprocess.run(["make", "-s", "install-built", "PREFIX=/usr",
                        f"DESTDIR={self.folder}", f"V={BUILD.name}"],
                       cwd=ROOT, check=True, timeout=300,
                       capture_output=True, env=self.env)
        share = self.folder / "usr/share"
        for path, words in (
                ("man/man5/mltune-config.5", ("man", "config")),
                ("man/man1/mltune-open.1", ("man", "open")),
                ("bash-completion/completions/mltune", ("completions", "bash")),
                ("zsh/site-functions/_mltune", ("completions", "zsh")),
                ("fish/vendor_completions.d/mltune.fish",
                 ("completions", "fish"))):
            self.assertEqual((share / path).read_text(),
                             self.mltune(*words).out, path)
