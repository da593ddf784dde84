# SPDX-License-Identifier: GPL-2.0-or-later
"""The scheduling class of jobs' tasks under contract=class: SCHED_EXT, which children inherit."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Final

__all__ = ["SCHED_EXT", "give_back", "take"]

SCHED_EXT: Final = 7  # linux/sched.h; without a scheduler loaded the kernel treats it as SCHED_OTHER


def _set(tid: int, policy: int) -> bool:
    """Set one thread's class. False if the thread is gone, or has the class already."""
    try:
        if os.sched_getscheduler(tid) == policy:
            return False
        os.sched_setscheduler(tid, policy, os.sched_param(0))
    except ProcessLookupError:
        return False
    return True


def take(pid: int) -> None:
    """Make all threads of a process SCHED_EXT tasks, also those that it starts meanwhile."""
    changed = True
    while changed:
        try:
            tids = [int(name) for name in os.listdir(f"/proc/{pid}/task")]
        except FileNotFoundError:
            return
        changed = sum(_set(tid, SCHED_EXT) for tid in tids) > 0  # all of them, whichever is the first


def give_back(tids: Iterable[int]) -> None:
    """Make threads tasks of the kernel's own scheduler again."""
    for tid in tids:
        _set(tid, os.SCHED_OTHER)
