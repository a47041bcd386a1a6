"""Files that come over HTTP into a service's data folder: `mltune upload`."""
import os
import time

import harness
import test_serve

CSV = "a,b,y\n" + "".join(
    f"{i % 7},{i % 5},{'yes' if i % 7 > i % 5 else 'no'}\n"
    for i in range(400))
NAMES = ["..", ".hidden", "a/b", "%2e%2e%2fx", "a%2Fb", "-x", "a%5Cb", "a%20b",
         "a%00b", "x" * 129, "%C3%A4"]


class Upload(test_serve.Service):
    OPTIONS = ("--data", "data", "--upload", "3MiB", "--uploads", "5MiB")

    def launch(self, *words):
        (self.folder / "data").mkdir(exist_ok=True)
        super().launch(*words)

    def put(self, name, body, query="", status=200, **headers):
        headers.setdefault("Content_Type", "application/octet-stream")
        code, _, answer = self.ask("POST", f"/api/v1/data/{name}{query}",
                                   body, **headers)
        self.assertEqual(code, status, answer)
        return answer

    def files(self):
        return sorted(p.name for p in (self.folder / "data").iterdir())

    def test_a_small_file_in_one_request_is_trained_with(self):
        """Nothing of it shows before it is whole; then a run reads it."""
        answer = self.put("train.csv", CSV)
        self.assertEqual(answer, {"name": "train.csv", "bytes": len(CSV),
                                  "complete": True})
        self.assertEqual(self.files(), ["train.csv"])
        self.assertEqual((self.folder / "data/train.csv").read_text(), CSV)
        run = self.submit({"app": {"name": "mlr", "data": "train.csv"},
                           "cluster": {"workers": 1},
                           "tuner": {"strategy": "fixed"},
                           "stop": {"max_epochs": 2}})
        self.wait_for_status(run, "finished")
        # A given configuration may be as long as a body.
        kept = self.folder / f".mltune/runs/{run}/given.json"
        text = kept.read_text()
        kept.write_text(text + " " * ((1 << 20) - len(text)))
        given = self.get(f"/api/v1/runs/{run}/config?form=given")
        self.assertEqual(given["app"]["data"], "train.csv")
        kept.write_text(text + " " * ((1 << 20) + 1 - len(text)))
        refused = self.get(f"/api/v1/runs/{run}/config?form=given", 500)
        self.assertEqual(refused["code"], "config_not_readable")

    def test_pieces_resume_where_they_were(self):
        """Also after a restart of the service, and only there."""
        whole = bytes(range(256)) * 9000
        size = f"size={len(whole)}"
        cut = 1000000
        answer = self.put("big", whole[:cut], f"?{size}")
        self.assertEqual(answer, {"name": "big", "bytes": cut,
                                  "complete": False})
        self.assertEqual(self.files(), [".big.upload"])
        for at in (0, cut - 1, cut + 1):
            refused = self.put("big", whole[at:at + 10], f"?{size}&offset={at}",
                               409)
            self.assertEqual(refused["code"], "wrong_offset")
            self.assertIn(f"go on at offset={cut}", refused["detail"])
        self.end()
        self.launch()
        now = self.get("/api/v1/data/big")
        self.assertEqual((now["bytes"], now["complete"]), (cut, False))
        for at in range(cut, len(whole), cut):
            answer = self.put("big", whole[at:at + cut], f"?{size}&offset={at}")
        self.assertTrue(answer["complete"])
        self.assertEqual(self.files(), ["big"])
        self.assertEqual((self.folder / "data/big").read_bytes(), whole)
        self.assertTrue(self.get("/api/v1/data/big")["complete"])

    def test_what_was_whole_when_the_service_was_killed(self):
        """All bytes were there, but not the name: --resume gives it."""
        self.put("k.csv", CSV[:100], f"?size={len(CSV)}")
        self.end()
        (self.folder / "data/.k.csv.upload").write_text(CSV)
        self.launch()
        self.write("k.csv", CSV)
        done = self.mltune("upload", "k.csv")
        self.assert_code(done, 2)
        self.assertIn("--resume goes on", done.err)
        self.assert_code(self.mltune("upload", "k.csv", "--resume"), 0)
        self.assertEqual(self.files(), ["k.csv"])
        self.assertEqual((self.folder / "data/k.csv").read_text(), CSV)

    def test_anew_gives_up_what_was_there(self):
        self.put("x", b"old old", "?size=100")
        refused = self.put("x", b"new", "?size=3", 409)
        self.assertEqual(refused["code"], "wrong_offset")
        self.put("x", b"new", "?size=3&anew=true")
        self.assertEqual((self.folder / "data/x").read_bytes(), b"new")

    def test_what_is_refused(self):
        (self.folder / "data/there").write_text("mine")
        os.symlink("/etc/passwd", self.folder / "data/link")
        os.symlink(self.folder / "outside", self.folder / "data/dangling")
        os.symlink(self.folder / "outside", self.folder / "data/.l.upload")
        for name in ("there", "link", "dangling"):
            refused = self.put(name, b"x", "", 409)
            self.assertEqual(refused["code"], "already_exists")
        self.put("l", b"x")  # what was a link is replaced, not followed
        self.assertFalse((self.folder / "outside").exists())
        self.assertEqual((self.folder / "data/there").read_text(), "mine")
        for name in NAMES:
            code, _, answer = self.ask("POST", f"/api/v1/data/{name}", "x")
            self.assertIn(code, (400, 404), name)
        refused = self.put("a%2Fb", b"x", "", 400)
        self.assertEqual(refused["errors"][0]["pointer"], "/path/upload")
        self.assertIn("no folder, no path", refused["errors"][0]["detail"])
        for query, body, code in (
                ("?size=3", b"four", "invalid_piece"),
                ("?size=3&offset=3", b"x", "invalid_piece"),
                ("?size=3", b"", "invalid_piece"),
                ("?size=3&offset=1&anew=true", b"x", "invalid_piece")):
            refused = self.put("y", body, query, 422)
            self.assertEqual(refused["code"], code)
        self.put("y", b"x", "?offset=-1", 400)
        self.put("y", b"x", f"?offset={2**63}", 400)
        self.put("y", b"x", f"?offset={10**17}", 413)
        # The head alone: the answer comes before a body could be sent.
        self.put("y", b"x", "", 413, Content_Length=str((1 << 20) + 1))
        self.assertEqual(self.files(),
                         ["dangling", "l", "link", "there"])
        code, _, answer = self.ask("GET", "/api/v1/data/y")
        self.assertEqual((code, answer["code"]), (404, "upload_not_found"))

    def test_limits(self):
        """A file, all of them, and how many are under way."""
        refused = self.put("a", b"x", f"?size={(3 << 20) + 1}", 413)
        self.assertEqual(refused["code"], "upload_too_long")
        for name in ("a", "b"):
            for at in range(2):
                self.put(name, b"x" * (1 << 20),
                         f"?size={2 << 20}&offset={at << 20}")
        (self.folder / "data/mine").write_bytes(b"x" * (4 << 20))
        refused = self.put("c", b"x", f"?size={2 << 20}", 413)
        self.assertEqual(refused["code"], "uploads_full")
        self.assertIn("--uploads", refused["detail"])
        (self.folder / "data/a").unlink()
        self.put("c", b"x", f"?size={2 << 20}")
        for i in range(15):
            self.put(f"p{i}", b"x", "?size=2")
        refused = self.put("q", b"x", "?size=2", 429)
        self.assertEqual(refused["code"], "too_many_uploads")
        # One that nobody goes on with makes room.
        old = time.time() - 100000
        os.utime(self.folder / "data/.p3.upload", (old, old))
        self.put("q", b"x", "?size=2")
        self.assertNotIn(".p3.upload", self.files())

    def test_one_that_is_given_up_counts_no_more(self):
        """By who began it, or an admin; a whole file stays."""
        def delete(name, status):
            code, _, answer = self.ask("DELETE", f"/api/v1/data/{name}")
            self.assertEqual(code, status, answer)
            return answer

        for name in ("a", "b"):
            self.put(name, b"x", f"?size={2 << 20}")
        self.put("c", b"x", f"?size={2 << 20}", 413)
        self.assertEqual(delete("a", 200),
                         {"name": "a", "bytes": 0, "complete": False})
        self.assertEqual(self.files(), [".b.upload"])
        listed = (self.folder / ".mltune/uploads").read_text()
        self.assertEqual([line.split()[0] for line in listed.splitlines()],
                         ["b"])
        self.assertEqual(delete("a", 404)["code"], "upload_not_found")
        self.put("c", b"xyz", "?size=3")
        self.assertEqual(delete("c", 409)["code"], "already_exists")
        self.assertEqual((self.folder / "data/c").read_bytes(), b"xyz")
        self.assertEqual(self.files(), [".b.upload", "c"])
        self.assertEqual(delete("..%2Fc", 400)["code"], "invalid_parameter")
        # A link of that name is no upload, and what it means stays.
        (self.folder / "kept").write_bytes(b"kept")
        (self.folder / "data/.l.upload").symlink_to(self.folder / "kept")
        self.assertEqual(delete("l", 404)["code"], "upload_not_found")
        self.assertTrue((self.folder / "data/.l.upload").is_symlink())

    def test_what_is_announced_counts(self):
        """Small first pieces of large files cannot pass the limit."""
        for name in ("a", "b"):
            self.put(name, b"x", f"?size={2 << 20}")
        refused = self.put("c", b"x", f"?size={2 << 20}", 413)
        self.assertEqual(refused["code"], "uploads_full")
        refused = self.put("a", b"x", f"?size={3 << 20}&offset=1", 409)
        self.assertEqual(refused["code"], "wrong_size")
        self.assertEqual(refused["errors"][0]["pointer"], "/query/size")
        self.assertEqual(self.files(), [".a.upload", ".b.upload"])

    def test_a_disk_without_room(self):
        """More than the disk has is refused before anything is written."""
        self.end()
        self.service = None
        type(self).OPTIONS, kept = (
            ("--data", "data", "--upload", "900000TB", "--uploads", "900000TB"),
            self.OPTIONS)
        try:
            self.launch()
        finally:
            type(self).OPTIONS = kept
        refused = self.put("z", b"x", f"?size={10**17}", 507)
        self.assertEqual(refused["code"], "no_room")
        self.assertEqual(self.files(), [])

    def test_the_token_is_needed(self):
        code, _, answer = self.ask("POST", "/api/v1/data/x", "y",
                                   Authorization="Bearer wrong",
                                   Content_Type="text/csv")
        self.assertEqual((code, answer["code"]), (401, "token_required"))
        self.assertEqual(self.files(), [])

    def test_the_verb(self):
        self.write("big.bin", "".join(chr(65 + i % 26)
                                      for i in range(2 << 20)) + "end")
        done = self.mltune("upload", "big.bin")
        self.assert_code(done, 0)
        self.assertEqual(done.out, 'big.bin: 2097155 bytes; "data": "big.bin" '
                                   'means it\n')
        self.assertEqual((self.folder / "data/big.bin").read_bytes(),
                         (self.folder / "big.bin").read_bytes())
        done = self.mltune("upload", "big.bin")
        self.assert_code(done, 2)
        self.assertIn("choose another name", done.err)
        self.write("t.csv", CSV)
        done = self.mltune("upload", "t.csv", "--as", "u.csv", "--json")
        self.assert_code(done, 0)
        self.assertEqual(done.result, {"name": "u.csv", "bytes": len(CSV),
                                       "complete": True})
        # Cut off, and gone on with; with another file it is no use.
        self.put("v.csv", CSV[:100], f"?size={len(CSV)}")
        done = self.mltune("upload", "t.csv", "--as", "v.csv")
        self.assert_code(done, 2)
        self.assertIn("100 bytes of v.csv are there", done.err)
        self.assertIn("--resume goes on", done.err)
        self.write("short", "x")
        done = self.mltune("upload", "short", "--as", "v.csv", "--resume")
        self.assert_code(done, 2)
        self.assertIn("it is another one", done.err)
        self.assert_code(self.mltune("upload", "t.csv", "--as", "v.csv",
                                     "--resume"), 0)
        self.assertEqual((self.folder / "data/v.csv").read_text(), CSV)
        done = self.mltune("upload", "t.csv", "--as", "v.csv", "--resume")
        self.assertIn("there is a file v.csv", done.err)
        self.write("empty", "")
        self.assert_code(self.mltune("upload", "empty"), 0)
        self.assertEqual((self.folder / "data/empty").read_bytes(), b"")
        done = self.mltune("upload", "t.csv", "--as", "a/b")
        self.assert_code(done, 2)
        self.assertIn("--as gives one", done.err)
        self.assert_code(self.mltune("upload", "nowhere"), 74)
        os.mkfifo(self.folder / "pipe")
        done = self.mltune("upload", "pipe")
        self.assert_code(done, 74)
        self.assertIn("it is no regular file", done.err)

    def test_nobody_is_there(self):
        self.end()
        done = self.mltune("upload", __file__)
        self.assert_code(done, 69)


class Nowhere(harness.Case):
    def test_the_state_folder_takes_none(self):
        """A file there could be one of the service's own."""
        (self.folder / ".mltune").mkdir(mode=0o700)
        service = self.start("serve", "--listen", "127.0.0.1:0", "--data",
                             ".mltune", "--state", ".mltune", "--read", "user")
        self.write("x", "y")

        def sent():
            done = self.mltune("upload", "x")
            return done if "state folder, which" in done.err else None
        self.wait_until(sent, "the service to refuse it")
        service.terminate()
        self.finish(service)
