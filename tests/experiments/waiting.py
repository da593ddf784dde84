# SPDX-License-Identifier: GPL-2.0-or-later
"""`just experiment waiting`: the cost of a waiting rank, if the scheduler notices the waiting and if not.

Two ranks, on two machines with one CPU each or on one of them, beside a busy local task: round trips, and CPU time of a
rank that waits 3 s for a message. The machines are in lock-step (docs/lockstep.md): a run depends on its seed alone.
With --free they run in real time, and figures hold for a host that does nothing else.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from tests.experiments import clusters
from tests.experiments.kept import write
from vm import checkout

__all__ = ["HEADINGS", "Measurement", "keep", "main", "markdown", "measure", "rows", "show"]

_REPO = Path(__file__).resolve().parents[2]
_CONFIGS = ("eevdf", "csm+spin_ms=0", "csm+spin_ms=2")
_LIBRARIES = ("mpich", "openmpi")
_LENGTH = 3, 300, 600  # places, rounds, limit, s
HEADINGS = ("library", "ranks on", "hog", "scheduler", "round trip, ms", "p99, ms", "CPU in the wait, s", "hog's part")

Measurement = Mapping[str, Any]


def rows(measured: Iterable[Measurement]) -> list[tuple[str, ...]]:
    """The table: medians over the runs of each combination, in the order they were first measured."""
    groups: dict[tuple[Any, ...], list[Measurement]] = {}
    for one in measured:
        groups.setdefault((one["library"], one["place"], one["hog"], one["config"]), []).append(one)
    return [
        (
            library,
            place,
            "yes" if hog else "no",
            config,
            f"{_median(runs, 'p50_ms'):.1f}",
            f"{_median(runs, 'p99_ms'):.1f}",
            f"{_median(runs, 'cpu_s'):.2f}",
            f"{statistics.median(run['hog_s'] / run['waited_s'] for run in runs):.0%}" if hog else "",
        )
        for (library, place, hog, config), runs in sorted(groups.items(), key=lambda item: _order(item[0]))
    ]


def _order(key: tuple[Any, ...]) -> tuple[Any, ...]:
    library, place, hog, config = key
    return library, place != "two nodes", not hog, config != "eevdf", config


def _median(runs: Sequence[Measurement], name: str) -> float:
    return statistics.median(float(run[name]) for run in runs)


def markdown(table: Sequence[Sequence[str]], headings: Sequence[str] = HEADINGS) -> str:
    """The same for a file."""
    lines = ["| " + " | ".join(headings) + " |", "|" + "---|" * len(headings)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in table]) + "\n"


def measure(
    seed: int, lockstep: bool, libraries: Sequence[str], configs: str, length: tuple[int, int, int], console: Console
) -> list[dict[str, Any]]:
    """Run waiting_guest.py once on a cluster of two, telling what was measured as it comes; `length` is as there."""
    script = "/src/tests/experiments/waiting_guest.py"
    with tempfile.TemporaryDirectory(prefix="cosched-waiting-") as out:
        command = [str(_REPO / "vm/cluster"), "2", "--alone", "--cpus", "1", "--memory", "640", "--timeout", "7200"]
        command += [*clusters.lockstep(lockstep, seed), "--out", out, "--"]
        command += ["python3", script, ",".join(libraries), configs, *map(str, length)]
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as guest:
            assert guest.stdout
            for line in guest.stdout:
                console.print("  ".join(rows([json.loads(line)])[0]), highlight=False)
        if guest.returncode != 0:
            raise SystemExit(guest.returncode)
        found: list[dict[str, Any]] = json.loads((Path(out) / "waiting.json").read_text())
        return [{**one, "seed": seed, "lockstep": lockstep} for one in found]


def show(table: Sequence[Sequence[str]], headings: Sequence[str], repeat: int, console: Console) -> None:
    """Print the table of so many runs."""
    drawn = Table(*headings, title=f"median of {repeat} runs")
    for row in table:
        drawn.add_row(*row)
    console.print(drawn)


def keep(name: str, title: str, command: str, measured: Sequence[Measurement], table: str) -> None:
    """Write what was measured, and the table of it, to results/, with the command and the commit."""
    dated = [{"commit": checkout.commit(), **one} for one in measured]
    write(name, command, dated, lambda commits: f"# {title}\n\n`{command}` at {commits}; medians.\n\n{table}")


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--repeat", default=3, show_default=True, type=click.IntRange(1, 100), metavar="N", help="Runs of each.")
@click.option("--configs", default=",".join(_CONFIGS), show_default=True, help="eevdf, and policies with their knobs.")
@click.option("--seed", default=1, show_default=True, type=click.IntRange(0, 1 << 20), metavar="N",
              help="Of all that is random in the first run's machines; the next run has the next.")
@click.option("--free", is_flag=True, help="Let the machines run in real time, not in lock-step.")
@click.option("--again", is_flag=True, help="Make the first run twice, and tell whether they are the same; status 1 "
              "if not.")
@click.option("--keep", "kept", is_flag=True, help="Keep what was measured in results/.")
def main(repeat: int, configs: str, seed: int, free: bool, again: bool, kept: bool) -> None:
    """Measure what a rank that waits costs, on two virtual machines with one CPU each."""
    console = Console()
    subprocess.run([str(_REPO / "vm/build")], check=True, stdout=subprocess.DEVNULL)

    def once(seed: int) -> list[dict[str, Any]]:
        return measure(seed, not free, _LIBRARIES, configs, _LENGTH, console)

    if again:
        same = once(seed) == once(seed)
        console.print("the same" if same else "not the same")
        raise SystemExit(not same)
    measured = [one for number in range(repeat) for one in once(seed + number)]
    show(rows(measured), HEADINGS, repeat, console)
    if kept:
        kind = f"--seed {seed}{' --free' if free else ''}"
        command = f"just experiment waiting --repeat {repeat} --configs {configs} {kind} --keep"
        keep("waiting", "Waiting ranks", command, measured, markdown(rows(measured)))


if __name__ == "__main__":
    main()
