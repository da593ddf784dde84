# SPDX-License-Identifier: GPL-2.0-or-later
"""Policy `fit` on several nodes, whatever fails and in whatever order: world.py has the properties.

COSCHED_RUNS sets ten times the number of runs; `just test-all` has ten thousand, which take a CPU 50 minutes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import pytest

from ctl.jobs import queue
from ctl.jobs.queue import Queue
from ctl.node.on_hold import JobsOnHold
from ctl.node.pools import Pools
from ctl.node.social import SocialContract
from tests.unit.together.node import Kernel
from tests.unit.together.world import failing

RUNS = int(os.environ.get("COSCHED_RUNS", "600")) // 10
LONG = 10_000


def check(outcomes: Iterable[str | None]) -> None:
    """No run has found a fault."""
    found = next(filter(None, outcomes), None)
    assert found is None, found


def cases_of(runs: int) -> list[tuple[int, bool]]:
    """So many seeds, and whether anything fails in their runs: in nine of ten.

    COSCHED_SEED, COSCHED_SEED=7q: this one alone, q: without failures.
    """
    alone = os.environ.get("COSCHED_SEED", "")
    if alone:
        return [(int(alone.rstrip("q")), not alone.endswith("q"))]
    return [(seed, seed % 10 > 0) for seed in range(runs)]


def test_whatever_fails() -> None:
    check(failing(*case) for case in cases_of(RUNS))


@pytest.mark.long
def test_ten_thousand_times() -> None:
    with ProcessPoolExecutor() as processes:  # one for each CPU: runs have nothing in common but the code
        try:
            check(processes.map(failing, *zip(*cases_of(LONG), strict=True), chunksize=20))
        finally:
            processes.shutdown(cancel_futures=True)


_in_order = Queue._put_in_order


def _own_jobs_first(self: Queue, at: float) -> None:
    _in_order(self, at)
    self._order.sort(key=lambda job: not (job.jid in self._own and self._own[job.jid].runs))


BROKEN: dict[str, tuple[object, str, Callable[..., Any], str]] = {
    "each node runs its own jobs first": (Queue, "_put_in_order", _own_jobs_first, ""),
    "no job goes behind at the end of a turn": (queue, "had_their_turn", lambda *_: [], "waits since"),
    "news of others wait for the next look": (SocialContract, "_fit_again", lambda _: None, "a part of its nodes"),
    "an ending agent thaws nothing": (Pools, "release", lambda self, jids: self.unlimit(jids), "left on"),
    "a job that goes on stays frozen": (Pools, "go_on", lambda self, jid, **_: self._stopped.discard(jid), ""),
    "an ending agent lifts no limit": (Pools, "unlimit", lambda _self, _jids: None, "left on"),
    "a supervisor undoes nothing": (Kernel, "repair", lambda _: [], "left on"),
    "an agent that goes on believes its jobs stopped": (Pools, "hold_still", lambda _: None, "do not fit"),
    "a hold is not told to the other nodes": (JobsOnHold, "facts", lambda _, known: known, "on hold since"),
    "a job keeps its turn though its owner stopped it": (Queue, "suspend", lambda *_: None, "its owner has stopped"),
    "a job on hold has its turn": (Queue, "on_hold", lambda _self, _reasons: None, ""),
}


@pytest.mark.parametrize("what", BROKEN)
def test_broken_code_is_found(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    where, name, instead, words = BROKEN[what]
    monkeypatch.setattr(where, name, instead)
    found = next(filter(None, (failing(number // 2, number % 2 > 0) for number in range(40))), "")
    assert found and words in found.splitlines()[-1], found
