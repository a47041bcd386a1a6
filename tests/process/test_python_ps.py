"""mltune.ps: the parameter server from Python."""
import gc
import pathlib
import subprocess
import sys
import tempfile
import textwrap
import threading
import unittest
from unittest import mock

import numpy as np

from harness import BUILD, ROOT

sys.path.insert(0, str(ROOT / "apps/python"))

from mltune import ps  # noqa: E402


def library():
    return mock.patch.dict("os.environ",
                           MLTUNE_LIBRARY=str(BUILD / "libmltune.so"))


def python(code, *words, seconds=60):
    """A program of its own, with the package and this build's library."""
    head = (f"import sys; sys.path.insert(0, {str(ROOT / 'apps/python')!r})\n"
            "import os\n"
            f"os.environ['MLTUNE_LIBRARY'] = {str(BUILD / 'libmltune.so')!r}\n")
    return subprocess.Popen(
        [sys.executable, "-c", head + textwrap.dedent(code), *map(str, words)],
        text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE), seconds


def finish(started):
    process, seconds = started
    out, err = process.communicate(timeout=seconds)
    return process.returncode, out, err


class Base(unittest.TestCase):
    def setUp(self):
        patch = library()
        patch.start()
        self.addCleanup(patch.stop)

    def server(self, workers=2, **options):
        server = ps.Server(workers, memory_limit=16 << 20, **options)
        self.addCleanup(server.close)
        return server


