"""Memory: limits of control groups, data against memory.limit, OOM kills.

The machine is a made-up one where a test says so: the library that lets calls fail
(tests/faults/shim.c) shows its files to the program.
"""
import gzip
import os
import signal

from harness import BUILD, Case, endless_config, mf_config, mlr_config
from test_resume import Journal

MIB = 1 << 20


class Machine(Case):
    """One of 16 GiB, in whose group this test's programs are."""
    GROUP = "sys/fs/cgroup/slice/job"
    FAULTS = [f for f in Case.FAULTS if f != "node_ended_badly"]

    def setUp(self):
        super().setUp()
        self.machine = self.folder / "machine"
        self.put("proc/meminfo", "MemTotal: 16777216 kB\n"
                                 "MemAvailable: 8388608 kB\n")
        self.put("proc/self/cgroup", "0::/slice/job\n")
        self.put("proc/self/mountinfo", "30 23 0:26 / /sys/fs/cgroup rw "
                                        "shared:4 - cgroup2 cgroup2 rw\n")
        asan = self.env.get("ASAN_OPTIONS", "")
        self.env.update(LD_PRELOAD=str(BUILD / "tests/faults/shim.so"),
                        FAULT_MACHINE=str(self.machine),
                        ASAN_OPTIONS=f"{asan}:verify_asan_link_order=0")

    def put(self, name, text):
        path = self.machine / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def limit(self, mib, used_mib=0):
        self.put(f"{self.GROUP}/memory.max", f"{mib * MIB}\n")
        self.put(f"{self.GROUP}/memory.current", f"{used_mib * MIB}\n")

    def checks(self):
        done = self.mltune("doctor", "--json")
        return {c["check"]: c["found"] for c in done.result}

    def test_doctor_says_what_the_group_allows(self):
        """Of the group that the program is in, or one above it."""
        self.limit(200, 50)
        self.put("sys/fs/cgroup/slice/cpu.max", "100000 100000\n")
        found = self.checks()
        self.assertEqual(found["memory"], "0.1 GiB available")
        self.assertEqual(found["memory limit"],
                         "0.2 GiB (of the control group)")
        self.assertEqual(found["cores"], "1")

    def test_service_has_half_of_the_group(self):
        """Its budget, without --memory: a run that wants more is refused."""
        self.limit(200)
        service = self.start("serve", "--listen", "127.0.0.1:0")
        url = self.folder / ".mltune/serve.url"
        self.wait_until(url.exists, "the service")
        self.write("large.json", {**mlr_config(),
                                  "memory": {"limit": "101MiB"}})
        done = self.mltune("submit", "large.json")
        self.assertIn(f"at most {100 * MIB} bytes", done.err)
        service.terminate()
        self.finish(service)

    def test_node_takes_half_of_what_the_group_leaves(self):
        """Where memory.limit is not given; a model that needs more is refused
        before anything is trained."""
        config = mf_config()
        config["app"]["rank"] = 256
        self.limit(20, 18)
        done = self.run_config(config)
        self.assert_code(done, 78)
        self.assertIn("memory limit of 1.0 MiB", done.err)
        self.assert_nothing_left()

    def test_data_take_half_of_what_the_group_leaves(self):
        """Of a run and of its model's use, where no limit is given."""
        self.limit(64)
        config = mlr_config()
        config["app"]["data"] = "gen:digits?samples=250000&size=12"
        done = self.run_config(config)
        self.assert_code(done, 78)
        self.assertIn("of memory.limit (32.0 MiB where it is not given)",
                      done.err)
        self.limit(4096)
        self.assert_code(self.run_config(mlr_config()), 0)
        model, = self.folder.glob(".mltune/runs/*/model")
        self.limit(64)
        done = self.mltune("eval", model, "gen:digits?samples=250000&size=12")
        self.assert_code(done, 1)
        self.assertIn("of --memory (32.0 MiB where it is not given)", done.err)
        done = self.mltune("eval", "--memory", "60MiB", model,
                           "gen:digits?samples=250000&size=12")
        self.assert_code(done, 0)
        done = self.mltune("predict", "--memory", "2MiB", model,
                           "gen:digits?samples=250000&size=12")
        self.assert_code(done, 1)
        self.assertIn("of --memory (2.0 MiB)", done.err)

    def test_killed_for_memory_asks_for_less(self):
        """The kernel's count rose as a node was killed: the next one gets less,
        and log and history say so."""
        self.limit(4096)
        self.put(f"{self.GROUP}/memory.events", "oom 0\noom_kill 0\n")
        config = endless_config()
        config["memory"] = {"limit": "1GiB"}
        self.write("config.json", config)
        run = self.start("run", "config.json")
        self.wait_for_training()
        first = self.node_of(run)
        self.put(f"{self.GROUP}/memory.events", "oom 1\noom_kill 1\n")
        os.kill(first, signal.SIGKILL)
        self.wait_until(lambda: self.nodes_of(run) not in ([], [first]),
                        "another node")
        self.wait_until(lambda: len(self.resumed()) == 1, "the run to go on")
        self.assertIn("for want of memory: memory.limit is 768.0 MiB from here",
                      self.resumed()[0])
        second = self.node_of(run)
        # By somebody else, while the kernel kills a neighbour in the slice.
        self.put(f"{os.path.dirname(self.GROUP)}/memory.events",
                 "oom 9\noom_kill 9\n")
        os.kill(second, signal.SIGKILL)
        self.wait_until(lambda: len(self.resumed()) == 2, "it to go on again")
        self.assertNotIn("memory.limit", self.resumed()[1])
        run.terminate()
        self.assert_code(self.finish(run), 143)
        log, = self.folder.glob(".mltune/runs/*/log")
        self.assertRegex(log.read_text(),
                         f"memory_lowered .*limit_bytes={768 * MIB}")

    def resumed(self):
        """Why the run went on, each time."""
        run = next(self.folder.glob(".mltune/runs/*")).name
        return [r["reason"] for r in
                Journal(self.folder / ".mltune", run).of("run_resumed")]


