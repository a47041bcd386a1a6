"""Named tokens: `mltune token`, and what a service lets each role do."""
import http.client
import json
import os
import re
import shutil
import subprocess
import threading

import harness
import test_serve


class Tokens(test_serve.Service):
    READ = ()  # nobody reads without a token

    def add(self, name, role):
        done = self.mltune("token", "add", name, "--role", role)
        self.assert_code(done, 0)
        self.assertRegex(done.out, r"^[0-9a-f]{64}\n$")
        self.assertIn(f"the token of {name} ({role}), shown this once",
                      done.err)
        return done.out.strip()

    def as_(self, secret, method, target, body=None):
        """Status and answer of a request with that token."""
        code, _, answer = self.ask(method, target, body,
                                   Authorization=f"Bearer {secret}")
        return code, answer

    def test_each_role_does_what_it_says(self):
        """A service that runs knows tokens as they come and go; what one may
        not do is refused with words; of the secret only its hash is kept."""
        read, run, admin = (self.add("rita", "read"), self.add("rudi", "run"),
                            self.add("anna", "admin"))
        file = self.folder / ".mltune/tokens"
        self.assertEqual(file.stat().st_mode & 0o777, 0o600)
        for secret in (read, run, admin):
            self.assertNotIn(secret, file.read_text())
        listed = self.mltune("token", "ls")
        self.assertEqual([line.split()[:2] for line in
                          listed.out.splitlines()],
                         [["name", "role"], ["rita", "read"], ["rudi", "run"],
                          ["anna", "admin"]])
        self.assertEqual(
            [t["name"] for t in
             json.loads(self.mltune("token", "ls", "--json").out)],
            ["rita", "rudi", "anna"])
        # Reading is for all three, steering for two.
        for secret in (read, run, admin):
            self.assertEqual(self.as_(secret, "GET", "/api/v1/runs")[0], 200)
        code, answer = self.as_(read, "POST", "/api/v1/runs?held=true",
                                harness.mlr_config())
        self.assertEqual((code, answer["code"]), (403, "role_too_low"))
        self.assertIn("the token rita has the role read; this needs the role "
                      "run", answer["detail"])
        code, mine = self.as_(run, "POST", "/api/v1/runs?held=true",
                              harness.mlr_config())
        self.assertEqual(code, 201)
        code, other = self.as_(admin, "POST", "/api/v1/runs?held=true",
                               harness.mlr_config())
        self.assertEqual(code, 201)
        code, answer = self.as_(read, "POST",
                                f"/api/v1/runs/{mine['run']}:stop")
        self.assertEqual(code, 403)
        # One's own runs, or those of others.
        code, answer = self.as_(run, "DELETE", f"/api/v1/runs/{other['run']}")
        self.assertEqual((code, answer["code"]), (403, "role_too_low"))
        self.assertIn("was submitted by anna, not by rudi", answer["detail"])
        self.end()
        self.launch()
        self.assertEqual(
            self.as_(run, "DELETE", f"/api/v1/runs/{mine['run']}")[0], 200)
        self.assertEqual(
            self.as_(admin, "DELETE", f"/api/v1/runs/{other['run']}")[0], 200)
        # From now on it is nobody's.
        done = self.mltune("token", "revoke", "rudi")
        self.assert_code(done, 0)
        code, answer = self.as_(run, "GET", "/api/v1/runs")
        self.assertEqual((code, answer["code"]), (401, "token_required"))
        self.assertEqual(self.as_(read, "GET", "/api/v1/runs")[0], 200)
        # Whoever has the name anew has another token.
        self.assertNotEqual(self.add("rudi", "read"), run)
        self.assertEqual(self.as_(run, "GET", "/api/v1/runs")[0], 401)

    def test_each_is_told_who_they_are(self):
        """By token, socket and rule, one after the other: an answer is nobody
        else's."""
        read, run = self.add("rita", "read"), self.add("rudi", "run")
        for _ in range(2):
            for secret, name, role, by in (
                    (read, "rita", "read", "named_token"),
                    (run, "rudi", "run", "named_token"),
                    (self.token, None, "admin", "token"),
                    ("x" * 64, None, "anybody", "nothing")):
                self.assertEqual(self.as_(secret, "GET", "/api/v1/me"),
                                 (200, {"name": name, "role": role, "by": by,
                                        "upload_limit": None}))
        self.assert_code(self.mltune("token", "revoke", "rudi"), 0)
        self.assertEqual(self.as_(run, "GET", "/api/v1/me")[1]["role"],
                         "anybody")

    def test_uploads_of_a_token_have_a_limit(self):
        """Refused with words past it, also after a restart; told by ls and to
        its owner; another limit holds from the next request on."""
        done = self.mltune("token", "add", "lena", "--role", "run",
                           "--upload-limit", "1KiB")
        self.assert_code(done, 0)
        lena, rudi = done.out.strip(), self.add("rudi", "run")
        self.assertEqual(self.as_(lena, "GET", "/api/v1/me")[1]["upload_limit"],
                         1024)

        def put(secret, name, size):
            code, answer = self.as_(secret, "POST", f"/api/v1/data/{name}",
                                    "x" * size)
            return code, answer.get("code")

        full = (413, "token_uploads_full")
        self.assertEqual(put(lena, "a", 1000), (200, None))
        self.assertEqual(put(lena, "b", 25), full)
        self.assertEqual(put(rudi, "b", 4096), (200, None))
        self.end()
        self.launch()
        self.assertEqual(put(lena, "c", 25), full)
        self.assertEqual(put(lena, "c", 24), (200, None))
        listed = json.loads(self.mltune("token", "ls", "--json").out)
        self.assertEqual([(t["name"], t["upload_limit"], t["uploaded"])
                          for t in listed],
                         [("lena", 1024, 1024), ("rudi", None, 4096)])
        table = self.mltune("token", "ls").out
        self.assertRegex(table, r"lena +run .* 1 KiB of 1 KiB\n")
        self.assertRegex(table, r"rudi +run .*Z +4 KiB\n")
        for limit, code in (("2KiB", 0), ("none", 0), ("much", 2), ("-1", 2)):
            self.assert_code(self.mltune("token", "limit", "lena",
                                         "--upload-limit", limit), code)
            if limit == "2KiB":
                self.assertEqual(put(lena, "d", 1025), full)
        self.assertEqual(put(lena, "d", 1025), (200, None))
        for words, says in (
                (("limit", "nobody", "--upload-limit", "1"), "no token nobody"),
                (("limit", "lena"), "token limit lena --upload-limit SIZE"),
                (("ls", "--upload-limit", "1"), "is of add and limit"),
                (("add", "x", "--role", "run", "--upload-limit", "all"),
                 "expected a size such as 8GiB, or none, found \"all\"")):
            done = self.mltune("token", *words)
            self.assertIn(done.code, (1, 2))
            self.assertIn(says, done.err)

    def test_a_stream_ends_with_its_token(self):
        """A stream that was open is cut within a second or so; those of others
        go on."""
        secrets = {"goes": self.add("goes", "read"),
                   "stays": self.add("stays", "read")}
        run = self.submit(harness.mlr_config(), "?held=true")
        ended = {name: threading.Event() for name in secrets}

        def follow(name, connection):
            try:
                while connection.read1(4096):
                    pass
            except (OSError, http.client.HTTPException):
                pass
            ended[name].set()

        for name, secret in secrets.items():
            connection = http.client.HTTPConnection(*self.address, timeout=60)
            connection.request("GET", f"/api/v1/runs/{run}/events",
                               headers={"Authorization": f"Bearer {secret}"})
            reply = connection.getresponse()
            self.assertEqual(reply.status, 200)
            threading.Thread(target=follow, args=(name, reply),
                             daemon=True).start()
        self.assertFalse(ended["goes"].wait(1.5))
        self.assert_code(self.mltune("token", "revoke", "goes"), 0)
        self.assertTrue(ended["goes"].wait(10))
        self.assertFalse(ended["stays"].is_set())

    def audit(self):
        done = self.mltune("token", "audit", "--json")
        self.assert_code(done, 0)
        lines = [json.loads(line) for line in done.out.splitlines()]
        for line in lines:
            self.assertRegex(line.pop("at"), r"^20\d\d-.*Z$")
        return [tuple(line[name] for name in
                      ("by", "role", "what", "on", "outcome"))
                for line in lines]

    def test_each_change_has_its_line(self):
        """Who, in which role, what, on what and what came of it; reads, checks
        and strangers have none."""
        read, run = self.add("rita", "read"), self.add("rudi", "run")
        self.as_(read, "GET", "/api/v1/runs")
        self.as_(run, "POST", "/api/v1/runs:validate", harness.mlr_config())
        self.assertEqual(self.as_("x" * 64, "POST", "/api/v1/runs", {})[0], 401)
        code, answer = self.as_(run, "POST", "/api/v1/runs?held=true",
                                harness.mlr_config())
        self.assertEqual(code, 201)
        one = answer["run"]
        self.assertEqual(self.as_(run, "POST", "/api/v1/runs", {})[0], 422)
        self.as_(read, "POST", f"/api/v1/runs/{one}:stop")
        self.as_(run, "POST", f"/api/v1/runs/{one}:stop")
        for at in (0, 4):
            self.as_(run, "POST", f"/api/v1/data/a.csv?offset={at}&size=8",
                     "1,2\n")
        self.assert_code(self.mltune("delete", one), 0)
        self.assert_code(self.mltune("token", "revoke", "rudi"), 0)
        self.assert_code(self.mltune("token", "revoke", "rudi"), 1)
        self.assertEqual(self.audit(), [
            ("(shell)", "admin", "token add", "rita", "done"),
            ("(shell)", "admin", "token add", "rudi", "done"),
            ("rudi", "run", "submit", one, "201"),
            ("rudi", "run", "submit", "", "422"),
            ("rita", "read", "stop", one, "403"),
            ("rudi", "run", "stop", one, "200"),
            ("rudi", "run", "upload", "a.csv", "200"),
            ("(socket)", "admin", "delete", one, "200"),
            ("(shell)", "admin", "token revoke", "rudi", "done"),
            ("(shell)", "admin", "token revoke", "rudi", "noent")])
        self.assertEqual((self.folder / ".mltune/audit").stat().st_mode & 0o777,
                         0o600)
        shown = self.mltune("token", "audit").out.splitlines()
        self.assertRegex(shown[2], rf"Z  rudi \(run\)  submit {one}: 201$")

    def test_verbs_take_a_named_token(self):
        """By its address, with MLTUNE_TOKEN; what the role may not do is said
        and the exit code tells."""
        url = f"http://127.0.0.1:{self.address[1]}/"
        (self.folder / "c.json").write_text(json.dumps(harness.mlr_config()))
        self.env["MLTUNE_TOKEN"] = self.add("rita", "read")
        self.assert_code(self.mltune("ls", "--server", url), 0)
        done = self.mltune("submit", "c.json", "--server", url)
        self.assert_code(done, 2)
        self.assertIn("the token rita has the role read; this needs the role "
                      "run", done.err)