class Rows(Base):
    def test_direct_in_python_is_direct_in_c(self):
        """The same output, and the same weights, bit for bit."""
        with tempfile.TemporaryDirectory() as folder:
            places = [pathlib.Path(folder) / name for name in ("c", "py")]
            told = []
            for place, words in zip(places, (
                    [str(BUILD / "direct")],
                    [sys.executable, str(ROOT / "apps/direct/direct.py")])):
                place.mkdir()
                told.append(subprocess.run(
                    [*words, str(place)], text=True, capture_output=True,
                    timeout=60, check=True).stdout)
            self.assertEqual(told[0], told[1])
            self.assertEqual(*((p / "weights.npy").read_bytes()
                               for p in places))

    def test_types_and_accesses(self):
        """Shared rows add up, exclusive ones are their worker's, local ones
        are each worker's own; all of their type."""
        server = self.server(update_rule="add")
        shared = server.table("shared", 5, 3, type="i32")
        owned = server.table("owned", 6, 2, type="f64", access="exclusive")
        local = server.table("local", 2, 4, access="local")
        server.start()

        def work(w):
            w.inc(shared, [0, 4], [[1, 2, 3], [w.index] * 3])
            w.update(shared, 1)[:] += 10
            for row in parts[w.index]:
                w.row(owned, row)[:] = row
                w.inc(owned, row, [0.5, 0.25])
            w.row(local, 1)[2] = w.index + 7
            w.clock()
            return (w.get(shared, [0, 1, 4]), w.get(owned, range(6)),
                    w.row(local, 1).copy(), w.get(shared, 0).dtype)
        parts = [owned.owned(i) for i in range(2)]

        first, second = server.run(work)
        self.assertEqual(first[0].tolist(), [[2, 4, 6], [20] * 3, [1] * 3])
        self.assertEqual(first[1].tolist(),
                         [[i + 0.5, i + 0.25] for i in range(6)])
        self.assertEqual(first[2].tolist(), [0, 0, 7, 0])
        self.assertEqual(second[2].tolist(), [0, 0, 8, 0])
        self.assertEqual(first[3], np.int32)

    def test_batches_in_two_steps(self):
        """What is begun gives what get() would, in any order; once, in its
        clock; and no more than eight at a time."""
        server = self.server(2, update_rule="add")
        table = server.table("t", 100, 2, type="f64")
        server.start()

        def work(w):
            w.inc(table, range(100), [[r, 1] for r in range(100)])
            w.clock()
            batches = [w.begin(table, np.arange(i, 100, 3)) for i in range(8)]
            with self.assertRaisesRegex(ps.PsError, "limit"):
                w.begin(table, [0])
            for i in (3, 0, 7):
                rows = list(range(i, 100, 3))
                self.assertEqual(batches[i].wait().tolist(),
                                 [[2 * r, 2] for r in rows])
            with self.assertRaisesRegex(RuntimeError, "waited for"):
                batches[3].wait()
            self.assertEqual(w.begin(table, np.arange(0)).wait().shape, (0, 2))
            with self.assertRaises(IndexError):
                w.begin(table, [100])
            w.clock()
            with self.assertRaisesRegex(RuntimeError, "clock has ended"):
                batches[1].wait()
            return w.begin(table, [5])
        left, _ = server.run(work)
        with self.assertRaisesRegex(RuntimeError, "thread"):
            left.wait()

    def test_rows_are_in_place_until_the_clock(self):
        """What is read is the server's memory, and cannot be written; what is
        written in place cannot be any more when its clock has ended."""
        server = self.server(1, update_rule="add")
        table = server.table("t", 3, 2)
        local = server.table("l", 1, 2, access="local")
        server.start()

        def work(w):
            row, again = w.get(table, 1), w.get(table, 1)
            self.assertTrue(np.shares_memory(row, again))
            with self.assertRaises(ValueError):
                row[0] = 1
            update, mine = w.update(table, 1), w.row(local, 0)
            update += [1, 2]
            mine += 3
            self.assertEqual(row.tolist(), [0, 0])
            w.clock()
            self.assertEqual(w.get(table, 1).tolist(), [1, 2])
            for array in (update, mine):
                with self.assertRaises(ValueError):
                    array[0] = 1
            return w.row(local, 0)
        kept, = server.run(work)
        self.assertEqual(kept.tolist(), [3, 3])
        with self.assertRaises(ValueError):
            kept[0] = 1

    def test_arrays_outlive_the_server(self):
        """Its memory stays as long as one of them; its threads go with the
        last."""
        before = threads()
        server = self.server(2)
        table = server.table("t", 1000, 64)
        server.start()
        kept = server.run(lambda w: [w.get(table, i) for i in range(1000)])
        server.close()
        server.close()
        del table
        gc.collect()
        self.assertEqual(sum(float(r.sum()) for rows in kept for r in rows), 0)
        del kept
        gc.collect()
        self.assertLessEqual(threads(), before)  # others' may end meanwhile
        with self.assertRaisesRegex(RuntimeError, "closed"):
            server.fork(0)

    def test_init_and_rules(self):
        """First values bypass the rule; a gradient goes through it."""
        server = self.server(2, learning_rate=0.5)
        table = server.table("t", 4, 1)
        server.start()
        parts = [table.owned(i) for i in range(2)]

        def work(w):
            for row in parts[w.index]:
                w.init(table, row, [row])
            w.clock()
            w.inc(table, 3, [1.0])
            w.clock()
            return w.get(table, range(4))[:, 0].tolist()
        self.assertEqual(server.run(work), [[0, 1, 2, 2]] * 2)

    def test_own_clocks(self):
        server = self.server(2, update_rule="add")
        early = server.table("early", 1, 1, own_clock=True)
        late = server.table("late", 1, 1)
        server.start()

        def work(w):
            w.inc(early, 0, [1])
            w.clock(early)
            for misuse in (lambda: w.clock(early), lambda: w.get(early, 0),
                           lambda: w.inc(early, 0, [1])):
                with self.assertRaisesRegex(RuntimeError, "was ended"):
                    misuse()
            w.inc(late, 0, [2])
            w.clock()
            return w.get(early, 0)[0], w.get(late, 0)[0]
        self.assertEqual(server.run(work), [(2, 4)] * 2)

    def test_models_without_barriers(self):
        for model in ("ssp", "async"):
            server = self.server(2, consistency=model, staleness=2,
                                 update_rule="add")
            table = server.table("t", 1, 1, read_my_writes=True)
            server.start()

            def work(w):
                for _ in range(50):
                    w.inc(table, 0, [1])
                    self.assertGreaterEqual(w.get(table, 0)[0], 1)
                    w.clock()
            server.run(work)
            self.assertEqual(server.run(lambda w: w.get(table, 0)[0]),
                             [100, 100], model)


    def test_weight_decay_is_beside_each_step(self):
        """Under bsp one step a clock, of all workers; else one of each."""
        for model, left in (("bsp", 0.875), ("ssp", 0.875 ** 2)):
            server = self.server(2, consistency=model, update_rule="sgd",
                                 learning_rate=1.0)
            table = server.table("t", 1, 3, undecayed=1)
            server.start()

            def work(w, value):
                w.inc(table, 0, [value] * 3)
                w.clock()
            server.run(lambda w: work(w, -0.5))  # all are 1 now
            server.set(weight_decay=0.25, learning_rate=0.5)
            server.run(lambda w: work(w, 0))
            self.assertEqual([tuple(x) for x in server.run(
                lambda w: w.get(table, 0))], [(left, left, 1)] * 2, model)


def threads():
    return len(list(pathlib.Path("/proc/self/task").iterdir()))


