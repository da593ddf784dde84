# SPDX-License-Identifier: GPL-2.0-or-later
"""polkit's answer to the question whether a process may change the contract, where polkit is installed.

polkit is asked by its own program, pkcheck, which calls CheckAuthorization on the system bus. The process is named by
its number, its start and its user, so that another process that gets the number is not meant. Its owner may be asked
for a password meanwhile, on a desktop.
"""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import Final
from weakref import WeakValueDictionary

__all__ = ["ACTION", "PKCHECK", "grants", "start_of"]

ACTION: Final = "org.cosched.administer"
"""The action that stands in polkit's rules, and in vm/org.cosched.policy, which says what holds without a rule."""

PKCHECK: Final = Path("/usr/bin/pkcheck")
_LONGEST: Final = 60.0  # seconds in which a person types a password
_asking: Final[WeakValueDictionary[int, asyncio.Lock]] = WeakValueDictionary()  # by user: one question at a time
_START: Final = 19  # field of /proc/PID/stat after the program's name: when it began, in ticks since boot


def start_of(pid: int) -> int | None:
    """When a process began, in ticks since boot; None if there is none."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[_START])
    except OSError:
        return None


async def grants(pid: int, start: int, uid: int, operation: str) -> bool:
    """Whether polkit lets this process do this; False too where there is no polkit, or it does not answer."""
    if not PKCHECK.exists():
        return False
    subject = f"{pid},{start},{uid}"
    words = "--action-id", ACTION, "--process", subject, "--detail", "operation", operation
    async with _asking.setdefault(uid, asyncio.Lock()):
        return await _status(str(PKCHECK), *words, "--allow-user-interaction") == 0


async def _status(*words: str) -> int | None:
    """A program's exit status; None if it cannot be started, or does not end in time."""
    nothing = asyncio.subprocess.DEVNULL
    try:
        process = await asyncio.create_subprocess_exec(*words, stdin=nothing, stdout=nothing, stderr=nothing)
    except OSError:
        return None
    try:
        return await asyncio.wait_for(process.wait(), _LONGEST)
    except TimeoutError:
        return None
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
