# SPDX-License-Identifier: GPL-2.0-or-later
"""The queue of jobs under policy `fit`: what each needs, which of them run, and why the others wait.

    ctl run ──► ask() ──► waits outside, before its ranks touch memory
    Slurm ──► meet() ──► waits stopped, from its first moment
    job here ──► look() ──┐
    other nodes ─► hear() ┴► merge() ──► fit() ──► jobs to be stopped here, with reasons

The order, and the end of turns, are those of ctl/jobs/order.py; a node alone is a cluster of one. A job's need is what
its owner declared, else the estimate by its history (history.py), else what it asked of Slurm, else the static size of
its program; or what it has had in memory and in swap if that is more (B-PP-7). A need that grows while the job runs
stops jobs that come later in the order, never earlier ones.

A job that asks and must wait has no process here yet. It stays in the queue while it asks again within LEASE seconds,
so a command that was interrupted leaves nothing behind.

A job on hold keeps its place in the queue, and neither room nor a turn: the rule looks at the others alone. When it is
released, it is behind those that waited meanwhile, as a job that comes.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any, Final

from ctl.contract import ON_HOLD, SUSPENDED, Load, NodeFacts, Wish
from ctl.errors import FAILED, USAGE, CoschedError
from ctl.jobs.elsewhere import elsewhere, outgrown, unclaimed
from ctl.jobs.entry import Entry
from ctl.jobs.fit import PASSES, Wait, fit
from ctl.jobs.history import History, Run
from ctl.jobs.order import Known, had_their_turn, last_end, merge
from ctl.jobs.placing import place

__all__ = ["LEASE", "WAITING", "Queue"]

LEASE: Final = 5.0  # seconds
WAITING: Final = 32  # jobs of a user that wait outside, on a node: the other nodes hear of 96 of the node's jobs in all
_REMEMBERED: Final = 3600.0  # seconds that a cancelled job is known, for a command that was stopped meanwhile
_TURN_PASSES: Final = 5  # a turn in which a job waited counts as so many passes: after three, a large job has its own
_MOST: Final = 1 << 50  # bytes: an estimate times many ranks is larger than any node, and still a size
_UNKNOWN: Final = Load()
_NOTHING: Final[Mapping[str, int]] = {}
_NO_REASONS: Final[Mapping[str, str]] = {}
_SETTLED: Final = 2.0  # seconds after the end of a turn: the others' facts say by then which of their jobs went behind


class Queue:
    """The queue as one node knows it. Sizes are bytes; times are seconds of the clock that all nodes share."""

    def __init__(self, node: str = "here", history: History | None = None) -> None:
        """`history`: what jobs needed before; None: none is kept."""
        self._node, self._history = node, history
        self._own: dict[str, Entry] = {}
        self._others: Mapping[str, NodeFacts] = {}
        self._order: list[Known] = []
        self._elsewhere: dict[str, str] = {}  # jobs that another node has memory for, and the way there
        self._outgrown: dict[str, str] = {}  # of these, those that run, and need more than their whole node has
        self._ran: set[str] = set()  # jobs that run, on any node
        self._waits: dict[str, Wait] = {}
        self._on_hold: Mapping[str, str] = _NO_REASONS
        self._behind: dict[str, float] = {}  # jobs that went behind just now, before their nodes say so
        self._cancelled: dict[str, float] = {}  # their commands have not asked since; until when it is known
        self._room = 0
        self._turn_s, self._load = 0.0, _UNKNOWN
        self._end = 0.0  # of the last turn
        self._quiet: float | None = 0.0  # since when no job waits, on any node; None: one does
        self.turns = 0

    # this node

    def ask(self, wish: Wish, at: float) -> str:
        """May this job begin here? The empty string, or in words why it has to wait; then ask again.

        Raises CoschedError (status 2) if a job of this name waits for another user, and (status 1) if the job was
        cancelled while it waited, or if it would wait beside WAITING others of its user.
        """
        jid = wish.jid
        if self._cancelled.pop(jid, 0.0) > at and wish.again:
            raise CoschedError(f"job {jid} was cancelled while it waited", FAILED)
        entry = self._own.get(jid)
        if is_new := entry is None:
            entry = self._come(jid, at, wish)
        elif entry.lease is None:  # a process more of a job that is here
            return ""
        elif entry.user != wish.user:
            raise CoschedError(f"job {jid} waits for user {entry.user}, not for {wish.user}: choose another JID", USAGE)
        entry.lease, entry.declared, entry.now = at + LEASE, max(entry.declared, wish.need), entry.now or wish.now
        self.decide(at)
        if is_new and self.why(jid) and self._outside(wish.user) > WAITING:
            del self._own[jid]
            self.decide(at)
            what = f"user {wish.user} has {WAITING} jobs that wait here, the most of a user"
            raise CoschedError(f"{what}: `ctl queue` lists them; start job {jid} when one runs, or cancel one", FAILED)
        return self.why(jid)

    def meet(self, wish: Wish, at: float) -> None:
        """A job has begun here without asking this agent, as those of Slurm do: what is known of it. look() then
        decides."""
        entry = self._own.get(wish.jid) or self._come(wish.jid, at, wish)
        if entry.lease is None:  # no command of this name waits outside
            entry.user, entry.program, entry.estimated = wish.user, wish.program, self._estimate(wish)
            entry.declared = wish.need

    def linger(self, jid: str, lingers: bool) -> None:
        """Whether the command of a job here has ended and other processes of it live on: then it needs what it has."""
        if jid in self._own:
            self._own[jid].lingers = lingers

    def suspend(self, jid: str, suspended: bool) -> None:
        """Whether a job's owner has stopped its processes here: then it gives way to all others, on all its nodes."""
        if jid in self._own:
            self._own[jid].suspended = suspended

    def notice(self, jid: str, working: int, ranks: int) -> None:
        """What a running job here gets by with, bytes, and its ranks: for its history, which keeps the most of each."""
        entry = self._own.get(jid)
        if entry is not None:
            entry.working, entry.ranks = max(entry.working, working), max(entry.ranks, ranks)

    def look(
        self,
        at: float,
        sizes: Mapping[str, int],
        room: int,
        turn_s: float = 0.0,
        load: Load = _UNKNOWN,
        stays: Mapping[str, int] = _NOTHING,
    ) -> list[tuple[str, str]]:
        """The jobs to be stopped, with reasons, in the order of the queue.

        `sizes`: for each job with processes here, what it has in memory and in swap; `stays`: what of it is in memory
        also when the job is stopped; `room`: for all jobs together, beside what stays; `turn_s`: length of a turn, 0: a
        job that runs runs to its end; `load`: of this node, for place().
        """
        for jid in [jid for jid, one in self._own.items() if jid not in sizes and one.is_over(at)]:
            self._ended(self._own.pop(jid))
        self._room, self._turn_s, self._load = room, turn_s, load
        for jid, size in sizes.items():
            entry = self._own.get(jid) or self._come(jid, at, Wish(jid, ""))
            entry.peak, entry.size, entry.stays, entry.lease = max(entry.peak, size), size, stays.get(jid, 0), None
        return self.decide(at)

    def decide(self, at: float) -> list[tuple[str, str]]:
        """Apply the rule to what is known, and count who was passed; the jobs to be stopped, with reasons."""
        for one in self._own.values():
            one.lease = one.lease and min(one.lease, at + LEASE)  # the clock may have been set back
        for jid in [jid for jid, one in self._own.items() if one.lease is not None and one.is_over(at)]:
            del self._own[jid]
        self._cancelled = {jid: end for jid, end in self._cancelled.items() if end > at}
        self._put_in_order(at)
        running, waits = self._fitted()
        begins = _want_turns(waits) and self._quiet is not None and at > self._quiet + self._turn()
        if begins:
            self._forget_turns(at)
            running, waits = self._fitted()
        self._quiet = None if _want_turns(waits) else at if self._quiet is None else min(self._quiet, at)
        self._waits = {wait.jid: wait for wait in waits}
        self._look_elsewhere()
        self._count_passes(set(running), at, begins)
        self._ran = set(running)
        still = [known.jid for known in self._order if known.jid not in self._ran and self._is_here(known.jid)]
        return [(jid, self.why(jid)) for jid in still]

    def on_hold(self, reasons: Mapping[str, str]) -> None:
        """The jobs on hold, of all nodes, each with the reason in words; look() or decide() then."""
        self._on_hold = reasons

    def due(self, at: float) -> float | None:
        """When the turn ends; None: there are no turns, or not more than one job."""
        length = self._turn()
        return last_end(at, length) + length if len(self._order) > 1 and length > 0 else None

    def order(self) -> list[str]:
        """The jobs in their order."""
        return [job.jid for job in self._order]

    def cancel(self, jid: str) -> bool:
        """Forget a job that asks and has no process here; False if there is none."""
        entry = self._own.get(jid)
        if entry is None or entry.lease is None:
            return False
        del self._own[jid]
        self._waits.pop(jid, None)
        self._cancelled[jid] = entry.lease + _REMEMBERED
        return True

    def user(self, jid: str) -> str | None:
        """The user for whom a job waits outside; None if no such job does."""
        entry = self._own.get(jid)
        return entry.user if entry is not None and entry.lease is not None else None

    def clear(self) -> None:
        """Forget all of this node: the policy has no queue any more."""
        self._own.clear()
        self._behind.clear()
        self._order.clear()
        self._ran.clear()
        self._waits.clear()
        self._outgrown.clear()

    # the other nodes

    def join(self, node: str) -> None:
        """This node's name in the cluster."""
        self._node = node

    def hear(self, others: Mapping[str, NodeFacts]) -> None:
        """The facts of the other nodes, by node, as they are now."""
        self._others = others

    def arrived(self, arrivals: Mapping[str, int]) -> None:
        """Jobs of this node have got their numbers in the order of arrival; a job keeps its first."""
        for jid, number in arrivals.items():
            entry = self._own.get(jid)
            if entry is not None and not entry.arrival:
                entry.arrival = number

    def facts(self) -> NodeFacts:
        """The facts of this node."""
        return NodeFacts(self._room, self._turn_s, tuple(one.fact() for one in self._own.values()), self._load)

    def place(self, count: int, need: int, by: str) -> list[str]:
        """The nodes where a job should run, the best first; `need`: bytes on each, 0: unknown. Raises CoschedError."""
        nodes = {
            node: replace(facts, jobs=tuple(job for job in facts.jobs if job.jid not in self._on_hold))
            for node, facts in self._all().items()
        }
        return place(nodes, self._node, count, need, by)

    # for people

    def why(self, jid: str) -> str:
        """Why this job waits, or is on hold, in words; the empty string if it runs."""
        if jid not in self._waits:
            return self._on_hold.get(jid, "")
        ahead = [job.jid for job in self._order if job.jid in self._ran]
        after = f"; after {', '.join(ahead)}" if ahead else ""
        where = self._elsewhere[jid]
        return self._waits[jid].why(bool(self._others)) + after + (where and f"; {where}")

    def outgrown(self) -> list[tuple[str, str]]:
        """The jobs that run here and outgrew this node, while another node has room for them, each with the way."""
        return [(jid, why) for jid, why in self._outgrown.items() if self._is_here(jid)]

    def rows(self, at: float) -> dict[str, Any]:
        """The queue for people: the room, the turn's rest, and the jobs of all nodes in their order."""
        end = self.due(at)
        stay = sum(one.stays for one in self._own.values())  # people see it where its job is, and in the room
        jobs = []
        for known in self._order:
            own = self._own.get(known.jid)
            needs = dict(known.needs)
            if own is not None:
                needs[self._node] = needs.get(self._node, 0) + own.stays
            row = {
                "jid": known.jid,
                "state": self._state(known),
                "need": needs.get(self._node, 0),
                "stays": own.stays if own else 0,
                "needs": needs,
                "declared": own.declared if own else None,
                "estimated": own.estimated if own else None,
                "passed": known.passed,
                "why": self.why(known.jid) or (SUSPENDED if known.suspended else self._outgrown.get(known.jid, "")),
            }
            jobs.append(row)
        left = end - at if end is not None and self._waits else None
        return {
            "room": self._room + stay,
            "rooms": self._rooms() | {self._node: self._room + stay},
            "loads": self._loads(),
            "turn_left_s": left,
            "turns": self.turns,
            "jobs": jobs,
        }

    def history(self) -> list[dict[str, Any]]:
        """What jobs needed so far, for people."""
        return self._history.rows(time.time()) if self._history is not None else []

    def forget(self, program: str, user: str | None) -> int:
        """Forget what jobs of this key needed, of this user or of all (None); the number of runs. Raises
        CoschedError (status 1) if the file is in use."""
        return self._history.forget(program, user) if self._history is not None else 0

    # inside

    def _state(self, known: Known) -> str:
        if known.jid in self._on_hold:
            return ON_HOLD
        if known.jid in self._waits:
            return "stopped" if known.here else "waits"
        return "suspended" if known.suspended else "runs"

    def _outside(self, user: str) -> int:
        """How many jobs of a user wait without a process here."""
        return sum(one.user == user and one.lease is not None and not one.runs for one in self._own.values())

    def _look_elsewhere(self) -> None:
        rooms, jobs = self._rooms(), self._not_on_hold()
        free = unclaimed(jobs, rooms)
        self._elsewhere = {job.jid: elsewhere(job, free) for job in jobs}
        runs = [job for job in jobs if job.jid not in self._waits]
        running = {job.jid: outgrown(job, rooms, self._elsewhere[job.jid]) for job in runs}
        self._outgrown = {jid: why for jid, why in running.items() if why}

    def _come(self, jid: str, at: float, wish: Wish) -> Entry:
        known = next((job for job in self._order if job.jid == jid), None)  # other nodes may hold it already
        behind = known.behind if known is not None else last_end(at, self._turn())
        entry = self._own[jid] = Entry(jid, wish.user, behind, wish.program)
        entry.estimated = self._estimate(wish)
        return entry

    def _estimate(self, wish: Wish) -> int:
        known = 0
        if self._history is not None and wish.program:
            known = self._history.estimate(wish.program, wish.user, time.time(), wish.ranks)
        return min(known or wish.requested or wish.static * max(1, wish.ranks), _MOST)

    def _ended(self, entry: Entry) -> None:
        if self._history is not None and entry.program and entry.peak:
            run = Run(entry.peak, min(entry.working, entry.peak), entry.ranks)
            self._history.observe(entry.program, entry.user, run, time.time())

    def _is_here(self, jid: str) -> bool:
        return jid in self._own and self._own[jid].lease is None

    def _all(self) -> dict[str, NodeFacts]:
        return {**self._others, self._node: self.facts()}

    def _rooms(self) -> dict[str, int]:
        return {self._node: self._room} | {node: facts.room for node, facts in self._others.items()}

    def _loads(self) -> dict[str, dict[str, float]]:
        return {node: asdict(facts.load) for node, facts in self._all().items()}

    def _turn(self) -> float:
        """The length of a turn: the longest that a node wants."""
        return max([self._turn_s, *(facts.turn_s for facts in self._others.values())])

    def _put_in_order(self, at: float) -> None:
        """Put the facts together; at the end of a turn, those that had it go behind."""
        length = self._turn()
        end = last_end(at, length)
        if self._end > at:  # the clock was set back: the others do not hear of that turn
            self._end, self._behind = end, {}
        self._order = merge(self._all(), self._behind, at, end)
        waiting = {jid for jid, wait in self._waits.items() if not wait.suspended}
        waited = any(job.jid in waiting for job in self._order)
        if end > self._end:
            self._end = end
            for jid in waiting & self._own.keys():
                own = self._own[jid]
                own.passed = max(own.passed, min(PASSES, own.passed + _TURN_PASSES))
            had = had_their_turn(self._order, waited, end, length)
            if had:
                self.turns += 1
                self._behind = dict.fromkeys(had, end)
            self._order = merge(self._all(), self._behind, at, end)
        if at > self._end + _SETTLED:
            self._behind = {}

    def _fitted(self) -> tuple[list[str], list[Wait]]:
        """The jobs that run, and those that wait, by the order as it is."""
        return fit([job.demand() for job in self._not_on_hold()], self._rooms())

    def _not_on_hold(self) -> list[Known]:
        return [job for job in self._order if job.jid not in self._on_hold]

    def _count_passes(self, running: set[str], at: float, begins: bool) -> None:
        """Note of this node's jobs what the rule has decided; `begins`: jobs have to wait from now on."""
        started = 0  # behind the job that is looked at
        for known in reversed(self._order):
            runs, own = known.jid in running, self._own.get(known.jid)
            if own is not None:
                own.behind = known.behind
                own.passed = 0 if runs else own.passed + (0 if known.suspended else started)
                own.since = at if runs and (begins or not own.runs) else own.since
                own.runs = runs
                if known.jid in self._on_hold:
                    own.behind, own.passed = max(own.behind, last_end(at, self._turn())), 0
            started += runs and known.jid not in self._ran

    def _forget_turns(self, at: float) -> None:
        """Put the jobs in the order of their arrival.

        A job that waits on another node says that this node has done so, perhaps before the last turn ended. Then they
        count as gone behind at the end that it tells: with two ends the nodes would have two orders.
        """
        suspended = {job.jid for job in self._order if job.suspended}
        others = [job for facts in self._others.values() for job in facts.jobs if job.jid not in suspended]
        told = [job.behind for job in others if not job.runs]
        end = min([last_end(at, self._turn()), *told])
        self._behind = {job.jid: end for job in self._order}
        self._order = merge(self._all(), self._behind, at, end)


def _want_turns(waits: list[Wait]) -> bool:
    """Whether one of them waits for its turn: a job that its owner has stopped waits for its owner."""
    return any(not wait.suspended for wait in waits)
