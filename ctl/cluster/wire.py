# SPDX-License-Identifier: GPL-2.0-or-later
"""The messages on the network: subjects, JSON, and the checks before a message is read.

    cosched.job.JID.event.NODE      a node's event about a job
    cosched.job.JID.ask.NODE        a node that has been away asks the others to repeat their events
    $KV.cosched_holds.JID.NODE      a node holds a job: the key-value store keeps it
    $KV.cosched_nodes.NODE          a node's size
    $KV.cosched_jobs.NODE           what a node knows of its memory and its jobs (policy `fit`), and of jobs on hold
    cosched.certificate.KEEPER      a broker's keeper is asked for the broker's certificate, or given a new one

The broker lets a node publish only subjects that end in its own name (`ctl.cluster.identity`), so the subject names the
sender. A message with another sender in its text is forged. JIDs are escaped, because "." and ":" have a meaning in a
subject.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from typing import Any

from ctl.cluster.events import MAX_LEASE, Event, Kind
from ctl.contract import MAX_SKEW
from ctl.errors import brief
from ctl.protocol import MAX_INTEGER, parse

__all__ = [
    "BUCKETS",
    "HOLDS",
    "JOBS",
    "MAX_MESSAGE",
    "MAX_RECORD",
    "NODES",
    "Budget",
    "Drop",
    "Drops",
    "ask_subject",
    "bucket_of",
    "certificate_subject",
    "check_integer",
    "check_name",
    "check_number",
    "check_time",
    "decode_event",
    "decode_object",
    "encode",
    "encode_event",
    "event_subject",
    "facts_subject",
    "hold_subject",
    "jid_and_node",
    "job_subjects",
    "node_subject",
    "stream_subjects",
]

BUCKETS = HOLDS, NODES, JOBS = "cosched_holds", "cosched_nodes", "cosched_jobs"  # of the key-value store
MAX_MESSAGE = 1024  # bytes
MAX_RECORD = 24 * 1024  # bytes of the record of a node's jobs
_VERSION = 1
_MAX_WHY = 200  # characters
_RATE, _BURST = 500.0, 2000.0  # messages a second that a node may send to another, and how many at once
_MAX_LOGGED = 1000  # pairs of reason and sender that were logged once
_NAME = re.compile(r"[A-Za-z0-9_-]{1,63}", re.ASCII)
_PLAIN = re.compile(r"[A-Za-z0-9_-]", re.ASCII)
_ESCAPED = re.compile(r"(?:[A-Za-z0-9_-]|=[0-9A-F]{2}){1,192}", re.ASCII)
_FIELDS = {"v", "node", "incarnation", "seq", "jid", "kind", "local", "stop", "lease", "why", "time"}


class Drop(Exception):
    """A message that is not taken, and why: a word to count by, a sentence to log."""

    def __init__(self, reason: str, sentence: str) -> None:
        super().__init__(sentence)
        self.reason = reason


class Drops:
    """How many messages were dropped, by reason; each reason is logged once for each sender."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self.counts: Counter[str] = Counter()
        self._tell = tell
        self._told: set[tuple[str, str]] = set()

    def count(self, drop: Drop, sender: str) -> None:
        """Count a drop, and log the first of its kind."""
        self.counts[drop.reason] += 1
        if (drop.reason, sender) not in self._told and len(self._told) < _MAX_LOGGED:
            self._told.add((drop.reason, sender))
            who = sender if check_name(sender) else brief(sender)
            self._tell(f"dropped ({drop.reason}) from {who}: {drop}; further drops of this kind are only counted")


class Budget:
    """How much each sender may still say: a message more than it may is dropped before it is read."""

    def __init__(self) -> None:
        self._left: dict[str, tuple[float, float]] = {}

    def spend(self, sender: str, now: float) -> None:
        """Raise Drop if it says too much; `now` in seconds."""
        left, at = self._left.get(sender, (_BURST, now))
        left = min(_BURST, left + (now - at) * _RATE)
        if left < 1:
            self._left[sender] = (left, now)
            raise Drop("flood", f"more than {_RATE:g} messages a second")
        self._left[sender] = (left - 1, now)


# subjects


def check_name(name: str) -> bool:
    """Is this a node's name: a single word of a subject."""
    return _NAME.fullmatch(name) is not None


def _escape(jid: str) -> str:
    r"""A JID as one word of a subject.

    >>> _escape("sim.7:b")
    'sim=2E7=3Ab'
    """
    return "".join(char if _PLAIN.fullmatch(char) else f"={ord(char):02X}" for char in jid)


def _unescape(word: str) -> str:
    if not _ESCAPED.fullmatch(word):
        raise Drop("malformed", f"{word[:80]!r} is no JID")
    jid = re.sub(r"=([0-9A-F]{2})", lambda found: chr(int(found[1], 16)), word)
    if _escape(jid) != word:
        raise Drop("malformed", f"{word[:80]!r} is no JID as nodes write it")
    return jid


def event_subject(jid: str, node: str) -> str:
    """The subject of a node's events about a job."""
    return f"cosched.job.{_escape(jid)}.event.{node}"


def ask_subject(jid: str, node: str) -> str:
    """The subject of a node's questions about a job."""
    return f"cosched.job.{_escape(jid)}.ask.{node}"


def job_subjects(jid: str) -> tuple[str, str]:
    """The subjects that a holder of a job listens to: messages about the job, and records of its other holders."""
    return f"cosched.job.{_escape(jid)}.*.*", f"$KV.{HOLDS}.{_escape(jid)}.*"


def hold_subject(jid: str, node: str) -> str:
    """The key that says that a node holds a job."""
    return f"$KV.{HOLDS}.{_escape(jid)}.{node}"