class Branches(Base):
    def setUp(self):
        super().setUp()
        self.s = self.server(2, update_rule="add")
        self.t = self.s.table("t", 3, 2)
        self.s.start()

    def add(self, value):
        def work(w):
            w.inc(self.t, 1, [value, value])
            w.clock()
        self.s.run(work)

    def read(self, branch):
        self.s.switch(branch)
        return self.s.run(lambda w: w.get(self.t, 1)[0])[0]

    def test_forks_differ_from_then_on(self):
        self.add(1)
        a, b = self.s.fork(0), self.s.fork(0)
        self.s.switch(a)
        self.add(10)
        self.s.switch(b)
        self.add(100)
        self.assertEqual([self.read(x) for x in (0, a, b)], [2, 22, 202])
        self.assertEqual([self.s.clocks(x) for x in (0, a, b)], [1, 2, 2])
        self.s.drop(a)
        with self.assertRaises(ps.PsError):
            self.s.switch(a)
        with self.assertRaises(ps.PsError):
            self.s.fork(99)

    def test_settings_are_checked(self):
        for bad in ({"learning_rate": -1.0}, {"momentum": 1.0},
                    {"staleness": 2_000_000}, {"bandwidth_mbps": -1.0},
                    {"weight_decay": -1.0}, {"update_rule": "add"}):
            with self.assertRaises(ps.PsError):
                self.s.set(**bad)
        self.s.set(learning_rate=0.1, momentum=0.5, staleness=1,
                   bandwidth_mbps=0, weight_decay=0.1, update_rule="adam")

    def test_a_workers_exception_ends_the_run(self):
        """The others do not wait for ever; the branch is of no use then."""
        kept = self.s.fork(0)

        def work(w):
            if w.index == 1:
                raise KeyError("the program's")
            for _ in range(1000):
                w.clock()
        with self.assertRaisesRegex(KeyError, "the program's"):
            self.s.run(work)
        with self.assertRaises(ps.PsError):
            self.add(1)
        self.s.switch(kept)
        self.add(1)
        self.assertEqual(self.read(kept), 2)

    def test_misuse_is_an_exception(self):
        other = self.server(1)
        foreign = other.table("f", 1, 1)
        shared = self.t

        def work(w):
            for call, kind in (
                    (lambda: w.get(shared, 3), IndexError),
                    (lambda: w.get(shared, -1), IndexError),
                    (lambda: w.get(shared, 1.5), IndexError),
                    (lambda: w.get(shared, [0, 3]), IndexError),
                    (lambda: w.get(shared, ["a"]), TypeError),
                    (lambda: w.get(foreign, 0), ValueError),
                    (lambda: w.row(shared, 0), TypeError),
                    (lambda: w.inc(shared, 0, [1]), ValueError),
                    (lambda: w.inc(shared, [0], [1, 1]), ValueError),
                    (lambda: self.s.fork(0), RuntimeError),
                    (lambda: self.s.run(work), RuntimeError),
                    (lambda: self.s.close(), RuntimeError)):
                with self.assertRaises(kind):
                    call()
            if w.index == 0:
                caught = []

                def elsewhere():
                    try:
                        w.get(shared, 0)
                    except RuntimeError as e:
                        caught.append(e)
                thread = threading.Thread(target=elsewhere)
                thread.start()
                thread.join()
                self.assertEqual(len(caught), 1)
            return w
        workers = self.s.run(work)
        with self.assertRaises(RuntimeError):
            workers[0].get(shared, 0)
        with self.assertRaises(RuntimeError):
            self.s.table("late", 1, 1)
        with self.assertRaises(TypeError):
            self.s.set_mover(self.t, print)
        with self.assertRaises(RuntimeError):
            other.fork(0)
        with self.assertRaises(IndexError):
            other.expect(foreign, 1, [0])
        other.expect(foreign, 0, [0])

    def test_errors_have_the_librarys_words(self):
        with self.assertRaisesRegex(ps.PsError, "consistency"):
            self.server(1, consistency="none")
        server = self.server(1)
        with self.assertRaisesRegex(ps.PsError, "name"):
            server.table("Not a name", 1, 1)
        with self.assertRaises(ValueError):
            server.table("t", 1, 1, type="f16")
        with self.assertRaises(ValueError):
            server.start()
        server.table("large", 10 ** 7, 100)
        with self.assertRaisesRegex(ps.PsError, "memory"):
            server.start()


