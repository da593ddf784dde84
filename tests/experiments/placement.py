# SPDX-License-Identifier: GPL-2.0-or-later
"""`just experiment placement`: LoadShare's policies choose nodes for real jobs on real nodes (LoadShare part I, II).

The jobs of placement_plan.py come to a cluster in lock-step (placement_guest.py), one cluster for each seed. Runs are
kept one by one in build/experiments/ as they come, so an experiment that was interrupted goes on where it was.
"""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final

import click
from rich.console import Console

from tests.experiments import clusters
from tests.experiments import placement_report as report
from tests.experiments.ccs import Kept
from tests.experiments.ccs_plan import Case
from tests.experiments.kept import write
from tests.experiments.placement_claims import CLAIMS, Results
from tests.experiments.placement_plan import CONFIGS
from tests.experiments.verdicts import judge, show

__all__ = ["main", "plan"]

_REPO: Final = Path(__file__).resolve().parents[2]
_LIMIT_S: Final = 240  # guest seconds: then a run is ended, and says which jobs had not
_TIMEOUT_S: Final = 4 * 3600  # of the host, for a seed
_MEMORY_MB: Final = 640  # of a node: system, the disk of swap, and the room
_QUANTUM_US: Final = "1000"  # until a packet arrives: jobs do not speak with each other
_SHORT: Final = ("none", "cpu-mem-hp")
_SHORT_NODES: Final = 2


def plan(nodes: int, seed: int, configs: Sequence[str]) -> list[Case]:
    """The runs of a seed: the programs alone, then every configuration."""
    return [Case("placement", f"{nodes} nodes", config, seed, _LIMIT_S, seed) for config in ("alone", *configs)]


def _measure(cases: Sequence[Case], nodes: int, kept: Kept, console: Console) -> None:
    """Boot a cluster for the runs of a seed that are missing; each is kept as it comes."""
    missing = [dataclasses.asdict(case) for case in cases if not kept.has(case)]
    if not missing:
        return
    command = [str(_REPO / "vm/cluster"), str(nodes), "--cpus", "1", "--memory", str(_MEMORY_MB)]
    command += [*clusters.lockstep(True, cases[0].seed), "--quantum", _QUANTUM_US, "--timeout", str(_TIMEOUT_S), "--"]
    command += ["python3", "-m", "tests.experiments.placement_guest", str(nodes), json.dumps(missing)]
    began = time.monotonic()
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as guest:
        assert guest.stdout
        for line in guest.stdout:
            run = json.loads(line)
            kept.add(run)
            took, faults = time.monotonic() - began, sum(node["pgmajfault"] for node in run.get("nodes", ()))
            what = f"{run['config']}, seed {run['seed']}: {took:.0f} s"
            console.print(f"{what}, jobs {run.get('makespan_s', 0):.0f} s, {faults:,} faults", highlight=False)
            began = time.monotonic()
    if guest.returncode != 0:
        raise SystemExit(guest.returncode)


def _keep(results: Results, nodes: int, command: str, stem: str) -> None:
    write(stem, command, results.runs, partial(report.markdown, results, nodes, command, stem))
    report.plot(results, _REPO / f"results/{stem}.png")


def _check_short(results: Results, console: Console) -> None:
    """Status 1 if jobs are slowed more where their nodes are chosen than where they come."""
    of, to = _SHORT[1], _SHORT[0]
    ratio = results.times(of, to, "slowdown")
    well = ratio.value < 1
    console.print(f"{of} slows jobs {ratio} times as much as {to}: {'as it should be' if well else 'worse'}")
    raise SystemExit(not well)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--nodes", default=4, show_default=True, type=click.IntRange(2, 8), metavar="N", help="Of the cluster.")
@click.option("--repeat", default=2, show_default=True, type=click.IntRange(1, 100), metavar="N", help="Seeds.")
@click.option(
    "--seed",
    default=1,
    show_default=True,
    type=click.IntRange(0, 1 << 20),
    metavar="N",
    help="Of the jobs and of all that is random in the nodes; the next repetition has the next.",
)
@click.option("--only", default="", metavar="LIST", help="Measure these configurations alone; commas between them.")
@click.option("--tell", is_flag=True, help="Measure nothing: tell what the runs made so far say.")
@click.option("--fresh", is_flag=True, help="Forget the runs made before.")
@click.option(
    "--short",
    is_flag=True,
    help=f"{' and '.join(_SHORT)} on {_SHORT_NODES} nodes; status 1 if the last slows jobs more. Nothing is kept.",
)
@click.option("--keep", is_flag=True, help="Write table, plot, verdicts and runs to results/.")
def main(nodes: int, repeat: int, seed: int, only: str, tell: bool, fresh: bool, short: bool, keep: bool) -> None:
    """Measure who should choose the nodes of jobs, on virtual machines with one CPU each."""
    names = tuple(filter(None, only.split(",")))
    if unknown := [name for name in names if name not in CONFIGS]:
        raise click.BadParameter(f"there is no {unknown[0]}; there are {', '.join(CONFIGS)}", param_hint="--only")
    console = Console(width=None if sys.stdout.isatty() else 240)
    if not tell:
        subprocess.run([str(_REPO / "vm/build")], check=True, stdout=subprocess.DEVNULL)
    if short:
        with tempfile.TemporaryDirectory() as directory:
            made = Kept(Path(directory) / "short.jsonl")
            _measure(plan(_SHORT_NODES, seed, _SHORT), _SHORT_NODES, made, console)
            _check_short(Results(made.runs), console)
    stem = "placement" if nodes == 4 else f"placement-{nodes}"
    path = _REPO / f"build/experiments/{stem}.jsonl"
    if fresh:
        path.unlink(missing_ok=True)
    kept = Kept(path, None if fresh else _REPO / f"results/{stem}.jsonl")
    seeds = range(seed, seed + repeat)
    for each in () if tell else seeds:
        _measure(plan(nodes, each, names or tuple(CONFIGS)), nodes, kept, console)
    results = Results(run for run in kept.runs if run["seed"] in seeds)
    show([("LoadShare's placement", *report.table(results))], judge(CLAIMS, results), console)
    if keep:
        options = [f"--nodes {nodes}"] * (nodes != 4) + [f"--repeat {repeat}"] * (repeat != 2)
        command = " ".join(["just experiment placement", *options, *[f"--seed {seed}"] * (seed != 1), "--keep"])
        _keep(results, nodes, command, stem)


if __name__ == "__main__":
    main()
