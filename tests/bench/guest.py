# SPDX-License-Identifier: GPL-2.0-or-later
"""The guest side: brings one scheduler after another, runs the benchmarks under each, tells the results.

Run as "python3 -m tests.bench.guest" with a tar archive on standard input: the compiled programs and order.json,
which has the work (see Order). Results and progress go to standard output, one JSON object per line.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import json
import os
import platform
import re
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.bench import plan

__all__ = ["Order", "main"]

_DIR = Path("/run/bench")
_SCX = Path("/sys/kernel/sched_ext")
_CGROUPS = Path("/sys/fs/cgroup")
_JOBS = {"{job}": _CGROUPS / "cosched/bench", "{other}": _CGROUPS / "cosched/other"}
_SETTLE_S = 60  # of guest time, for a scheduler to come or go; bcc compiles its probes in it
_AGENT_STARTS_S = 5  # of guest time: the agent imports libraries and measures the node's speed
_ATTACHES_S = 3  # of guest time: twelve probes, 0.1 s each
_BENCH_S = 300  # of guest time, for one benchmark


@dataclasses.dataclass(frozen=True)
class Order:
    """The work: schedulers in the order of running, benchmarks under each, whether to count instructions."""

    schedulers: list[str]
    benchmarks: list[str]
    insn: bool = False
    quick: bool = False


def _tell(**fields: Any) -> None:
    print(json.dumps(fields), flush=True)


def _fill(argv: tuple[str, ...], how: str = "plain") -> list[str]:
    cpus = os.cpu_count() or 1
    words = {"{dir}": str(_DIR), "{as}": how, "{cpus}": str(cpus), "{half}": str(cpus // 2), "{twice}": str(2 * cpus)}
    words |= {name: str(job / "cgroup.procs") for name, job in _JOBS.items()}
    return [re.sub(r"\{\w+\}", lambda found: words[found[0]], word) for word in argv]


@contextlib.contextmanager
def _jobs(wanted: bool, argv: tuple[str, ...]) -> Iterator[None]:
    """Have the job, and the other one if argv names it, with a sleeping task each for the block."""
    with contextlib.ExitStack() as stack:
        for name, job in _JOBS.items():
            if wanted and (name == "{job}" or name in argv):
                stack.enter_context(_job(job))
        yield


@contextlib.contextmanager
def _job(job: Path) -> Iterator[None]:
    """Have a job with a sleeping task for the block, in a cgroup made as the controller makes it."""
    _make_job(job)
    with subprocess.Popen(["sleep", "infinity"]) as sleeper:
        try:
            (job / "cgroup.procs").write_text(str(sleeper.pid))
            yield
        finally:
            sleeper.kill()
    while (job / "cgroup.procs").exists() and (job / "cgroup.procs").read_text():
        time.sleep(0.01)


def _make_job(job: Path) -> None:
    """Make the job's cgroup, unless it is there: our agent removes one whose last task has ended, others leave it."""
    job.mkdir(parents=True, exist_ok=True)
    for above in (_CGROUPS, job.parent):
        (above / "cgroup.subtree_control").write_text("+cpu +memory")


def _loaded() -> str:
    """Return the name of the sched_ext scheduler that runs, "" for none."""
    if (_SCX / "state").read_text().strip() != "enabled":
        return ""
    return (_SCX / "root/ops").read_text().strip()


def _wait_for(ops: str, process: subprocess.Popen[bytes] | None = None) -> None:
    """Wait until the scheduler of that name runs; examples append their build's version to it."""
    end = time.monotonic() + _SETTLE_S
    while not (_loaded().startswith(ops) if ops else _loaded() == ""):
        if process is not None and process.poll() is not None:
            raise RuntimeError(f"{process.args!r} ended with status {process.returncode} before {ops} was loaded")
        if time.monotonic() > end:
            raise RuntimeError(f"after {_SETTLE_S} s the kernel runs {_loaded() or 'its own scheduler'}, not {ops}")
        time.sleep(0.01)


@contextlib.contextmanager
def _scheduler(one: plan.Scheduler) -> Iterator[None]:
    """Run a scheduler or a sensor for the block; afterwards the kernel is back on its own scheduler."""
    argv = _fill(one.start)
    if one.kind == "ctl":
        subprocess.run(argv, check=True, stdout=sys.stderr, stdin=subprocess.DEVNULL)
        _wait_for(one.ops)
        time.sleep(_AGENT_STARTS_S)
        yield
        _still(one)
        subprocess.run(["ctl", "unload"], check=True, stdout=sys.stderr, stdin=subprocess.DEVNULL)
    elif argv:
        quiet = one.kind == "signal"  # the kernel's examples print statistics for as long as they run
        output = subprocess.DEVNULL if quiet else subprocess.PIPE
        with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=output) as process:
            if process.stdout is not None and not process.stdout.readline():
                raise RuntimeError(f"{one.title} did not start")
            _wait_for(one.ops, process)
            yield
            if quiet:
                process.terminate()
            else:
                _still(one)
    else:
        yield
    _wait_for("")


