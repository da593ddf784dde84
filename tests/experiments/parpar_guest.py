# SPDX-License-Identifier: GPL-2.0-or-later
"""The experiment `parpar` in its guest: `python3 -m tests.experiments.parpar_guest SEED CASES`, CASES a JSON list.

Prints a line of JSON for each case of parpar_plan.py. Jobs are real processes, tests/progs/fractal_walk.c, in a cgroup
with a limit of memory, so the kernel pages to a slow device. Admission is the product's rule, ctl/jobs/fit.py, and a
job's need is its executable's static size. Policy `fit` itself could not stand here: it holds the jobs to the memory
that there is, and eq. 1 with C > 1 gives more away than that.

The jobs that were admitted are rows of a gang matrix on one node. Each runs alone in its slot: it is continued and
stopped by signals, as ParPar's daemons, which are ordinary processes, do it. A process begins in its first slot.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ctl.jobs.fit import Demand, fit
from ctl.kernel.cgroups import JobCgroups
from ctl.kernel.elf import static_size
from ctl.kernel.kernfs import keyed
from tests.experiments.disk import Disk
from tests.experiments.parpar_plan import ACCESSES, FAULT_MS, FREE_MB, NO_LIMIT, NODE_MB, SLOT_MS, Case, arrays

__all__ = ["Gangs", "Job", "main"]

_SOURCE: Final = Path(__file__).resolve().parents[1] / "progs/fractal_walk.c"
_WORK: Final = Path("/run/parpar")
_MB: Final = 1 << 20
_SWAP_MB: Final = 640
_NODE: Final = "node"
_UNLIMITED: Final = 1 << 50  # bytes
_SEEDS: Final = 1000  # of the jobs' walks, for each seed of a run


@dataclass(slots=True)
class Job:
    """A job: its process, once it has begun."""

    number: int
    command: list[str]
    need: int  # bytes
    runs: bool = False
    passed: int = 0
    pid: int = 0
    end: int = -1  # a descriptor, readable when the process has ended
    ended_s: float = 0.0
    used: resource.struct_rusage | None = None
    beside: int = 0  # the most others that ran beside it

    def go(self) -> None:
        """Begin its process, or let it go on."""
        if self.pid:
            os.kill(self.pid, signal.SIGCONT)
        else:
            self.pid = os.posix_spawn(self.command[0], self.command, {})
            self.end = os.pidfd_open(self.pid)

    def stop(self) -> None:
        """Stop its process."""
        os.kill(self.pid, signal.SIGSTOP)

    def has_ended(self, within_s: float) -> bool:
        """Wait for the end of its process for so long; whether it has ended."""
        return bool(select.select([self.end], [], [], within_s)[0])

    def bury(self) -> None:
        """Take the status of its process. Raises SystemExit if that is not 0."""
        _, status, self.used = os.wait4(self.pid, 0)
        os.close(self.end)
        if status != 0:
            raise SystemExit(f"{' '.join(self.command)} ended with wait status {status}")


class Gangs:
    """The jobs of a case: who waits, and whose slot it is."""

    def __init__(self, jobs: Sequence[Job], room: int) -> None:
        """`room`: bytes, the right side of eq. 1 while nothing runs."""
        self._left, self._room = list(jobs), room
        self.most = self.slots = 0

    def run(self) -> float:
        """Run all to their ends; how long that took, s."""
        began = time.monotonic()
        while self._left:
            self._admit()
            for job in [job for job in self._left if job.runs]:  # a round of the matrix; some of it end
                if self._slot(job):
                    job.ended_s = time.monotonic() - began
                    self._left.remove(job)
                    self._admit()
        return time.monotonic() - began

    def _slot(self, job: Job) -> bool:
        """A job runs alone for a slot; whether it ended."""
        self.slots += 1
        job.go()
        if job.has_ended(SLOT_MS / 1000):
            job.bury()
            return True
        job.stop()
        return False

    def _admit(self) -> None:
        """Apply the rule, and count who was passed (ParPar §3.2). What runs comes first: ParPar stops nobody for a job
        that has waited longer, as policy `fit` does."""
        order = sorted(self._left, key=lambda job: not job.runs)
        demands = [Demand(str(job.number), {_NODE: job.need}, job.runs, job.passed) for job in order]
        running = set(fit(demands, {_NODE: self._room})[0])
        started = 0  # behind the job that is looked at
        for job in reversed(self._left):
            begins = str(job.number) in running and not job.runs
            job.passed = 0 if begins or job.runs else job.passed + started
            job.runs |= begins
            started += begins
        now = [job for job in self._left if job.runs]
        self.most = max(self.most, len(now))
        for job in now:
            job.beside = max(job.beside, len(now) - 1)


class Node:
    """The jobs' cgroup, a slow swap device, and the programs."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        Path("/proc/sys/vm/page-cluster").write_text("0")  # one fault, one page
        Disk(1, FAULT_MS, _SWAP_MB)
        _WORK.mkdir(exist_ok=True)
        self._cgroups = JobCgroups()
        self._cgroups.prepare()

    def measure(self, case: Case) -> dict[str, Any]:
        """Run a case; its figures: times in s, sizes in MB."""
        with self._pool() as pool:
            jobs = [self._job(number, size, case, pool) for number, size in enumerate(arrays(case))]
            gangs = Gangs(jobs, round(case.c * NODE_MB * _MB) if case.c != NO_LIMIT else _UNLIMITED)
            took = gangs.run()
            events = keyed(pool / "memory.events")
        used = [job.used for job in jobs if job.used is not None]
        return {
            "seconds": round(took, 4),
            "ends_s": [round(job.ended_s, 4) for job in jobs],
            "cpu_s": round(sum(one.ru_utime + one.ru_stime for one in used), 4),
            "faults": sum(one.ru_majflt for one in used),
            "most": gangs.most,
            "slots": gangs.slots,
            "beside": [job.beside for job in jobs],
            "need_mb": round(max(job.need for job in jobs) / _MB, 3),
            "killed": events["oom_kill"],
        }

    @contextlib.contextmanager
    def _pool(self) -> Iterator[Path]:
        """The cgroup of all jobs, which has what is free of the node's memory."""
        pool = self._cgroups.create("parpar")
        (pool / "memory.max").write_text(str(FREE_MB * _MB))
        try:
            yield pool
        finally:
            self._cgroups.kill("parpar")
            while not self._cgroups.remove("parpar"):
                time.sleep(0.01)

    def _job(self, number: int, mb: int, case: Case, pool: Path) -> Job:
        program = self._program(mb)
        seed = self._seed * _SEEDS + number
        command = [program, str(pool / "cgroup.procs"), str(case.theta), str(ACCESSES), str(seed)]
        need = static_size(program)
        assert need is not None
        return Job(number, command, need)

    def _program(self, mb: int) -> str:
        """The program with an array of so many MB."""
        path = _WORK / f"walk-{mb}"
        if not path.exists():
            command = ["gcc", "-O2", f"-DRANGE={mb * 1024}", "-o", str(path), str(_SOURCE), "-lm"]
            subprocess.run(command, check=True)
        return str(path)


def main(argv: Sequence[str]) -> int:
    """Measure all cases, as a real-time task: a slot ends when it is over, whatever a job does. Jobs are none."""
    os.sched_setscheduler(0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(1))
    node = Node(int(argv[0]))
    for case in (Case(*words) for words in json.loads(argv[1])):
        print(json.dumps(case._asdict() | node.measure(case)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
