# SPDX-License-Identifier: GPL-2.0-or-later
"""One node's agent: it owns the scheduler's link, and with it everything that must be undone.

One thread, one event loop: requests of `ctl`, uevents of sched_ext, the process connector, memory pressure, ends of
jobs, decision records. Only what takes seconds (compiling the sensors, importing pyroute2) goes through a thread.
The scheduler runs before the loop does, and goes on while the agent is stopped: nothing on the hot path asks it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import select
import signal
import socket
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ctl import knob_values, policy
from ctl.errors import FAILED, USAGE, CoschedError
from ctl.kernel import knobs as encoding
from ctl.kernel.cgroups import JobCgroups
from ctl.kernel.observations import Input
from ctl.kernel.scheduler import Exit, Scheduler
from ctl.node import overload
from ctl.node.jobs import Job, Jobs, user_name
from ctl.node.peers import Join
from ctl.node.rates import MIN_INTERVAL
from ctl.node.report import Report
from ctl.node.sensing import NodeSensors
from ctl.node.server import Operation, Peer, Server, Stream
from ctl.node.social import SocialContract
from ctl.node.tracing import Tracing

if TYPE_CHECKING:
    from ctl.kernel.netlink import CpuEvents, ProcessEvents, SchedulerEvents, TaskDelays

__all__ = ["EVENTS", "OPS", "Agent"]

OPS = "cosched"  # the scheduler's name in sched_ext
EVENTS = 50  # kept for the dashboard
_QUIET_KINDS = frozenset({"process"})  # told to followers only: a job may start thousands
_log = logging.getLogger("ctl.agent")


class Agent:
    """A running agent. `report` reads what it knows; all changes go through the methods here."""

    def __init__(
        self,
        scheduler: Scheduler,
        cgroups: JobCgroups,
        name: str,
        values: Mapping[str, policy.Value],
        join: Join | None = None,
    ) -> None:
        """`name`, `values`: the policy and all knobs the scheduler was loaded with; `join`: see ctl/node/peers.py."""
        self.scheduler = scheduler
        self.policy = policy.find_policy(name)
        self._own = {name: values[name] for name, knob in policy.KNOBS.items() if not knob.fields}
        self._values = self._read_knobs()
        self.since = time.time()
        self.events: deque[dict[str, Any]] = deque(maxlen=EVENTS)
        self.memory = overload.State()
        self.exit: Exit | None = None
        self.ending = ""  # why, once it is
        self.tracing = Tracing(scheduler)
        self._followers: set[Stream] = set()
        self._notifier = select.epoll()
        self.contract = SocialContract(
            scheduler, cgroups, lambda: (self.policy, self.knobs()), lambda: self.jobs, self._input, self.tell, join
        )
        unread_ms = lambda: int(self.knobs()["unread_ms"] or 0)  # noqa: E731
        self.sensors = NodeSensors(self.tell, unread_ms, self._input_seen)
        self.jobs = Jobs(cgroups, self._notifier, self.tell, self.contract.job_began, self._job_ended)
        self._trigger = -1
        self._recheck: asyncio.TimerHandle | None = None
        self._listeners: list[SchedulerEvents | ProcessEvents | CpuEvents] = []
        self._overruns = 0
        self._joins, self._joins_lost = scheduler.joins(), 0
        self.task_delays: TaskDelays | None = None
        self._switching = asyncio.Lock()
        self._ended: asyncio.Future[str] | None = None
        self._report = Report(self)
        self._server = Server(self._operations(), {"trace": self.tracing.stream, "follow": self._follow})

    # life

    async def run(self, listener: socket.socket, ready: Callable[[dict[str, Any]], None]) -> str:
        """Serve until asked to end or the scheduler is gone; returns why. `ready` is called once, when all is up.

        Raises CoschedError, with the scheduler still loaded, where something could not be started.
        """
        loop = asyncio.get_running_loop()
        self._ended = loop.create_future()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            loop.add_signal_handler(number, self._end, f"stopped by {number.name}")
        self._trigger = overload.open_trigger()
        self._notifier.register(self._trigger, select.EPOLLPRI)
        loop.add_reader(self._notifier.fileno(), self._notified)
        loop.add_reader(self._joins.fileno(), self._heard_joins)
        self.jobs.adopt()
        self._check_memory()
        self.contract.look_for_user()
        why = "the agent failed"
        try:
            await self._server.start(listener)
            listening = loop.create_task(self._listen())
            contracting = loop.create_task(self.contract.start())
            if self.knobs()["sensors"] == "on":
                await self.sensors.start()
            ready({"policy": self.policy.name, "rule": self.policy.rule, "sensors": self.sensors.state})
            await listening
            await contracting
            why = await self._ended
            return why
        finally:
            await self._close(why)

    async def _listen(self) -> None:
        """Open the netlink sockets. pyroute2 takes a second to import, which `ctl load` should not wait for."""
        loop = asyncio.get_running_loop()

        def opened() -> tuple[SchedulerEvents, ProcessEvents, CpuEvents, TaskDelays]:
            from ctl.kernel.netlink import CpuEvents, ProcessEvents, SchedulerEvents, TaskDelays

            return SchedulerEvents(), ProcessEvents(), CpuEvents(), TaskDelays()

        schedulers, processes, cpus, delays = await loop.run_in_executor(None, opened)
        self._listeners = [schedulers, processes, cpus]
        self.task_delays = delays
        loop.add_reader(schedulers.fileno(), self._heard_schedulers, schedulers)
        loop.add_reader(processes.fileno(), self._heard_processes, processes)
        loop.add_reader(cpus.fileno(), self._heard_cpus, cpus)
        self.jobs.recount()
        self._look_at_scheduler()

    def let_go(self, why: str) -> None:
        """Take the scheduler out and stop listening to anything; requests are refused from here on."""
        if self.ending:
            return
        self.ending = why
        loop = asyncio.get_running_loop()
        if self._recheck is not None:
            self._recheck.cancel()
        for source in (*self._listeners, self._notifier, self._joins):
            loop.remove_reader(source.fileno())
        self.contract.lift()
        self.tracing.stop()
        self._joins.close()
        self.exit = self.scheduler.unload() or self.exit
        self.tell("agent", f"scheduler unloaded: {why}")
        self._end(why)

    async def _close(self, why: str) -> None:
        """Undo, in the reverse order. Sensors come last: taking out a hundred probes takes a second."""
        self.let_go(why)
        for source in (*self._listeners, self.jobs, self._notifier):
            source.close()
        if self._trigger >= 0:
            os.close(self._trigger)
        await self._server.close()
        await self.contract.close()
        if self.task_delays is not None:
            self.task_delays.close()
        await self.sensors.close()

    def _end(self, why: str) -> None:
        if self._ended is not None and not self._ended.done():
            self._ended.set_result(why)

    # what happens

    def tell(self, kind: str, text: str, **details: object) -> None:
        """Something happened: to the log, the dashboard and the followers."""
        event = {"time": time.time(), "kind": kind, "text": text, **details}
        if kind not in _QUIET_KINDS:
            _log.info("%s", text)
            self.events.append(event)
        for follower in self._followers:
            follower.send_event(event)

    def _input(self) -> Input | None:
        """What the input sensor saw; None while it does not run."""
        sensors = self.sensors.reading()
        return sensors.input() if sensors else None

    def _input_seen(self) -> None:
        if not self.ending:
            self.contract.look_for_user()

    def _job_ended(self, job: Job) -> None:
        self.contract.job_ended(job)
        self.scheduler.forget_job(job.cgid)

    def _heard_schedulers(self, schedulers: SchedulerEvents) -> None:
        gone = False
        for event in schedulers.read():
            word = {"add": "came", "remove": "went"}.get(event.action, event.action)
            text = f"sched_ext scheduler {event.ops} {word}"
            self.tell("sched_ext", text, action=event.action, ops=event.ops)
            gone = gone or (event.action == "remove" and event.ops == OPS)
        self._look_at_scheduler(gone)

    def _look_at_scheduler(self, gone: bool = False) -> None:
        """End if the kernel has thrown our scheduler out."""
        self.exit = self.scheduler.exit_record()
        if gone or self.exit is not None:
            self._end("the kernel ended the scheduler")

    def _heard_joins(self) -> None:
        """Slurm has moved processes into jobs of its own; one that is stopped is to be so with them."""
        for pid in self._joins.read():
            self.jobs.joined(pid)
        lost, self._joins_lost = self._joins_lost, self.scheduler.stats()["joins_lost"]
        if lost != self._joins_lost:
            self.jobs.look_for_slurm()
        self.contract.pools.hold_still()

    def _heard_processes(self, processes: ProcessEvents) -> None:
        for event in processes.read():
            self.jobs.process(event)
        if processes.overruns != self._overruns:
            self._overruns = processes.overruns
            self.jobs.recount()

    def _heard_cpus(self, cpus: CpuEvents) -> None:
        for event in cpus.read():
            self.tell("cpu", f"CPU {event.cpu} went {event.action}", cpu=event.cpu, action=event.action)
            self.sensors.cpu(event.cpu, online=event.action == "online")

    def _notified(self) -> None:
        for descriptor, _ in self._notifier.poll(0):
            if descriptor == self._trigger or self.jobs.changed(descriptor):
                self._check_memory()

    # overload

    def _check_memory(self) -> None:
        """Take a sample, decide, and come back: sooner while memory is short or a first rate is wanted."""
        before = self.memory
        self.memory = overload.decide(before, overload.take_sample())
        if self.memory.overloaded != before.overloaded:
            self.scheduler.write_knobs(overloaded=int(self.memory.overloaded))
            state = "overloaded" if self.memory.overloaded else "no longer overloaded"
            self.tell("overload", f"{state}: {self.memory.why}", verdict=self.memory.overloaded)
        first = self.memory.last is not before.last and self.memory.refaults_s is None
        if self._recheck is None:
            soon = first or overload.restless(self.memory)
            pause = overload.CHECK_EVERY if soon else overload.IDLE_CHECK_EVERY
            self._recheck = asyncio.get_running_loop().call_later(pause, self._check_again)

    def _check_again(self) -> None:
        self._recheck = None
        self._check_memory()

    # knobs

    def knobs(self) -> Mapping[str, policy.Value]:
        """Every knob's value now. Looked up several times an epoch, so kept: only change() writes any."""
        return self._values

    def _read_knobs(self) -> dict[str, policy.Value]:
        """The agent's own, and the others as the kernel has them."""
        return knob_values.shown({**encoding.decode(self.scheduler.read_knobs()), **self._own})

    async def change(self, name: str | None, values: dict[str, object]) -> None:
        """Another policy, other knob values, or both: one write, all or nothing. Raises CoschedError (status 2)."""
        row = self.policy if name is None else policy.find_policy(name)
        knob_values.check_live(values)
        checked = knob_values.check_all(values)
        async with self._switching:
            before = self.knobs()
            if checked.get("sensors") == "on":
                await self.sensors.start()
            self._own |= {name: value for name, value in checked.items() if name in self._own}
            try:
                self.scheduler.write_knobs(**encoding.encode({**self._own, **checked}, row.name))
            finally:  # they are written even where a listener they ask for is then refused
                self._values = self._read_knobs()
            if checked.get("sensors") == "off":
                await self.sensors.stop()
            if row != self.policy:
                self.tell("policy", f"policy {row.name} instead of {self.policy.name}", policy=row.name)
                self.policy = row
            await self.contract.settings_changed()
        changed = {k: v for k, v in self.knobs().items() if v != before[k]}
        if changed:
            words = ", ".join(f"{k} {before[k]} -> {v}" for k, v in changed.items())
            self.tell("knobs", f"knobs: {words}", knobs=changed)

    # streams

    @contextlib.contextmanager
    def _follow(self, stream: Stream) -> Iterator[None]:
        self._followers.add(stream)
        try:
            yield
        finally:
            self._followers.discard(stream)

    # operations

    def _operations(self) -> dict[str, Operation]:
        report = self._report

        async def ping(_peer: Peer, _arguments: dict[str, Any]) -> object:
            return report.ping()

        async def status(_peer: Peer, _arguments: dict[str, Any]) -> object:
            self._fresh_memory()
            return report.status()

        async def get(_peer: Peer, _arguments: dict[str, Any]) -> object:
            return self.knobs()

        async def view(_peer: Peer, _arguments: dict[str, Any]) -> object:
            self._fresh_memory()
            return report.view()

        async def jobs(_peer: Peer, _arguments: dict[str, Any]) -> object:
            await self._settle()
            return report.jobs()

        async def tasks(_peer: Peer, _arguments: dict[str, Any]) -> object:
            rows = report.tasks()
            return await asyncio.get_running_loop().run_in_executor(None, report.add_delays, rows)

        async def unload(_peer: Peer, _arguments: dict[str, Any]) -> object:
            self.let_go("unloaded by ctl unload")
            return report.ping()

        operations: dict[str, Operation] = {
            "ping": ping,
            "status": status,
            "get": get,
            "set": self._op_set,
            "switch": self._op_switch,
            "view": view,
            "jobs": jobs,
            "tasks": tasks,
            "enter": self._op_enter,
            "unload": unload,
        }
        return {name: self._unless_ending(operation) for name, operation in operations.items()}

    def _unless_ending(self, operation: Operation) -> Operation:
        async def guarded(peer: Peer, arguments: dict[str, Any]) -> object:
            if self.ending:
                raise CoschedError(f"the agent is ending: {self.ending}", FAILED)
            return await operation(peer, arguments)

        return guarded

    async def _op_set(self, _peer: Peer, arguments: dict[str, Any]) -> object:
        await self.change(None, _table(arguments, "knobs"))
        return self.knobs()

    async def _op_switch(self, _peer: Peer, arguments: dict[str, Any]) -> object:
        name = arguments.get("policy")
        if not isinstance(name, str):
            raise CoschedError('switch names no policy: give "policy" a string', USAGE)
        await self.change(name, _table(arguments, "knobs") if "knobs" in arguments else {})
        return {"policy": self.policy.name, "rule": self.policy.rule}

    async def _op_enter(self, peer: Peer, arguments: dict[str, Any]) -> object:
        jid = arguments.get("jid")
        if not isinstance(jid, str):
            raise CoschedError('enter names no job: give "jid" a string', USAGE)
        if peer.pid <= 0:
            raise CoschedError("the process that asks is in a PID namespace the agent cannot see", FAILED)
        user = user_name(peer.uid)
        self.jobs.check_user(jid, user)
        if self.contract.peers is not None:
            await self.contract.peers.check_user(jid, user)
        job = self.jobs.enter(jid, peer.pid, user)
        return {"jid": job.jid, "path": str(job.path)}

    def _fresh_memory(self) -> None:
        """Somebody looks: a sample that is old is no answer."""
        last = self.memory.last
        if last is None or time.monotonic() - last.at >= overload.CHECK_EVERY:
            self._check_memory()

    async def _settle(self) -> None:
        """Wait for an interval that rates can be told of, once."""
        rates = self._report.rates
        rates.look()
        if any(rates.rate("job " + job.jid, "cpu_ns") is None for job in self.jobs):
            await asyncio.sleep(MIN_INTERVAL + 0.1)
            rates.look()


def _table(arguments: dict[str, Any], key: str) -> dict[str, object]:
    values = arguments.get(key)
    if not isinstance(values, dict):
        raise CoschedError(f'"{key}" must be an object of knob names and values', USAGE)
    return values
