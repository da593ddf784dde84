#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Each insert rule orders the running kernel's ready queue as the plain reference does."""

from __future__ import annotations

from ctl.kernel import layout
from ctl.kernel.cgroups import cgroup_id
from ctl.kernel.scheduler import Scheduler
from tests.kselftest import ktap
from tests.kselftest.node import ENDLESS, Recorder, job, loaded, mismatches, spawned

_SECONDS = 60.0  # per rule, at most; an idle host needs one
_STARVE_MS = 10  # rule prio gives the recording process a turn that often
_MOST = int(ktap.at_length(100, 15))  # decisions that are replayed, a second's work; `just replay` replays all


def _recorded(scheduler: Scheduler, rule: str) -> Recorder:
    """At least as many decisions as are replayed."""
    with Recorder(scheduler) as recorder:
        ktap.until(lambda: recorder.count >= _MOST, f"{rule}: {_MOST} decisions", _SECONDS)
    return recorder


def _ordered(overload: str) -> None:
    """Every rule in turn under stress; the reference replays each recorded decision."""
    mix = ktap.program("mix")
    recorders: dict[str, Recorder] = {}
    with (
        job("first") as cgroup,
        job("second") as other,
        loaded(observe=("sockets", "faults"), overload=overload, top_ms=5, starve_ms=_STARVE_MS) as scheduler,
        spawned(mix, ENDLESS, "2", str(cgroup / "cgroup.procs")),
        spawned(mix, ENDLESS, "1", str(other / "cgroup.procs")),
        spawned(mix, ENDLESS, "1"),
    ):
        scheduler.place_jobs([cgroup_id(cgroup), cgroup_id(other)])
        for rule, number in layout.RULES.items():
            scheduler.write_knobs(rule=number)
            recorders[rule] = _recorded(scheduler, rule)
    for rule, recorder in recorders.items():
        decisions = [one for one in recorder.first(_MOST) if one["rule"] == rule]
        wrong = mismatches(decisions)
        ktap.note(f"{rule}: {len(decisions)} decisions, {recorder.lost} lost, {len(wrong)} differ")
        assert not wrong, f"{rule}: {len(wrong)} decisions differ from the reference, the first: {wrong[0]}"


def ordered_while_memory_fits() -> None:
    """Each rule orders as the reference while memory fits."""
    _ordered("off")


def ordered_when_overloaded() -> None:
    """Each rule orders as the reference while memory is overloaded."""
    _ordered("on")


if __name__ == "__main__":
    ktap.run(ordered_while_memory_fits, ordered_when_overloaded)
