# SPDX-License-Identifier: GPL-2.0-or-later
"""The agent's answers to requests: the operations and streams of ctl/protocol.py."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterable
from typing import Any

from ctl.contract import Measured, Wish
from ctl.errors import FAILED, USAGE, CoschedError, brief
from ctl.node.agent import Agent
from ctl.node.authority import Peer
from ctl.node.jobs import SLURM, Job
from ctl.node.rates import MIN_INTERVAL
from ctl.node.report import Report
from ctl.node.server import Operation, Server
from ctl.protocol import LONGEST_KEY, MAX_INTEGER

__all__ = ["Operations", "measure_of", "server_of"]

_MOST_NODES = 1 << 20
_MOST_RANKS = 1 << 16
_LONGEST_GRACE = 600  # s
_SIGNALS = frozenset(signal.Signals)


def server_of(agent: Agent) -> Server:
    """A server that answers for this agent."""
    operations = Operations(agent).table()
    return Server(operations, {"trace": agent.tracing.stream, "follow": agent.follow})


def measure_of(agent: Agent) -> Callable[[], Measured]:
    """What tells this agent's figures, in the loop's thread; it raises CoschedError while the agent ends."""
    report = Report(agent)

    def take() -> Measured:
        if agent.ending:
            raise CoschedError(f"the agent is ending: {agent.ending}", FAILED)
        agent.memory.look()
        return report.measured()

    return take


class Operations:
    """Coroutines of (peer, arguments), by name; all refuse once the agent is ending."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._report = Report(agent)

    def table(self) -> dict[str, Operation]:
        """Every operation by its name."""
        operations: dict[str, Operation] = {
            "ping": self._ping,
            "status": self._status,
            "get": self._get,
            "set": self._set,
            "switch": self._switch,
            "view": self._view,
            "jobs": self._jobs,
            "tasks": self._tasks,
            "enter": self._enter,
            "queue": self._queue,
            "place": self._place,
            "history": self._history,
            "forget": self._forget,
            "cancel": self._cancel,
            "hold": self._hold,
            "release": self._release,
            "unload": self._unload,
        }
        return {name: self._unless_ending(operation) for name, operation in operations.items()}

    def _unless_ending(self, operation: Operation) -> Operation:
        async def guarded(peer: Peer, arguments: dict[str, Any]) -> object:
            if self._agent.ending:
                raise CoschedError(f"the agent is ending: {self._agent.ending}", FAILED)
            return await operation(peer, arguments)

        return guarded

    # reading

    async def _ping(self, _peer: Peer, _arguments: dict[str, Any]) -> object:
        return self._report.ping()

    async def _status(self, _peer: Peer, _arguments: dict[str, Any]) -> object:
        self._agent.memory.look()
        return self._report.status()

    async def _get(self, _peer: Peer, _arguments: dict[str, Any]) -> object:
        return self._agent.settings.values

    async def _view(self, peer: Peer, _arguments: dict[str, Any]) -> object:
        self._agent.memory.look()
        view = self._report.view()
        for cpu in view["cpus"]:
            self._hide([*cpu["queue"], *([cpu["running"]] if cpu["running"] else [])], peer)
        return view

    async def _jobs(self, _peer: Peer, _arguments: dict[str, Any]) -> object:
        await self._settle()
        return self._report.jobs()

    async def _tasks(self, peer: Peer, _arguments: dict[str, Any]) -> object:
        rows = self._report.tasks()
        self._hide(rows, peer)
        return await asyncio.get_running_loop().run_in_executor(None, self._report.add_delays, rows)

    def _hide(self, tasks: Iterable[Any], peer: Peer) -> None:
        """Leave out what other users' jobs run."""
        for task in tasks:
            job = self._agent.jobs.get(task.get("jid") or "")
            if job is not None:
                task["comm"] = peer.shown(job.user, task["comm"])

    async def _settle(self) -> None:
        """Wait once for an interval long enough for rates."""
        rates = self._report.rates
        rates.look()
        if any(rates.rate("job " + job.jid, "cpu_ns") is None for job in self._agent.jobs):
            await asyncio.sleep(MIN_INTERVAL + 0.1)
            rates.look()

    # changing

    async def _set(self, _peer: Peer, arguments: dict[str, Any]) -> object:
        await self._agent.change(None, _table(arguments, "knobs"))
        return self._agent.settings.values

    async def _switch(self, _peer: Peer, arguments: dict[str, Any]) -> object:
        name = arguments.get("policy")
        if not isinstance(name, str):
            raise CoschedError('switch names no policy: give "policy" a string', USAGE)
        await self._agent.change(name, _table(arguments, "knobs") if "knobs" in arguments else {})
        return {"policy": self._agent.settings.policy.name, "rule": self._agent.settings.policy.rule}

    async def _enter(self, peer: Peer, arguments: dict[str, Any]) -> object:
        jid = arguments.get("jid")
        if not isinstance(jid, str):
            raise CoschedError('enter names no job: give "jid" a string', USAGE)
        if peer.pid <= 0:
            raise CoschedError("the process that asks is in a PID namespace the agent cannot see", FAILED)
        user = peer.user
        self._agent.jobs.check_user(jid, user)
        if self._agent.contract.peers is not None:
            await self._agent.contract.peers.check_user(jid, user)
        if why := self._has_to_wait(jid, user, arguments):
            return {"jid": jid, "wait": why}
        if not peer.lives():  # its number may be another's by now
            raise CoschedError(f"the process that asks to enter job {jid} has ended", FAILED)
        job = self._agent.jobs.enter(jid, peer.pid, user, _need(arguments))
        return {"jid": job.jid, "path": str(job.path)}

    def _has_to_wait(self, jid: str, user: str, arguments: dict[str, Any]) -> str:
        """Why a job that can wait outside may not begin yet; empty: it may, or it can only wait stopped."""
        need, static, program = _need(arguments), _need(arguments, "static"), _program(arguments)
        ranks = _ranks(arguments)
        if need > (most := self._agent.contract.memory_size()):
            raise CoschedError(
                f"job {jid} needs {need >> 20} MiB, and this node has {most >> 20} MiB in all: use more nodes, or a "
                "smaller --memory",
                USAGE,
            )
        if not self._agent.settings.on("fit") or self._agent.jobs.get(jid) is not None:
            return ""
        now, again = arguments.get("now") is True, arguments.get("again") is True
        waited = self._agent.contract.fitting.waits_for(jid) is not None
        why = self._agent.contract.fitting.ask(Wish(jid, user, program, need, now, again, static, ranks))
        if arguments.get("can_wait") is not True:
            return ""
        if why and not waited:
            self._agent.tell("queue", f"job {jid} waits: {why}", jid=jid, action="wait", user=user, why=why)
        return why

    async def _history(self, peer: Peer, _arguments: dict[str, Any]) -> object:
        return [one for one in self._agent.contract.fitting.history() if peer.shown(one["user"], one["program"])]

    async def _forget(self, peer: Peer, arguments: dict[str, Any]) -> object:
        program = _program(arguments)
        runs = self._agent.contract.fitting.forget(program, None if peer.is_root else peer.user)
        if not runs:
            whose = "" if peer.is_root else f" of user {peer.user}"
            raise CoschedError(f"no run of {brief(program)}{whose} is known: `ctl history` lists the keys", USAGE)
        return {"program": program, "runs": runs}

    def _has_queue(self) -> None:
        """Raise CoschedError (status 2) if no module decides which jobs run."""
        if not self._agent.settings.on("fit"):
            name = self._agent.settings.policy.name
            raise CoschedError(f"policy {name} has no queue of jobs: `ctl switch fit`, or `ctl set fit=on`", USAGE)

    async def _queue(self, _peer: Peer, _arguments: dict[str, Any]) -> object:
        self._has_queue()
        self._agent.contract.fit()
        return self._agent.contract.fitting.report()

    async def _place(self, _peer: Peer, arguments: dict[str, Any]) -> object:
        self._has_queue()
        count, by = arguments.get("count"), arguments.get("by", "")
        if not isinstance(count, int) or isinstance(count, bool) or abs(count) > _MOST_NODES or not isinstance(by, str):
            raise CoschedError(f'place names no number of nodes: give "count" a number up to {_MOST_NODES}', USAGE)
        self._agent.contract.fit()
        return self._agent.contract.fitting.place(count, _need(arguments), by)

    async def _cancel(self, peer: Peer, arguments: dict[str, Any]) -> object:
        jid, job = self._owned("cancel", peer, arguments, "scancel")
        number, grace_s = _ending(arguments)
        if job is not None and not grace_s:
            self._agent.jobs.kill(jid)
        elif job is not None:
            grace_s = self._agent.contract.end(job, number, grace_s)
        else:
            self._agent.contract.fitting.cancel(jid)
            self._agent.tell("queue", f"job {jid} was cancelled while it waited", jid=jid, action="cancel")
        if self._agent.contract.on_hold.get(jid) is not None:  # its other nodes must not keep it from ending
            self._agent.contract.put_on_hold(jid, peer.user, False)
        return {"jid": jid, "was": "here" if job is not None else "waiting", "grace": grace_s}

    def _owned(self, op: str, peer: Peer, arguments: dict[str, Any], of_slurm: str) -> tuple[str, Job | None]:
        """The JID in a request, and the job, None if it waits to begin; the peer must be its owner, or root.

        Raises CoschedError (status 2); `of_slurm`: the command that does the same to a job of Slurm.
        """
        jid = arguments.get("jid")
        if not isinstance(jid, str):
            raise CoschedError(f'{op} names no job: give "jid" a string', USAGE)
        job, waiting = self._agent.jobs.get(jid), self._agent.contract.fitting.waits_for(jid)
        owner = job.user if job is not None else waiting
        if owner is None:
            raise CoschedError(f"there is no job {brief(jid)}: `ctl jobs` and `ctl queue` list the jobs", USAGE)
        if not peer.is_root and peer.user != owner:
            raise CoschedError(f"job {jid} belongs to user {owner}, not to {peer.user}", USAGE)
        if job is not None and job.origin == SLURM:
            raise CoschedError(f"job {jid} is a job of Slurm: use {of_slurm} {jid}", USAGE)
        return jid, job

    async def _hold(self, peer: Peer, arguments: dict[str, Any]) -> object:
        jid, job = self._owned("hold", peer, arguments, "scontrol suspend")
        contract = self._agent.contract
        if jid in contract.endings:
            raise CoschedError(f"job {jid} {contract.endings.why(jid)}: it is not put on hold", USAGE)
        already = contract.on_hold.get(jid)
        if already is None:
            contract.put_on_hold(jid, peer.user, True)
        word = already or contract.on_hold.get(jid)
        assert word is not None
        was = "here" if job is not None else "waiting"
        return {"jid": jid, "was": was, "by": word.by, "since": word.at, "already": already is not None}

    async def _release(self, peer: Peer, arguments: dict[str, Any]) -> object:
        jid, job = self._owned("release", peer, arguments, "scontrol resume")
        if self._agent.contract.on_hold.get(jid) is None:
            raise CoschedError(f"job {jid} is not on hold: `ctl jobs` and `ctl queue` list those that are", USAGE)
        self._agent.contract.put_on_hold(jid, peer.user, False)
        state, why = self._agent.contract.state(jid) if job is not None else ("waits", "")
        return {"jid": jid, "was": "here" if job is not None else "waiting", "state": state, "why": why}

    async def _unload(self, _peer: Peer, _arguments: dict[str, Any]) -> object:
        self._agent.let_go("unloaded by ctl unload")
        return self._report.ping()


