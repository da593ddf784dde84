# SPDX-License-Identifier: GPL-2.0-or-later
"""Shared by all in-guest tests: KTAP output, exit status, and the checks that nothing is left behind.

A test file has one subject and ends with `run(test_a, test_b)`. Each test is a function; its docstring's first line is
its name. A test fails by AssertionError (best through `expect`, which shows both values) or any other exception, and
skips by Skip. After each test the kernel must be back on its own scheduler, with nothing frozen, nothing pinned and no
new kernel warning; else the test is "not ok" even if its body passed.

If a host takes the CPUs away, the time of an emulated guest passes without the guest running, so a measured time may be
the host's. Therefore a wait lasts up to a multiple of the wait on an idle host, and a test is run again if only
`measured` values are wrong. A broken program misses every time.

With COSCHED_QUICK=1 each behaviour is tested once: `cases` gives the first of several alike, and `at_length` the
shorter of two times or counts. `just test` does so; `just test-all` and `just kselftest` test all, for longer.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn, TypeVar

from ctl.kernel.pins import PINS

__all__ = [
    "AGAIN",
    "FAIL",
    "PASS",
    "PATIENCE",
    "QUICK",
    "SKIP",
    "TIME_OUT_S",
    "Missed",
    "Skip",
    "at_length",
    "cases",
    "expect",
    "left_behind",
    "measured",
    "note",
    "program",
    "run",
    "tried",
    "until",
]

PASS, FAIL, SKIP = 0, 1, 4  # exit status of a kselftest
_WARNING = re.compile(r"WARNING:|BUG:|Oops|rcu: INFO|general protection|refcount_t:|sysfs: cannot")
_TRIES = 3  # of a test that measures
AGAIN = "measured again:"  # begin of the note, before the missed value
PATIENCE = 4  # the longest wait, in waits on an idle host
TIME_OUT_S = 300  # of a program that measures and ends by itself
_TOLD = 60  # lines of the kernel's log that a failure shows
QUICK = os.environ.get("COSCHED_QUICK") == "1"
_PROGRAMS = Path("/usr/lib/cosched/progs")  # compiled on the host: gcc takes seconds on an emulated CPU


T = TypeVar("T")


class Skip(Exception):
    """The test cannot run here; the text says why."""


class Missed(AssertionError):
    """Times, shares of time or counts in a time are not as they should be; the text has them."""


def note(text: str) -> None:
    """Print a diagnostic line."""
    for line in text.splitlines():
        print(f"# {line}", flush=True)


def expect(got: object, wanted: object, what: str) -> None:
    """Fail with both values unless they are equal."""
    if got != wanted:
        raise AssertionError(f"{what}: got {got!r}, expected {wanted!r}")


def measured(holds: bool, what: str) -> None:
    """Fail unless this holds for a measured value; the test is run again then, _TRIES times in all."""
    if not holds:
        raise Missed(what)


def cases(everything: Sequence[T], quick: int = 1) -> Sequence[T]:
    """All cases, or the first `quick` of them in the quick form."""
    return everything[:quick] if QUICK else everything


def at_length(value: float, quick: float) -> float:
    """This time or number, or `quick` in the quick form."""
    return quick if QUICK else value


def tried(part: Callable[[], None]) -> None:
    """Run a part of a measuring test, up to _TRIES times if it misses. Of many parts, a different part may miss each
    time."""
    for _ in range(1, _TRIES):
        try:
            part()
        except Missed as missed:
            note(f"{AGAIN} {missed}")
        else:
            return
    part()


def until(
    condition: Callable[[], bool], what: str, seconds: float = 30.0, seen: Callable[[], object] | None = None
) -> None:
    """Wait for a condition that holds after so many seconds on an idle host; fail after PATIENCE times as many, and
    note what is `seen` then."""
    end = time.monotonic() + PATIENCE * seconds
    while not condition():
        if time.monotonic() > end:
            if seen is not None:
                note(str(seen()))
            raise AssertionError(f"{what}: not within {PATIENCE * seconds:g} s")
        time.sleep(0.02)


def program(name: str) -> str:
    """Path of a C program of progs/."""
    return str(_PROGRAMS / name)


def _kernel_log() -> list[str]:
    """The kernel's messages, oldest first."""
    return subprocess.run(["dmesg", "--notime"], check=True, capture_output=True, text=True).stdout.splitlines()


def left_behind(messages_before: int = 0) -> list[str]:
    """Forbidden leftovers of a test, one sentence each; messages_before is the length of the kernel log at its
    start."""
    found = []
    state = Path("/sys/kernel/sched_ext/state")
    if state.exists() and (text := state.read_text().strip()) != "disabled":
        found.append(f"sched_ext is {text}, expected disabled")
    for frozen in Path("/sys/fs/cgroup").rglob("cgroup.freeze"):
        if frozen.read_text().strip() != "0":
            found.append(f"{frozen.parent} is frozen")
    found += [f"{pin} is pinned" for pin in PINS.glob("*")]
    found += [f"kernel: {line}" for line in _kernel_log()[messages_before:] if _WARNING.search(line)]
    return found


def _attempt(test: Callable[[], None]) -> tuple[BaseException | None, bool]:
    """Run a test once: (the exception that ended it or None, whether it may be run again). Errors are printed as
    diagnostics."""
    messages = len(_kernel_log())
    problem: BaseException | None = None
    try:
        test()
    except Skip as reason:
        problem = reason
    except AssertionError as error:
        problem = error
        note(str(error) or "assertion failed")
        note(traceback.format_exc(limit=-1))
    except Exception as error:
        problem = error
        note(traceback.format_exc())
    again = isinstance(problem, Missed)
    if found := left_behind(messages):
        problem, again = AssertionError("left behind: " + "; ".join(found)), False
        note(str(problem))
    if problem and not isinstance(problem, Skip):
        note("\n".join(f"dmesg: {line}" for line in _kernel_log()[messages:][-_TOLD:]))
    return problem, again


def _result(test: Callable[[], None]) -> tuple[bool, str]:
    """Run a test: (ok, reason to skip or "")."""
    for turn in range(1, _TRIES + 1):
        problem, again = _attempt(test)
        if not again or turn == _TRIES:
            break
        note(f"{AGAIN} {problem}")
    skipped = (str(problem) or "no reason given") if isinstance(problem, Skip) else ""
    return problem is None or bool(skipped), skipped


def run(*tests: Callable[[], None]) -> NoReturn:
    """Run the tests, print KTAP, exit 0 (passed), 1 (failed) or 4 (all skipped)."""
    print(f"KTAP version 1\n1..{len(tests)}", flush=True)
    failed = skips = 0
    for number, test in enumerate(tests, 1):
        name = (test.__doc__ or test.__name__).splitlines()[0].rstrip(".")
        began = time.monotonic()
        ok, skipped = _result(test)
        note(f"{time.monotonic() - began:.1f} s")
        failed += not ok
        skips += ok and bool(skipped)
        directive = f" # SKIP {skipped}" if skipped and ok else ""
        print(f"{'ok' if ok else 'not ok'} {number} {name}{directive}", flush=True)
    sys.exit(FAIL if failed else SKIP if skips == len(tests) else PASS)
