#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Records decisions of the running scheduler under stress, one file per rule, for the replay through tests/reference.

    decisions.py OUT [SECONDS_PER_RULE [CONTRACT...]]

OUT gets RULE-CONTRACT-CPUS.bin (format: ctl/kernel/trace.py), under both contracts or those that are named. The load
meanwhile has all events of a ready queue: messages for waiting and for queued tasks, major faults, forks, sleepers with
credit, overload switched on and off, other MNO, CPUs that go and come. Under contract=class the local part of the load
is not in the queue: it takes the CPU from the jobs in the middle of their quanta.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

from ctl import policy
from ctl.kernel import ext_server, knobs, layout, trace
from ctl.kernel.cgroups import JobCgroups, cgroup_id
from ctl.kernel.scheduler import Scheduler
from ctl.kernel.sensors import Sensors
from tests.kselftest import ktap

_IN_EPOCHS = ("ccs", "fifo")  # rules of policies with Set_Quantum
_OBJECT = Path(os.environ.get("COSCHED_BPF_DIR", "/usr/lib/cosched")) / "cosched.bpf.o"
_QUEUE_ONLY = "prio"  # the rule that orders jobs and local tasks in one queue: refused under contract=class
_AS_SCHED_EXT = ("chrt", "--ext", "0")
_LONGEST_US = "500"  # the longest computation of a rank between messages: most time goes to decisions
_SHARE, _PERIOD_MS = 0.5, 40  # of jobs under contract=class
_SEED_KNOBS = ({"mnol": 2, "mnod": 2}, {"mnol": 1, "mnod": 3}, {"mnol": 4, "mnod": 2, "walk_max": 2})


def _drain(scheduler: Scheduler, path: Path, stop: threading.Event, counts: dict[str, int]) -> None:
    """Write the records to a file as they come."""
    with path.open("wb") as file, scheduler.decisions() as decisions:
        while True:
            last = stop.is_set()
            for record in decisions.read():
                file.write(trace.pack(record))
                counts["records"] += 1
            counts["lost"] = decisions.lost
            if last:
                return
            time.sleep(0.05)


def _cpu1(online: bool) -> None:
    switch = Path("/sys/devices/system/cpu/cpu1/online")
    if switch.exists():
        switch.write_text("1" if online else "0")


def _disturb(scheduler: Scheduler, cgids: list[int], seconds: float) -> None:
    """Change the inputs of decisions while they are recorded; `cgids`: of the jobs."""
    end, turn = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        scheduler.write_knobs(
            overload=turn % 2 + 1, waker_stays=turn // 2 % 2, **_SEED_KNOBS[turn % len(_SEED_KNOBS)]
        )
        scheduler.place_jobs(cgids[:: (-1) ** turn])
        if turn % 4 == 1:
            _cpu1(online=False)
        elif turn % 4 == 3:
            _cpu1(online=True)
        time.sleep(0.3)
        turn += 1
    _cpu1(online=True)


def record(
    scheduler: Scheduler, groups: JobCgroups, rule: str, contract: str, out: Path, seconds: float
) -> dict[str, int]:
    """Record one rule under stress; returns the numbers of written and lost records."""
    jobs = {jid: groups.create(jid) for jid in ("mix0", "mix1")}
    mix = ktap.program("mix")
    epochs = int(rule in _IN_EPOCHS)
    scheduler.write_knobs(rule=layout.RULES[rule], trace=1, epochs=epochs, set_quantum=epochs, local_user=epochs)
    stop, counts = threading.Event(), {"records": 0, "lost": 0}
    path = out / f"{rule}-{contract}-{os.cpu_count()}.bin"
    reader = threading.Thread(target=_drain, args=(scheduler, path, stop, counts))
    reader.start()
    running = [subprocess.Popen([mix, str(seconds), "1"])]
    ranks = [*(_AS_SCHED_EXT if contract == "class" else ()), mix]  # before they join: a job's task keeps its class
    for cgroup in jobs.values():
        running.append(subprocess.Popen([*ranks, str(seconds), "2", str(cgroup / "cgroup.procs"), _LONGEST_US]))
    _disturb(scheduler, [cgroup_id(cgroup) for cgroup in jobs.values()], seconds)
    for process in running:
        ktap.expect(process.wait(timeout=ktap.TIME_OUT_S), 0, "exit status of the stress program")
    scheduler.write_knobs(trace=0)
    stop.set()
    reader.join()
    for job in jobs:
        groups.remove(job)
    return counts


def _record_all(groups: JobCgroups, contract: str, out: Path, seconds: float) -> None:
    """Record every rule that has a meaning under the contract; exits with 1 if the kernel ends the scheduler."""
    # rule prio gives the recording process a turn every 10 ms
    fields = knobs.encode({**policy.defaults(), "starve_ms": 10}, "csm")
    by_class = contract == "class"
    with Scheduler.load(
        _OBJECT, fields, jobs_cgid=groups.cgid, jobs_level=groups.level, watchdog_ms=30000, partial=by_class
    ) as scheduler:
        sensors = Sensors(every_kind=True)
        sensors.start({"faults", "sockets"})
        for rule in layout.RULES:
            if by_class and rule == _QUEUE_ONLY:
                continue
            counts = record(scheduler, groups, rule, contract, out, seconds)
            print(f"{contract}, {rule}: {counts['records']} decisions, {counts['lost']} lost", flush=True)
            if not scheduler.running():
                print(scheduler.exit_record())
                sys.exit(1)
        sensors.stop()
        print({name: count for name, count in scheduler.stats().items() if count})


def main() -> None:
    out = Path(sys.argv[1])
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 4.0
    contracts = sys.argv[3:] or ["queue", "class"]
    out.mkdir(parents=True, exist_ok=True)
    groups = JobCgroups()
    groups.prepare()
    if "queue" in contracts:
        _record_all(groups, "queue", out, seconds)
    if "class" not in contracts:
        return
    ext_server.reserve(_SHARE, _PERIOD_MS)
    try:
        _record_all(groups, "class", out, seconds)
    finally:
        ext_server.restore()


if __name__ == "__main__":
    main()
