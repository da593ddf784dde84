# SPDX-License-Identifier: GPL-2.0-or-later
"""Run every in-guest test file, merge the KTAP, and end with a line that counts the passed tests.

A test file is an executable *.py of this directory. Its results count only if they are consistent: the plan is kept,
the exit status agrees with the results, and the file ends in time. Test files run one after the other, because each
needs the machine and the kernel's only scheduler for itself. Each runs in a fork of the runner, which has Python and
ctl's modules in memory: an emulated CPU takes three seconds to start them.
"""

from __future__ import annotations

import argparse
import importlib
import multiprocessing
import os
import re
import runpy
import selectors
import signal
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.kselftest import stock
from tests.kselftest.ktap import AGAIN, FAIL, PASS, QUICK, SKIP

__all__ = ["Outcome", "Parser", "find_tests", "main"]

_HERE = Path(__file__).parent
_TIMEOUT_S = 1800.0  # of one test file
_IN_MEMORY = ("tests.kselftest.command", "tests.kselftest.node")  # with them all that the tests use of ctl
_RESULT = re.compile(r"(?P<word>ok|not ok) (?P<number>\d+)(?: (?P<name>.*?))?(?: # SKIP(?: (?P<reason>.*))?)?$")
_PLAN = re.compile(r"1\.\.(\d+)$")


