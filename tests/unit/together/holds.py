# SPDX-License-Identifier: GPL-2.0-or-later
"""Users who put jobs on hold on one of their nodes, and release them later on another."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tests.unit.together.world import Job, World

__all__ = ["Holds"]

_LONGEST: Final = 20.0  # seconds on hold
_AGAIN: Final = 1.0  # seconds until a user looks whether a released job is on hold on some node still


class Holds:
    """The holds of a run, drawn beside everything else in it."""

    def __init__(self, world: World, until: float) -> None:
        """`until`: the last moment at which a job is put on hold, seconds."""
        self._world, self._draw = world, random.Random(f"holds {world.seed}")
        for _ in range(self._draw.randrange(3)):
            world.later(self._draw.uniform(3, until), self._hold)

    def wrong(self, within: float) -> str:
        """In words, where nothing fails: a job that runs somewhere though it is on hold for so many seconds."""
        now, world = self._world.loop.now, self._world
        if world.failures or world.ending:
            return ""
        for job in world.jobs.values():
            late = job.on_hold is not None and now - job.on_hold > within
            if late and any(world.nodes[name].runs(job.jid) for name in job.here):
                return f"job {job.jid} is on hold since {job.on_hold:.2f}, and runs"
        return ""

    def _hold(self) -> None:
        world = self._world
        jobs = [job for job in world.jobs.values() if job.on_hold is None]
        job = self._draw.choice(jobs) if jobs else None
        node = world.nodes.get(self._draw.choice(job.here or list(job.needs))) if job is not None else None
        if job is None or node is None or not node.knows(job.jid):
            return
        world.say(f"{job.jid} on hold, on {node.name}")
        job.on_hold = world.loop.now
        node.put_on_hold(job.jid, True)
        world.later(self._draw.uniform(0.1, _LONGEST), self._release, job)

    def _release(self, job: Job) -> None:
        """Until no node has it on hold: one that hears nobody has to be told, too."""
        world = self._world
        if job.jid not in world.jobs or world.over:
            return
        job.on_hold, job.ran = None, world.loop.now
        know = [node for node in world.nodes.values() if node.has_on_hold(job.jid)]
        if know:
            node = self._draw.choice(know)
            world.say(f"{job.jid} released, on {node.name}")
            node.put_on_hold(job.jid, False)
        world.later(_AGAIN, self._release, job)