def _ending(arguments: dict[str, Any]) -> tuple[int, int]:
    """The signal of a cancel, and its grace in s; 0: killed at once."""
    number, grace_s = arguments.get("signal", int(signal.SIGTERM)), arguments.get("grace", 0)
    if not isinstance(number, int) or isinstance(number, bool) or number not in _SIGNALS:
        raise CoschedError(f"cancel with the signal {brief(number)}: give a number of `kill -l`", USAGE)
    if not isinstance(grace_s, int) or isinstance(grace_s, bool) or not 0 <= grace_s <= _LONGEST_GRACE:
        raise CoschedError(f"cancel with a grace of {brief(grace_s)}: give seconds from 0 to {_LONGEST_GRACE}", USAGE)
    return number, grace_s


def _need(arguments: dict[str, Any], key: str = "memory") -> int:
    """What a job needs on a node, bytes; 0: unknown."""
    need = arguments.get(key, 0)
    if not isinstance(need, int) or isinstance(need, bool) or not 0 <= need <= MAX_INTEGER:
        raise CoschedError(f"the job needs {brief(need)}: give the bytes as a number from 1 to {MAX_INTEGER}", USAGE)
    return need


def _ranks(arguments: dict[str, Any]) -> int:
    """The job's ranks on this node; 0: unknown."""
    ranks = arguments.get("ranks", 0)
    if not isinstance(ranks, int) or isinstance(ranks, bool) or not 0 <= ranks <= _MOST_RANKS:
        raise CoschedError(f"the job has {brief(ranks)} ranks: give a number from 1 to {_MOST_RANKS}", USAGE)
    return ranks


def _program(arguments: dict[str, Any]) -> str:
    """The key of the job's history; empty: unknown."""
    program = arguments.get("program", "")
    if not isinstance(program, str) or len(program) > LONGEST_KEY or not program.isprintable():
        what = f'"program" {brief(program)} is no key'
        raise CoschedError(f"{what}: give at most {LONGEST_KEY} printable characters, or leave it out", USAGE)
    return program


def _table(arguments: dict[str, Any], key: str) -> dict[str, object]:
    values = arguments.get(key)
    if not isinstance(values, dict):
        raise CoschedError(f'"{key}" must be an object of knob names and values', USAGE)
    return values
