# SPDX-License-Identifier: GPL-2.0-or-later
"""The experiments of CCS §5 on clusters of virtual machines: `just experiment NAME`, a row of ccs_plan.EXPERIMENTS.

A cluster is booted for the runs of one repetition that are missing, and measures them (ccs_guest.py). Runs are kept one
by one in build/experiments/ as they come, so an experiment that was interrupted, or is to have more repetitions, goes
on where it was; in a new checkout, where results/ is. Nodes are in lock-step (docs/lockstep.md): a repetition depends
on its seed alone. With --free they run in real time, and figures hold for a host that does nothing else.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import click
from rich.console import Console
from rich.table import Table

from ctl.demo.results import read
from tests.experiments import ccs_plan as plan
from tests.experiments import ccs_report as report
from tests.experiments import clusters
from tests.experiments.ccs_claims import CLAIMS, Results, check
from tests.experiments.ccs_plan import Case, Experiment
from tests.experiments.kept import write

__all__ = ["Kept", "directions", "main"]

_REPO: Final = Path(__file__).resolve().parents[2]
_MACHINES: Final = ("--cpus", "1", "--memory", "1024", "--swap", f"512:{plan.PAGE_MS}")
_BOOT_S, _CASE_S = 300, 420  # the most that booting and compiling, and a run, may take; in lock-step guest time, about
_SLOWER: Final = 12  # of the host's time in a second of guest time, where the host has other work
_TRIES: Final = 3  # clusters that end without a single run, before it is given up
_SHORT_TRIES: Final = 2  # the same in the quick form
_OF_THE_HOST: Final = ("host_load", "host_s")  # what a run tells of it

_DIRECTION: Final = "s a local user's cycle"

Run = dict[str, Any]


class Kept:
    """The runs that were made, in a file of their own; where there is none yet it begins with those in `results`."""

    def __init__(self, path: Path, results: Path | None = None, wanted: Callable[[Run], bool] = lambda _: True) -> None:
        """`wanted`: those of the results that are of use."""
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        self.runs: list[Run] = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
        if results and results.exists() and not path.exists():
            for run in filter(wanted, read(results).runs):
                self.add(run)

    def add(self, run: Run) -> None:
        """Keep one more, on the disk at once."""
        self.runs.append(run)
        with self.path.open("a") as file:
            file.write(json.dumps(run) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def has(self, case: Case) -> bool:
        """Whether this run was made."""
        return self.find(case) is not None

    def find(self, case: Case) -> Run | None:
        """The run of a case."""
        return next(
            (
                run
                for run in self.runs
                if (run["workload"], run["config"], run["repetition"]) == (case.workload, case.config, case.repetition)
            ),
            None,
        )


def _measure(cases: Sequence[Case], kept: Kept, console: Console) -> None:
    tries = 0
    while missing := [case for case in cases if not kept.has(case)]:
        before = len(kept.runs)
        status = _boot([case for case in missing if case.repetition == missing[0].repetition], kept, console)
        tries = tries + 1 if len(kept.runs) == before else 0
        if tries == _TRIES:
            raise SystemExit(status or 1)


def _boot(cases: Sequence[Case], kept: Kept, console: Console, ends: Callable[[Run], bool] | None = None) -> int:
    """Measure cases of one seed on a fresh cluster, up to a run that `ends` it; its status. What it makes is kept."""
    slower = _SLOWER if cases[0].lockstep else 1
    wanted = json.dumps([{name: getattr(case, name) for name in case.__dataclass_fields__} for case in cases])
    nodes = len(plan.EXPERIMENTS[cases[0].experiment].nodes)
    command = [str(_REPO / "vm/cluster"), str(nodes), *_MACHINES, *clusters.lockstep(cases[0].lockstep, cases[0].seed)]
    command += ["--timeout", str(slower * (_BOOT_S + _CASE_S * len(cases))), "--"]
    command += ["python3", "-m", "tests.experiments.ccs_guest", wanted]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as guest:
        assert guest.stdout
        began = time.monotonic()
        for line in guest.stdout:
            took = time.monotonic() - began
            run = json.loads(line) | dict(zip(_OF_THE_HOST, (os.getloadavg()[0], round(took)), strict=True))
            kept.add(run)
            console.print(_told(run, took), highlight=False)
            if ends and ends(run):
                guest.terminate()
                break
            began = time.monotonic()
    return guest.returncode


def _told(run: Mapping[str, Any], took: float) -> str:
    what = f"{run['workload']}, {run['config']}, {run['repetition'] + 1}: {took:.0f} s"
    if run["config"] == "alone":
        return what
    faults = sum(node["pgmajfault"] for node in run["nodes"])
    return f"{what}, jobs {run['makespan_s']:.0f} s, {faults:,} faults, p99 {run['latency'].get('p99', 0):.0f} ms"


def directions(runs: Sequence[Run], workload: str, of: str, to: str) -> tuple[bool, str]:
    """Whether `of` is better than `to` for local users, in words, with the figures of jobs.

    Of several runs the mean. Every run of `ccs` against EEVDF was better for users; jobs' times and faults vary more
    than they differ.
    """
    figures: dict[str, Callable[[Run], float]] = {
        "s a job": lambda run: statistics.mean(job["seconds"] or run["makespan_s"] for job in run["jobs"]),
        "major faults": lambda run: sum(node["pgmajfault"] for node in run["nodes"]),
        _DIRECTION: _a_cycle,
    }
    made = [[run for run in runs if (run["workload"], run["config"]) == (workload, config)] for config in (of, to)]
    pairs = {what: tuple(statistics.mean(map(figure, each)) for each in made) for what, figure in figures.items()}
    words = "; ".join(f"{one:,.4g} {what}, not {other:,.4g}" for what, (one, other) in pairs.items())
    ours, theirs = pairs[_DIRECTION]
    return ours < theirs, f"{workload}, {of}, not {to}: {words}"


def _cycles(run: Run) -> float:
    """The number of cycles of a run's local users."""
    return float(sum(user["cycles"] for user in run["locals"]))


