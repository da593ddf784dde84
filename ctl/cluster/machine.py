# SPDX-License-Identifier: GPL-2.0-or-later
"""The state of this node's jobs across the cluster: a pure function of received events and their times. No I/O.

For each job that this node holds there are two sets: the nodes with a local user (LOCAL) and the nodes that have
stopped it (STOP). The job is stopped while the set STOP has a member, else slowed down while the set LOCAL has a
member, else free (B-CCS-12, B-CCS-13). A member stays while its node repeats the event within the lease. A member
leaves when its node says otherwise, starts anew, releases the job, or is silent for a lease. So no stop outlives its
cause by more than a lease, whatever messages are lost.

An event counts if it is newer than the last event of the same node for the same job: (incarnation, seq) grows. A newer
incarnation takes back all earlier events of the node.

**Which jobs stop.** A node that must stop n jobs *wants* a set W of n jobs (`stops`). The other nodes have stopped a
set R of jobs that this node holds, too. Jobs of R also give this node room, so this node stops only as many jobs as are
still needed, the lowest JIDs first: the members of W among the n lowest JIDs of W and R together. Meanwhile this node
gives up the other members of W.

    N1 wants 7, N2 wants 3, both hold both. Their STOPs cross. N1: of {3, 7} the lowest 1 is 3, gives up 7. N2: of {3,
    7} the lowest 1 is 3, which it wants, keeps it. Both: 3 stopped, 7 runs (CCS §4.3, CCS-43).

The rule ends in one result, whatever the order of messages: the stop of the lowest job depends on no other job, the
stop of the next job depends only on the lowest, and so on (B-CCS-11). The paper's rule is for two nodes; by the paper's
rule three nodes could chase each other in a circle. The result differs from B-CCS-10 in one case: if the job stopped by
others has a *higher* JID than our stopped job, and its node does not hold our job, both jobs stay stopped.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from ctl.cluster.events import LEASE, MAX_LEASE, Event, Kind, jid_order
from ctl.contract import Decision, State

__all__ = ["Machine", "Verdict"]

_REPEATS = 2  # how often "free" is repeated: its loss would cost the others a lease
_ANSWER_EVERY = 0.2  # seconds: questions of many nodes at once get one answer


class Verdict(StrEnum):
    """The fate of a received event."""

    TAKEN = "taken"  # it says something else than before
    RENEWED = "renewed"  # a repetition
    REPLAYED = "replayed"  # not newer than the last event
    NOT_HELD = "not-held"  # this node has no such job
    OWN_NAME = "own-name"  # an event in this node's name


@dataclass(slots=True)
class _Peer:
    """The last event of another node about a job."""

    incarnation: int
    seq: int
    local: bool
    stop: bool
    why: str
    ends: float  # the lease


@dataclass(slots=True)
class _Job:
    """A job of this node: the others' events, our last event, and the time of its repetition."""

    peers: dict[str, _Peer] = field(default_factory=dict)
    local: bool = False
    stop: bool = False
    kind: Kind = Kind.NO_LOCAL
    said: float = float("-inf")
    again: float = 0.0
    repeats: int = 0
    decision: Decision | None = None


