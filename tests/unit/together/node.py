# SPDX-License-Identifier: GPL-2.0-or-later
"""A node in virtual time: its kernel, its agent, and the agent's supervisor.

Real is what decides and what carries it out: the social contract with its timers (ctl/node/social.py), policy fit with
room, sizes, queue, order and turns, the pools (ctl/node/pools.py), and the whole relay with session, machine, holders,
directory and facts (ctl/cluster). Stood for are the kernel (its cgroups and memory: `Kernel`), the scheduler's link,
the processes (virtual_time.py), the broker with the connection to it (carrier.py), and the supervisor: what it undoes
is written here once more, in `Kernel.repair`.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

from ctl.cluster.events import LEASE
from ctl.cluster.link import Member
from ctl.cluster.relay import Relay
from ctl.contract import Wish
from ctl.errors import CoschedError
from ctl.jobs.queue import Queue
from ctl.kernel.cgroup_memory import Memory
from ctl.kernel.cgroups import JobCgroups
from ctl.node.jobs import Job
from ctl.node.social import SocialContract
from ctl.policy import Settings, defaults, find_policy
from ctl.process.relay import join
from tests.unit.together.carrier import Broker, Connection
from tests.unit.together.virtual_time import Loop, Process, Thread, current

__all__ = ["EPOCH", "MIB", "Kernel", "Node", "stand_ins"]

MIB: Final = 1 << 20
EPOCH: Final = 1_000_000_000.0  # Unix time at which a run begins
TOTAL: Final = 1024 * MIB
CLOSE: Final = 0.1  # seconds: clocks that a time service keeps are no farther apart
_DISK: Final = 4096 * MIB  # bytes a second, out of memory


@dataclass
class Held:
    """A job's cgroup."""

    size: int
    declared: int = 0
    frozen: bool = False
    out: int = 0  # bytes pushed out since it was frozen
    changes: int = 0  # of `frozen`


class Kernel(JobCgroups):
    """The job cgroups of one node, in memory; all pages of jobs are anonymous, and none is locked."""

    def __init__(self) -> None:
        super().__init__()
        self.held: dict[str, Held] = {}
        self.local = 200 * MIB  # what local tasks and the kernel have
        self.high: int | None = None
        self.sure = self.low = 0
        self.protected: dict[str, tuple[int, int]] = {}
        self.suspended: set[int] = set()  # processes that their owner has stopped

    def repair(self) -> list[str]:
        """What the supervisor does when the agent is killed or stopped."""
        for jid in self.held:
            self.set_frozen(jid, False)
        self.high, self.sure, self.low = None, 0, 0
        self.protected.clear()
        return []

    def left(self) -> list[str]:
        """What is frozen or limited."""
        limits = [self.high, self.sure or None, self.low or None]
        protected = [jid for jid, sizes in self.protected.items() if jid in self.held and any(sizes)]
        return [jid for jid, held in self.held.items() if held.frozen] + [str(x) for x in limits if x] + protected

    def meminfo(self) -> dict[str, int]:
        used = self.local + self.pool_used()
        return {"MemTotal": TOTAL, "MemAvailable": max(0, TOTAL - used), "Active(file)": 0}

    # what the agent calls

    def memory(self, jid: str) -> Memory:
        if jid not in self.held:
            raise CoschedError(f"there is no job {jid!r}")
        return Memory(self.held[jid].size, 0, 0, movable=self.held[jid].size)

    def current(self, jid: str) -> int:
        return self.held[jid].size - self.held[jid].out if jid in self.held else 0

    def swap_free(self, jid: str) -> int:
        return TOTAL

    def all_movable(self) -> int:
        return 0

    def stalled(self, jid: str) -> float:
        return 0.0

    def declared(self, jid: str) -> int:
        return self.held[jid].declared if jid in self.held else 0

    def cpu_ns(self) -> tuple[int, int]:
        return 0, 0

    def pids(self, jid: str) -> list[int]:
        return []

    def set_pool(self, sure: int, low: int, high: int | None) -> None:
        self.sure, self.low, self.high = sure, low, high

    def pool_used(self) -> int:
        """Of the jobs that run; what does not fit beside local tasks is in swap."""
        return min(sum(held.size for held in self.held.values() if not held.frozen), max(0, TOTAL - self.local))

    def pool_held(self) -> tuple[int, int]:
        return self.pool_used(), 0

    def protect(self, jid: str, sure: int, low: int) -> None:
        self.protected[jid] = sure, low

    def set_frozen(self, jid: str, frozen: bool) -> None:
        held = self.held.get(jid)
        if held is not None and held.frozen != frozen:
            held.frozen, held.out = frozen, 0
            held.changes += 1

    def await_frozen(self, jid: str, timeout_s: float) -> bool:
        return True

    def push_out(self, jid: str, size: int) -> float:
        process = current.get()
        assert process is not None
        process.spent += size / _DISK
        if jid in self.held:
            self.held[jid].out += size
        return size / _DISK