def _a_cycle(run: Run) -> float:
    """Seconds, mean; none ended: endless."""
    cycles = _cycles(run)
    return sum(user["seconds"] for user in run["locals"]) / cycles if cycles else float("inf")


def _show(experiment: Experiment, results: Results, console: Console) -> None:
    headings, rows = report.table(experiment, results)
    shown = Table(*headings, title=experiment.title)
    for row in rows:
        shown.add_row(*row)
    console.print(shown)
    for verdict in check(CLAIMS[experiment.name], results):
        console.print(report.verdict_line(verdict), highlight=False)


def _keep(experiment: Experiment, results: Results, command: str) -> None:
    write(experiment.name, command, results.runs, partial(report.markdown, experiment, results, command))
    report.plot(experiment, results, _REPO / f"results/{experiment.name}.png")


def main(name: str) -> None:
    """The command line of one experiment."""
    experiment = plan.EXPERIMENTS[name]

    number = {2: "two", 4: "four"}[len(experiment.nodes)]

    @click.command(
        help=f"{experiment.title}, on {number} virtual machines with one CPU each.",
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    @click.option(
        "--repeat",
        default=5,
        show_default=True,
        type=click.IntRange(1, 100),
        metavar="N",
        help="Runs of each; those made before count, those in results/, too.",
    )
    @click.option(
        "--only",
        default="",
        metavar="LIST",
        help="Measure these workloads, configurations or both alone; commas between them.",
    )
    @click.option("--fresh", is_flag=True, help="Forget the runs made before.")
    @click.option(
        "--seed",
        default=1,
        show_default=True,
        type=click.IntRange(0, 1 << 20),
        metavar="N",
        help="Of users, jobs and nodes in the first repetition; the next one has the next.",
    )
    @click.option("--free", is_flag=True, help="Let the nodes run in real time, not in lock-step.")
    @click.option(
        "--again",
        default=0,
        type=click.IntRange(0, 100),
        metavar="N",
        help="Make the first N runs once more, and tell whether they are the same; status 1 if not.",
    )
    @click.option(
        "--short",
        is_flag=True,
        help=f"One run each of {', '.join(experiment.short)}; status 1 if the "
        "last is worse for local users. Nothing is kept.",
    )
    @click.option("--keep", is_flag=True, help="Write table, plot, verdicts and runs to results/.")
    def command(
        repeat: int, only: str, fresh: bool, seed: int, free: bool, again: int, short: bool, keep: bool
    ) -> None:
        names = tuple(filter(None, only.split(",")))
        if unknown := experiment.unknown(names):
            there = ", ".join((*(each.name for each in experiment.workloads), *experiment.configs))
            raise click.BadParameter(f"{name} has no {' and no '.join(unknown)}; it has {there}", param_hint="--only")
        console = Console(width=None if sys.stdout.isatty() else 240)
        subprocess.run([str(_REPO / "vm/build")], check=True, stdout=subprocess.DEVNULL)
        kind = f"{name}{'-free' if free else ''}-{seed}"
        path = _REPO / f"build/experiments/{kind}{'-short' if short else ''}.jsonl"
        if fresh or short:
            path.unlink(missing_ok=True)
        first = next(experiment.cases(0, names, seed, not free))
        kept = Kept(path, None if fresh or short else _REPO / f"results/{name}.jsonl", partial(_is_of, first))
        if short:
            _check_short(experiment, kept, console, seed, not free)
            return
        cases = [case for number in range(repeat) for case in experiment.cases(number, names, seed, not free)]
        if again:
            _check_again([case for case in cases if case.repetition == 0], again, kept, console)
            return
        _measure(cases, kept, console)
        results = Results(kept.runs)
        _show(experiment, results, console)
        if keep:
            options = f"{' --free' if free else ''}{f' --seed {seed}' if seed != 1 else ''}"
            _keep(experiment, results, f"just experiment {name} --repeat {repeat}{options} --keep")

    command()


def _is_of(first: Case, run: Run) -> bool:
    """Whether a run is of the kind and the series of seeds of a first case."""
    return (run.get("lockstep"), run.get("seed")) == (first.lockstep, first.seed + run["repetition"])


def _check_again(cases: Sequence[Case], count: int, kept: Kept, console: Console) -> None:
    """Make the first runs of a repetition again; exit status 1 if a guest has told of one what it had not before.

    The cluster is given all cases, as at first: what it is asked for is a part of its input.
    """
    if not all(map(kept.has, cases[:count])):
        _boot(cases, kept, console, lambda _: all(map(kept.has, cases[:count])))
    with tempfile.TemporaryDirectory() as directory:
        made = Kept(Path(directory) / "again.jsonl")
        _boot(cases, made, console, lambda _: all(map(made.has, cases[:count])))
        same = True
        for case in cases[:count]:
            old, new = kept.find(case), made.find(case)
            if old is None or new is None:
                raise SystemExit(f"{case.workload}, {case.config}: the cluster did not come so far")
            other = [key for key in new if key not in _OF_THE_HOST and new[key] != old.get(key)]
            console.print(f"{case.workload}, {case.config}: {f'other {chr(44).join(other)}' if other else 'the same'}")
            same = same and not other
    if not same:
        raise SystemExit(1)


def _check_short(experiment: Experiment, kept: Kept, console: Console, seed: int = 1, lockstep: bool = True) -> None:
    """Exit status 0 if the direction is right, in one run of each, or, as runs vary, in the mean of two."""
    workload, to, of = experiment.short
    for repetition in range(2):
        cases = [
            Case(experiment.name, workload, config, repetition, plan.SHORT_S, seed + repetition, lockstep)
            for config in (to, of)
        ]
        for _ in range(_SHORT_TRIES):
            if missing := [case for case in cases if not kept.has(case)]:
                _boot(missing, kept, console)
        if not all(map(kept.has, cases)):
            raise SystemExit(1)
        well, words = directions(kept.runs, workload, of, to)
        console.print(f"{words}: {'as it should be' if well else f'{of} is worse'}", highlight=False)
        if well:
            return
    raise SystemExit(1)
