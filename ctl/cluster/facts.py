# SPDX-License-Identifier: GPL-2.0-or-later
"""What the nodes tell each other of their memory and their jobs: one record of each node in the store.

Nodes of policy `fit` tell all of it, others the jobs that are on hold, and only while there are some.

A node writes its record when its facts change, and three times in a lease. So a node that is lost is forgotten after a
lease, and what it wanted with it. The revision that the store gives to the first record in which a job stands is the
job's number in the order of arrival: the store counts all records of all nodes.

Records are checked like all input from outside: a wrong record is dropped, and changes nothing.
"""

from __future__ import annotations

from typing import Any, Final

from ctl.cluster.directory import check_user, envelope
from ctl.cluster.events import LEASE
from ctl.cluster.wire import MAX_RECORD, Drop, check_integer, check_number, encode
from ctl.contract import JobFacts, Load, NodeFacts, OnHold
from ctl.errors import brief

__all__ = ["Facts", "arrivals", "decode", "encode_facts"]

_MOST_JOBS: Final = 96  # of one node: so many fit into MAX_RECORD, whatever their names
_MOST_ON_HOLD: Final = 32  # of one node
_MOST_PASSED: Final = 1 << 20
_LONGEST_TURN: Final = 1e9  # seconds
_LONGEST_JID: Final = 64  # characters
_FLAGS: Final = ("here", "runs", "now", "suspended")
_LOAD: Final = tuple(Load.__dataclass_fields__)
_JOB: Final = tuple(JobFacts.__dataclass_fields__)  # the fields of a job, in the order of the record
_ON_HOLD: Final = tuple(OnHold.__dataclass_fields__)


def encode_facts(facts: NodeFacts, node: str, incarnation: int, time: float) -> bytes:
    """The record as it is stored at this Unix time; of more than _MOST_JOBS jobs the first, and of more than
    _MOST_ON_HOLD that were put on hold or released the newest."""
    jobs = [[getattr(job, name) for name in _JOB] for job in facts.jobs[:_MOST_JOBS]]
    load = [getattr(facts.load, name) for name in _LOAD]
    numbers = {"room": facts.room, "turn_s": facts.turn_s, "load": load, "fits": facts.fits, "time": round(time, 3)}
    newest = sorted(facts.on_hold, key=lambda word: -word.at)[:_MOST_ON_HOLD]
    on_hold = [[getattr(word, name) for name in _ON_HOLD] for word in newest]
    return encode({"node": node, "incarnation": incarnation, "jobs": jobs, "on_hold": on_hold, **numbers})


def decode(data: bytes, node: str, now: float) -> tuple[tuple[int, float], NodeFacts]:
    """The record under a node's key: its age (incarnation, Unix time), and the facts. Raises Drop."""
    names = {"room", "turn_s", "jobs", "load", "on_hold", "fits"}
    fields = envelope(data, node, now, names, age=LEASE, most=MAX_RECORD)
    facts = tuple(_job(job) for job in _list(fields, "jobs", _MOST_JOBS))
    on_hold = tuple(_on_hold(word) for word in _list(fields, "on_hold", _MOST_ON_HOLD))
    if any(len({one.jid for one in several}) < len(several) for several in (facts, on_hold)):
        raise Drop("malformed", "a job stands twice in a record")
    if not isinstance(fields["fits"], bool):
        raise Drop("malformed", f"fits is {brief(fields['fits'])}, neither true nor false")
    turn_s = check_number(fields, "turn_s", 0, _LONGEST_TURN)
    known = NodeFacts(check_integer(fields, "room"), turn_s, facts, _load(fields["load"]), on_hold, fields["fits"])
    return (fields["incarnation"], fields["time"]), known


def _list(fields: dict[str, Any], name: str, most: int) -> list[object]:
    """A list among the fields. Raises Drop."""
    found = fields[name]
    if not isinstance(found, list) or len(found) > most:
        raise Drop("malformed", f"{name} is no list of at most {most}")
    return found