@dataclass
class Outcome:
    """The outcome of a test file."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0
    again: int = 0  # number of repeated measurements
    problems: list[str] = field(default_factory=list)  # why its results do not count

    @property
    def ok(self) -> bool:
        """Whether all its tests passed, and the results are consistent."""
        return not self.failed and not self.problems


class Parser:
    """Reads the KTAP of one test file line by line."""

    def __init__(self) -> None:
        self.outcome = Outcome()
        self._version = False
        self._plan: int | None = None
        self._results = 0

    def line(self, text: str) -> None:
        """Read a line; diagnostics and indented lines (subtests) are no results."""
        self.outcome.again += text.startswith(f"# {AGAIN}")
        if text.startswith((" ", "\t", "#")) or not text:
            return
        if text.startswith("KTAP version "):
            self._version = True
        elif plan := _PLAN.match(text):
            if self._plan is not None:
                self.outcome.problems.append("a second plan")
            self._plan = int(plan[1])
        elif result := _RESULT.match(text):
            self._count(result)
        elif text.startswith("Bail out!"):
            self.outcome.problems.append(text)

    def _count(self, result: re.Match[str]) -> None:
        self._results += 1
        if int(result["number"]) != self._results:
            self.outcome.problems.append(f"result {result['number']} where {self._results} was due")
        if result["word"] == "not ok":
            self.outcome.failed += 1
        elif " # SKIP" in result[0]:
            self.outcome.skipped += 1
        else:
            self.outcome.passed += 1

    def end(self, status: int) -> Outcome:
        """The file ended with this exit status, negative for a signal. Returns the outcome."""
        outcome = self.outcome
        if not self._version:
            outcome.problems.append("no KTAP version line")
        if self._plan is None:
            outcome.problems.append("no plan")
        elif self._plan != self._results:
            outcome.problems.append(f"{self._results} results where the plan says {self._plan}")
        only_skips = outcome.skipped and not outcome.passed
        right = FAIL if outcome.failed else SKIP if only_skips else PASS
        if status != right and not (outcome.problems and status):
            outcome.problems.append(f"exit status {status}, results say {right}")
        if status < 0:
            outcome.problems.append(f"killed by {signal.Signals(-status).name}")
        return outcome


def find_tests(directory: Path, names: Sequence[str] = ()) -> list[Path]:
    """The test files, sorted; only the named files if names are given. Raises ValueError for an unknown name."""
    found = {path.stem: path for path in sorted(directory.glob("*.py")) if os.access(path, os.X_OK)}
    unknown = [name for name in names if name.removesuffix(".py") not in found]
    if unknown:
        raise ValueError(f"no test is called {', '.join(unknown)}: there are {', '.join(found)}")
    return [found[name.removesuffix(".py")] for name in names] if names else list(found.values())


def _lines(output: int, end: float) -> Iterator[str]:
    """The output of a process, line by line, until it closes its output or its time is over."""
    rest = b""
    with selectors.DefaultSelector() as selector:
        selector.register(output, selectors.EVENT_READ)
        while (left := end - time.monotonic()) > 0 and selector.select(left):
            data = os.read(output, 65536)
            if not data:
                break
            *whole, rest = (rest + data).split(b"\n")
            yield from (line.decode(errors="replace") for line in whole)
    if rest:
        yield rest.decode(errors="replace")


def _kill_group(pid: int | None) -> None:
    """Kill the test and its children before the next test, which a leftover would disturb."""
    with suppress(ProcessLookupError):
        os.killpg(pid or 0, signal.SIGKILL)


def _become(test: Path, output: int) -> None:
    """Be a test file in this new process."""
    os.setsid()
    os.chdir(_HERE.parents[1])
    os.environ.update(PYTHONPATH=str(_HERE.parents[1]), PYTHONUNBUFFERED="1")  # of its children
    with open(os.devnull, "rb") as null:
        os.dup2(null.fileno(), 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.close(output)
    sys.stdout = open(1, "w", buffering=1, closefd=False)  # noqa: SIM115
    sys.argv = [str(test)]
    runpy.run_path(str(test), run_name="__main__")


def _run_one(test: Path, timeout: float) -> Outcome:
    """Run a test file, and print its output indented, as subtests."""
    parser = Parser()
    ours, theirs = os.pipe()
    process = multiprocessing.get_context("fork").Process(target=_become, args=(test, theirs))
    process.start()
    os.close(theirs)
    end = time.monotonic() + timeout
    try:
        for line in _lines(ours, end):
            print(f"    {line}", flush=True)
            parser.line(line)
        process.join(max(end - time.monotonic(), 0.1))
        if process.exitcode is None:
            parser.outcome.problems.append(f"did not end within {timeout:g} s")
    finally:
        _kill_group(process.pid)
        process.join()
        os.close(ours)
    assert process.exitcode is not None
    return parser.end(process.exitcode)


def _run_all(tests: Iterable[Path], timeout: float) -> bool:
    """Run the test files; returns whether all is well."""
    tests, total, good = list(tests), Outcome(), True
    print(f"KTAP version 1\n1..{len(tests)}", flush=True)
    for number, test in enumerate(tests, 1):
        print(f"# Subtest: {test.stem}", flush=True)
        begin = time.monotonic()
        if QUICK and test.parent == _HERE:
            stock.fill()
            importlib.import_module("tests.kselftest.node").load_sensor()
        outcome = _run_one(test, timeout)
        total.passed += outcome.passed
        total.skipped += outcome.skipped
        total.again += outcome.again
        total.failed += outcome.failed or bool(outcome.problems)  # an inconsistent file is a failure, too
        good = good and outcome.ok
        for problem in outcome.problems:
            print(f"# {test.stem}: {problem}")
        skip = " # SKIP" if outcome.ok and outcome.skipped and not outcome.passed else ""
        print(f"{'ok' if outcome.ok else 'not ok'} {number} {test.stem}{skip}")
        print(f"# {test.stem}: {time.monotonic() - begin:.1f} s", flush=True)
    again = f", {total.again} times something was measured again" if total.again else ""
    print(f"{total.passed} passed, {total.failed} failed, {total.skipped} skipped{again}", flush=True)
    return good and bool(tests)


def main(argv: list[str] | None = None) -> int:
    """Entry point of tests/kselftest/run."""
    parser = argparse.ArgumentParser(
        prog="tests/kselftest/run", description="Run all in-guest tests, or the named tests."
    )
    parser.add_argument("--timeout", type=float, default=_TIMEOUT_S, help="seconds for one file (default %(default)g)")
    parser.add_argument("--directory", type=Path, default=_HERE, help=argparse.SUPPRESS)
    parser.add_argument("--but", action="store_true", help="run all tests but the named")
    parser.add_argument("names", nargs="*", metavar="NAME", help="test files, without .py")
    options = parser.parse_args(argv)
    try:
        tests = find_tests(options.directory, options.names)
    except ValueError as error:
        parser.error(str(error))
    if options.but:
        tests = [test for test in find_tests(options.directory) if test not in tests]
    if options.directory == _HERE:
        for module in _IN_MEMORY:
            importlib.import_module(module)
    return PASS if _run_all(tests, options.timeout) else FAIL


if __name__ == "__main__":
    sys.exit(main())
