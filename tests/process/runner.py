#!/usr/bin/env python3
"""Runs every test_*.py beside it and closes with "N passed, N failed".

    runner.py [NAME ...]    only tests whose "file.class.test" contains a NAME

Each test has TEST_SECONDS; one that takes longer fails. What a failed test
printed is shown, of a passed one nothing. MLTUNE_COUNTS: file to append the
counts to.

MLTUNE_JOBS tests (1 unless it is set) run at a time, each lane a process that
takes the next one.

A test that fails is run once more after the others, alone. One that passes then is
called flaky: a fault to mend, but not one that should stop everybody else.
MLTUNE_STRICT=1: no second run.
"""
import multiprocessing
import os
import pathlib
import signal
import sys
import time
import traceback
import unittest

TEST_SECONDS = int(os.environ.get("MLTUNE_TEST_SECONDS", "180"))
HERE = pathlib.Path(__file__).resolve().parent


class TookTooLong(BaseException):
    """No Exception, so that no test catches it by accident."""


def ring(_signal, _frame):
    raise TookTooLong(f"took longer than {TEST_SECONDS} s")


def flatten(suite):
    for item in suite:
        if isinstance(item, unittest.TestSuite):
            yield from flatten(item)
        else:
            yield item


class Result(unittest.TestResult):
    def __init__(self):
        super().__init__()
        self.passed = 0
        self.began = 0.0

    def startTest(self, test):
        super().startTest(test)
        self.began = time.monotonic()

    def say(self, word, test, text=""):
        seconds = time.monotonic() - self.began
        line = f"{word:<6}{test.id()} ({seconds:.1f} s)\n"
        sys.stdout.write(line + (text + "\n" if text else ""))
        sys.stdout.flush()

    def addSuccess(self, test):
        self.passed += 1
        self.say("ok", test)

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.say("FAIL", test, self.failures[-1][1])

    def addError(self, test, err):
        super().addError(test, err)
        self.say("FAIL", test, self.errors[-1][1])

    def addSubTest(self, test, subtest, err):
        before = len(self.failures), len(self.errors)
        super().addSubTest(test, subtest, err)
        for items, seen in zip((self.failures, self.errors), before):
            for _, text in items[seen:]:
                self.say("FAIL", subtest, text)

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.say("skip", test, f"skip: {reason}")


def run_one(test, result):
    signal.alarm(TEST_SECONDS)
    try:
        test.run(result)
    except TookTooLong as late:
        result.addError(test, (TookTooLong, late, late.__traceback__))
    finally:
        signal.alarm(0)


def run_all(tests, result):
    """The tests that failed."""
    failed = []
    for test in tests:
        before = len(result.failures) + len(result.errors)
        run_one(test, result)
        if len(result.failures) + len(result.errors) > before:
            failed.append(test)
    return failed


def run_lane(tests, turn, results):
    """Takes one test after another; puts what came of it."""
    signal.signal(signal.SIGALRM, ring)
    result = Result()
    failed = []
    while True:
        with turn.get_lock():
            at = turn.value
            turn.value += 1
        if at >= len(tests):
            break
        if run_all([tests[at]], result):
            failed.append(at)
    results.put((result.passed, len(result.skipped),
                 failed))


def run_lanes(tests, result, lanes):
    """As run_all, several at a time."""
    fork = multiprocessing.get_context("fork")
    turn, results = fork.Value("i", 0), fork.SimpleQueue()
    sys.stdout.flush()
    workers = [fork.Process(target=run_lane, args=(tests, turn, results))
               for _ in range(lanes)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    failed = []
    for worker in workers:
        if worker.exitcode:
            raise RuntimeError(f"a lane ended with {worker.exitcode}")
        passed, skipped, at = results.get()
        result.passed += passed
        result.skipped += [None] * skipped
        failed += at
    for at in sorted(failed):  # for the count, where there is no second run
        result.failures.append((tests[at], ""))
    return [tests[at] for at in sorted(failed)]


def run_again(tests, result):
    """What failed, once more; what still fails is all that counts."""
    result.failures.clear()
    result.errors.clear()
    for test in tests:
        print(f"again {test.id()}", flush=True)
    failed = {test.id() for test in run_all(tests, result)}
    flaky = [test.id() for test in tests if test.id() not in failed]
    if flaky:
        print(f"flaky: {' '.join(flaky)} (failed, then passed; see above)")


def main():
    sys.path.insert(0, str(HERE))
    signal.signal(signal.SIGALRM, ring)
    # A shell's background job ignores it, and so would what is started here.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    tests = list(flatten(unittest.defaultTestLoader.discover(
        str(HERE), pattern="test_*.py", top_level_dir=str(HERE))))
    words = sys.argv[1:]
    if words:
        tests = [t for t in tests if any(w in t.id() for w in words)]
    if not tests:
        print(f"no process test matches {' '.join(words) or 'test_*.py'}",
              file=sys.stderr)
        return 2
    result = Result()
    try:
        lanes = min(int(os.environ.get("MLTUNE_JOBS", "1")), len(tests))
        failed = run_lanes(tests, result, lanes) if lanes > 1 else \
            run_all(tests, result)
        if failed and not os.environ.get("MLTUNE_STRICT"):
            run_again(failed, result)
    except KeyboardInterrupt:
        traceback.print_exc()
        return 130
    failed = len(result.failures) + len(result.errors)
    skipped = len(result.skipped)
    print(f"{result.passed} passed, {failed} failed, {skipped} skipped")
    counts = os.environ.get("MLTUNE_COUNTS")
    if counts:
        with open(counts, "a", encoding="ascii") as file:
            file.write(f"{result.passed} {failed} {skipped}\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
