# SPDX-License-Identifier: GPL-2.0-or-later
"""`just experiment monito`: Monito's techniques and its monitor on real nodes (Monito §5.1, §5.2).

The cases of monito_plan.py are measured on one cluster (monito_guest.py). What was measured is kept in
build/experiments/ as it comes, so an experiment that was interrupted goes on where it was, and in a new checkout where
results/ is.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Final

import click
from rich.console import Console

from tests.experiments import clusters
from tests.experiments.kept import Kept, write
from tests.experiments.monito_claims import CLAIMS, Results
from tests.experiments.monito_plan import Case, cases
from tests.experiments.monito_report import markdown, tables
from tests.experiments.verdicts import judge, show

__all__ = ["main"]

_REPO: Final = Path(__file__).resolve().parents[2]
_TIMEOUT_S: Final = 7200
_SHORT: Final = [Case("time", "sintree", mode, load) for mode in ("PVM", "SPIN") for load in (0, 1)]

def _measure(wanted: Iterable[Case], nodes: int, seed: int, kept: Kept, console: Console) -> None:
    """Boot a cluster and measure what is missing; each measurement is shown as it comes."""
    missing = kept.missing(wanted, nodes, seed)
    if not missing:
        return
    command = [str(_REPO / "vm/cluster"), str(nodes), "--alone", "--cpus", "1", "--memory", "1024"]
    command += ["--timeout", str(_TIMEOUT_S), *clusters.lockstep(True, seed), "--"]
    command += ["python3", "-m", "tests.experiments.monito_guest", str(nodes), json.dumps(missing)]
    kept.follow(command, nodes, seed, console)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--nodes", default=2, show_default=True, type=click.IntRange(2, 8), metavar="N", help="Of the cluster.")
@click.option("--repeat", default=1, show_default=True, type=click.IntRange(1, 100), metavar="N", help="Runs of each.")
@click.option(
    "--seed",
    default=1,
    show_default=True,
    type=click.IntRange(0, 1 << 20),
    metavar="N",
    help="Of all that is random in the first run's nodes; the next run has the next.",
)
@click.option("--tell", is_flag=True, help="Measure nothing: tell what the measurements made so far say.")
@click.option("--fresh", is_flag=True, help="Forget what was measured before.")
@click.option(
    "--short",
    is_flag=True,
    help="sintree in modes PVM and SPIN alone, beside 0 and 1 compilers. Nothing is kept.",
)
@click.option("--keep", is_flag=True, help="Write tables, verdicts and measurements to results/.")
def main(nodes: int, repeat: int, seed: int, tell: bool, fresh: bool, short: bool, keep: bool) -> None:
    """Measure the techniques and the monitor of Monito on virtual machines with one CPU each."""
    console = Console(width=None if sys.stdout.isatty() else 240)
    stem = "monito" if nodes == 2 else f"monito-{nodes}"
    kept = Kept.of(stem, fresh, short)
    if not tell:
        subprocess.run([str(_REPO / "vm/build")], check=True, stdout=subprocess.DEVNULL)
        for each in range(seed, seed + (1 if short else repeat)):
            _measure(_SHORT if short else cases(), nodes, each, kept, console)
    results = Results(one for one in kept.measured if one["nodes"] == nodes and seed <= one["seed"] < seed + repeat)
    show(tables(results), judge(CLAIMS, results), console)
    if keep and not short:
        options = [f"--nodes {nodes}"] * (nodes != 2) + [f"--repeat {repeat}"] * (repeat != 1)
        command = " ".join(["just experiment monito", *options, *[f"--seed {seed}"] * (seed != 1), "--keep"])
        write(stem, command, results.measured, partial(markdown, results, command))


if __name__ == "__main__":
    main()
