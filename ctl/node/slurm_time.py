# SPDX-License-Identifier: GPL-2.0-or-later
"""Slurm's time limit of a job that was stopped here, extended by the time that it was stopped (knob slurm_extend).

Slurm's clock runs while the agent has a job stopped, and slurmctld ends the job at its limit, stopped or not. So each
minute that is begun while the job is stopped is added as it begins: Slurm counts limits in minutes. A job of several
nodes is extended by the first one alone, where its script runs, because its nodes are stopped at the same time. Only
operators of Slurm may extend a limit, root among them; where slurmctld refuses, people are told once.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterable
from typing import Final

from ctl.kernel import slurm
from ctl.node.jobs import SLURM, Job

__all__ = ["SlurmTime", "minutes_due"]

_LONGEST: Final = 30.0  # seconds until slurmctld has answered
_MINUTE: Final = 60.0


def minutes_due(stopped_s: float, granted: int) -> int:
    """Whole minutes by which a job's limit has yet to grow.

    >>> [minutes_due(seconds, 1) for seconds in (0.0, 59.0, 60.5, 200.0)]
    [0, 0, 1, 3]
    """
    return max(0, math.ceil(stopped_s / _MINUTE) - granted)


class SlurmTime:
    """What this node has added to the limits of Slurm's jobs."""

    def __init__(self, stopped_s: Callable[[str], float], tell: Callable[..., None]) -> None:
        """`stopped_s`: how long a job was stopped here so far, seconds."""
        self._stopped_s, self._tell = stopped_s, tell
        self._granted: dict[str, int] = {}  # minutes, by JID
        self._refused: set[str] = set()
        self._asking: dict[str, asyncio.Task[None]] = {}

    def look(self, jobs: Iterable[Job]) -> None:
        """Extend the limits of those jobs of Slurm that have been stopped for longer than was added."""
        for job in jobs:
            if job.origin != SLURM or job.jid in self._refused or job.jid in self._asking:
                continue
            minutes = minutes_due(self._stopped_s(job.jid), self._granted.get(job.jid, 0))
            if minutes and slurm.begins_here(job.path):
                self._asking[job.jid] = asyncio.get_running_loop().create_task(self._extend(job.jid, minutes))

    def forget(self, jid: str) -> None:
        """The job has ended."""
        self._granted.pop(jid, None)
        self._refused.discard(jid)

    async def _extend(self, jid: str, minutes: int) -> None:
        """Ask slurmctld, and say what came of it."""
        try:
            refusal = await _scontrol("update", f"JobId={jid}", f"TimeLimit=+{minutes}")
        finally:
            del self._asking[jid]
        if refusal:
            self._refused.add(jid)
            text = f"Slurm's time limit of job {jid} stays, though the job was stopped: {refusal}"
            self._tell("job", text, jid=jid, action="not_extended", why=refusal)
            return
        self._granted[jid] = self._granted.get(jid, 0) + minutes
        text = f"Slurm's time limit of job {jid} grew by {minutes} min, because the job is stopped"
        self._tell("job", text, jid=jid, action="extended", minutes=minutes)


async def _scontrol(*words: str) -> str:
    """Run scontrol; why it failed in a line, empty if it did not."""
    nothing, pipe = asyncio.subprocess.DEVNULL, asyncio.subprocess.PIPE
    try:
        process = await asyncio.create_subprocess_exec("scontrol", *words, stdin=nothing, stdout=nothing, stderr=pipe)
    except OSError as error:
        return f"scontrol: {error.strerror}"
    try:
        _, said = await asyncio.wait_for(process.communicate(), _LONGEST)
    except TimeoutError:
        process.kill()
        return f"scontrol had no answer from slurmctld for {_LONGEST:g} s"
    return "" if process.returncode == 0 else " ".join(said.decode(errors="replace").split()) or "scontrol failed"
