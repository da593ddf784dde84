# SPDX-License-Identifier: GPL-2.0-or-later
"""From what the guests told to lines that are kept, and from these to ratios, costs and goals, as tables."""

from __future__ import annotations

import io
import statistics
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from ctl.demo.results import Results as Kept
from ctl.demo.results import Run
from tests.bench import goals, plan
from tests.bench.machine import Message

__all__ = ["digest", "markdown", "rows", "show"]

Results = dict[str, Any]


def rows(heard: dict[str, list[Message]]) -> list[Run]:
    """What is kept of what the guests told, by part: the steps of a benchmark, the calls counted under a load, or how
    one of the kernel's examples gave up; a line each."""
    found: list[Run] = []
    for part, messages in heard.items():
        steps: dict[str, list[tuple[str, dict[str, float]]]] = {}
        for message in messages:
            if "bench" in message:
                steps.setdefault(message["bench"], []).append((message["scheduler"], message["result"]))
        found += [{"part": part, "bench": name, "steps": each} for name, each in steps.items()]
        found += [{"part": part, **row} for row in _counted(messages)]
        found += [
            {"part": part, **{name: message[name] for name in ("scheduler", "ended", "why")}}
            for message in messages
            if "ended" in message
        ]
    return found


def digest(kept: Kept) -> Results:
    """Return what was kept, and all that follows from it, as one object."""
    found: Results = {**kept.head, "commit": kept.commits}
    found["time"] = _compare_kernels("time", kept.runs)
    found["observations"] = _compare_kernels("observations", kept.runs)
    together = {name: _compare_kernels(name, kept.runs) for name, part in plan.PARTS.items() if part.cpus > 1}
    found["smp"] = {name: table for name, table in together.items() if table}
    found["instructions"] = {}
    for run in kept.runs:
        if "functions" in run:
            found["instructions"].setdefault(run["scheduler"], {})[run["load"]] = run["functions"]
    found["goals"] = goals.judge(found)
    found["ended"] = [run for run in kept.runs if "ended" in run]
    return found


def _compare_kernels(part: str, runs: list[Run]) -> Results:
    """Compare the part's steps on the image's kernel, and beside them those on another one, with its own baseline."""
    table: Results = {}
    for run in runs:
        name = run["part"]
        if "bench" in run and (name == part or name.startswith(part + plan.ON)):
            row = _compare(run["bench"], run["steps"])
            columns = {scheduler + name.removeprefix(part): got for scheduler, got in row["by"].items()}
            table.setdefault(run["bench"], {**row, "by": {}})["by"].update(columns)
    return table


def _title(name: str) -> str:
    """Return the title of a column: the scheduler's, and the kernel where it is not the image's."""
    scheduler, on, kernel = name.partition(plan.ON)
    return plan.SCHEDULERS[scheduler].title + (f", kernel {Path(kernel).name}" if on else "")


def _compare(name: str, steps: list[tuple[str, dict[str, float]]]) -> Results:
    """Set each step against the baseline's steps right before and after it."""
    rows = [row for scheduler, row in steps if scheduler == plan.BASELINE]
    base = [row["value"] for row in rows]
    mean = sum(base) / len(base)
    table: Results = {plan.BASELINE: {**rows[0], **_pooled(rows), "value": mean, "ratio": 1.0}}
    for at, (scheduler, row) in enumerate(steps):
        if scheduler != plan.BASELINE:
            around = (steps[at - 1][1]["value"] + steps[at + 1][1]["value"]) / 2
            table[scheduler] = {**row, "baseline": around, "ratio": row["value"] / around}
    spread = (max(base) - min(base)) / mean
    bench = plan.BENCHMARKS[name]
    return {"title": bench.title, "unit": bench.unit, "spread": spread, "by": table}


def _pooled(rows: list[dict[str, float]]) -> dict[str, float]:
    """What the baseline's steps say together of their repeats: their value is a mean, which their range has to hold."""
    ways: dict[str, Callable[[list[float]], float]]
    ways = {"low": min, "high": max, "cut": sum, "runs": sum, "hogs": statistics.mean, "late_p99": statistics.mean}
    return {name: way([row[name] for row in rows]) for name, way in ways.items() if all(name in row for row in rows)}


def _counted(messages: list[Message]) -> Iterator[Run]:
    """Turn times of calls into instructions, the measuring tool's own share taken off; the first line has this one."""
    counted = [message for message in messages if "load" in message]
    own = [
        row["mean"]
        for message in counted
        if message["scheduler"] == "empty"
        for name, row in message["result"].items()
        if name == "empty_running"
    ]
    if not own:
        return
    yield {"scheduler": "empty", "own_ns": own[0]}
    for message in counted:
        if message["scheduler"] != "empty":
            functions = {
                name: {
                    "calls": row["calls"],
                    "mean": max(0.0, row["mean"] - own[0]) / plan.NS_PER_INSTRUCTION,
                    "max_ns": max(0, round(row["max"] - own[0])),
                }
                for name, row in message["result"].items()
            }
            yield {"scheduler": message["scheduler"], "load": message["load"], "functions": functions}


def _ns(value: float) -> str:
    """Return a time in the unit people read it in."""
    if value >= 10e6:
        return f"{value / 1e6:,.1f} ms"
    if value >= 100e3:
        return f"{value / 1e3:,.0f} µs"
    return f"{value:,.0f} ns"


def _table(title: str, columns: list[str]) -> Table:
    table = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left", pad_edge=False)
    for number, column in enumerate(columns):
        table.add_column(column, justify="right" if number else "left", overflow="fold")
    return table


