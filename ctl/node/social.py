# SPDX-License-Identifier: GPL-2.0-or-later
"""The social contract of this node: the local user, the consequences for the jobs, and the epochs.

    input, knob local_user ──► local user? ──► the kernel's quanta, the other nodes
    knob slots, time of day ──► slots ──► freezer of all jobs
    end of an epoch ──► Set_Memory, fit ──► stops wanted ──► [the other nodes] ──► freezer, State of a job in the kernel
    ctl hold, ctl release ──► jobs on hold, here and [on the other nodes] ──► freezer

The kernel gives quanta by the current state (CCS Alg. 2): present user, slowed jobs and W are written when they change,
not at the end of an epoch, so that a user does not wait. An epoch is `epoch_ms` of time; the papers' epoch ended with
the quanta of all tasks, which no kernel counts any more. At the end of an epoch CPU shares are measured and Set_Memory
decides; with `fit` on, ctl/node/fitting.py, also when a job begins or ends.

With events on and a cluster joined, the other nodes decide, too, which jobs are slowed and stopped here
(ctl/contract.py): this node's wishes go to the relay, whose decision comes back at once. Alone the node carries out its
own wishes.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from ctl.contract import ON_HOLD, Decision, JobQueue, Join, NodeFacts, Peers, Sizes, State
from ctl.errors import CoschedError
from ctl.kernel import ext_server, sysinfo
from ctl.kernel.cgroups import JobCgroups
from ctl.kernel.observations import Input
from ctl.kernel.scheduler import Scheduler
from ctl.node import local_user, set_memory, speed
from ctl.node.endings import Endings
from ctl.node.explicit import Period, Slots
from ctl.node.fitting import Fitting
from ctl.node.job_memory import as_seen
from ctl.node.jobs import Job
from ctl.node.local_user import LocalUser, Signs
from ctl.node.notices import Notices
from ctl.node.on_hold import JobsOnHold
from ctl.node.pools import Pools
from ctl.node.set_quantum import Shares, mpl_bound, speed_weight, stretch
from ctl.node.slurm_time import SlurmTime
from ctl.node.steps import Steps
from ctl.node.swapping import Swapping
from ctl.node.urgency import Urgency
from ctl.policy import Settings

__all__ = ["SocialContract"]

_FIT_EVERY = 0.9  # seconds: within a second of a user's coming jobs are out of the way
_LOOK_AGAIN = 1.0  # seconds: for a local user, after an error
_STILL: Final = ("stopped", ON_HOLD)  # states in which a job is frozen
_ALONE = Sizes(nodes=1, speed_max=0.0, memory_min=0)
_log = logging.getLogger("ctl.social")


class SocialContract:
    """The contract of one node. All calls are for the event loop's thread."""

    def __init__(
        self,
        scheduler: Scheduler,
        cgroups: JobCgroups,
        settings: Settings,
        jobs: Callable[[], Iterable[Job]],
        seen: Callable[[], Input | None],
        tell: Callable[..., None],
        queue: JobQueue,
        join: Join | None = None,
        signs: Callable[[], Signs] = Signs,
    ) -> None:
        """`seen`: user input, None while no sensor runs; `signs`: those of sessions; `queue`, `join`: see
        ctl/contract.py."""
        self.user = LocalUser()
        self.user_since = time.time()
        self.measured = 0.0  # million turns per second; 0: not measured yet
        self.weight = 1.0  # W
        self.shares = Shares()
        self.memory = set_memory.State()
        self.epoch: set_memory.Epoch | None = None  # the last epoch that Set_Memory saw
        self.pools = Pools(cgroups)
        self.fitting = Fitting(queue, cgroups, self.pools)
        self.endings, self.notices = Endings(cgroups, tell), Notices(cgroups, tell)
        self.slurm_time = SlurmTime(self.pools.stopped_s, tell)
        self.on_hold = JobsOnHold(tell)
        self.urgency = Urgency(tell)
        self.slots, self.steps = Slots(cgroups, self.urgency, tell), Steps(self.urgency, tell)
        self.peers: Peers | None = None
        self.tell = tell
        self._scheduler, self._cgroups = scheduler, cgroups
        self._settings, self._jobs, self._seen, self._join = settings, jobs, seen, join
        self._signs = signs
        self._others = _ALONE
        self._told: dict[str, Decision] = {}  # the decision of all nodes for a job
        self._slowed: dict[str, int] = {}  # jobs the kernel has as slowed: cgroup ids
        self._total = sysinfo.memory("MemTotal")[0]
        self._swapping = Swapping()
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._joining = asyncio.Lock()
        self._placed: list[int] = []  # jobs in the order that the kernel has: cgroup ids
        self._fit_due = 0.0  # when fit looks next; jobs that begin or end, and pressure, do not wait for it
        self._lifted = False

    # life

    async def start(self) -> None:
        """Begin the first epoch, measure this node, join the others."""
        self.look_for_user()
        self._later("epoch", self._epoch_s(), self._roll_over)
        self.measured = await asyncio.get_running_loop().run_in_executor(None, speed.measure)
        await self.settings_changed()

    def reserve(self) -> None:
        """contract=class: L of each CPU, for jobs."""
        if self._settings.word("contract") == "class":
            ext_server.reserve(self._settings.number("share_l"), int(self._settings.number("contract_period_ms")))

    def lift(self) -> None:
        """Let every job go on and lift the jobs' limits; the kernel's quanta end with its scheduler."""
        self._lifted = True
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        self.slots.keep(None)
        self.steps.keep(0)
        self.endings.clear()
        self.pools.release([job.jid for job in self._jobs()])

    async def close(self) -> None:
        """Leave the others, after lift()."""
        async with self._joining:
            await self._leave()

    async def settings_changed(self) -> None:
        """Apply a new policy or new knobs."""
        if self._lifted:
            return
        self.look_for_user()
        self.reserve()
        self._weigh()
        self._keep_time()
        if not self._settings.on("memory"):
            self.memory, self.epoch = set_memory.State(), None
        if not self._settings.on("fit"):
            self.fitting.clear()
            self._tell_facts()
        if not (self._settings.on("memory") or self._settings.on("fit")):
            self.pools.unlimit([job.jid for job in self._jobs()])
        self._want_stopped()
        self.fit()
        async with self._joining:
            if not self._settings.on("events"):
                await self._leave()
            elif self.peers is None and self._join is not None:
                await self._enter(self._join)
        self._describe()

    # settings

    def _epoch_s(self) -> float:
        return self._settings.number("epoch_ms") / 1000

    def speed(self) -> float:
        """This node's speed, by the knob or as measured."""
        return self._settings.number("speed") or self.measured

    def memory_size(self) -> int:
        """M of this node, bytes: by the knob, if part of the memory is not for tasks, or all memory."""
        return (int(self._settings.number("memory_mb")) << 20) or self._total

    def pool(self) -> int:
        """M_Paral, bytes."""
        least = min(self.memory_size(), self._others.memory_min or self.memory_size())
        return set_memory.pool_size(least, self._settings.number("share_l"))

    # local user

    def look_for_user(self) -> None:
        """Decide whether a local user is present: after input, after a time without input, and after a change of a
        knob."""
        before = self.user
        word, idle_s = self._settings.word("local_user"), self._settings.number("local_idle_s")
        tty, wanted = self._settings.word("local_user_tty") == "on", self._settings.word("sensors") == "on"
        try:
            seen, signs = self._seen(), self._signs()
            self.user = local_user.decide(word, seen, idle_s, time.monotonic_ns(), tty, wanted, signs)
        except Exception:  # it is logged, and does not end the looks: else a user who has left is here for good
            self._later("user", _LOOK_AGAIN, self.look_for_user)
            raise
        if self.user.until is not None:
            self._later("user", max(0.001, self.user.until - time.monotonic()), self.look_for_user)
        if self.user.present == before.present:
            return
        self._scheduler.adjust(local_user=int(self.user.present))
        self.user_since = time.time()
        text = f"local user here: {self.user.why}" if self.user.present else f"local user gone: {self.user.why}"
        self.tell("local_user", text, present=self.user.present)
        if self.peers is not None:
            self.peers.local_user(self.user.why if self.user.present else "")

    # jobs

    def _keep_time(self) -> None:
        """Begin slots, and periods in step, if they are on and there is a job; else end them."""
        if self._lifted:
            return
        settings, jobs = self._settings, any(self._jobs())
        period = Period(int(settings.number("slot_run_ms")), int(settings.number("slot_stop_ms")))
        self.slots.keep(period if jobs and settings.on("slots") else None)
        steps = jobs and settings.word("contract") == "class" and settings.word("contract_step") == "on"
        self.steps.keep(int(settings.number("contract_period_ms")) if steps else 0)

    def job_began(self, job: Job) -> None:
        """A job has its first task here."""
        self._keep_time()
        if self.peers is not None:
            self.peers.hold(job.jid, job.user)
        self.fit()
        if self.on_hold and not self._fits():
            self._obey()

    def job_ended(self, job: Job) -> None:
        """A job's last task here has ended."""
        if self.peers is not None:
            self.peers.release(job.jid)
        self._keep_time()
        self._told.pop(job.jid, None)
        self.notices.forget(job.jid)
        self.pools.forget(job.jid)
        self.slurm_time.forget(job.jid)
        self.endings.forget(job.jid)
        self._slow(job, False)
        self._look_at_holds()
        self.fit()

    def state(self, jid: str) -> tuple[str, str]:
        """A job's state here, "free", "slowed", "stopped" or "on_hold", and the reason. Nothing stops one that was told
        to end."""
        state, why = self._decided(jid)
        if jid not in self.endings:
            return state, why
        return "free" if state in _STILL else state, self.endings.why(jid)

    def _decided(self, jid: str) -> tuple[str, str]:
        if self.on_hold.get(jid) is not None:
            return ON_HOLD, self.on_hold.why(jid)
        if why := dict(self._stops()).get(jid):
            return "stopped", why
        if self.peers is not None:
            told = self._told.get(jid, Decision(jid, State.FREE))
            return told.state, told.why
        slowed = self.user.present and self._settings.on("quantum")
        return ("slowed", f"local user: {self.user.why}") if slowed else ("free", "")

    def end(self, job: Job, number: int, grace_s: int) -> int:
        """Tell a job to end: it gets the signal, and goes on if it was stopped or on hold. Returns the seconds it has
        left."""
        left_s = self.endings.begin(job.jid, number, grace_s)
        self._settle(job)
        return left_s

    # jobs on hold

    def put_on_hold(self, jid: str, user: str, on: bool) -> None:
        """A user puts a job that is here, or waits here, on hold on all its nodes, or releases it."""
        self.on_hold.say(jid, user, on)
        self._obey()

    def _obey(self) -> None:
        """Carry out what users said of jobs, here and on the other nodes, and tell these."""
        if self._fits():
            self._fit_again()
        elif not self._lifted:
            self._look_at_holds()
            self._tell_facts()
            self._want_stopped()

    def _look_at_holds(self) -> None:
        users = {job.jid: job.user for job in self._jobs()}
        self.on_hold.keep(lambda jid: users.get(jid) or self.fitting.waits_for(jid))
        self.fitting.on_hold(self.on_hold.reasons())

    def _tell_facts(self) -> None:
        """Tell the other nodes what this one knows of its jobs: that they are on hold, and under fit their memory."""
        if self.peers is not None:
            self.peers.facts(self.on_hold.facts(self.fitting.facts() if self._fits() else None))

    # what is carried out

    def _settle(self, job: Job) -> None:
        """Make freezer and kernel agree with the job's state."""
        state, why = self.state(job.jid)
        if state in _STILL and not self.pools.stopped(job.jid):
            self.pools.stop(job.jid)
            self.tell("stop", f"job {job.jid} stopped: {why}", jid=job.jid, action="stop", why=why)
        elif state not in _STILL and self.pools.stopped(job.jid):
            self.pools.go_on(job.jid, read=job.jid not in self.endings)
            self.tell("stop", f"job {job.jid} goes on", jid=job.jid, action="resume")
        self._slow(job, self.peers is not None and state == "slowed")

    @property
    def slows(self) -> bool:
        """Whether a local user slows jobs, here or on another node of theirs."""
        return self.user.present or bool(self._slowed)

    def _slow(self, job: Job, slowed: bool) -> None:
        if slowed == (job.jid in self._slowed):
            return
        if slowed:
            self._slowed[job.jid] = job.cgid
        else:
            del self._slowed[job.jid]
        self._scheduler.slow_job(job.cgid, slowed)
        self._scheduler.adjust(slowed_jobs=len(self._slowed))

    def _stops(self) -> list[tuple[str, str]]:
        """The jobs that stop here by this node's own verdict, each with a reason.

        Set_Memory's are wishes where there are other nodes: the lowest JID of all wishes stops (CCS §4.3). Those of
        `fit` are the verdict of all nodes already.
        """
        return [*self.fitting.stops, *(self._wishes() if self.peers is None else ())]

    def _wishes(self) -> list[tuple[str, str]]:
        return [(stop.jid, stop.why) for stop in self.memory.stops]

    def _want_stopped(self) -> None:
        """Carry out this node's stops, Set_Memory's through the other nodes if there are any."""
        if self.peers is not None:
            self.peers.stops(self._wishes())
        stopped = {jid for jid, _ in self._stops()}
        for job in sorted(self._jobs(), key=lambda job: job.jid not in stopped):  # first, memory is given up
            self._settle(job)

    # the other nodes

    async def _enter(self, join: Join) -> None:
        """Join the cluster, if this node is a member; after a failure the node decides alone."""
        try:
            self.peers = await asyncio.get_running_loop().run_in_executor(None, join, self)
        except (CoschedError, ImportError) as error:
            self.tell("cluster", f"this node decides alone: {error}", action="unreachable")
            return
        if self.peers is None:
            return
        self._describe()
        self.fitting.join(self.peers.node)
        self.peers.local_user(self.user.why if self.user.present else "")
        for job in list(self._jobs()):
            self.peers.hold(job.jid, job.user)
        self._want_stopped()
        self.fit()
        self._tell_facts()
        self.peers.start()

    async def _leave(self) -> None:
        if self.peers is None:
            return
        peers, self.peers = self.peers, None
        self._told.clear()
        self.on_hold.hear({})
        self.fitting.hear({})
        self._others = _ALONE
        await peers.end()
        if not self._lifted:  # the node goes on alone
            self._weigh()
            self._want_stopped()

    def _describe(self) -> None:
        if self.peers is not None and self.speed():
            self.peers.describe(self.speed(), self.memory_size(), self._settings.number("share_l"))

    def apply(self, decision: Decision) -> None:
        """`Local`: set a job's state here."""
        if self.peers is None or self._lifted:
            return
        self._told[decision.jid] = decision
        for job in self._jobs():
            if job.jid == decision.jid:
                self._settle(job)

    def sizes(self, sizes: Sizes) -> None:
        """`Local`: the other nodes' speed and memory."""
        if not self._lifted:
            self._others = sizes
            self._weigh()

    def facts(self, others: Mapping[str, NodeFacts]) -> None:
        """`Local`: what the other nodes know of their jobs' memory, and of jobs on hold."""
        self.on_hold.hear(others)
        self.fitting.hear({node: facts for node, facts in others.items() if facts.fits})
        self._obey()

    def arrived(self, arrivals: Mapping[str, int]) -> None:
        """`Local`: numbers of this node's jobs in the order of arrival."""
        self.fitting.arrived(arrivals)
        self._fit_again()

    def _weigh(self) -> None:
        """Compute W, and write the kernel's quanta."""
        before = self.weight
        self.weight = speed_weight(self.speed(), self._others.speed_max)
        self._scheduler.adjust(stretch=stretch(self.weight))
        if self.weight != before:
            self.tell("weight", f"W is {self.weight:.2f}: quanta are {1 / self.weight:.2f} times as long")

    # epochs

    def _later(self, name: str, seconds: float, what: Callable[[], None]) -> None:
        if name in self._timers:
            self._timers[name].cancel()
        self._timers[name] = asyncio.get_running_loop().call_later(seconds, what)

    def _roll_over(self) -> None:
        """The end of an epoch, and the beginning of the next."""
        self._later("epoch", self._epoch_s(), self._roll_over)
        now = time.monotonic()
        self.shares.roll_over(now, *self._cgroups.cpu_ns())
        self.pools.keep()
        if self._settings.on("memory"):
            self._set_memory(now)
        if now >= self._fit_due:
            self.fit()
        if self.on_hold and not self._fits():
            self._obey()
        self.notices.look(self._jobs())
        if self._settings.word("slurm_extend") == "on":
            self.slurm_time.look(self._jobs())

    def fit(self) -> None:
        """Policy `fit`: look at the memory, decide which jobs run, and carry it out."""
        if self._fits():
            self._fit_due = time.monotonic() + _FIT_EVERY
            knobs = self._settings.number("turn_s"), self._settings.number("share_mem")
            self._look_at_holds()
            self._fitted(self.fitting.look(self._as_seen(), *knobs, self.speed()))

    def _fits(self) -> bool:
        return self._settings.on("fit") and not self._lifted

    def _fit_again(self) -> None:
        """Decide anew by what is known: after news of other nodes, and at the end of a turn."""
        if self._fits():
            self._look_at_holds()
            self._fitted(self.fitting.decide())

    def _fitted(self, changed: bool) -> None:
        self._tell_facts()
        if changed:
            self._want_stopped()
        self.notices.outgrown(self.fitting.outgrown())
        self.notices.held(self.fitting.held)
        self.notices.suspended(self.fitting.suspended)
        cgids = {job.jid: job.cgid for job in self._jobs()}
        if (placed := [cgids[jid] for jid in self.fitting.order() if jid in cgids]) != self._placed:
            self._placed = placed
            self._scheduler.place_jobs(placed)
        left = self.fitting.turn_left()
        if left is not None:
            self._later("turn", left, self._fit_again)

    def _set_memory(self, now: float) -> None:
        before = self.memory.stops
        pool, jobs = self.pool(), list(self._jobs())
        bound = mpl_bound(int(self._settings.number("mpl")), self.weight)
        seen = self._as_seen()
        paged_s, cost = self._swapping.look(now)
        free = sysinfo.memory("MemAvailable")[0]
        self.epoch = set_memory.Epoch(self.user.present, paged_s, pool, seen, bound, cost, free)
        self.memory = set_memory.decide(self.memory, self.epoch)
        if self.memory.stops != before:
            self._want_stopped()
        self.pools.limit([job.jid for job in jobs], pool, self.memory_size(), self.memory.limited)

    def _as_seen(self) -> tuple[set_memory.Job, ...]:
        return as_seen(self._jobs(), self._cgroups, self.pools, self._stopped_elsewhere)

    def _stopped_elsewhere(self, jid: str) -> bool:
        """Whether another node wants this job stopped, or its owner."""
        if self.on_hold.get(jid) is not None:
            return True
        told = self._told.get(jid)
        here = "" if self.peers is None else self.peers.node
        return bool(here and told and told.state is State.STOPPED and told.elsewhere(here))
