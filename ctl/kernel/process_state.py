# SPDX-License-Identifier: GPL-2.0-or-later
"""Whether processes are stopped by their owner: by SIGSTOP, Ctrl-Z, or a debugger.

The state is that of a process's main thread, as /proc/PID/stat has it: a program that a debugger stops but for one of
its other threads counts as stopped. The freezer shows as sleep (S), unless the process was stopped before; so a job
that was stopped by its owner, then frozen, and then continued by its owner, is seen to be continued.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ctl.kernel.kernfs import read
from ctl.kernel.launchers import is_launcher

__all__ = ["all_stopped"]

_STOPPED: Final = ("T", "t")  # by a signal; by a tracer
_GONE: Final = ("Z", "X")


def all_stopped(pids: Iterable[int]) -> bool:
    """Whether there are processes, and all are stopped: zombies and MPI's launchers do not count, because Open MPI's
    passes Ctrl-Z on to the ranks and itself waits. Reads as far as the first process that is not stopped."""
    found = False
    for pid in pids:
        try:
            name, _, rest = read(f"/proc/{pid}/stat").rpartition(")")
        except OSError:  # it has just ended
            continue
        state = rest.split(maxsplit=1)[0]
        if state in _GONE or is_launcher(name.partition("(")[2]):
            continue
        if state not in _STOPPED:
            return False
        found = True
    return found
