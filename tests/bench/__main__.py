# SPDX-License-Identifier: GPL-2.0-or-later
"""`just bench`: build the programs, run the parts in virtual machines side by side, show and keep the results."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import json
import shlex
import signal
import sys
from collections.abc import Mapping
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from ctl.demo import results
from tests.bench import artefacts, plan, report
from tests.bench.guest import Order
from tests.bench.machine import Message, end_guests, run_guest
from vm import bpf, checkout, image, patched
from vm.host import REPO, VmError

__all__ = ["main"]

RESULTS = REPO / "results"
_GROUPS = {name: part.group for name, part in plan.PARTS.items() if part.group}
_GROUPED = "; ".join(
    f"'{group}' is {', '.join(name for name in _GROUPS if _GROUPS[name] == group)}"
    for group in dict.fromkeys(_GROUPS.values())
)


@dataclasses.dataclass(frozen=True)
class _Choice:
    """The parts of the plan to run."""

    schedulers: tuple[str, ...]
    benchmarks: tuple[str, ...]
    parts: tuple[str, ...]
    quick: bool
    kernel: str = ""  # another kernel than the image's, as vm/run takes it: the times are taken on both

    @property
    def kept_as(self) -> str:
        """The name under which the results are kept; "" where they are not whole."""
        if self.schedulers or self.benchmarks or self.quick:
            return ""
        if not self.parts:
            return "bench"
        groups = {_GROUPS.get(name, "") for name in self.parts}
        if len(groups) == 1 and (group := groups.pop()) and len(self.parts) == list(_GROUPS.values()).count(group):
            return group
        return self.parts[0] if len(self.parts) == 1 and plan.PARTS[self.parts[0]].named else ""

    def order(self, part: plan.Part) -> Order | None:
        """Return the guest's order for a part; None if no benchmark of the part was chosen."""
        chosen = [name for name in self.schedulers or part.schedulers if _fits(plan.SCHEDULERS[name], part)]
        if part.insn:
            wanted = not self.benchmarks or "instructions" in self.parts
            return Order(chosen, [], insn=True, quick=self.quick) if wanted and chosen else None
        benchmarks = [name for name in part.benchmarks if not self.benchmarks or name in self.benchmarks]
        turns = [plan.BASELINE, *(name for one in chosen for name in (one, plan.BASELINE))]
        return Order(turns, benchmarks, quick=self.quick) if benchmarks else None

    def orders(self) -> dict[str, Order]:
        """Return the guests' orders, by part; PART@KERNEL where the guest boots the other kernel."""
        found = {}
        for name, part in plan.PARTS.items():
            order = self.order(part) if name in self.parts or not (self.parts or part.named) else None
            if order is not None:
                found[name] = order
                if self.kernel and not order.insn:
                    found[f"{name}{plan.ON}{self.kernel}"] = order
        return found


def _fits(scheduler: plan.Scheduler, part: plan.Part) -> bool:
    """Tell whether the part compares the scheduler: sensors, and ways to run jobs, have parts of their own."""
    sensor = scheduler.name in plan.PARTS["observations"].schedulers
    way = scheduler.how != "plain"
    return scheduler.name != plan.BASELINE and sensor == (part.name == "observations") and (part.cpus > 1 or not way)


def _steps(order: Order) -> int:
    if not order.insn:
        return sum(plan.runs(name, bench) for name in order.schedulers for bench in order.benchmarks)
    return 1 + sum(not load.only or name in load.only for name in order.schedulers for load in plan.INSN_LOADS)


def _run_part(name: str, order: Order, directories: list[Path], progress: Progress, bar: TaskID) -> list[Message]:
    heard: list[Message] = []
    part, kernel = _part(name)

    def hear(message: Message) -> None:
        if "doing" in message:
            progress.update(bar, doing=f"{plan.SCHEDULERS[message['scheduler']].title}: {message['doing']}")
        else:
            heard.append(message)
            progress.advance(bar, "result" in message)
        if not progress.console.is_terminal:  # if a later part fails, these figures are all there is
            told = f"{part.title}: {json.dumps(message)}"
            progress.console.print(told, markup=False, highlight=False, soft_wrap=True)

    run_guest(order, directories, (*part.vm, *(("--kernel", kernel) if kernel else ())), hear)
    progress.update(bar, doing="done")
    return heard


def _part(name: str) -> tuple[plan.Part, str]:
    """Return the part of an order's name, and the kernel, "" for the image's."""
    part, _, kernel = name.partition(plan.ON)
    return plan.PARTS[part], kernel