class _Scheduler:
    """Takes what the kernel's scheduler takes."""

    def adjust(self, **_fields: int) -> None: ...

    def slow_job(self, _cgid: int, _slowed: bool) -> None: ...

    def place_jobs(self, _cgids: list[int]) -> None: ...


class _Files:
    """A node's membership: each start of the agent is a new incarnation."""

    def __init__(self, _directory: Path) -> None:
        process = current.get()
        assert process is not None
        self._node: Node = process.owner  # type: ignore[assignment]

    def member(self) -> Member:
        return Member(self._node.name, ("broker:4222",), "", "", b"")

    def next_incarnation(self) -> int:
        self._node.incarnation += 1
        return self._node.incarnation


class Node:
    """One node. `skew`: how far its clock is ahead, seconds."""

    def __init__(self, loop: Loop, broker: Broker, name: str, skew: float, knobs: Mapping[str, Any]) -> None:
        self.loop, self.broker, self.name, self.skew = loop, broker, name, skew
        self.settings = Settings(find_policy("fit"), {**defaults(), "sensors": "off", **knobs})
        self.kernel = Kernel()
        self.jobs: dict[str, Job] = {}
        self.incarnation = 0
        self.process: Process | None = None
        self.contract: SocialContract | None = None
        self.troubled = 0.0  # when something was last wrong here
        self.last_pid = 0
        self.left: list[str] = []  # what an agent left that was unloaded

    @property
    def turn_s(self) -> float:
        """The turn that this node wants."""
        return self.contract.fitting.facts().turn_s if self.contract is not None else 0.0

    def wall(self) -> float:
        """The time that this node's clock shows."""
        return EPOCH + self.loop.now + self.skew

    @property
    def works(self) -> bool:
        """Whether the agent is there and runs."""
        return self.process is not None and not self.process.stopped and self.contract is not None

    @property
    def hears(self) -> bool:
        """Whether it works, is connected, and its clock is right."""
        return self.works and bool(self.broker.of(self.name)) and abs(self.skew) <= CLOSE

    def runs(self, jid: str) -> bool:
        """Whether a job computes here."""
        return jid in self.kernel.held and not self.kernel.held[jid].frozen

    # the agent

    def load(self) -> None:
        """`ctl load --policy fit`."""
        self.process = Process(self.loop, self.wall, self)
        self.process.call(self._begin)

    def _begin(self) -> None:
        self.kernel.repair()  # as each agent does first
        queue, scheduler = Queue(self.name), _Scheduler()
        self.contract = SocialContract(
            scheduler,  # type: ignore[arg-type]
            self.kernel,
            self.settings,
            lambda: [self.jobs[jid] for jid in sorted(self.jobs)],
            lambda: None,
            lambda _kind, _text, **_details: None,
            queue,
            join,
        )
        for job in list(self.jobs.values()):
            self.contract.job_began(job)
        self.contract.look_for_user()
        self.loop.create_task(self.contract.start())

    def kill(self) -> None:
        """SIGKILL to the agent: its connection ends, and the supervisor undoes what it did."""
        if self.process is not None:
            self.process.kill()
            self.process = self.contract = None
            for connection in self.broker.of(self.name):
                connection.end(0.0)
            self.kernel.repair()

    def stop(self) -> None:
        """SIGSTOP to the agent: the supervisor undoes what it did."""
        if self.process is not None and not self.process.stopped:
            self.process.stop()
            self.kernel.repair()

    def go_on(self) -> None:
        """SIGCONT to the agent."""
        if self.process is not None:
            self.process.go_on()

    def unload(self) -> None:
        """`ctl unload`, as Agent.let_go and Agent._close do it."""

        async def leave(contract: SocialContract) -> None:
            contract.lift()
            await contract.close()
            self.left = self.kernel.left()  # by itself, before the supervisor looks
            self.kill()

        if self.process is not None and self.contract is not None:
            self.process.call(lambda contract: self.loop.create_task(leave(contract)), self.contract)
            self.contract = None

    # jobs

    def ask(self, wish: Wish) -> str | None:
        """`ctl run` asks the agent: the empty string, a reason to wait, or None if no agent answers."""
        process, contract = self.process, self.contract
        if process is None or process.stopped or contract is None:
            return None
        return process.context.copy().run(contract.fitting.ask, wish) if wish.jid not in self.jobs else ""

    def knows(self, jid: str) -> bool:
        """Whether a job is here, or waits here, and an agent is there to be told of it."""
        if not self.works or self.contract is None:
            return False
        return jid in self.jobs or self.contract.fitting.waits_for(jid) is not None

    def has_on_hold(self, jid: str) -> bool:
        """Whether it knows of a job that it is on hold."""
        return self.contract is not None and self.knows(jid) and self.contract.on_hold.get(jid) is not None

    def put_on_hold(self, jid: str, on: bool) -> None:
        """`ctl hold`, or `ctl release`."""
        if self.process is not None and self.contract is not None:
            self.process.call(self.contract.put_on_hold, jid, "eve", on)

    def enter(self, jid: str, size: int, declared: int) -> None:
        """A job has its first process here."""
        self.kernel.held[jid] = Held(size, declared)
        self.last_pid += 1
        job = self.jobs[jid] = Job(jid, Path("/nowhere"), len(self.jobs) + 1, "eve", started=self.wall())
        job.processes.add(self.last_pid)
        if self.process is not None and self.contract is not None:
            self.process.call(self.contract.job_began, job)

    def suspend(self, jid: str, suspended: bool) -> None:
        """The owner of a job here stops its processes, or continues them."""
        if suspended:
            self.kernel.suspended |= self.jobs[jid].processes
        else:
            self.kernel.suspended -= self.jobs[jid].processes

    def suspends(self, jid: str) -> bool:
        """Whether the owner of a job has stopped its processes here."""
        return jid in self.jobs and self.jobs[jid].processes <= self.kernel.suspended

    def leave(self, jid: str) -> None:
        """A job's last process here has ended."""
        job = self.jobs.pop(jid, None)
        self.kernel.held.pop(jid, None)
        if job is not None and self.process is not None and self.contract is not None:
            self.process.call(self.contract.job_ended, job)


