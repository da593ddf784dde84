# SPDX-License-Identifier: GPL-2.0-or-later
"""The parallel jobs of a run on the first node, and the part of its time in which a job's ranks run at once."""

from __future__ import annotations

import bisect
import json
import os
import shlex
import subprocess
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from tests import slurm
from tests.experiments import ccs_plan as plan

__all__ = ["Job", "SlurmJob", "together"]

_APART_MS: Final = 1000 / plan.SAMPLES_HZ  # of two samples that are taken for the same moment


class Job:
    """A job, from its start on; its output is read as it comes."""

    def __init__(self, jid: str, kernel: str, size: float, hosts: tuple[str, ...] = ("node1", "node2")) -> None:
        """One rank on each of the hosts, with a single one two are there."""
        what = plan.KERNELS[kernel]
        self.jid, self.kernel = jid, kernel
        self.ranks: dict[str, list[int]] = {host: [] for host in hosts}
        self._size = max(2, len(hosts))  # number of ranks
        self.opened: float | None = None
        self.ended: float | None = None
        self._said: dict[str, Any] | None = None
        self._text = b""
        self._errors = plan.WORK / f"errors-{jid}"  # mpiexec complains at length when ranks are killed
        kb = int(what.memory * size * plan.NEEDS_MB * 1024)
        numbers = (str(each) for each in (kb, what.rounds, what.work))
        self._output = self._start(hosts, [str(plan.WORK / kernel), *numbers, str(plan.WORK / f"gate-{jid}"), jid])

    def _start(self, hosts: tuple[str, ...], rank: list[str]) -> int:
        """Start the ranks, of this command line; returns what their output is read from."""
        each = ["-ppn", str(self._size // len(hosts)), "-n", str(self._size)]
        argv = ["mpiexec.mpich", "-hosts", ",".join(hosts), *each, *rank]
        output, said = os.pipe()
        with self._errors.open("wb") as errors, os.fdopen(said, "wb") as pipe:
            self._process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=pipe, stderr=errors)
        return output

    def stir(self) -> None:
        """Make the program that starts and stops the job touch its memory, before a node's memory is measured."""

    def open(self) -> None:
        """Its gate is open now."""
        self.opened = time.monotonic()

    def fileno(self) -> int:
        """Readable when it has said something, or ended."""
        return self._output

    def read(self) -> None:
        """Read its output."""
        piece = os.read(self.fileno(), 1 << 16)
        if not piece:
            raise SystemExit(f"job {self.jid} ended: {self._errors.read_text(errors='replace')[-2000:]}")
        *lines, self._text = (self._text + piece).split(b"\n")
        for line in lines:
            if line.startswith(b"rank "):
                _, node, pid = line.split()
                self.ranks[node.decode()].append(int(pid))
            elif line.startswith(b"{"):
                self._said, self.ended = json.loads(line), time.monotonic()

    def wait_ready(self) -> None:
        """Wait until all ranks stand at the gate."""
        while sum(len(pids) for pids in self.ranks.values()) < self._size:
            self.read()

    def outcome(self, began: float) -> dict[str, Any]:
        """Its own measurements, and by this program's clock when its gate opened and when it had ended.

        seconds None: it did not end in time. Its own seconds begin when it first runs: a job that is held back before
        looks fast by them.
        """
        said = self._said or {"seconds": None}
        if not said.get("right", True):
            raise SystemExit(f"job {self.jid} computed a wrong result")
        opened, ended = (None if at is None else round(at - began, 2) for at in (self.opened, self.ended))
        mine = {"jid": self.jid, "kernel": self.kernel, "ranks": self._size}
        return {**mine, "opened_s": opened, "ended_s": ended, **said}

    def again(self) -> None:
        """It stands at its gate once more."""
        self.opened = self.ended = self._said = None

    def close(self) -> None:
        """Have it end; its ranks are killed by others."""
        self._process.terminate()
        self._process.wait()
        os.close(self._output)


class SlurmJob(Job):
    """A job of Slurm, which stands at its gate as others do, suspended as by an administrator. It ends with its run."""

    def _start(self, hosts: tuple[str, ...], rank: list[str]) -> int:
        pipe = plan.WORK / f"said-{self.jid}"
        os.mkfifo(pipe)
        output = os.open(pipe, os.O_RDWR)  # there is a reader before Slurm writes, and always a writer
        script = shlex.join(["exec", "mpiexec.mpich", "-ppn", "1", "-n", str(self._size), *rank, "once"])
        where = (f"--job-name={self.jid}", f"--output={pipe}", f"--error={self._errors}")
        size = (f"--nodes={self._size}", f"--ntasks={self._size}", f"--nodelist={','.join(hosts)}")
        self._id = slurm.sbatch(script, *size, *where)
        return output

    def wait_ready(self) -> None:
        """Wait until all ranks stand at the gate; Slurm is to give it no turn until it is open."""
        super().wait_ready()
        if slurm.state(self._id) != "SUSPENDED":
            slurm.suspend(self._id)

    def stir(self) -> None:
        """Slurm resumes and suspends it, which changes nothing before a closed gate."""
        slurm.resume(self._id)
        slurm.suspend(self._id)

    def open(self) -> None:
        """Its gate is open now: it takes turns with the others that are."""
        super().open()
        slurm.resume(self._id)

    def close(self) -> None:
        """Have it end."""
        slurm.cancel(self._id)
        os.close(self._output)
        (plan.WORK / f"said-{self.jid}").unlink()


Samples = Sequence[Sequence[float]]


def together(
    samples: Mapping[str, Samples], ranks: Mapping[str, Mapping[str, Sequence[int]]], begin: float, end: float
) -> dict[str, float | None]:
    """For each job the part of the time that its ranks run in which they do so on all its nodes at once.

    Samples of each node are (ms by the first node's clock, pid), in order of time; those that are nearest to each other
    are taken for one moment. With `ran` the moments in which a job runs on a node, summed over its n nodes, and `all`
    those in which it does on each, this is n * all / ran; None where it never ran.
    """
    times = {node: [ms for ms, _ in taken] for node, taken in samples.items()}
    return {jid: _together(samples, times, nodes, begin, end) for jid, nodes in ranks.items()}


def _together(
    samples: Mapping[str, Samples], times: Mapping[str, Sequence[float]], pids: Mapping[str, Sequence[int]],
    begin: float, end: float,
) -> float | None:
    """The same for one job, whose ranks on each of its nodes are `pids`."""
    first, *others = pids
    ran = together = 0
    for ms, pid in samples[first]:
        if not begin <= ms <= end:
            continue
        near = [_nearest(times[node], ms) for node in others]
        if None in near:
            continue
        there = [(node, samples[node][at][1]) for node, at in zip(others, near, strict=True) if at is not None]
        running = sum(int(one) in pids[node] for node, one in ((first, pid), *there))
        ran += running
        together += running == len(pids)
    return round(len(pids) * together / ran, 4) if ran else None


def _nearest(times: Sequence[float], ms: float) -> int | None:
    """The place of the sample of this moment; None: there is none."""
    at = bisect.bisect_left(times, ms)
    near = [each for each in (at - 1, at) if 0 <= each < len(times)]
    best = min(near, key=lambda each: abs(times[each] - ms), default=None)
    return best if best is not None and abs(times[best] - ms) <= _APART_MS else None
