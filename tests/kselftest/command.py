# SPDX-License-Identifier: GPL-2.0-or-later
"""`ctl` run as a user runs it, for tests of the command line.

Most commands run in a fork of the test, which has Python and ctl's modules in memory, and so does the agent that
`ctl load` starts: starting them anew takes an emulated CPU a second for a command and two for an agent. Commands that
become another process are started from the shell's path, as everybody does. The tests of virtual machines and the demo
start all of them so.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from typing import IO, Any, Final

from ctl.cli import cluster, control, jobs, tracing, watch  # noqa: F401  # these are imported here, before the forks
from ctl.cli.main import main
from ctl.node import agent as _agent  # noqa: F401
from ctl.process import daemon, relay  # noqa: F401
from ctl.process.run_files import lock_is_held
from tests.kselftest import ktap, stock
from tests.kselftest.node import disabled, spawned

__all__ = ["TIMEOUT", "Follower", "agent", "asked", "ctl", "following", "refused"]

TIMEOUT = 500  # seconds: the sensors compile in five, on an emulated CPU that is taken away most of the time in 120

_OWN_PROCESS: Final = {"agent", "run"}


def ctl(*arguments: str, status: int = 0) -> str:
    """Run ctl and return its output of both streams. Fails unless ctl exits as expected."""
    got, said = _run(*arguments)
    if got != status:
        raise AssertionError(f"ctl {' '.join(arguments)}: status {got}, not {status}: {said}")
    return said


def _run(*arguments: str) -> tuple[int, str]:
    """Run ctl; its exit status, and its output followed by its errors."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        status = (_started if arguments[0] in _OWN_PROCESS else _forked)(arguments, out, err)
        out.seek(0), err.seek(0)
        return status, out.read().decode() + err.read().decode()


def _started(arguments: tuple[str, ...], out: IO[bytes], err: IO[bytes]) -> int:
    return subprocess.run(["ctl", *arguments], stdout=out, stderr=err, timeout=TIMEOUT, check=False).returncode


def _forked(arguments: tuple[str, ...], out: IO[bytes], err: IO[bytes]) -> int:
    sys.stdout.flush()
    if (pid := os.fork()) == 0:
        status = 1
        try:
            os.dup2(out.fileno(), 1)
            os.dup2(err.fileno(), 2)
            _close_all_but(stock.descriptors())  # an agent would keep the test's sockets open
            status = main(arguments)
        except BaseException:  # nobody above this frame would tell: the fork ends here
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(status)
    end = time.monotonic() + TIMEOUT
    while not (ended := os.waitpid(pid, os.WNOHANG))[0]:
        if time.monotonic() > end:
            os.kill(pid, signal.SIGKILL)
        time.sleep(0.005)
    return os.waitstatus_to_exitcode(ended[1])


def _close_all_but(kept: frozenset[int]) -> None:
    """Close this process's descriptors above those of standard input, output and errors."""
    for descriptor in {int(name) for name in os.listdir("/proc/self/fd")} - kept - {0, 1, 2}:
        with contextlib.suppress(OSError):  # of the directory itself
            os.close(descriptor)


def asked(*arguments: str) -> Any:
    """Run ctl with --json and return its output."""
    return json.loads(ctl(*arguments, "--json"))


@contextlib.contextmanager
def agent(*knobs: str, policy: str = "csm", sensors: bool = False) -> Iterator[int]:
    """An agent, loaded and unloaded by ctl; its pid."""
    settings = [*knobs, f"sensors={'on' if sensors else 'off'}"]
    try:
        yield asked("load", "--wait", "--policy", policy, *(f"--set={setting}" for setting in settings))["pid"]
    finally:
        status, said = _run("unload")
        if status:  # it has been ended, or a busy host has not let it end in time
            ktap.note(said.strip())
            ktap.until(lambda: not lock_is_held(), "the agent has ended", 30)
            ktap.until(disabled, "the kernel is on its own scheduler")  # of one killed: once its links are gone


def refused(*arguments: str, words: tuple[str, ...]) -> None:
    """ctl refuses: status 2, one sentence with these words."""
    text = ctl(*arguments, status=2)
    ktap.expect(text.count("\n"), 1, f"lines of {text!r}")
    for word in words:
        assert word in text, f"no {word!r} in {text!r}"


class Follower:
    """The output of a following ctl so far."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        self._descriptor = process.stdout.fileno()
        self._read = b""
        os.set_blocking(self._descriptor, False)

    def text(self) -> str:
        """The whole output so far, without waiting."""
        with contextlib.suppress(BlockingIOError):
            while more := os.read(self._descriptor, 1 << 16):
                self._read += more
        return self._read.decode()

    def events(self) -> list[dict[str, Any]]:
        """The events whose whole line is printed."""
        return [json.loads(line) for line in self.text().splitlines(keepends=True) if line.endswith("\n")]

    def hears(self, *wanted: dict[str, Any]) -> None:
        """Wait until each of these texts is part of a printed event."""

        def missing() -> list[dict[str, Any]]:
            told = [event.items() for event in self.events()]
            return [one for one in wanted if not any(one.items() <= event for event in told)]

        with contextlib.suppress(AssertionError):
            ktap.until(lambda: not missing(), "it tells")
        assert not missing(), f"it did not print {missing()}, but {self.text()}"


@contextlib.contextmanager
def following(*arguments: str) -> Iterator[Follower]:
    """`ctl status --follow` or `ctl cluster events` with --json, once it misses no event."""
    with spawned("ctl", *arguments, "--json") as process:
        follower = Follower(process)
        ktap.until(lambda: '"kind": "follow"' in follower.text(), f"ctl {' '.join(arguments)} follows", TIMEOUT)
        yield follower