class Files(Base):
    def make(self, workers):
        server = self.server(workers, update_rule="add")
        model = server.table("model", 4, 2)
        cursor = server.table("cursor", 1, 1, access="local", type="i32")
        server.start()
        return server, model, cursor

    def test_save_checkpoint_restore_on_more_workers(self):
        with tempfile.TemporaryDirectory() as folder:
            server, model, cursor = self.make(2)

            def work(w):
                w.inc(model, 2, [1, 2])
                w.row(cursor, 0)[0] = w.index + 5
                w.clock()
            server.run(work)
            server.checkpoint(f"{folder}/c")
            with self.assertRaises(ps.PsError):
                server.checkpoint(f"{folder}/d")
            server.checkpoint_end()
            self.assertTrue(server.checkpoint_done())
            server.save(folder)
            self.assertEqual(np.load(f"{folder}/model.npy")[2].tolist(),
                             [2, 4])
            with self.assertRaisesRegex(ps.PsError, "nowhere"):
                server.save("/nowhere")

            more, model, cursor = self.make(3)
            kept = []

            def move(m):
                kept.append(m)
                total = sum(int(m.read(i, 0)[0])
                            for i in range(m.workers_before))
                for i in range(m.workers):
                    self.assertTrue(m.write(i, 0, [total]))
                with self.assertRaises(IndexError):
                    m.read(2, 0)

            def refuse(_):
                raise ZeroDivisionError("mine")
            more.set_mover(cursor, refuse)
            with self.assertRaises(ZeroDivisionError):
                more.restore(f"{folder}/c")
            more.set_mover(cursor, move)
            branch = more.restore(f"{folder}/c")
            with self.assertRaises(RuntimeError):
                kept[0].read(0, 0)
            more.switch(branch)
            self.assertEqual(more.run(
                lambda w: (w.get(model, 2).tolist(),
                           int(w.row(cursor, 0)[0]))), [([2, 4], 11)] * 3)


class Processes(Base):
    def test_two_nodes(self):
        """Two processes of two workers each add to the same rows."""
        code = """
            import numpy as np
            from mltune.ps import Server
            with Server(2, nodes=2, node=int(sys.argv[1]), meet=sys.argv[2],
                        update_rule="add", memory_limit=16 << 20) as server:
                t = server.table("t", 8, 2)
                server.start()
                def work(w):
                    for row in range(8):
                        w.inc(t, row, [row, w.index])
                    w.clock()
                    return w.index, w.get(t, range(8)).sum(), w.get(t, 7)
                for index, total, row in server.run(work):
                    print(index, total, row.tolist())
        """
        with tempfile.TemporaryDirectory() as folder:
            started = [python(code, i, folder) for i in range(2)]
            told = [finish(s) for s in started]
        self.assertEqual([t[0] for t in told], [0, 0], told)
        lines = sorted((told[0][1] + told[1][1]).splitlines())
        self.assertEqual(lines, [f"{i} 160.0 [28.0, 6.0]" for i in range(4)])

    def test_ctrl_c_ends_a_run(self):
        code = """
            import signal, threading
            from mltune.ps import Server
            with Server(2, memory_limit=16 << 20) as server:
                t = server.table("t", 1, 1)
                server.start()
                def work(w):
                    for clock in range(10 ** 9):
                        w.clock()
                        if clock == 100 and w.index == 0:
                            os.kill(os.getpid(), signal.SIGINT)
                try:
                    server.run(work)
                except KeyboardInterrupt:
                    print("interrupted")
        """
        code, out, err = finish(python(code))
        self.assertEqual((code, out), (0, "interrupted\n"), err)

    def test_another_version_is_refused(self):
        """By its number, and where it has none."""
        with tempfile.TemporaryDirectory() as folder:
            for text in ("unsigned mlt_ps_version(void){return 2;}",
                         "int other;"):
                source = pathlib.Path(folder) / "fake.c"
                source.write_text(text)
                subprocess.run(["gcc", "-shared", "-fPIC", str(source), "-o",
                                f"{folder}/fake.so"], check=True, timeout=60)
                code, _, err = finish(python(
                    f"os.environ['MLTUNE_LIBRARY'] = '{folder}/fake.so'\n"
                    "from mltune.ps import Server\nServer(1)"))
                self.assertEqual(code, 1)
                self.assertRegex(err, "ImportError: .*fake.so has version")
        code, _, err = finish(python(
            "os.environ['MLTUNE_LIBRARY'] = '/nowhere.so'\n"
            "from mltune.ps import Server\nServer(1)"))
        self.assertRegex(err, "ImportError: .*MLTUNE_LIBRARY")

    def test_declarations_are_the_headers(self):
        """Each function that is called stands in the header, with as many
        arguments; the constants are the header's."""
        import re
        header = (ROOT / "include/mltune/ps.h").read_text()
        header = re.sub(r"/\*.*?\*/", "", header, flags=re.S)
        found = {m[1]: m[2] for m in re.finditer(
            r"MLT_API [^;(]*?\b(mlt_\w+)\(([^;]*)\);", header)}
        for name, (_, arguments) in ps._CALLS.items():
            told = found[name].strip()
            self.assertEqual(len(arguments),
                             0 if told == "void" else told.count(",") + 1,
                             name)
        for name in ("READ_MY_WRITES", "NO_MOMENTUM", "NOT_SAVED", "OWN_CLOCK",
                     "ALIKE"):
            self.assertIn(f"MLT_{name} = {getattr(ps, name)}", header)
        self.assertIn(f"MLT_PS_VERSION {ps.VERSION}\n", header)


if __name__ == "__main__":
    unittest.main()
