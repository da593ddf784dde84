# SPDX-License-Identifier: GPL-2.0-or-later
"""The scheduling class of jobs' tasks under contract=class: SCHED_EXT, which children inherit."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Final

__all__ = ["SCHED_EXT", "give_back", "put"]

SCHED_EXT: Final = 7  # linux/sched.h; without a scheduler loaded the kernel treats it as SCHED_OTHER


def _set(tid: int, old: int | None, new: int) -> bool:
    """Set one thread's class, from `old` only if given. False if nothing was to be done, or the thread is gone."""
    try:
        now = os.sched_getscheduler(tid)
        if now == new or old not in (None, now):
            return False
        os.sched_setscheduler(tid, new, os.sched_param(0))
    except ProcessLookupError:
        return False
    return True


def put(pid: int, member: bool) -> None:
    """Make all threads of a process SCHED_EXT tasks if it is a job's, else give those that are one back.

    That includes threads which the process starts meanwhile.
    """
    old, new = (None, SCHED_EXT) if member else (SCHED_EXT, os.SCHED_OTHER)
    changed = True
    while changed:
        try:
            tids = [int(name) for name in os.listdir(f"/proc/{pid}/task")]
        except FileNotFoundError:
            return
        changed = sum(_set(tid, old, new) for tid in tids) > 0  # all of them, whichever is the first


def give_back(tids: Iterable[int]) -> None:
    """Make threads tasks of the kernel's own scheduler again."""
    for tid in tids:
        _set(tid, SCHED_EXT, os.SCHED_OTHER)
