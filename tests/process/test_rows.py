"""Rows of the parameter server over HTTP: read while it trains, added to, on one
node and on several, under a service, and over a resume."""
import pathlib
import re
import signal

import numpy
import test_control
import test_serve
from test_resume import Journal

RATE = 0.5


def plain(**more):
    """A job without end whose model is easy to foretell: a weight of which all
    samples have 0 (NOTHING) is moved by what is added, times the rate, and by
    nothing else."""
    return {"name": "rows",
            "app": {"name": "mlr", "data": "data.csv", "label": "y",
                    "lambda": 0, "test_fraction": 0.2},
            "tunables": {"learning_rate": {"type": "float", "fixed": RATE},
                         "momentum": {"type": "float", "fixed": 0}},
            "tuner": {"strategy": "fixed"},
            "stop": {"max_epochs": 1000000, "plateau_epochs": 1000000},
            "memory": {"limit": "256MiB"}, "seed": 5, **more}


NOTHING = 1


def samples():
    """Three classes; the second feature tells nothing."""
    lines = ["a,nothing,b,y"]
    for i in range(600):
        a, b = (i * 37) % 101 / 50 - 1, (i * 53) % 97 / 48 - 1
        lines.append(f"{a},0,{b},{0 if a < -0.3 else 1 if b < 0 else 2}")
    return "\n".join(lines) + "\n"


class Rows(test_control.Steered):
    CONFIG = None  # of the classes below

    def config(self):
        (self.folder / "data.csv").write_text(samples())
        return self.CONFIG

    def rows(self, table, row, query="", status=200):
        return self.get(f"/api/v1/tables/{table}/rows/{row}{query}", status)

    def whole(self, table, branch):
        """All values of a table with so few that one answer holds them."""
        rows = next(t["rows"] for t in self.get("/api/v1/tables")["tables"]
                    if t["table"] == table)
        answer = self.rows(table, 0, f"?count={rows}&branch={branch}")
        self.assertEqual([r["row"] for r in answer["rows"]],
                         list(range(rows)))
        return [r["values"] for r in answer["rows"]]

    def add(self, table, row, values, status=200, **more):
        return self.write_to(f"/api/v1/tables/{table}/rows/{row}:inc",
                             body={"values": values, **more}, status=status)

    def pause(self):
        self.wait_for_status("training")
        self.wait_for_clock()
        self.command("pause")
        self.wait_for_status("paused")

    def stop(self):
        self.command("stop")
        done = self.finish(self.process)
        self.assert_code(done, 0)
        state = self.folder / ".mltune"
        run = next((state / "runs").iterdir()).name
        return Journal(state, run).of("model_saved")[-1]

    def kept(self):
        """What the run has kept of its epochs, by branch."""
        run = self.run_id()
        return [b["branch"] for b in self.get(
            f"/api/v1/runs/{run}/branches?live=true")["branches"]
            if b["role"] == "epoch"]

    def saved_is_what_was_read(self, tables):
        """Pauses, reads every kept branch, ends the run: the model's files
        have the rows of the branch that it is."""
        self.wait_until(lambda: self.run_now()["best"], "a best epoch")
        self.pause()
        read = {b: {t: self.whole(t, b) for t in tables} for b in self.kept()}
        saved = self.stop()
        before = read.get(saved["branch"])
        self.assertIsNotNone(before, (saved["branch"], sorted(read)))
        for table in tables:
            file = pathlib.Path(saved["path"]) / f"{table}.npy"
            self.assertEqual(numpy.load(file).tolist(), before[table], table)