class Machine:
    """One node's view. Times are seconds of any clock that does not jump; methods that need the time take it as `now`.

    After each call, `events` yields the events to send and `decisions` the decisions to carry out; `due` is the time of
    the next `tick`.
    """

    def __init__(self, node: str, incarnation: int, lease: float = LEASE) -> None:
        """`incarnation` must be higher than that of every start of this node before; `lease` is in seconds."""
        self.node = node
        self.incarnation = incarnation
        self.lease = lease
        self._jobs: dict[str, _Job] = {}
        self._newest: dict[str, int] = {}  # node -> highest incarnation
        self._local = ""  # the sign of a local user, empty without a user
        self._wants: dict[str, str] = {}  # job to be stopped -> reason
        self._seq = 0
        self._outbox: list[Event] = []
        self._changed: list[Decision] = []

    # changes on this node

    def hold(self, jid: str, now: float) -> None:
        """The job has a task here now. With a local user present this sends LOCAL_U (CCS §4.3)."""
        if jid not in self._jobs:
            local = bool(self._local)
            job = self._jobs[jid] = _Job(local=local)
            self._say(jid, job, Kind.LOCAL_U if local else Kind.NO_LOCAL, now)
            self._settle(now)

    def release(self, jid: str, now: float) -> None:
        """The job's last task here ended; the others hear that this node frees the job."""
        job = self._jobs.pop(jid, None)
        if job is None:
            return
        self._wants.pop(jid, None)
        kind = Kind.RESUME if job.stop else Kind.NO_LOCAL
        job.local = job.stop = False
        self._say(jid, job, kind, now)
        self._settle(now)

    def local_user(self, why: str, now: float) -> None:
        """A local user is present, with the sign of it; an empty string: no user."""
        self._local = why
        self._settle(now)

    def stops(self, wants: Iterable[tuple[str, str]], now: float) -> None:
        """The jobs that the memory contract wants stopped here, with a reason each; jobs not held are ignored."""
        self._wants = {jid: why for jid, why in wants if jid in self._jobs}
        self._settle(now)

    # events of other nodes

    def receive(self, event: Event, now: float) -> Verdict:
        """Handle an event, if it is new."""
        if event.node == self.node:
            return Verdict.OWN_NAME
        job = self._jobs.get(event.jid)
        if job is None:
            return Verdict.NOT_HELD
        newest = self._newest.get(event.node, -1)
        known = job.peers.get(event.node)
        before = (known.local, known.stop) if known is not None else (False, False)
        if event.incarnation < newest or (
            known is not None and (event.incarnation, event.seq) <= (known.incarnation, known.seq)
        ):
            return Verdict.REPLAYED
        if event.incarnation > newest:
            self._newest[event.node] = event.incarnation
            self._forget(event.node, now)
        ends = now + min(event.lease, MAX_LEASE)
        job.peers[event.node] = _Peer(event.incarnation, event.seq, event.local, event.stop, event.why, ends)
        self._settle(now, event.jid)
        return Verdict.TAKEN if before != (event.local, event.stop) else Verdict.RENEWED

    def gone(self, node: str, jid: str, now: float) -> None:
        """Another node no longer holds the job: its events about the job are void."""
        job = self._jobs.get(jid)
        peer = job.peers.get(node) if job else None
        if peer is not None:
            peer.local = peer.stop = False
            self._settle(now, jid)

    def asked(self, jid: str, now: float) -> None:
        """Another node asks for the state of a job."""
        job = self._jobs.get(jid)
        if job is not None:
            job.again = min(job.again, max(now, job.said + _ANSWER_EVERY))

    def restart(self, incarnation: int, now: float) -> None:
        """Go on as a higher incarnation: the others remember an incarnation that this node has forgotten."""
        self.incarnation = max(incarnation, self.incarnation)
        self.say_all(now)

    def say_all(self, now: float) -> None:
        """Repeat all events: the others may have missed them."""
        for jid, job in self._jobs.items():
            self._say(jid, job, job.kind, now)

    # time

    def tick(self, now: float) -> None:
        """End leases, and send due repetitions. Early and late calls do no harm."""
        for jid, job in self._jobs.items():
            if any(peer.ends <= now and (peer.local or peer.stop) for peer in job.peers.values()):
                self._settle(now, jid)
            if job.again <= now:
                job.repeats = max(0, job.repeats - 1)
                self._say(jid, job, job.kind, now, again=False)

    def due(self) -> float:
        """When `tick` has something to do next; infinity if never."""
        leases = (peer.ends for job in self._jobs.values() for peer in job.peers.values() if peer.local or peer.stop)
        return min((*leases, *(job.again for job in self._jobs.values())), default=float("inf"))

    # results

    def events(self) -> list[Event]:
        """The events to send, since the last call."""
        taken, self._outbox = self._outbox, []
        return taken

    def decisions(self) -> list[Decision]:
        """Decisions that changed since the last call, the last one for each job."""
        taken, self._changed = self._changed, []
        return list({decision.jid: decision for decision in taken}.values())

    def held(self) -> list[str]:
        """The jobs of this node, lowest JID first."""
        return sorted(self._jobs, key=jid_order)

    def decision(self, jid: str) -> Decision | None:
        """The current decision for a job; None if the job is not held."""
        job = self._jobs.get(jid)
        return job.decision if job else None

    # inside

    def _forget(self, node: str, now: float) -> None:
        """A node started anew: its earlier events are void."""
        for job in self._jobs.values():
            job.peers.pop(node, None)
        self._settle(now)

    def _settle(self, now: float, only: str | None = None) -> None:
        """Derive all from the sets again: ended leases, our own stops, events to send, decisions.

        `only`: the others' events changed for this job alone; then this job and the jobs of `stops` are concerned.
        """
        jobs = self._jobs if only is None else {jid: self._jobs[jid] for jid in (only, *self._wants)}
        for job in jobs.values():
            for peer in job.peers.values():
                if peer.ends <= now:
                    peer.local = peer.stop = False
        keep = self._own_stops()
        for jid, job in jobs.items():
            self._update(jid, job, jid in keep, now)
            decision = self._decide(jid, job, keep)
            if decision != job.decision:
                job.decision = decision
                self._changed.append(decision)

    def _own_stops(self) -> set[str]:
        """The jobs that this node stops: the wanted jobs among the lowest JIDs of all stopped and wanted jobs."""
        if not self._wants:
            return set()
        stopped = {jid for jid, job in self._jobs.items() if any(peer.stop for peer in job.peers.values())}
        lowest = sorted(stopped | self._wants.keys(), key=jid_order)[: len(self._wants)]
        return self._wants.keys() & set(lowest)

    def _update(self, jid: str, job: _Job, stop: bool, now: float) -> None:
        """Send the change; two events if both states changed."""
        local = bool(self._local)
        if job.local != local:
            job.local = local
            self._say(jid, job, Kind.LOCAL_U if local else Kind.NO_LOCAL, now)
        if job.stop != stop:
            job.stop = stop
            self._say(jid, job, Kind.STOP if stop else Kind.RESUME, now)

    def _say(self, jid: str, job: _Job, kind: Kind, now: float, again: bool = True) -> None:
        """Queue an event; `again`: the event is new, and will be repeated."""
        self._seq += 1
        why = self._wants.get(jid, "") if job.stop else self._local if job.local else ""
        event = Event(self.node, self.incarnation, self._seq, jid, kind, job.local, job.stop, self.lease, why)
        self._outbox.append(event)
        if again:
            job.repeats = _REPEATS
        job.kind, job.said = kind, now
        goes_on = job.local or job.stop or job.repeats
        job.again = now + self.lease / 3 if goes_on else float("inf")

    def _decide(self, jid: str, job: _Job, keep: set[str]) -> Decision:
        """The job's state and why, in words for people."""
        others = {node: peer.why for node, peer in sorted(job.peers.items()) if peer.stop}
        if job.stop or others:
            stopping = ({self.node: self._wants[jid]} if job.stop else {}) | others
            return Decision(jid, State.STOPPED, tuple(stopping), f"stopped by {_in_words(stopping)}")
        users = {node: peer.why for node, peer in sorted(job.peers.items()) if peer.local}
        if self._local:
            users = {self.node: self._local} | users
        given_up = jid in self._wants and jid not in keep
        note = "; not stopped here, as other jobs are and the lowest JID stops" if given_up else ""
        if users:
            return Decision(jid, State.SLOWED, tuple(users), f"local user on {_in_words(users)}{note}")
        return Decision(jid, State.FREE, (), note.removeprefix("; "))


def _in_words(reasons: dict[str, str]) -> str:
    """Nodes, each with its reason.

    >>> _in_words({"node1": "swapping", "node2": ""})
    'node1 (swapping), node2'
    """
    return ", ".join(f"{node} ({why})" if why else node for node, why in reasons.items())
