# SPDX-License-Identifier: GPL-2.0-or-later
"""One node's agent: the owner of the scheduler's link, and of every change that must be undone.

One thread, one event loop: requests of `ctl`, uevents of sched_ext, the process connector, memory pressure, ends of
jobs, decision records. Only work that takes seconds (compiling the sensors, importing pyroute2) goes through a thread.
The scheduler runs before the loop does, and goes on while the agent is stopped: nothing on the hot path asks the agent.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ctl import policy
from ctl.contract import JobQueue, Join
from ctl.kernel import ext_server, job_class
from ctl.kernel import knobs as encoding
from ctl.kernel.cgroups import JobCgroups
from ctl.kernel.observations import Input
from ctl.kernel.scheduler import Exit, Scheduler
from ctl.node.jobs import Job, Jobs
from ctl.node.listeners import Listeners
from ctl.node.memory_watch import MemoryWatch
from ctl.node.metrics import Metrics
from ctl.node.sensing import NodeSensors
from ctl.node.server import Server, Stream
from ctl.node.sessions import SessionWatch
from ctl.node.social import SocialContract
from ctl.node.tracing import Tracing
from ctl.node.voided import VoidedLimits
from ctl.policy import Settings
from ctl.policy import values as knob_values

__all__ = ["EVENTS", "Agent"]

EVENTS = 50  # kept for the dashboard
_QUIET_KINDS = frozenset({"process"})  # told to followers only: a job may start thousands
_log = logging.getLogger("ctl.agent")


class Agent:
    """A running agent. `report` reads its state; all changes go through the methods here."""

    def __init__(
        self,
        scheduler: Scheduler,
        cgroups: JobCgroups,
        name: str,
        values: Mapping[str, policy.Value],
        queue: JobQueue,
        join: Join | None = None,
        keep: Callable[[Mapping[str, object]], None] = lambda _event: None,
    ) -> None:
        """`name`, `values`: the policy and all knobs the scheduler was loaded with; `queue`, `join`: see
        ctl/contract.py; `keep` records an event for later, and returns at once."""
        self.scheduler = scheduler
        self._own = {name: values[name] for name, knob in policy.KNOBS.items() if not knob.fields}
        self.settings = Settings(policy.find_policy(name), self._read_knobs())
        self.since = time.time()
        self.events: deque[dict[str, Any]] = deque(maxlen=EVENTS)
        self._keep = keep
        self.exit: Exit | None = None
        self.ending = ""  # why, once it is
        self.tracing = Tracing(scheduler)
        self.memory = MemoryWatch(scheduler, self.tell)
        by_class = self.settings.word("contract") == "class"
        self.voided = VoidedLimits(self.tell, by_class)
        self.listeners = Listeners(
            scheduler, self.tell, gone=self._look_at_scheduler, memory=self._memory_changed, joined=self._joined,
            limited=self.voided.look_soon,
        )
        self.contract = SocialContract(
            scheduler, cgroups, self.settings, lambda: self.jobs, self._input, self.tell, queue, join,
            lambda: self.sessions.signs,
        )
        self.sessions = SessionWatch(self.settings, self._input_seen)
        self.sensors = NodeSensors(self.tell, self.settings, self._input_seen, lambda: bool(self.jobs))
        self.jobs = Jobs(
            cgroups,
            self.listeners.notifier,
            self.tell,
            self.contract.job_began,
            self._job_ended,
            job_class.put if by_class else None,
        )
        self._metrics: Metrics | None = None
        self._followers: set[Stream] = set()
        self._switching = asyncio.Lock()
        self._ended: asyncio.Future[str] | None = None

    # life

    async def run(
        self,
        server: tuple[Server, socket.socket],
        metrics: tuple[Metrics, socket.socket],
        ready: Callable[[dict[str, Any]], None],
    ) -> str:
        """Serve requests and scrapes, each on its socket, until asked to end or the scheduler is gone; returns why.

        `server`, `metrics`: they answer by `server_of` and `measure_of` of ctl/node/operations.py; `ready` is called
        once, when all is up.

        Raises CoschedError, with the scheduler still loaded, if a part of the agent cannot start.
        """
        loop = asyncio.get_running_loop()
        self._ended = loop.create_future()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            loop.add_signal_handler(number, self._end, f"stopped by {number.name}")
        self.listeners.start(self.jobs, self.sensors)
        self.jobs.adopt()
        self.memory.check()
        self.contract.look_for_user()
        self.sessions.start()
        why = "the agent failed"
        try:
            self.contract.urgency.begin(self.settings.word("contract"))
            self.contract.reserve()
            await server[0].start(server[1])
            self._metrics = metrics[0]
            await self._metrics.start(metrics[1])
            await self._metrics.listen(int(self.settings.number("metrics_port")))
            listening = loop.create_task(self.listeners.listen())
            contracting = loop.create_task(self.contract.start())
            if self.settings.word("sensors") == "on":
                await self.sensors.start()
            row = self.settings.policy
            voided = self.voided.at_load()
            ready({"policy": row.name, "rule": row.rule, "sensors": self.sensors.state, "voided": voided})
            await listening
            await contracting
            why = await self._ended
            return why
        finally:
            await self._close(why, server[0])

    def let_go(self, why: str) -> None:
        """Unload the scheduler and stop listening; requests are refused from here on."""
        if self.ending:
            return
        self.ending = why
        self.memory.stop()
        self.listeners.stop()
        self.voided.stop()
        self.contract.lift()
        self.tracing.stop()
        self.exit = self.scheduler.unload() or self.exit
        if self.settings.word("contract") == "class":
            job_class.give_back(self.jobs.tids())
            ext_server.restore()
        self.tell("agent", f"scheduler unloaded: {why}")
        self._end(why)

    async def _close(self, why: str, server: Server) -> None:
        """Undo, in the reverse order. Sensors come last: removing their probes takes a second."""
        self.let_go(why)
        self.jobs.close()
        self.listeners.close()
        await server.close()
        if self._metrics is not None:
            await self._metrics.close()
        await self.contract.close()
        if self.listeners.task_delays is not None:
            self.listeners.task_delays.close()
        await self.sensors.close()
        self.sessions.stop()

    def _end(self, why: str) -> None:
        if self._ended is not None and not self._ended.done():
            self._ended.set_result(why)

    # what happens

    def tell(self, kind: str, text: str, **details: object) -> None:
        """Report an event to the log, the dashboard and the followers."""
        event = {"time": time.time(), "kind": kind, "text": text, **details}
        if kind not in _QUIET_KINDS:
            _log.info("%s", text)
            self.events.append(event)
            self._keep(event)
        for follower in self._followers:
            follower.send_event(event)

    def _input(self) -> Input | None:
        """The observations of the input sensor; None while the sensor does not run."""
        sensors = self.sensors.reading("input")
        return sensors.input() if sensors else None

    def _input_seen(self) -> None:
        if not self.ending:
            self.contract.look_for_user()

    def _memory_changed(self) -> None:
        self.memory.check()
        self.contract.fit()

    def _job_ended(self, job: Job) -> None:
        self.contract.job_ended(job)
        self.scheduler.forget_job(job.cgid)

    def _joined(self) -> None:
        self.contract.pools.hold_still()

    def _look_at_scheduler(self, gone: bool) -> None:
        """End if the kernel has thrown our scheduler out."""
        self.exit = self.scheduler.exit_record()
        if gone or self.exit is not None:
            self._end("the kernel ended the scheduler")

    # knobs

    def _read_knobs(self) -> dict[str, policy.Value]:
        """All knobs: the agent's own, and the others as the kernel has them."""
        return knob_values.shown({**encoding.decode(self.scheduler.read_knobs()), **self._own})

    async def change(self, name: str | None, values: dict[str, object]) -> None:
        """Change the policy, knob values, or both: one write, all or nothing. Raises CoschedError (status 2)."""
        row = self.settings.policy if name is None else policy.find_policy(name)
        knob_values.check_live(values)
        checked = knob_values.check_all(values)
        async with self._switching:
            before = self.settings.values
            policy.check_contract(row, {**before, **checked})
            if checked.get("sensors") == "on":
                await self.sensors.start()
            if self._metrics is not None and "metrics_port" in checked:
                await self._metrics.listen(int(checked["metrics_port"] or 0))
            self._own |= {name: value for name, value in checked.items() if name in self._own}
            try:
                self.scheduler.write_knobs(**encoding.encode({**self._own, **checked}, row.name))
            finally:  # they are written even where a listener they ask for is then refused
                self.settings.change(self.settings.policy, self._read_knobs())
            if checked.get("sensors") == "off":
                await self.sensors.stop()
            if row != self.settings.policy:
                text = f"policy {row.name} instead of {self.settings.policy.name}"
                self.tell("policy", text, policy=row.name)
                self.settings.change(row, self.settings.values)
            self.sensors.settings_changed()
            self.sessions.start()
            await self.contract.settings_changed()
        changed = {k: v for k, v in self.settings.values.items() if v != before[k]}
        if changed:
            words = ", ".join(f"{k} {before[k]} -> {v}" for k, v in changed.items())
            self.tell("knobs", f"knobs: {words}", knobs=changed)

    # streams

    @contextlib.contextmanager
    def follow(self, stream: Stream) -> Iterator[None]:
        """Events go to this reader while the context is entered."""
        self._followers.add(stream)
        try:
            yield
        finally:
            self._followers.discard(stream)
