#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""The order survives when keys run out: gaps are counted, the queue renumbered, nothing changes places."""

from __future__ import annotations

import time

from tests.kselftest import ktap
from tests.kselftest.node import Recorder, job, loaded, mismatches, spawned


def order_survives_renumbering() -> None:
    """Decisions stay exact with keys so close that gaps run out."""
    mix = ktap.program("mix")
    with (
        job("keys") as cgroup,
        loaded("pred", sensors="on", key_shift=1, mno=8) as scheduler,
        spawned(mix, "3600", "5", str(cgroup / "cgroup.procs"), cpu=0),
        spawned(mix, "3600", "1", cpu=0),
    ):
        with Recorder(scheduler) as recorder:
            time.sleep(3)
        stats = scheduler.stats()
    ktap.note(f"{stats['gaps']} gaps, {stats['renumbers']} renumberings, {len(recorder.decisions)} decisions")
    ktap.measured(stats["gaps"] > 0, "no gap ran out, the test shows nothing")
    ktap.measured(stats["renumbers"] > 0, "no queue was renumbered")
    wrong = mismatches(recorder.decisions)
    assert not wrong, f"{len(wrong)} decisions differ from the reference, the first: {wrong[0]}"


if __name__ == "__main__":
    ktap.run(order_survives_renumbering)