def _still(one: plan.Scheduler) -> None:
    """Raise when the kernel has ejected the scheduler in the meantime: the figures would be another's."""
    if one.ops and not _loaded().startswith(one.ops):
        raise RuntimeError(f"{one.title} is not loaded any more; see the kernel's log")


def _switches() -> int:
    return int(Path("/proc/stat").read_text().partition("\nctxt ")[2].split()[0])


def _measure(bench: plan.Benchmark, quick: bool, how: str = "plain") -> dict[str, Any]:
    argv = bench.quick if quick else bench.argv
    command = _fill(argv, how)
    with _jobs(bench.job, argv):
        before = _switches()
        done = subprocess.run(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, timeout=_BENCH_S, check=True)
        switches = _switches() - before
    if bench.hackbench:
        seconds = float(done.stdout.decode().rpartition("Time:")[2])
        return {"value": seconds * 1e9, "switches": switches}
    try:
        return dict(json.loads(done.stdout))
    except ValueError:
        raise RuntimeError(f"{bench.name} measured no number: {done.stdout.decode().strip()}") from None


def _run_step(step: int, name: str, order: Order) -> None:
    one = plan.SCHEDULERS[name]
    _tell(step=step, scheduler=name, doing="load")
    with _scheduler(one):
        for bench in (plan.BENCHMARKS[bench] for bench in order.benchmarks if plan.runs(name, bench)):
            _tell(step=step, scheduler=name, doing=bench.name)
            try:
                if bench.job and name in plan.PARTS["observations"].schedulers:
                    _measure(bench, quick=True)  # a job's first socket of its kind has more functions probed
                    time.sleep(_ATTACHES_S)
                result = _measure(bench, order.quick, one.how)
                _still(one)
            except (RuntimeError, OSError, subprocess.CalledProcessError) as error:
                if one.kind != "signal" or _loaded():
                    raise
                _tell(step=step, scheduler=name, ended=bench.name, why=str(error))
                return
            _tell(step=step, scheduler=name, bench=bench.name, result=result)


def _count(scheduler: str, load: plan.Load) -> dict[str, Any]:
    """Run a load while insn measures every call, and return its report."""
    command = [str(_DIR / "insn"), str(_DIR / "insn.bpf.o"), *plan.INSN_KERNEL]
    pipe = subprocess.PIPE
    with _jobs(load.job, load.argv), subprocess.Popen(command, stdin=pipe, stdout=pipe) as process:
        assert process.stdin is not None and process.stdout is not None
        if process.stdout.readline() != b"measuring\n":
            raise RuntimeError(f"insn could not attach under {scheduler}")
        argv = _fill(load.argv)
        subprocess.run(argv, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL, timeout=_BENCH_S, check=True)
        process.stdin.close()
        report = json.loads(process.stdout.read())
    if process.returncode != 0:
        raise RuntimeError(f"insn ended with status {process.returncode} under {scheduler}, load {load.name}")
    return {name: row for name, row in report.items() if row["calls"]}


def _run_insn(order: Order) -> None:
    """Count instructions per call; first on an empty callback, which gives the tool's own share."""
    for step, one in enumerate(plan.SCHEDULERS[name] for name in ("empty", *order.schedulers)):
        _tell(step=step, scheduler=one.name, doing="load")
        with _scheduler(one):
            for load in plan.INSN_LOADS[: 1 if one.name == "empty" else None]:
                if load.only and one.name not in load.only:
                    continue
                _tell(step=step, scheduler=one.name, doing=load.name)
                _tell(step=step, scheduler=one.name, load=load.name, result=_count(one.name, load))


def _unpack() -> Order:
    data = sys.stdin.buffer.read()
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        archive.extractall(_DIR, filter="data")
    return Order(**json.loads((_DIR / "order.json").read_text()))


def main() -> int:
    """Run what the order says, and return the exit status."""
    order = _unpack()
    subprocess.run(["modprobe", "-a", "virtio_input", "evdev"], check=True)  # a keyboard that can be typed on
    _tell(kernel=platform.release())
    _make_job(_JOBS["{job}"])  # before any scheduler: scx_flatcg ends with an error when one is made again under it
    if order.insn:
        _run_insn(order)
    else:
        for step, name in enumerate(order.schedulers):
            _run_step(step, name, order)
    return 0


if __name__ == "__main__":
    sys.exit(main())
