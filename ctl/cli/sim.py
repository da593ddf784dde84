# SPDX-License-Identifier: GPL-2.0-or-later
"""`ctl sim`: the simulator, which is imported only when a command of `ctl sim` runs."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import click

from ctl.cli.common import JSON, Group, Renamed, emit, output_option, table
from ctl.cli.sim_workload import workload
from ctl.errors import FAILED, USAGE, CoschedError

__all__ = ["sim"]

F = TypeVar("F", bound=Callable[..., object])

_SET = click.option("--set", "-s", "given", metavar="NAME=VALUE", multiple=True, help="a parameter; may be repeated")
_PARAMS = click.option(
    "--params", type=click.Path(path_type=Path), help="a TOML file with a table of parameters for each model"
)
_STORE = click.option("--store", type=click.Path(path_type=Path), help="the results' file, SQLite")
_WORKERS = click.option("--workers", type=click.IntRange(1, 256), help="parallel runs; default: one for each CPU")
_REPLICATIONS = click.option("--replications", type=click.IntRange(1, 10_000), help="number of replications")


@click.group(cls=Group)
def sim() -> None:
    """Simulate the papers' clusters. Run a model, make a figure, check the papers' claims.

    \b
    Examples:
      ctl sim run csm --policy csm --set mfreq_ms=20
      ctl sim experiment csm-fig8
      ctl sim claims
    """


def _given(model: str, params: Path | None, given: tuple[str, ...]) -> dict[str, object]:
    """The user's changes to a model's parameters: a file first, then --set."""
    from ctl.sim.params import assignments
    from ctl.sim.registry import from_toml

    return (from_toml(params).get(model, {}) if params else {}) | assignments(given)


def _open(store: Path | None) -> Any:
    from ctl.sim.store import Store, default_path

    return Store(store or default_path())


@contextmanager
def _progress(title: str) -> Iterator[Callable[[int, int], None]]:
    """A bar with the time that is left, on a terminal; nothing elsewhere."""
    if not sys.stderr.isatty():
        yield lambda done, all_: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), speed_estimate_period=120) as bar:
        task = bar.add_task(title, total=None)
        yield lambda done, all_: bar.update(task, completed=done, total=all_)


def _make(runs: list[Any], store: Any, workers: int | None, title: str) -> int:
    from ctl.sim import pool

    with _progress(title) as progress:
        return pool.make(runs, store, workers=workers or pool.default_workers(), progress=progress)


def _number(value: object) -> str:
    return "–" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)


@sim.command()
@click.argument("model")
@click.option("--policy", "-p", required=True, help="how ready queues are ordered")
@_SET
@_PARAMS
@click.option("--seed", type=click.IntRange(0, 2**63), default=1, show_default=True)
@JSON
def run(model: str, policy: str, given: tuple[str, ...], params: Path | None, seed: int, as_json: bool) -> None:
    """Run one replication of MODEL and print its results. The results are not kept.

    \b
    Examples:
      ctl sim run csm --policy csm
      ctl sim run csm --policy rr --set mfreq_ms=20 --set jobs=4000 --seed 7 --json
    """
    from ctl.sim.registry import find_model

    found = find_model(model)
    if policy not in found.policies:
        raise CoschedError(f"model {model} has no policy {policy!r}: known are {', '.join(found.policies)}", USAGE)
    values = found.complete(_given(model, params, given))
    began, cpu = time.perf_counter(), time.process_time()
    result = found.run(policy, values, seed, None)
    result |= {"wall_s": time.perf_counter() - began, "cpu_s": time.process_time() - cpu}
    result["events_per_cpu_s"] = result["events"] / result["cpu_s"]
    rows = [(name, _number(value)) for name, value in result.items()]
    emit(result, as_json, lambda: table(("measured", "value"), rows, right=("value",)))


@sim.command()
@click.argument("model", required=False)
@JSON
def models(model: str | None, as_json: bool) -> None:
    """List the models, or a MODEL's parameters. Prints range, default and source of each parameter.

    A source with "default:" says that the paper gives no value, or leaves it open: the default is ours. An id that
    begins with B- is a reading of a paper; docs/readings.md has them all.

    \b
    Example:
      ctl sim models csm
    """
    from ctl.sim.registry import MODELS, find_model

    if model is None:
        rows = [(m.name, m.meaning, ", ".join(m.policies)) for m in MODELS.values()]
        emit([m.name for m in MODELS.values()], as_json, lambda: table(("model", "meaning", "policies"), rows))
        return
    parameters = find_model(model).parameters.values()
    rows5 = [(p.name, p.range, _number(p.default), p.meaning, p.source) for p in parameters]
    columns = ("parameter", "allowed", "default", "meaning", "source")
    emit([dict(zip(columns, row, strict=True)) for row in rows5], as_json, lambda: table(columns, rows5))


@sim.command(cls=Renamed, old={"-n": "--replications", "--out": "--output"})
@click.argument("name")
@_SET
@_PARAMS
@_REPLICATIONS
@_WORKERS
@_STORE
@output_option("where the plots are", metavar="DIR", default=Path("build/sim"), show_default=True)
def experiment(
    name: str,
    given: tuple[str, ...],
    params: Path | None,
    replications: int | None,
    workers: int | None,
    store: Path | None,
    output: Path,
) -> None:
    """Make a figure of the papers. Makes its missing runs, and its plots (PNG, SVG).

    A wrong NAME lists all names. Ctrl-C keeps finished runs, and the same command continues.

    \b
    Examples:
      ctl sim experiment csm-fig4
      ctl sim experiment csm-fig8 --replications 3 --set jobs=1000
    """
    from ctl.sim import plots, pool
    from ctl.sim.experiment import runs as runs_of
    from ctl.sim.registry import find_experiment

    found = find_experiment(name)
    points = runs_of(found, replications or 0, _given(found.model.name, params, given))
    runs = [run for replication in zip(*points.values(), strict=True) for run in replication]
    kept = _open(store)
    made = _make(runs, kept, workers, name)
    results = pool.fetch(runs, kept)
    files = plots.draw(found, {point: [results[run.key] for run in of] for point, of in points.items()}, output)
    click.echo(f"{name}: {len(runs)} runs, {made} of them new; {', '.join(map(str, files))}")


@sim.command(cls=Renamed, old={"-n": "--replications"})
@click.argument("ids", nargs=-1)
@_SET
@_PARAMS
@_REPLICATIONS
@_WORKERS
@_STORE
@click.option("--make/--kept", "making", default=False, help="make the missing runs, or judge by the kept runs")
@click.option("--markdown", is_flag=True, help="print a table in Markdown")
@JSON
def claims(
    ids: tuple[str, ...],
    given: tuple[str, ...],
    params: Path | None,
    replications: int | None,
    workers: int | None,
    store: Path | None,
    making: bool,
    markdown: bool,
    as_json: bool,
) -> int:
    """Judge the papers' claims (IDS, or all). A verdict is reproduced, not reproduced, or not checkable here, with the
    reason.

    \b
    Examples:
      ctl sim claims
      ctl sim claims CSM-23 CSM-24 --make
    """
    from ctl.sim import claims as judge
    from ctl.sim.registry import find_claims, find_experiment

    models = {find_experiment(name).model.name for claim in find_claims(ids) for name in claim.experiments}
    override = {model: of for model in models if (of := _given(model, params, given))}
    kept = _open(store)
    if making:
        _make(judge.runs(ids, replications or 0, override), kept, workers, "claims")
    verdicts = judge.judge(kept, ids, replications or 0, override)
    rows = [(v.id, v.verdict, v.measured, v.tolerance, str(v.replications or ""), v.command) for v in verdicts]
    columns = ("claim", "verdict", "measured", "holds if", "replications", "command")
    if markdown:
        click.echo(judge.markdown(verdicts))
    else:
        emit([v._asdict() for v in verdicts], as_json, lambda: table(columns, rows, right=("replications",)))
    return FAILED if any(v.verdict == judge.NO_RUNS for v in verdicts) else 0


@sim.command(cls=Renamed, old={"-n": "--replications"})
@click.option("--mem-load", type=click.FloatRange(0.01, 10), required=True)
@click.option("--tasks-per-node", type=click.FloatRange(0.1, 100), help="in mix three")
@_SET
@_REPLICATIONS
@_WORKERS
def calibrate(
    mem_load: float,
    tasks_per_node: float | None,
    given: tuple[str, ...],
    replications: int | None,
    workers: int | None,
) -> None:
    """Find the arrival rates of a load (B-CSM-14). Known rates are in ctl/sim/csm/loads.py.

    \b
    Example:
      ctl sim calibrate --mem-load 1.0 --tasks-per-node 3.2 --set jobs=4000
    """
    from ctl.sim import pool
    from ctl.sim.csm.calibrate import calibrate as find

    values = _given("csm", None, given)
    if (values.get("mix") == "two") != (tasks_per_node is None):
        raise CoschedError("mix three takes --tasks-per-node, mix two does not: its rate follows from mem_load", USAGE)
    seeds = range(1, (replications or 10) + 1)
    tell = click.echo
    load = find(values, mem_load, tasks_per_node, seeds=seeds, workers=workers or pool.default_workers(), tell=tell)
    click.echo(f"mit_s={load.mit_s:.5g} local_share={load.local_share:.6g}")


sim.add_command(workload)
