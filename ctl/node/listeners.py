# SPDX-License-Identifier: GPL-2.0-or-later
"""The kernel's messages to the agent, by file descriptors of its event loop.

    uevents of sched_ext        a scheduler started or ended, also cosched's
    process connector           a process of a job began or ended
    uevents of CPUs             a CPU came or went
    ring of the scheduler       Slurm has moved a process into a job of its own, somebody has set a CPU limit
    pressure, ends of jobs      memory became short, a cgroup became empty
"""

from __future__ import annotations

import asyncio
import os
import select
from collections.abc import Callable
from typing import TYPE_CHECKING

from ctl.kernel.scheduler import Scheduler
from ctl.node import overload
from ctl.node.jobs import Jobs
from ctl.node.sensing import NodeSensors

if TYPE_CHECKING:
    from ctl.kernel.netlink import CpuEvents, ProcessEvents, SchedulerEvents, TaskDelays

__all__ = ["OPS", "Listeners"]

OPS = "cosched"  # the scheduler's name in sched_ext


class Listeners:
    """Passes messages on to jobs and sensors; messages about the agent's own life go to three callbacks."""

    def __init__(
        self,
        scheduler: Scheduler,
        tell: Callable[..., None],
        *,
        gone: Callable[[bool], None],
        memory: Callable[[], None],
        joined: Callable[[], None],
        limited: Callable[[], None],
    ) -> None:
        """`gone(sure)`: our scheduler may have ended, or with `sure` has ended; `memory`: memory has changed; `joined`:
        processes have joined jobs of Slurm; `limited`: somebody has set a CPU limit."""
        self.notifier = select.epoll()
        self.task_delays: TaskDelays | None = None
        self._scheduler, self._tell = scheduler, tell
        self._gone, self._memory, self._joined, self._limited = gone, memory, joined, limited
        self._trigger = -1
        self._netlink: list[SchedulerEvents | ProcessEvents | CpuEvents] = []
        self._overruns = 0
        self._joins, self._joins_lost = scheduler.joins(), 0

    def start(self, jobs: Jobs, sensors: NodeSensors) -> None:
        """Listen to the sources that need no netlink."""
        self._jobs, self._sensors = jobs, sensors
        self._trigger = overload.open_trigger()
        self.notifier.register(self._trigger, select.EPOLLPRI)
        loop = asyncio.get_running_loop()
        loop.add_reader(self.notifier.fileno(), self._notified)
        loop.add_reader(self._joins.fileno(), self._heard_joins)

    async def listen(self) -> None:
        """Open the netlink sockets. Importing pyroute2 takes a second, and `ctl load` should not wait for it."""
        loop = asyncio.get_running_loop()

        def opened() -> tuple[SchedulerEvents, ProcessEvents, CpuEvents, TaskDelays]:
            from ctl.kernel.netlink import CpuEvents, ProcessEvents, SchedulerEvents, TaskDelays

            return SchedulerEvents(), ProcessEvents(), CpuEvents(), TaskDelays()

        schedulers, processes, cpus, delays = await loop.run_in_executor(None, opened)
        self._netlink = [schedulers, processes, cpus]
        self.task_delays = delays
        loop.add_reader(schedulers.fileno(), self._heard_schedulers, schedulers)
        loop.add_reader(processes.fileno(), self._heard_processes, processes)
        loop.add_reader(cpus.fileno(), self._heard_cpus, cpus)
        self._jobs.recount()
        self._gone(False)

    def stop(self) -> None:
        """Hear nothing more."""
        loop = asyncio.get_running_loop()
        for source in (*self._netlink, self.notifier, self._joins):
            loop.remove_reader(source.fileno())
        self._joins.close()

    def close(self) -> None:
        """Close all descriptors, after stop()."""
        for source in (*self._netlink, self.notifier):
            source.close()
        if self._trigger >= 0:
            os.close(self._trigger)

    def _heard_schedulers(self, schedulers: SchedulerEvents) -> None:
        gone = False
        for event in schedulers.read():
            word = {"add": "came", "remove": "went"}.get(event.action, event.action)
            text = f"sched_ext scheduler {event.ops} {word}"
            self._tell("sched_ext", text, action=event.action, ops=event.ops)
            gone = gone or (event.action == "remove" and event.ops == OPS)
        self._gone(gone)

    def _heard_joins(self) -> None:
        """Slurm has moved processes into its jobs: stop the processes whose job is stopped."""
        for pid in self._joins.read():
            self._jobs.joined(pid)
        for refusal in self._joins.refusals():
            self._jobs.refused(refusal)
        if self._joins.limited():
            self._limited()
        lost, self._joins_lost = self._joins_lost, self._scheduler.stats()["joins_lost"]
        if lost != self._joins_lost:
            self._jobs.look_for_slurm()
        self._joined()

    def _heard_processes(self, processes: ProcessEvents) -> None:
        for event in processes.read():
            self._jobs.process(event)
        if processes.overruns != self._overruns:
            self._overruns = processes.overruns
            self._jobs.recount()

    def _heard_cpus(self, cpus: CpuEvents) -> None:
        for event in cpus.read():
            self._tell("cpu", f"CPU {event.cpu} went {event.action}", cpu=event.cpu, action=event.action)
            self._sensors.cpu(event.cpu, online=event.action == "online")

    def _notified(self) -> None:
        for descriptor, _ in self.notifier.poll(0):
            if descriptor == self._trigger or self._jobs.changed(descriptor):
                self._memory()
