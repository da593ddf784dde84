#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Knobs change the running scheduler, without loading it again."""

from __future__ import annotations

import time

from ctl.kernel import layout
from tests.kselftest import ktap
from tests.kselftest.node import ENDLESS, Recorder, insertions, job, loaded, spawned, state


def rules_switch_live() -> None:
    """The loaded scheduler can switch to every rule, and the records have the rule."""
    mix = ktap.program("mix")
    with (
        job("live") as cgroup,
        loaded() as scheduler,
        spawned(mix, ENDLESS, "2", str(cgroup / "cgroup.procs"), cpu=0),
    ):
        for rule, number in layout.RULES.items():
            scheduler.write_knobs(rule=number)
            with Recorder(scheduler) as recorder:
                time.sleep(0.5)
            seen = {decision["rule"] for decision in recorder.decisions}
            ktap.expect(seen, {rule}, "rules seen in the records")
            ktap.expect(state(), "enabled", "sched_ext state after the switch")


def knob_sets_change_as_one() -> None:
    """No decision sees half of a change of several knobs."""
    mix = ktap.program("mix")
    with job("live") as cgroup, loaded(mno=2) as scheduler:
        with spawned(mix, ENDLESS, "2", str(cgroup / "cgroup.procs"), cpu=0), Recorder(scheduler) as recorder:
            for turn in range(40):
                scheduler.write_knobs(mnol=turn % 7 + 1, mnod=turn % 7 + 1)
                time.sleep(0.05)
        torn = [(d["mnol"], d["mnod"]) for d in recorder.decisions if d["mnol"] != d["mnod"]]
        assert recorder.decisions, "no decision was recorded"
        ktap.expect(torn, [], "decisions with half of a change")


def quantum_is_live() -> None:
    """A shorter quantum gives more turns at once."""
    hog = ktap.program("hog")
    turns = []
    with loaded() as scheduler, spawned(hog, "3", cpu=0):
        for quantum_ms in (50, 5):
            scheduler.write_knobs(quantum_ns=quantum_ms * 1_000_000)
            turns.append(insertions(scheduler, 1.5))
    ktap.note(f"insertions in 1.5 s: {turns[0]} with 50 ms, {turns[1]} with 5 ms")
    ktap.measured(turns[1] > 2 * turns[0], f"5 ms quanta gave {turns[1]} insertions, 50 ms ones {turns[0]}")


if __name__ == "__main__":
    ktap.run(rules_switch_live, knob_sets_change_as_one, quantum_is_live)
