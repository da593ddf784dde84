# SPDX-License-Identifier: GPL-2.0-or-later
"""`just experiment parpar`: ParPar's figures 5 and 6 with real processes on real paging (ParPar §4.1, §4.2).

The cases of parpar_plan.py are measured in one virtual machine (parpar_guest.py), whose time counts instructions: a run
depends on its seed, which is that of the jobs' walks, and not on the host. What was measured is kept in
build/experiments/ as it comes, so an experiment that was interrupted goes on where it was, and in a new checkout where
results/ is.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final

import click
from rich.console import Console

from tests.experiments.kept import Kept, write
from tests.experiments.parpar_claims import CLAIMS, Results
from tests.experiments.parpar_plan import MOST, SHORT, Case, cases
from tests.experiments.parpar_report import markdown, plot, tables
from tests.experiments.verdicts import judge, show

__all__ = ["main"]

_REPO: Final = Path(__file__).resolve().parents[2]
_STEM: Final = "parpar-real"
_TIMEOUT_S: Final = 14400
_MACHINE: Final = ("--icount", "--cpus", "1", "--memory", "1024")


def _measure(wanted: Sequence[Case], seed: int, kept: Kept, console: Console) -> None:
    """Boot a machine and measure what is missing; each measurement is shown as it comes."""
    missing = kept.missing(wanted, 1, seed)
    if missing:
        command = [str(_REPO / "vm/run"), *_MACHINE, "--timeout", str(_TIMEOUT_S), "--"]
        command += ["python3", "-m", "tests.experiments.parpar_guest", str(seed), json.dumps(missing)]
        kept.follow(command, 1, seed, console)


def _check_short(results: Results, console: Console) -> None:
    """Status 1 if a limit saves no time."""
    limited, unlimited = (results.seconds(*case[1:]) for case in SHORT)
    well = limited < unlimited
    told = f"eight jobs end after {limited:.2f} s with C=0.8 and {unlimited:.2f} s without a limit"
    console.print(f"{told}: {'as it should be' if well else 'worse'}", highlight=False)
    raise SystemExit(not well)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--repeat", default=1, show_default=True, type=click.IntRange(1, 100), metavar="N", help="Runs of each.")
@click.option("--seed", default=1, show_default=True, type=click.IntRange(0, 1 << 20), metavar="N",
              help="Of the walks of the first run's jobs; the next run has the next.")
@click.option("--jobs", default=MOST, show_default=True, type=click.IntRange(10, MOST), metavar="N",
              help="Of F. 6, and the most of F. 5.")
@click.option("--tell", is_flag=True, help="Measure nothing: tell what the measurements made so far say.")
@click.option("--fresh", is_flag=True, help="Forget what was measured before.")
@click.option("--short", is_flag=True,
              help="Eight jobs at θ=1 with a limit and without; status 1 if it saves no time. Nothing is kept.")
@click.option("--keep", is_flag=True, help="Write tables, plot, verdicts and measurements to results/.")
def main(repeat: int, seed: int, jobs: int, tell: bool, fresh: bool, short: bool, keep: bool) -> None:
    """Run ParPar's jobs, all there at once, under limits of memory, on a virtual machine with one CPU."""
    console = Console(width=None if sys.stdout.isatty() else 240)
    kept = Kept.of(_STEM, fresh, short)
    if not tell:
        subprocess.run([str(_REPO / "vm/build")], check=True, stdout=subprocess.DEVNULL)
        for each in range(seed, seed + (1 if short else repeat)):
            _measure(SHORT if short else cases(jobs), each, kept, console)
    results = Results(one for one in kept.measured if seed <= one["seed"] < seed + repeat and one["jobs"] <= jobs)
    if short:
        _check_short(results, console)
    show(tables(results), judge(CLAIMS, results), console)
    if keep:
        options = [f"--repeat {repeat}"] * (repeat != 1) + [f"--seed {seed}"] * (seed != 1)
        options += [f"--jobs {jobs}"] * (jobs != MOST)
        command = " ".join(["just experiment parpar", *options, "--keep"])
        left = len({case for each in range(seed, seed + repeat) for case in kept.missing(cases(jobs), 1, each)})
        write(_STEM, command, results.measured, partial(markdown, results, command, f"{_STEM}.png", left))
        plot(results, _REPO / f"results/{_STEM}.png")


if __name__ == "__main__":
    main()