def _load(values: object) -> Load:
    """The load of a node. Raises Drop."""
    if not isinstance(values, list) or len(values) != len(_LOAD):
        raise Drop("malformed", f"{brief(values)} is no load of a node")
    fields = dict(zip(_LOAD, values, strict=True))
    return Load(check_integer(fields, "cpus"), *(check_number(fields, name, 0, 1e12) for name in _LOAD[1:]))


def _job(values: object) -> JobFacts:
    """One job of a record. Raises Drop."""
    fields = _of_a_job(values, _JOB)
    if not all(isinstance(fields[flag], bool) for flag in _FLAGS):
        raise Drop("malformed", f"{', '.join(_FLAGS)} of job {brief(fields['jid'])} are not all true or false")
    fields["passed"] = min(check_integer(fields, "passed"), _MOST_PASSED)
    for name in ("need", "arrival"):
        check_integer(fields, name)
    for name in ("behind", "since"):
        fields[name] = check_number(fields, name, 0, 1e11)
    return JobFacts(**fields)


def _on_hold(values: object) -> OnHold:
    """What was said last of a job. Raises Drop."""
    fields = _of_a_job(values, _ON_HOLD)
    if not isinstance(fields["on"], bool):
        raise Drop("malformed", f"on hold of job {brief(fields['jid'])} is not true or false")
    return OnHold(fields["jid"], check_number(fields, "at", 0, 1e11), check_user(fields["by"]), fields["on"])


def _of_a_job(values: object, names: tuple[str, ...]) -> dict[str, Any]:
    """The fields of a list that a record has for a job. Raises Drop."""
    if not isinstance(values, list) or len(values) != len(names):
        raise Drop("malformed", f"{brief(values)} is no job of a record")
    fields: dict[str, Any] = dict(zip(names, values, strict=True))
    if not isinstance(fields["jid"], str) or not 0 < len(fields["jid"]) <= _LONGEST_JID:
        raise Drop("malformed", f"{brief(fields['jid'])} is no JID")
    return fields


def arrivals(facts: NodeFacts, revision: int) -> dict[str, int]:
    """The numbers of jobs that had none, if the store gave the record of these facts this revision.

    >>> arrivals(NodeFacts(60, 0.0, (JobFacts("a", 1, arrival=5), JobFacts("b", 1))), 3)
    {'b': 577}
    """
    numbered = enumerate(facts.jobs[:_MOST_JOBS])
    return {job.jid: revision * 2 * _MOST_JOBS + place for place, job in numbered if not job.arrival}


class Facts:
    """The newest facts of the other nodes."""

    def __init__(self) -> None:
        self.now: dict[str, NodeFacts] = {}  # by node; the dictionary changes as records come
        self._ages: dict[str, tuple[int, float]] = {}
        self._leases: dict[str, float] = {}  # when they end

    def put(self, node: str, data: bytes, now: float, wall: float) -> bool:
        """A record, or with no data its end; whether the facts have changed. `now`: seconds; `wall`: Unix time.

        Raises Drop.
        """
        if not data:
            return self._forget(node)
        age, facts = decode(data, node, wall)
        if age < self._ages.get(node, (0, 0.0)):  # read from the store while a newer one came
            return False
        changed = facts != self.now.get(node)
        self.now[node], self._ages[node], self._leases[node] = facts, age, now + LEASE
        return changed

    def expire(self, now: float) -> bool:
        """Forget nodes whose lease has ended; whether there was one."""
        return sum(self._forget(node) for node, end in list(self._leases.items()) if end <= now) > 0

    def due(self) -> float:
        """When the next lease ends; infinity if there is none."""
        return min(self._leases.values(), default=float("inf"))

    def _forget(self, node: str) -> bool:
        self._ages.pop(node, None)
        self._leases.pop(node, None)
        return self.now.pop(node, None) is not None
