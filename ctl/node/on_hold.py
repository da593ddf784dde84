# SPDX-License-Identifier: GPL-2.0-or-later
"""Jobs that their owners, or root, have put on hold (`ctl hold`), until they are released (`ctl release`).

A hold is not a stop: no rule of memory, of turns or of other nodes makes it or takes it back. The nodes of a job tell
each other what was said last (`ctl.contract.OnHold`). Each keeps a copy for the jobs that are here, so that the hold
lives on when the node where it was said is lost, and any of the job's nodes can release it. The later word counts; who
speaks gives it a later time than all that was heard, so it does not matter whose clock is ahead.

The agent keeps all this in memory alone: nothing stays stopped when it ends. A new agent hears from the job's other
nodes; a job of one node goes on.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from ctl.contract import MAX_SKEW, NodeFacts, OnHold
from ctl.node.authority import user_name

__all__ = ["JobsOnHold"]

_LATER: Final = 0.001  # seconds: the times are told in milliseconds
_REMEMBERED: Final = 10.0  # seconds that a release is told after the job has ended here: the other nodes hear of it


class JobsOnHold:
    """What was said of jobs, here and on the other nodes. For the event loop's thread."""

    def __init__(self, tell: Callable[..., None]) -> None:
        """`tell`: (kind, text, **details), an event."""
        self._tell = tell
        self._own: dict[str, OnHold] = {}  # of jobs that are here, or wait here to begin
        self._heard: dict[str, OnHold] = {}  # from the other nodes

    def __bool__(self) -> bool:
        """Whether anything was said."""
        return bool(self._own or self._heard)

    def say(self, jid: str, by: str, on: bool) -> None:
        """A user puts a job on hold, or releases it."""
        last = self._last(jid)
        at = time.time() if last is None else max(time.time(), last.at + _LATER)
        self._set(OnHold(jid, round(at, 3), by, on))

    def hear(self, others: Mapping[str, NodeFacts]) -> None:
        """All that the other nodes know, by node; keep() then."""
        self._heard = {}
        latest = time.time() + MAX_SKEW  # a time beyond is of a clock that is wrong
        for word in (word for facts in others.values() for word in facts.on_hold if word.at <= latest):
            self._heard[word.jid] = _later(self._heard.get(word.jid), word)

    def keep(self, owner: Callable[[str], str | None]) -> None:
        """Copy what was said of the jobs that are here, and forget the others. `owner`: the user whose job this is;
        None: it is not here, and does not wait here."""
        for jid, heard in list(self._heard.items()):
            user = owner(jid)
            if user is not None and heard.by not in (user, user_name(0)):  # of another job of this name
                del self._heard[jid]
            elif user is not None and _later(self._own.get(jid), heard) is heard:
                self._set(heard)
        now = time.time()
        for jid, word in list(self._own.items()):
            if owner(jid) is None and (word.on or word.at < now - _REMEMBERED):
                del self._own[jid]
            elif word.at > now + MAX_SKEW:  # the clock was ahead, and has been set back
                self._own[jid] = OnHold(jid, round(now, 3), word.by, word.on)

    def get(self, jid: str) -> OnHold | None:
        """Who put the job on hold, and when; None: it is not on hold."""
        last = self._last(jid)
        return last if last is not None and last.on else None

    def why(self, jid: str) -> str:
        """Why the job is on hold, in words, with the way out; the empty string if it is not."""
        word = self.get(jid)
        return _words(word) if word is not None else ""

    def reasons(self) -> dict[str, str]:
        """All jobs on hold, of all nodes, each with the reason."""
        return {jid: why for jid in sorted({*self._own, *self._heard}) if (why := self.why(jid))}

    def facts(self, known: NodeFacts | None) -> NodeFacts | None:
        """What the other nodes should know, beside what policy `fit` tells them; None: nothing."""
        words = tuple(self._own[jid] for jid in sorted(self._own))
        if known is not None:
            return replace(known, on_hold=words)
        return NodeFacts(0, 0.0, (), on_hold=words, fits=False) if words else None

    def _last(self, jid: str) -> OnHold | None:
        own, heard = self._own.get(jid), self._heard.get(jid)
        return own if heard is None else _later(own, heard)

    def _set(self, word: OnHold) -> None:
        before, self._own[word.jid] = self._own.get(word.jid), word
        if word.on == (before is not None and before.on):
            return
        details = {"jid": word.jid, "action": "hold" if word.on else "release", "user": word.by, "at": word.at}
        text = f"is {_words(word)}" if word.on else f"was released by {word.by}"
        self._tell("hold", f"job {word.jid} {text}", **details)


def _later(one: OnHold | None, other: OnHold) -> OnHold:
    """The word that counts; the first of two that are alike."""
    return other if one is None or (other.at, other.on, other.by) > (one.at, one.on, one.by) else one


def _words(word: OnHold) -> str:
    since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(word.at))
    return f"on hold by {word.by} since {since}; `ctl release {word.jid}` lets it go on"
