#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""By walks no task is overtaken more than MNO times per stay, and a local task always gets its turn."""

from __future__ import annotations

import time

from ctl.kernel import layout
from tests.kselftest import ktap
from tests.kselftest.node import ENDLESS, Recorder, job, loaded, spawned

_QUANTUM_MS = 5
_TICK_MS = 4  # CONFIG_HZ=250: a quantum ends with the first tick after it
_PAIRS = 25
_OBSERVED = {"csm-bounded": ("sockets",), "ccs": ("sockets", "faults"), "sdca": ("sockets",)}  # by what it orders
_TOP_MS = 300
_UNREAD = "import socket; a, b = socket.socketpair(); a.send(b'.'); print(flush=True)\nwhile True: pass"


def _largest_de(mnol: int, mnod: int, rule: str) -> tuple[int, int, int]:
    """Largest de of local and of parallel tasks under stress, and the number of overtakes."""
    mix = ktap.program("mix")
    with (
        job("bound") as cgroup,
        loaded(rule, observe=_OBSERVED[rule], mnol=mnol, mnod=mnod, overload="on") as scheduler,
        spawned(mix, ENDLESS, "4", str(cgroup / "cgroup.procs"), cpu=0),
        spawned(mix, ENDLESS, "1", cpu=0),
    ):
        with Recorder(scheduler) as recorder:
            time.sleep(ktap.at_length(2, 0.5))
        overtakes = scheduler.stats()["overtakes"]
    tasks = [task for decision in recorder.decisions for task in decision["queue"]]
    local = max((task["de"] for task in tasks if not task["parallel"]), default=0)
    parallel = max((task["de"] for task in tasks if task["parallel"]), default=0)
    return local, parallel, overtakes


def de_stays_below_mno() -> None:
    """de is never above MNOL for local and MNOD for parallel tasks."""
    bounds = (1, 3, "csm-bounded"), (2, 1, "ccs"), (2, 2, "sdca")
    for mnol, mnod, rule in ktap.cases(bounds):
        local, parallel, overtakes = _largest_de(mnol, mnod, rule)
        ktap.note(f"{rule} mnol {mnol} mnod {mnod}: de local {local}, parallel {parallel}; {overtakes} overtakes")
        ktap.measured(overtakes > 0, f"{rule}: no task was overtaken, so the test shows nothing")
        assert local <= mnol, f"{rule}: a local task has de {local}, MNOL is {mnol}"
        assert parallel <= mnod, f"{rule}: a parallel task has de {parallel}, MNOD is {mnod}"


def local_task_runs_among_fifty() -> None:
    """A local task among 50 message-driven tasks waits no longer than MNO allows."""
    mix, turns = ktap.program("mix"), ktap.program("turns")
    ahead = 2 * _PAIRS + 3 + 2  # all tasks that may be before it, and MNOL overtakes, a quantum each
    bound = ahead * (_QUANTUM_MS + _TICK_MS)
    with (
        job("many") as cgroup,
        loaded(observe=("sockets",), quantum_ms=_QUANTUM_MS, credit="off") as scheduler,
        spawned(mix, ENDLESS, str(_PAIRS), str(cgroup / "cgroup.procs"), cpu=0),
    ):
        for rule in ktap.cases(("csm-bounded", "ccs", "pred", "sdca")):
            scheduler.write_knobs(rule=layout.RULES[rule])
            time.sleep(0.5)
            with spawned(turns, "4", cpu=0) as local:
                longest, count, waited = map(int, local.communicate(timeout=ktap.TIME_OUT_S)[0].split())
            ktap.note(f"{rule}: waited {waited} ms in the median, {longest} at most, {count} times; bound {bound} ms")
            # the host may take the emulated CPU away for as long again, at times for longer; starvation has no end
            right = count > 3 and waited <= 2 * bound and longest < 6 * bound
            ktap.measured(right, f"{rule}: waited {waited} ms, at most {longest} ms; MNO allows {bound} ms")


def top_keeps_the_cpu() -> None:
    """A task that a message leads to the top keeps the CPU beyond its quantum (CSM Alg. 1 l.5), up to top_ms."""
    turns = ktap.program("turns")
    with (
        job("top") as cgroup,
        loaded("dyn", observe=("sockets",), quantum_ms=_QUANTUM_MS, top_ms=_TOP_MS, credit="off") as scheduler,
        spawned("python3", "-c", _UNREAD, cgroup=cgroup, cpu=0) as process,
    ):
        assert process.stdout and process.stdout.readline()
        for rule, overload in ktap.cases((("dyn", "off"), ("csm", "on"))):
            scheduler.write_knobs(rule=layout.RULES[rule], overload=layout.OVERLOAD[overload])
            with spawned(turns, "4", cpu=0) as local:
                longest, count, waited = map(int, local.communicate(timeout=ktap.TIME_OUT_S)[0].split())
            ktap.note(f"{rule}: of {count} times the local task waited {waited} ms in the median, {longest} ms at most")
            ktap.measured(count > 3, f"{rule}: the local task ran only {count} times in 4 s")
            # the median: the host may take the emulated CPU away for as long again, but not every time
            right = _TOP_MS / 2 < waited < 2 * _TOP_MS
            ktap.measured(right, f"{rule}: the local task waited {waited} ms in the median, top_ms is {_TOP_MS}")


if __name__ == "__main__":
    ktap.run(de_stays_below_mno, local_task_runs_among_fifty, top_keeps_the_cpu)
