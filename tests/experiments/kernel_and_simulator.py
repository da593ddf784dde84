# SPDX-License-Identifier: GPL-2.0-or-later
"""`just experiment kernel-and-simulator`: small workloads in the kernel and in model csm; do they agree?

They agree if jobs and local tasks end in the same order and, up to each of the first ends, every task's share of its
CPU in the kernel is within a tenth of its share in the simulator. The guest counts instructions, so its run repeats.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click

from tests.experiments.kept import write
from tests.experiments.pinned import POLICIES, WORKLOADS, End, Place, arguments, places
from tests.experiments.pinned_simulated import gaps_s, simulated
from vm import checkout

__all__ = ["Comparison", "compare", "main", "markdown"]

_REPO = Path(__file__).resolve().parents[2]
_FIRST = 3  # ends up to which shares are compared: later ones are those of tasks that got what they asked for
_TOLERANCE = 0.10  # of the simulator's share
_HEADINGS = ("workload", "policy", "order of ends, kernel", "simulator", "ends, s", "simulator, s",
             "worst share, kernel", "simulator", "differs by", "")  # fmt: skip


class Comparison(NamedTuple):
    """A workload under a policy."""

    workload: str
    policy: str
    kernel: Sequence[End]
    simulator: Sequence[End]

    @property
    def same_order(self) -> bool:
        """Do jobs and local tasks end in the same order?"""
        return [end.name for end in self.kernel] == [end.name for end in self.simulator]

    def shares(self) -> Iterator[tuple[Place, float, float]]:
        """For each CPU, up to each of the first ends: the task, and its share in the kernel and in the simulator."""
        for kernel, simulator in zip(self.kernel[:_FIRST], self.simulator[:_FIRST], strict=True):
            for place in places(WORKLOADS[self.workload]):
                yield place, kernel.cpu_s[place] / kernel.at_s, simulator.cpu_s[place] / simulator.at_s

    @property
    def worst(self) -> tuple[Place, float, float]:
        """The share that differs most, in parts of the simulator's."""
        return max(self.shares(), key=lambda share: _apart(share[1], share[2]))

    @property
    def agree(self) -> bool:
        """Same order, and all shares within the tolerance."""
        return self.same_order and _apart(*self.worst[1:]) <= _TOLERANCE


def _apart(kernel: float, simulator: float) -> float:
    if kernel == simulator:
        return 0.0
    return abs(kernel - simulator) / simulator if simulator else float("inf")


def compare(workload: str, policy: str, told: Iterable[Sequence[Any]], simulated_as: str = "") -> Comparison:
    """A guest's report of a run, [[name, at_s, CPU s of each of places()]], beside the simulator's for this policy."""
    where = places(WORKLOADS[workload])
    kernel = [End(name, at_s, dict(zip(where, cpu_s, strict=True))) for name, at_s, cpu_s in told]
    return Comparison(workload, policy, kernel, simulated(WORKLOADS[workload], simulated_as or policy))


def _row(found: Comparison) -> tuple[str, ...]:
    (name, cpu), kernel, simulator = found.worst
    return (
        found.workload,
        found.policy,
        *(" ".join(end.name for end in ends) for ends in (found.kernel, found.simulator)),
        *(" ".join(f"{end.at_s:.2f}" for end in ends) for ends in (found.kernel, found.simulator)),
        f"{name} on {cpu}: {kernel:.1%}",
        f"{simulator:.1%}",
        f"{_apart(kernel, simulator):.1%}",
        "agree" if found.agree else "DIFFER",
    )


def markdown(table: Iterable[Sequence[str]]) -> str:
    """The table for a file."""
    lines = ["| " + " | ".join(_HEADINGS) + " |", "|" + "---|" * len(_HEADINGS)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in table]) + "\n"


def _measured(policies: Sequence[str]) -> Iterator[Mapping[str, Any]]:
    """Every workload under these policies, in a guest; a run at a time."""
    asked = {name: arguments(workload, gaps_s(workload)) for name, workload in WORKLOADS.items()}
    command = [str(_REPO / "vm/run"), "--icount", "--cpus", "2", "--memory", "640", "--timeout", "600", "--"]
    command += ["python3", "-m", "tests.experiments.pinned_guest", *policies]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as guest:
        assert guest.stdin and guest.stdout
        guest.stdin.write(json.dumps(asked))
        guest.stdin.close()
        for line in guest.stdout:
            yield json.loads(line)
    if guest.returncode:
        raise SystemExit(guest.returncode)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--policies", default=",".join(POLICIES), show_default=True)
@click.option("--simulate", default="", metavar="POLICY", help="Simulate this one instead: they are to differ then.")
@click.option("--keep", is_flag=True, help="Keep the table in results/.")
def main(policies: str, simulate: str, keep: bool) -> None:
    """Run the same small workloads in a virtual machine and in the simulator; exit status 1 if they do not agree."""
    subprocess.run([str(_REPO / "vm/build")], check=True, stdout=subprocess.DEVNULL)
    measured, found = [], []
    for run in _measured(policies.split(",")):
        measured.append(run)
        found.append(compare(run["workload"], run["policy"], run["ends"], simulate))
        click.echo(f"{run['policy']}, {run['workload']}: {_row(found[-1])[-1]}", err=True)
    click.echo(markdown(map(_row, found)), nl=False)
    if keep:
        command = f"just experiment kernel-and-simulator --policies {policies} --keep"
        heading = f"# The kernel and the simulator\n\n`{command}` at "
        dated = [{"commit": checkout.commit(), **one} for one in measured]
        write("crosscheck", command, dated, lambda commits: f"{heading}{commits}.\n\n{markdown(map(_row, found))}")
    raise SystemExit(not all(one.agree for one in found))


if __name__ == "__main__":
    main()