def node_subject(node: str) -> str:
    """The key with a node's size; "*" for all nodes."""
    return f"$KV.{NODES}.{node}"


def facts_subject(node: str) -> str:
    """The key with what a node knows of its jobs; "*" for all nodes."""
    return f"$KV.{JOBS}.{node}"


def certificate_subject(keeper: str) -> str:
    """The subject on which the keeper of a broker is asked about the broker's certificate."""
    return f"cosched.certificate.{keeper}"


def bucket_of(subject: str) -> str:
    """The bucket of a key.

    >>> bucket_of(node_subject("node1"))
    'cosched_nodes'
    """
    return subject.split(".")[1]


def stream_subjects(bucket: str) -> str:
    """All keys of a bucket."""
    return f"$KV.{bucket}.>"


def jid_and_node(subject: str) -> tuple[str, str, str]:
    """JID, verb and node of a job's subject: the verb is event, ask or hold. Raises Drop."""
    words = subject.split(".")
    if words[:2] == ["cosched", "job"] and len(words) == 5 and words[3] in ("event", "ask"):
        _, _, word, verb, node = words
    elif words[:2] == ["$KV", HOLDS] and len(words) == 4:
        verb, (word, node) = "hold", words[2:]
    else:
        raise Drop("forged", f"subject {subject[:100]!r} is not of a job")
    if not check_name(node):
        raise Drop("malformed", f"{node[:80]!r} is no node's name")
    return _unescape(word), verb, node


# messages


def encode(fields: dict[str, Any]) -> bytes:
    """A message. The version is added."""
    return json.dumps({"v": _VERSION, **fields}, separators=(",", ":")).encode()


def encode_event(event: Event, time: float) -> bytes:
    """An event as it is sent at this Unix time; a long reason is cut, so that it fits into MAX_MESSAGE."""
    fields = {name: getattr(event, name) for name in Event.__dataclass_fields__}
    plain = event.why.encode("ascii", "replace").decode()[:_MAX_WHY]
    fields["why"] = "".join(char if char.isprintable() else "?" for char in plain)
    return encode({**fields, "time": round(time, 3)})


def decode_object(data: bytes, most: int = MAX_MESSAGE) -> dict[str, Any]:
    """The fields of any message of at most so many bytes. Raises Drop."""
    if len(data) > most:
        raise Drop("oversized", f"{len(data)} bytes, allowed are {most}")
    try:
        fields = parse(data)
    except (ValueError, RecursionError):
        raise Drop("malformed", f"{data[:40]!r} is not JSON") from None
    if not isinstance(fields, dict):
        raise Drop("malformed", f"a JSON {type(fields).__name__} is not an object")
    if fields.get("v") != _VERSION:
        theirs = brief(fields.get("v"))
        raise Drop("version", f"version {theirs}, this node speaks {_VERSION}: install the same ctl on all")
    return fields


def decode_event(data: bytes, jid: str, node: str, now: float) -> Event:
    """An event that came on the subject of this job and node, at this Unix time. Raises Drop."""
    fields = decode_object(data)
    if set(fields) != _FIELDS:
        raise Drop("malformed", f"fields {brief(sorted(fields))} are not those of an event")
    for name in ("node", "jid", "kind", "why"):
        if not isinstance(fields[name], str):
            raise Drop("malformed", f"{name} is a {type(fields[name]).__name__}, not a text")
    if (fields["node"], fields["jid"]) != (node, jid):
        raise Drop("forged", f"it speaks for node {brief(fields['node'])}, job {brief(fields['jid'])}")
    integers = check_integer(fields, "incarnation"), check_integer(fields, "seq")
    flags = fields["local"], fields["stop"]
    if not all(isinstance(flag, bool) for flag in flags):
        raise Drop("malformed", "local and stop are not both true or false")
    lease = check_number(fields, "lease", 0, MAX_LEASE)
    kind = fields["kind"]
    fits = {Kind.LOCAL_U: flags[0], Kind.NO_LOCAL: not flags[0], Kind.STOP: flags[1], Kind.RESUME: not flags[1]}
    if not fits.get(kind, False):
        raise Drop("malformed", f"kind {kind[:20]!r} does not go with local {flags[0]}, stop {flags[1]}")
    why = fields["why"]
    if len(why) > _MAX_WHY or not why.isprintable():
        raise Drop("malformed", f"a reason of {len(why)} characters, allowed are {_MAX_WHY} that can be printed")
    check_time(fields, now)
    return Event(node, *integers, jid, Kind(kind), *flags, lease, why)


def check_integer(fields: dict[str, Any], name: str) -> int:
    """A count among the fields. Raises Drop."""
    value = fields.get(name)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MAX_INTEGER:
        raise Drop("malformed", f"{name} is {brief(value)}, allowed is a whole number from 0 to {MAX_INTEGER}")
    return value


def check_number(fields: dict[str, Any], name: str, low: float, high: float) -> float:
    """A number among the fields. Raises Drop."""
    value = fields.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise Drop("malformed", f"{name} is {brief(value)}, allowed is {low:g} to {high:g}")
    return float(value)


def check_time(fields: dict[str, Any], now: float, age: float = 0.0) -> None:
    """Raise Drop if it was sent in the future, or longer than `age` seconds ago; clocks may be MAX_SKEW apart.

    The check limits replays to a node that has just started and remembers no event.
    """
    ahead = check_number(fields, "time", 0, 1e11) - now
    if not -age - MAX_SKEW <= ahead <= MAX_SKEW:
        side = "ahead of" if ahead > 0 else "behind"
        raise Drop(
            "clock",
            f"its clock is {abs(ahead):.0f} s {side} this node's, allowed are {MAX_SKEW:g} s: it is not listened to "
            "until they agree (does one of the two lack a time service?)",
        )