class Alone(Rows):
    CONFIG = plain(cluster={"workers": 2})

    def test_rows_are_read_while_it_trains(self):
        """At once, whole, and in parts; what there is not is told."""
        self.wait_for_status("training")
        (table,) = self.get("/api/v1/tables")["tables"]
        self.assertEqual((table["table"], table["rows"], table["access"]),
                         ("weights", 3, "shared"))
        first = self.rows("weights", 0)
        self.assertEqual(len(first["rows"][0]["values"]), table["width"])
        self.wait_until(
            lambda: self.rows("0", 0)["rows"] != first["rows"], "training")
        part = self.rows("weights", 1, "?count=9&offset=2&values=2&branch=0")
        self.assertEqual(part["rows"], [{"row": 1, "values": [0, 0]},
                                        {"row": 2, "values": [0, 0]}])
        code = self.rows("weights", 1, "?branch=4000000", 404)["code"]
        self.assertEqual(code, "branch_not_found")
        self.assertEqual(self.rows("weights", 3, "", 404)["code"],
                         "row_not_found")

    def test_the_model_is_what_was_read(self):
        """Of the branch that was kept as the best, to the last bit."""
        self.saved_is_what_was_read(["weights"])

    def value(self, row, query=""):
        answer = self.rows("weights", row, f"?offset={NOTHING}&values=1{query}")
        return answer["rows"][0]["values"][0]

    def test_an_increment_lasts(self):
        """While it trains and while it is paused; in a fork, in a snapshot;
        branches that are kept stay as they are, and what is repeated with its
        key is done once."""
        self.wait_until(self.kept, "the end of an epoch")
        answer = self.add("weights", 1, [2.0], offset=NOTHING)
        self.assertTrue(answer["changed"])
        self.assertEqual(self.value(1), -2.0 * RATE)
        self.pause()
        body = {"values": [4.0], "offset": NOTHING, "branch": answer["branch"]}
        target = "/api/v1/tables/weights/rows/2:inc"
        for _ in range(2):
            again = self.write_to(target, body=body, status=200,
                                  Idempotency_Key="once")
        self.assertTrue(again["changed"])
        self.write_to(target, body={**body, "values": [5.0]}, status=422,
                      Idempotency_Key="once")
        self.assertEqual(self.value(2), -4.0 * RATE)
        for branch in self.kept():
            self.assertEqual(self.value(2, f"&branch={branch}"), 0)
            code = self.add("weights", 2, [1.0], 409, offset=NOTHING,
                            branch=branch)["code"]
            self.assertEqual(code, "branch_read_only")
        self.command("continue")
        epochs = self.run_now()["epochs"]
        self.wait_until(lambda: self.run_now()["epochs"] > epochs + 1,
                        "two epochs")
        self.process.send_signal(signal.SIGINT)
        self.assert_code(self.finish(self.process), 130)
        self.resume()
        self.assertEqual(self.value(1), -2.0 * RATE)
        self.assertEqual(self.value(2), -4.0 * RATE)
        state = self.folder / ".mltune"
        run = next((state / "runs").iterdir()).name
        made = Journal(state, run).of("increment")
        self.assertEqual([(r["number"], r["row"], r["norm"]) for r in made],
                         [(1, 1, 2.0), (2, 2, 4.0)])

    def resume(self):
        run = next((self.folder / ".mltune/runs").iterdir()).name
        self.process = self.start("resume", run)
        self.address = self.wait_until(self.find_url, "the address")
        self.wait_for_status("training")

    def find_url(self):
        for url in self.folder.glob(".mltune/runs/*/url"):
            host, port = re.fullmatch(r"http://(.+):(\d+)/",
                                      url.read_text().strip()).groups()
            return host, int(port)
        return None


class Two(Rows):
    """Each user's row lies with its worker, items where they are touched."""
    CONFIG = {**plain(cluster={"nodes": 2, "workers": 2},
                      ps={"consistency": "essp", "access": "place",
                          "update_rule": "adagrad"}),
              "app": {"name": "mf", "rank": 4, "test_fraction": 0.1,
                      "data": "gen:ratings?users=120&items=80&ratings=3000"
                              "&rank=3"},
              "tunables": {"learning_rate": {"type": "float", "fixed": 0.05}}}

    def test_rows_of_both_nodes(self):
        """All are read while it trains, and are what the model is; one of
        each table is added to, wherever it lies."""
        self.wait_until(self.kept, "the end of an epoch")
        names = [t["table"] for t in self.get("/api/v1/tables")["tables"]
                 if t["access"] != "local"]
        self.assertEqual(len(names), 2)
        run = self.run_now()["branch"]
        for name in names:
            values = self.whole(name, run)
            self.assertTrue(all(isinstance(x, float) for v in values
                                for x in v))
        self.pause()
        for name in names:
            for row in (0, 70):
                before = self.rows(name, row)["rows"][0]["values"]
                self.add(name, row, [1.0], offset=1)
                after = self.rows(name, row)["rows"][0]["values"]
                self.assertLess(after[1], before[1])
                self.assertEqual(after[:1] + after[2:],
                                 before[:1] + before[2:])
        self.command("continue")
        self.saved_is_what_was_read(names)


class Served(test_serve.Service):
    def test_a_service_passes_on(self):
        """Tables from its records, rows from the run itself; those of a run
        that has ended are in its files."""
        (self.folder / "data.csv").write_text(samples())
        run = self.submit(plain(cluster={"workers": 1}))
        target = "/api/v1/tables/weights/rows/2"
        self.wait_for_status(run, "training")
        tables = self.get(f"/api/v1/tables?run={run}")["tables"]
        self.assertEqual([t["table"] for t in tables], ["weights"])
        self.assertEqual(self.get("/api/v1/tables")["tables"], tables)

        def row():
            status, _, body = self.ask("GET", f"{target}?run={run}")
            return body["rows"] if status == 200 else None
        first = self.wait_until(row, "a row")
        self.assertEqual(len(first[0]["values"]), tables[0]["width"])
        body = {"values": [1.0] * tables[0]["width"]}
        status, _, answer = self.ask("POST", f"{target}:inc?run={run}", body)
        self.assertEqual(status, 200, answer)
        self.assertEqual(self.get(f"{target}?run=none", 404)["code"],
                         "run_not_found")
        self.command(run, "stop", 202)
        self.wait_for_status(run, "stopped")
        self.wait_until(lambda: self.get(f"{target}?run={run}",
                                         409)["code"] == "run_ended",
                        "the run's end")
        self.assertEqual(self.get(f"/api/v1/tables?run={run}")["tables"],
                         tables)