def _schedulers(part: Results) -> list[str]:
    return list(dict.fromkeys(name for row in part.values() for name in row["by"]))


def _times(title: str, part: Results) -> Table:
    """One row for each benchmark: the baseline's time, then ratios to the baseline; context switches below."""
    names = _schedulers(part)
    table = _table(title, ["", "A–A", *(_title(name) for name in names)])
    for row in part.values():
        table.add_row(row["title"], f"{row['spread']:.1%}", *(_cell(name, row["by"].get(name)) for name in names))
    return table


def _cell(name: str, got: dict[str, float] | None) -> str:
    if got is None:
        return ""
    more = ">" if got.get("cut", 0) * 2 >= got.get("runs", 1) else ""  # the median is one that was cut
    words = [more + _ns(got["value"])]
    if name.partition(plan.ON)[0] != plan.BASELINE:
        words.append(f"{more}×{got['ratio']:.3f}")
    if "p99" in got:
        words.append(f"p99 {_ns(got['p99'])}")
    words += _repeats(got) if "low" in got else []
    switches = got["switches"]
    return "\n".join([*words, f"{switches:,.2f} sw" if switches < 1000 else f"{switches:,.0f} sw"])


def _repeats(got: dict[str, float]) -> list[str]:
    """What a benchmark of several repeats says besides."""
    words = [f"{got['low'] / 1e6:,.0f}–{got['high'] / 1e6:,.0f} ms"]
    if got["cut"]:
        words.append(f"{got['cut']} of {got['runs']} cut")
    if "hogs" in got:
        words.append(f"hogs {got['hogs']:.0%}")
    if "late_p99" in got:
        words.append(f"late {got['late_p99'] / 1e6:,.2f} ms")
    return words


def _costs(part: Results) -> Table:
    """One row for each benchmark: the additional time of each sensor."""
    names = [name for name in _schedulers(part) if name.partition(plan.ON)[0] != plan.BASELINE]
    table = _table(
        "What each observation costs, under EEVDF", ["", "A–A", "without", *(_title(name) for name in names)]
    )
    for row in part.values():
        cells = []
        for got in (row["by"].get(name) for name in names):
            more = got["value"] - got["baseline"] if got else 0.0
            cells.append(f"{more:+,.0f} ns\n×{got['ratio']:.3f}" if got else "")
        base = row["by"][plan.BASELINE]
        without = f"{_ns(base['value'])}\n{base['switches']:.2f} sw"
        table.add_row(row["title"], f"{row['spread']:.1%}", without, *cells)
    return table


def _programs(scheduler: str, loads: Results) -> Table:
    """One row for each function: mean instructions and the longest call under each load."""
    functions = list(dict.fromkeys(name for rows in loads.values() for name in rows))
    table = _table(f"{plan.SCHEDULERS[scheduler].title}: instructions a call, and the longest", ["", *loads])
    for function in functions:
        rows = (rows.get(function) for rows in loads.values())
        table.add_row(function, *(f"{row['mean']:,.0f}\n{row['max_ns'] / 1000:,.2f} µs" if row else "" for row in rows))
    return table


def _verdicts(judged: list[Results]) -> Table:
    table = _table("Goals", ["goal", "limit", "measured", "", "by"])
    for goal in judged:
        table.add_row(
            goal["goal"],
            goal["limit_text"],
            goal["value_text"],
            "[green]met[/]" if goal["met"] else "[bold red]missed[/]",
            goal["margin_text"],
        )
    return table


def _all_tables(results: Results) -> list[Table]:
    tables = []
    if results["time"]:
        tables.append(
            _times(
                "Guest time, ratio to the EEVDF runs before and after it, context switches an operation",
                results["time"],
            )
        )
    if results["observations"]:
        tables.append(_costs(results["observations"]))
    tables += [
        _times(
            f"{plan.PARTS[name].cpus} CPUs: guest time, ratio to the EEVDF runs before and after it; range of the "
            "repeats, and how many were cut; the hogs' part of the CPUs; p99 of how late a local task is that sleeps "
            "10 ms and computes 0.3; context switches an operation",
            table,
        )
        for name, table in results["smp"].items()
    ]
    tables += [_programs(name, loads) for name, loads in results["instructions"].items()]
    if results["goals"]:
        tables.append(_verdicts(results["goals"]))
    return tables


def _ended(results: Results) -> list[str]:
    """Return a sentence for each of the kernel's examples that gave up."""
    return [
        f"{plan.SCHEDULERS[one['scheduler']].title} ended by itself during {one['ended']}: {one['why']}"
        for one in results["ended"]
    ]


def _origin(results: Results) -> str:
    return (
        f"commit {results['commit']}, made by `{results['command']}`; kernel {results['kernel']}, scx_simple and "
        f"scx_flatcg of linux-source {results['linux_source']}; {results['machine']}"
    )


def show(results: Results, console: Console) -> None:
    """Print everything."""
    for table in _all_tables(results):
        console.print(table)
    for line in _ended(results):
        console.print(line, markup=False)
    console.print(_origin(results), style="dim", markup=False)


def markdown(results: Results) -> str:
    """Return the same tables as a Markdown file, fixed in width."""
    text = io.StringIO()
    console = Console(file=text, width=150, color_system=None)
    for table in _all_tables(results):
        console.print(table)
    lines = [line.rstrip() for line in [*text.getvalue().splitlines(), *_ended(results)]]
    return f"# Benchmarks\n\n{_origin(results)}\n\n```\n" + "\n".join(lines).rstrip() + "\n```\n"
