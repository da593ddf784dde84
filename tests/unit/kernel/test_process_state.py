# SPDX-License-Identifier: GPL-2.0-or-later
"""Processes that their owner has stopped."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from ctl.kernel.process_state import all_stopped


@contextmanager
def _sleeps(program: str = "sleep") -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([program, "1000"]) as process:
        try:
            yield process
        finally:
            process.kill()


def _soon(condition: Callable[[], bool]) -> bool:
    end = time.monotonic() + 20
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)
    return condition()


def test_a_job_is_stopped_when_all_its_processes_are() -> None:
    with _sleeps() as one, _sleeps() as other:
        pids = {one.pid, other.pid}
        assert not all_stopped(pids)
        one.send_signal(signal.SIGSTOP)
        assert _soon(lambda: all_stopped({one.pid})) and not all_stopped(pids)
        other.send_signal(signal.SIGSTOP)
        assert _soon(lambda: all_stopped(pids))
        other.send_signal(signal.SIGCONT)
        assert _soon(lambda: not all_stopped(pids))


def test_a_debugger_stops_as_a_signal_does() -> None:
    traced = "import ctypes, os; ctypes.CDLL(None).ptrace(0, 0, 0, 0); os.kill(os.getpid(), 5)"  # PTRACE_TRACEME
    with subprocess.Popen([sys.executable, "-c", traced]) as process:
        assert _soon(lambda: all_stopped({process.pid}))
        process.kill()


def test_who_has_ended_and_launchers_do_not_count(tmp_path: Path) -> None:
    launcher = shutil.copy(shutil.which("sleep") or "/bin/sleep", tmp_path / "mpiexec.hydra")
    with _sleeps() as stopped, _sleeps(str(launcher)) as waits, subprocess.Popen(["true"]) as ended:
        stopped.send_signal(signal.SIGSTOP)
        state = Path(f"/proc/{ended.pid}/stat")
        assert _soon(lambda: state.read_text().split()[2] == "Z")
        assert _soon(lambda: all_stopped({stopped.pid, waits.pid, ended.pid, 1 << 30}))
        assert not all_stopped({waits.pid, ended.pid}) and not all_stopped(()) and not all_stopped({os.getpid()})