class Data(Case):
    def write_bomb(self):
        """Small on the disk, 40 million ratings in memory."""
        block = b"1\t2\t3\n" * 1000000
        with gzip.open(self.folder / "bomb.gz", "wb", 9) as file:
            for _ in range(40):
                file.write(block)

    def test_archive_is_refused_while_it_is_read(self):
        """Never loaded whole."""
        self.write_bomb()
        config = mf_config()
        config["app"]["data"] = "bomb.gz"
        config["memory"] = {"limit": "64MiB"}
        self.write("config.json", config)
        process = self.start("run", "config.json")
        most = 0
        node = self.node_of(process)
        while process.poll() is None:
            most = max(most, self.peak_of(node))
        done = self.finish(process)
        self.assert_code(done, 78)
        self.assertRegex(done.err, r"bomb.gz: line \d+: .* of memory.limit")
        self.assertLess(most, (64 + 48) * MIB)
        self.assert_nothing_left()

    def test_info_has_a_limit_of_its_own(self):
        """A gigabyte where none is given, what is asked for otherwise; and it
        says how to take more. What is generated is refused before."""
        done = self.mltune("data", "info", "gen:digits?samples=2e6&size=64")
        self.assert_code(done, 1)
        self.assertIn("of --memory (1024.0 MiB", done.err)
        self.assertIn("what to do: --memory SIZE", done.err)
        self.write_bomb()
        process = self.start("data", "info", "--memory", "64MiB", "bomb.gz")
        most = 0
        while process.poll() is None:
            most = max(most, self.peak_of(process.pid))
        done = self.finish(process)
        self.assert_code(done, 1)
        self.assertRegex(done.err, r"bomb.gz: line \d+: .* of --memory")
        self.assertLess(most, (64 + 48) * MIB)
        self.assert_code(self.mltune("data", "info", "--memory", "2GiB",
                                     "gen:ratings?ratings=1000"), 0)
        self.assert_code(self.mltune("data", "info", "--memory", "1k", "x"), 2)

    def peak_of(self, pid):
        """Most that the process has held so far."""
        try:
            with open(f"/proc/{pid}/status", encoding="ascii") as file:
                for line in file:
                    if line.startswith("VmHWM:"):
                        return int(line.split()[1]) * 1024
        except (OSError, ValueError):
            pass
        return 0

    def test_generated_data_are_refused_before_they_are_made(self):
        """Also by the check alone."""
        config = mlr_config()
        config["app"]["data"] = "gen:digits?samples=1e8&size=256"
        config["memory"] = {"limit": "1GiB"}
        done = self.run_config(config, "--dry-run")
        self.assert_code(done, 78)
        self.assertIn("/app/data: expected data that fit into memory.limit",
                      done.err)