class Words(harness.Case):
    """Without any service."""

    def test_what_is_wrong_is_said(self):
        for words, code, says in (
                (("ls",), 1, "there is no state folder"),
                (("revoke", "bob"), 1, "there is no state folder"),
                (("add", "bob"), 2, "--role: expected read, run or admin"),
                (("add", "bob", "--role", "root"), 2, "found root"),
                (("add", "-x", "--role", "read"), 2, "unknown option"),
                (("add", "b b", "--role", "read"), 2, "expected a name"),
                (("ls", "--role", "read"), 2, "--role is of add"),
                (("give", "bob"), 2, "add NAME | limit NAME | ls | revoke NAME")):
            done = self.mltune("token", *words)
            self.assert_code(done, code)
            self.assertIn(says, done.err, words)
        self.assert_code(self.mltune("token", "add", "bob", "--role", "run"), 0)
        done = self.mltune("token", "add", "bob", "--role", "run")
        self.assert_code(done, 1)
        self.assertIn("there is a token bob already", done.err)
        done = self.mltune("token", "revoke", "eve")
        self.assert_code(done, 1)
        self.assertIn("there is no token eve", done.err)
        file = self.folder / ".mltune/tokens"
        kept = file.read_text()
        file.write_text(kept[:40])
        for words in (("ls",), ("add", "eve", "--role", "run"),
                      ("revoke", "bob")):
            done = self.mltune("token", *words)
            self.assert_code(done, 78)
            self.assertIn("tokens is damaged (move it away", done.err)
        self.assertEqual(file.read_text(), kept[:40])
        file.write_text(kept)
        self.assert_code(self.mltune("token", "revoke", "bob"), 0)
        done = self.mltune("token", "ls")
        self.assertEqual((done.code, done.out), (0, ""))

    def test_the_folder_of_another_user(self):
        """Root changes it as its owner, whose service reads and writes it
        then; somebody else is told whose it is, and leaves nothing."""
        state = self.folder / ".mltune"
        state.mkdir(0o700)
        self.folder.chmod(0o755)
        os.chown(state, 65534, 65534)
        for words in (("add", "bob", "--role", "run"), ("ls",),
                      ("revoke", "bob"), ("audit",)):
            self.assert_code(self.mltune("token", *words), 0)
        owners = {p.name: p.stat().st_uid for p in state.iterdir()}
        self.assertEqual(owners, dict.fromkeys(
            ("tokens", "tokens.lock", "audit"), 65534))
        state.chmod(0o777)
        program = shutil.copy(harness.MLTUNE, self.folder)  # where all may go
        for words in (("add", "eve", "--role", "admin"), ("ls",),
                      ("revoke", "bob"), ("audit",)):
            done = subprocess.run(
                [program, "token", *words, "--state", state], cwd="/",
                capture_output=True, text=True, timeout=60, user=65533,
                group=65533, extra_groups=[])
            self.assertEqual((done.returncode, done.stdout), (78, ""))
            self.assertIn("is the folder of user 65534", done.stderr)
        self.assertEqual({p.name: p.stat().st_uid for p in state.iterdir()},
                         owners)

    def test_a_token_that_cannot_be_shown(self):
        """It is made, and whoever asked is told to revoke it."""
        with open("/dev/full", "w") as full:
            done = subprocess.run(
                [harness.MLTUNE, "token", "add", "bob", "--role", "run"],
                cwd=self.folder, stdout=full, stderr=subprocess.PIPE,
                text=True, timeout=60, env=self.env)
        self.assertEqual(done.returncode, 74)
        self.assertIn("mltune token revoke bob", done.stderr)
        self.assertTrue(re.search("^bob +run", self.mltune("token", "ls").out,
                                  re.M))