def _run_all(
    orders: dict[str, Order], directories: list[Path], parallel: int, console: Console
) -> dict[str, list[Message]]:
    """Run the parts, some at a time; guest time does not depend on what else this machine does."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(20),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[doing]}"),
    )
    with Progress(*columns, console=console) as progress, concurrent.futures.ThreadPoolExecutor(parallel) as pool:
        running = {}
        for name, order in orders.items():
            part, kernel = _part(name)
            title = f"{part.title}, {Path(kernel).name}" if kernel else part.title
            bar = progress.add_task(title, total=_steps(order), doing="")
            running[name] = pool.submit(_run_part, name, order, directories, progress, bar)
        try:
            return {name: future.result() for name, future in running.items()}
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            end_guests()
            raise


def _names(known: dict[str, object], prefix: bool, groups: Mapping[str, str] = {}):  # type: ignore[no-untyped-def]
    """Return a click callback that accepts known names and those of their groups, or beginnings where prefix is set."""

    def check(_context: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
        found: list[str] = []
        for value in values:
            fitting = [
                name
                for name in known
                if value in (name, groups.get(name)) or (prefix and name.startswith(value))
            ]
            if not fitting:
                words = [*known, *dict.fromkeys(groups.values())]
                raise click.BadParameter(f"{value!r} is none of {', '.join(words)}", param=parameter)
            found += [name for name in fitting if name not in found]
        return tuple(found)

    return check


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--only",
    "benchmarks",
    multiple=True,
    metavar="NAME",
    callback=_names(dict(plan.BENCHMARKS), True),
    help="run this benchmark, or all whose names begin so",
)
@click.option(
    "--scheduler",
    "schedulers",
    multiple=True,
    metavar="NAME",
    callback=_names(dict(plan.SCHEDULERS), False),
    help="compare this scheduler with EEVDF; 'object' is csm with sensors off, loaded without the agent",
)
@click.option(
    "--part",
    "parts",
    multiple=True,
    metavar="NAME",
    callback=_names(dict(plan.PARTS), False, _GROUPS),
    help=f"run this part: {', '.join(plan.PARTS)}; {_GROUPED}",
)
@click.option(
    "--kernel",
    default="",
    metavar="PATH",
    help="take the times on another kernel too, in columns of their own; 'patched': of `just kernel`",
)
@click.option("--quick", is_flag=True, help="a quarter of the work; figures repeat less well")
@click.option("--parallel", type=click.IntRange(1, 8), default=2, show_default=True, help="machines at a time")
@click.option("--list", "listing", is_flag=True, help="print the names and end")
def main(
    benchmarks: tuple[str, ...],
    schedulers: tuple[str, ...],
    parts: tuple[str, ...],
    kernel: str,
    quick: bool,
    parallel: int,
    listing: bool,
) -> None:
    """Measure what scheduling costs, in virtual machines whose time counts instructions.

    Compares EEVDF, the kernel's examples scx_simple and scx_flatcg, an empty sched_ext scheduler, and csm. A whole run
    is kept in results/bench.jsonl and results/bench.md; a run narrowed by options is only shown. With '--part smp',
    it measures jobs on several CPUs instead, and is kept beside them under the name smp; '--part smp-4' is kept alone.
    """
    if listing:
        for kind, names in (("benchmarks", plan.BENCHMARKS), ("schedulers", plan.SCHEDULERS), ("parts", plan.PARTS)):
            click.echo(f"{kind}: {' '.join(names)}")
        return
    choice = _Choice(schedulers, benchmarks, parts, quick, kernel)
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))
    try:
        _bench(choice, parallel)
    except VmError as err:
        click.echo("\n".join(f"| {line}" for line in err.detail.splitlines()), err=True)
        click.echo(f"bench: {err}", err=True)
        sys.exit(1)


def _bench(choice: _Choice, parallel: int) -> None:
    made = image.ensure()
    bpf.ensure(made)
    schedulers = artefacts.ensure_schedulers(made)
    directories = [artefacts.ensure_programs(made), schedulers]
    if choice.kernel == "patched":
        patched.find(made)  # said now, and not when the first guests have run
    commit = checkout.commit()
    orders = choice.orders()
    heard = _run_all(orders, directories, parallel, Console(stderr=True))
    released = {message["kernel"] for messages in heard.values() for message in messages if "kernel" in message}
    head = {
        "command": shlex.join(["just", "bench", *sys.argv[1:]]),
        "linux_source": artefacts.source_version(schedulers),
        "machine": _machine(orders),
        "kernel": ", ".join(sorted(released)),
    }
    kept = results.Results(head, [{"commit": commit, **row} for row in report.rows(heard)])
    digest = report.digest(kept)
    report.show(digest, Console())
    if choice.kept_as:
        RESULTS.mkdir(exist_ok=True)
        results.write(RESULTS / f"{choice.kept_as}.jsonl", kept.head, kept.runs)
        (RESULTS / f"{choice.kept_as}.md").write_text(report.markdown(digest))


def _machine(orders: dict[str, Order]) -> str:
    """Return what the guests are, in words."""
    cpus = sorted({_part(name)[0].cpus for name in orders})
    return f"{' or '.join(map(str, cpus))} CPU{'s' * (cpus != [1])}, 1 GB, icount shift 1 (2 ns an instruction)"


if __name__ == "__main__":
    main(prog_name="just bench")
