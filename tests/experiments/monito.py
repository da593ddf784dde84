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
from pathlib import Path
from typing import Any, Final

import click
from rich.console import Console
from rich.table import Table

from tests.experiments import clusters
from tests.experiments.monito_claims import Results, judge
from tests.experiments.monito_plan import Case, cases
from tests.experiments.monito_report import markdown, tables

__all__ = ["main"]

_REPO: Final = Path(__file__).resolve().parents[2]
_TIMEOUT_S: Final = 7200
_SHORT: Final = [Case("time", "sintree", mode, load) for mode in ("PVM", "SPIN") for load in (0, 1)]

Measured = dict[str, Any]


class Kept:
    """What was measured, in a file, if any; where there is none yet it begins with what is in results/."""

    def __init__(self, path: Path | None, results: Path | None = None) -> None:
        self._path = path
        self.measured: list[Measured] = []
        if path is not None and path.exists():
            self.measured = [json.loads(line) for line in path.read_text().splitlines()]
        elif results is not None and results.exists():
            for one in json.loads(results.read_text())["measured"]:
                self.add(one)

    def add(self, one: Measured) -> None:
        """Keep one more, on the disk at once."""
        self.measured.append(one)
        if self._path is not None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("a") as file:
                file.write(json.dumps(one) + "\n")

    def missing(self, wanted: Iterable[Case], nodes: int, seed: int) -> list[Case]:
        """The cases that were not measured with so many nodes and this seed."""
        made = {
            tuple(one.get(name) for name in Case._fields)
            for one in self.measured
            if (one["nodes"], one["seed"]) == (nodes, seed)
        }
        return [case for case in wanted if case not in made]


def _measure(wanted: Iterable[Case], nodes: int, seed: int, kept: Kept, console: Console) -> None:
    """Boot a cluster and measure what is missing; each measurement is shown as it comes."""
    missing = kept.missing(wanted, nodes, seed)
    if not missing:
        return
    command = [str(_REPO / "vm/cluster"), str(nodes), "--alone", "--cpus", "1", "--memory", "1024"]
    command += ["--timeout", str(_TIMEOUT_S), *clusters.lockstep(True, seed), "--"]
    command += ["python3", "-m", "tests.experiments.monito_guest", str(nodes), json.dumps(missing)]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as guest:
        assert guest.stdout
        for line in guest.stdout:
            kept.add(json.loads(line) | {"nodes": nodes, "seed": seed})
            console.print(line.rstrip(), highlight=False, soft_wrap=True)
    if guest.returncode != 0:
        raise SystemExit(guest.returncode)


def _show(results: Results, console: Console) -> None:
    for title, headings, rows in tables(results):
        shown = Table(*headings, title=title)
        for row in rows:
            shown.add_row(*row)
        console.print(shown)
    for verdict in judge(results):
        claim = verdict.claim
        console.print(f"{claim.id}: {claim.says}: {verdict.verdict}: {verdict.measured}", highlight=False)


def _keep(results: Results, command: str, stem: str) -> None:
    describe = ["git", "-C", str(_REPO), "describe", "--always", "--dirty"]
    commit = subprocess.run(describe, check=True, capture_output=True, text=True).stdout.strip()
    kept = {"commit": commit, "command": command, "measured": results.measured}
    (_REPO / f"results/{stem}.json").write_text(json.dumps(kept, indent=1) + "\n")
    (_REPO / f"results/{stem}.md").write_text(markdown(results, command, commit))


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
    path = _REPO / f"build/experiments/{stem}.jsonl"
    if fresh:
        path.unlink(missing_ok=True)
    kept = Kept(None) if short else Kept(path, None if fresh else _REPO / f"results/{stem}.json")
    if not tell:
        subprocess.run([str(_REPO / "vm/build")], check=True, stdout=subprocess.DEVNULL)
        for each in range(seed, seed + (1 if short else repeat)):
            _measure(_SHORT if short else cases(), nodes, each, kept, console)
    results = Results(one for one in kept.measured if one["nodes"] == nodes and seed <= one["seed"] < seed + repeat)
    _show(results, console)
    if keep and not short:
        options = [f"--nodes {nodes}"] * (nodes != 2) + [f"--repeat {repeat}"] * (repeat != 1)
        command = " ".join(["just experiment monito", *options, *[f"--seed {seed}"] * (seed != 1), "--keep"])
        _keep(results, command, stem)


if __name__ == "__main__":
    main()
