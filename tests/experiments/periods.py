# SPDX-License-Identifier: GPL-2.0-or-later
"""`just experiment periods`: round trips of two ranks on two nodes under both contracts, for each length of period.

Each node has one CPU and a busy local task on it. Under contract=class the kernel gives the rank L of each period; with
contract_step=on the periods of both nodes begin together. The machines are in lock-step (docs/lockstep.md).
"""

from __future__ import annotations

import statistics
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

import click
from rich.console import Console

from tests.experiments.waiting import Measurement, keep, markdown, measure, show

__all__ = ["HEADINGS", "main", "rows"]

_REPO = Path(__file__).resolve().parents[2]
_PERIODS = (4, 20, 50, 100, 200, 400)  # ms
_STEPS = ("off", "on")
_ROUNDS, _LIMIT_S = 100_000, 8  # many periods, however quick a round is
HEADINGS = (
    "scheduler", "period, ms", "in step", "round trip, mean, ms", "median", "p99", "the hog's part while a rank waits"
)


def _class(period: int, step: str) -> str:
    return f"csm+contract=class+contract_period_ms={period}+contract_step={step}"


def _configs() -> Iterator[tuple[str, tuple[str, str, str]]]:
    """Each configuration, and how its row begins."""
    yield "eevdf", ("eevdf", "", "")
    yield "csm", ("csm, contract=queue", "", "")
    for step in _STEPS:
        for period in _periods(step):
            yield _class(period, step), ("csm, contract=class", str(period), step)


def _periods(step: str) -> tuple[int, ...]:
    """Of which lengths there are periods: short ones are left to the kernel."""
    return tuple(period for period in _PERIODS if step == "off" or period >= 20)


def rows(measured: Iterable[Measurement]) -> list[tuple[str, ...]]:
    """The table: medians over the seeds."""
    runs = list(measured)
    return [
        (
            *begins,
            *(f"{statistics.median(float(run[name]) for run in ours):.1f}" for name in ("mean_ms", "p50_ms", "p99_ms")),
            f"{statistics.median(run['hog_s'] / run['waited_s'] for run in ours):.0%}",
        )
        for config, begins in _configs()
        if (ours := [run for run in runs if run["config"] == config])
    ]


def _plot(measured: Iterable[Measurement], path: Path) -> None:
    import matplotlib  # takes a second, and only this needs it

    matplotlib.use("Agg")
    from matplotlib import pyplot

    runs = list(measured)

    def mean(config: str) -> float:
        return statistics.median(float(run["mean_ms"]) for run in runs if run["config"] == config)

    drawing, axis = pyplot.subplots(figsize=(7, 4.2), layout="constrained")
    for step, style in zip(_STEPS, ("o--", "s-"), strict=True):
        means = [mean(_class(period, step)) for period in _periods(step)]
        axis.plot(_periods(step), means, style, label=f"contract=class, contract_step={step}")
    for config, colour in (("eevdf", "grey"), ("csm", "black")):
        label = "EEVDF" if config == "eevdf" else "contract=queue"
        axis.axhline(mean(config), color=colour, linestyle=":", label=label)
    axis.set(xscale="log", yscale="log", xlabel="contract_period_ms", ylabel="mean round trip, ms",
             title="Two ranks on two nodes, a busy local task beside each, L = 0.5")
    axis.set_xticks(_PERIODS, [str(period) for period in _PERIODS], minor=False)
    axis.legend(frameon=False)
    drawing.savefig(path, dpi=110)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--repeat", default=3, show_default=True, type=click.IntRange(1, 100), metavar="N", help="Runs of each.")
@click.option("--seed", default=1, show_default=True, type=click.IntRange(0, 1 << 20), metavar="N",
              help="Of all that is random in the first run's machines; the next run has the next.")
@click.option("--keep", "kept", is_flag=True, help="Write table, plot and runs to results/.")
def main(repeat: int, seed: int, kept: bool) -> None:
    """Measure round trips under both contracts for each period, on two virtual machines with one CPU each."""
    console = Console()
    subprocess.run([str(_REPO / "vm/build")], check=True, stdout=subprocess.DEVNULL)
    configs = ",".join(config for config, _ in _configs())
    measured = [
        one
        for number in range(repeat)
        for one in measure(seed + number, True, ("mpich",), configs, (1, _ROUNDS, _LIMIT_S), console)
    ]
    show(rows(measured), HEADINGS, repeat, console)
    if kept:
        command = f"just experiment periods --repeat {repeat} --seed {seed} --keep"
        drawn = markdown(rows(measured), HEADINGS) + "\n![Mean round trips by length of period](periods.png)\n"
        keep("periods", "Periods of the class contract", command, measured, drawn)
        _plot(measured, _REPO / "results/periods.png")


if __name__ == "__main__":
    main()