def _clock() -> float:
    process = current.get()
    return process.wall() if process is not None else EPOCH


@contextlib.contextmanager
def stand_ins(loop: Loop) -> Iterator[None]:
    """While the block runs, each agent sees its own node, and its clock."""

    def monotonic() -> float:
        process = current.get()
        return loop.now + (process.spent if process is not None else 0.0)

    def memory(*names: str) -> list[int]:
        process = current.get()
        assert process is not None
        now = process.owner.kernel.meminfo()  # type: ignore[attr-defined]
        return [now[name] for name in names]

    def all_stopped(pids: Set[int]) -> bool:
        process = current.get()
        assert process is not None
        return bool(pids) and pids <= process.owner.kernel.suspended  # type: ignore[attr-defined]

    with contextlib.ExitStack() as stack:
        for target, stand_in in {
            "ctl.cluster.membership.Files": _Files,
            "ctl.cluster.relay.Link": Connection,
            "ctl.kernel.sysinfo.major_faults": lambda: 0,
            "ctl.kernel.sysinfo.memory": memory,
            "ctl.kernel.sysinfo.online_cpus": lambda: [0],
            "ctl.kernel.sysinfo.runnable_tasks": lambda: 1,
            "ctl.node.pools.ThreadPoolExecutor": Thread,
            "ctl.node.suspended.all_stopped": all_stopped,
            "ctl.node.social.speed.measure": lambda: 1.0,
            "ctl.process.relay.is_member": lambda _directory: True,
        }.items():
            stack.enter_context(patch(target, stand_in))
        stack.enter_context(patch.object(Relay.__init__, "__defaults__", (LEASE, _clock)))
        stack.enter_context(patch.object(time, "time", _clock))
        stack.enter_context(patch.object(time, "monotonic", monotonic))
        yield
