# SPDX-License-Identifier: GPL-2.0-or-later
"""The tables of docs/measurements.md."""

from __future__ import annotations

from typing import Final

from ctl.demo import report as demo
from ctl.demo.results import Results
from docs.tables.noted import noted, rows_of
from docs.tables.table import Grid, Source, Table, best, by_config, plain
from tests.bench import plan
from tests.bench.report import digest
from tests.experiments import waiting

__all__ = ["BENCH", "SMP", "TABLES", "spread", "timed", "together"]

BENCH: Final = Source("bench")
SMP: Final = Source("smp-2")
_TOGETHER: Final = (plan.BASELINE, "nice19", "weight20", "csm", "csm-no-gang", "csm-step")
_SWITCHES: Final = ("pingpong-pipe", *(f"switch-{n}" for n in (2, 16, 128, 1024)))
_HACKBENCH: Final = ("hackbench-sockets", "hackbench-sockets-job", "hackbench-pipes")
_SOCKETS: Final = ("pingpong-unix", "pingpong-udp", "pingpong-tcp", "hackbench-sockets")
_LONGEST: Final = ("switch-1024-job", "sleeper-1024-job", "messages-1024-job", "receivers-1024-job")
_FUNCTIONS: Final = {"do_enqueue_task": "longest insertion, µs", "pick_task_scx": "longest choice of the next task, µs"}
_CONTRACTS: Final = (plan.BASELINE, "csm", "csm-class")
_BURST_NS: Final = 80e6  # the work of a burst, as plan.py asks for it

# Of the demo: these figures of ctl/demo/report.py.
_DEMO: Final = ("mean_completion", "last_completion", "node.major_faults", "local.mean", "local.p99", "local.max",
                "local.major_faults")  # fmt: skip


def timed(kept: Results, bench: str, scheduler: str, part: str = "time") -> dict[str, float]:
    """What was measured of a benchmark under a scheduler, with the ratio to EEVDF: value and p99 in ns."""
    found: dict[str, float] = digest(kept)[part][bench]["by"][scheduler]
    return found


def _title(bench: str) -> str:
    return plan.BENCHMARKS[bench].title


def _ratio(row: dict[str, float]) -> str:
    return f"{row['value']:,.0f} ({row['ratio']:.2f})"


def _switches(kept: Results) -> Grid:
    headings = ["ns (times EEVDF's)", "EEVDF", "csm, no job", "csm, a job asleep", "EEVDF, all of one job",
                "csm, all of one job"]  # fmt: skip
    time, rows = digest(kept)["time"], []
    for bench in _SWITCHES:
        alone, beside = time[bench]["by"], time[f"{bench}-beside"]["by"]
        job = time.get(f"{bench}-job", {}).get("by")
        cells = [plain(alone[plan.BASELINE]["value"], 0), _ratio(alone["csm"]), _ratio(beside["csm"])]
        cells += [plain(job[plan.BASELINE]["value"], 0), _ratio(job["csm"])] if job else ["", ""]
        rows.append([_title(bench), *cells])
    return Grid(headings, rows)


def _longest(kept: Results) -> Grid:
    loads = digest(kept)["instructions"]
    schedulers = ("csm", "csm-sensors")
    cells = [(function, scheduler) for function in _FUNCTIONS for scheduler in schedulers]
    headings = ["load", *(f"{plan.SCHEDULERS[one].title}: {_FUNCTIONS[function]}" for function, one in cells)]
    return Grid(headings, [
        [f"`{load}`", *(plain(loads[one][load][function]["max_ns"] / 1000, 1) for function, one in cells)]
        for load in _LONGEST
    ])  # fmt: skip


def _hackbench(kept: Results) -> Grid:
    time = digest(kept)["time"]
    ours = ("csm", "csm-sensors", "csm-class")
    titles = [plan.SCHEDULERS[one].title for one in ours]
    rows = [
        [_title(bench), plain(time[bench]["by"][plan.BASELINE]["value"] / 1e6, 0), f"{time[bench]['spread']:.1%}",
         *(plain(time[bench]["by"][one]["ratio"], 2) for one in ours)] for bench in _HACKBENCH
    ]  # fmt: skip
    return Grid(["times EEVDF's", "EEVDF, ms", "EEVDF by itself differs by", *titles], rows)


def _sockets(kept: Results) -> Grid:
    headings = ["times the same without the sensor", "no job on the node", "jobs have sockets of each kind",
                "the same by kprobes", "in a job", "the same by kprobes"]  # fmt: skip
    columns = (("", "sockets"), ("", "sockets-all"), ("", "sockets-kprobe"),
               ("-job", "sockets"), ("-job", "sockets-kprobe"))  # fmt: skip
    rows = [[_title(bench), *(plain(timed(kept, bench + where, sensor, "observations")["ratio"], 2)
                              for where, sensor in columns)] for bench in _SOCKETS]  # fmt: skip
    return Grid(headings, rows)


def _contracts(kept: Results) -> Grid:
    shown = (("pingpong-pipe", "value", ""), ("pingpong-pipe-beside", "value", ""), ("switch-16-beside", "value", ""),
             ("switch-1024-beside", "value", ""), ("late-job", "value", ": late, mean"),
             ("late-job", "p99", ": late, p99"), ("late-local", "p99", ": late, p99"))  # fmt: skip
    rows = [[_title(bench) + more, *(plain(timed(kept, bench, one)[key], 0) for one in _CONTRACTS)]
            for bench, key, more in shown]  # fmt: skip
    return Grid(["ns", "EEVDF", "csm, contract=queue", "csm, contract=class"], rows)


def _bursts(kept: Results, more: Results) -> Grid:
    longer = {row["hogs"]: row["times"] for row in rows_of(more)}
    headings = ["hogs", "EEVDF", "csm, contract=queue", "csm, contract=class, 20 ms", "csm, contract=class, 200 ms"]
    rows = [
        [str(hogs), *(plain(timed(kept, f"bursts-{hogs}-job", one)["value"] / _BURST_NS, 2) for one in _CONTRACTS),
         plain(longer[hogs], 2)] for hogs in (3, 4)
    ]  # fmt: skip
    return Grid(headings, rows)


def _demo(kept: Results) -> Grid:
    runs = by_config(kept)
    values = {config: demo.values_of(measured) for config, measured in runs.items()}
    compiles = "compiled_s" in kept.runs[0]
    figures = {one.key: one for one in demo.figures(kept.head["scenario"]["jobs"], compiles)}
    rows = [
        [f"{figures[key].label}, {figures[key].unit}".rstrip(", "),
         *best([demo.number(values[config][key].median, figures[key]) for config in values])]
        for key in (*_DEMO, "compiled") if key in figures
    ]  # fmt: skip
    return Grid(["less is better", *(f"`{config}`" for config in values)], rows)


def _waiting(kept: Results) -> Grid:
    """Those beside a busy local task."""
    shown = [at for at, heading in enumerate(waiting.HEADINGS) if heading != "hog"]
    rows = [row for row in waiting.rows(kept.runs) if row[waiting.HEADINGS.index("hog")] == "yes"]
    return Grid([waiting.HEADINGS[at] for at in shown], [[row[at] for at in shown] for row in rows])


def together(kept: Results, bench: str, scheduler: str, part: str = "smp-2") -> dict[str, float]:
    """What was measured of a job on several CPUs: value, low, high and late_p99 in ns; hogs: their part of the CPUs."""
    found: dict[str, float] = digest(kept)["smp"][part][bench]["by"][scheduler]
    return found


def spread(row: dict[str, float]) -> str:
    """The time in ms, and the range of its repeats; > where most were cut at a limit."""
    if "low" not in row:
        return plain(row["value"] / 1e6, 2)
    cut = "> " if 2 * row["cut"] > row["runs"] else ""
    return f"{cut}{plain(row['value'] / 1e6, 0)} ({plain(row['low'] / 1e6, 0)} to {plain(row['high'] / 1e6, 0)})"


def _together(kept: Results) -> Grid:
    table = digest(kept)["smp"]["smp-2"]
    shown = [bench for bench in table if not bench.startswith(("pingpong", "hackbench"))]
    rows = [[_title(bench), *(spread(table[bench]["by"][one]) for one in _TOGETHER)] for bench in shown]
    return Grid(["ms (range)", *(plan.SCHEDULERS[one].title for one in _TOGETHER)], rows)


def _beside(kept: Results) -> Grid:
    table = digest(kept)["smp"]["smp-2"]
    shown = [bench for bench in table if "late_p99" in table[bench]["by"][plan.BASELINE]]
    told = {bench: [table[bench]["by"][one] for one in _TOGETHER] for bench in shown}
    rows = [[_title(bench), *(f"{plain(row['late_p99'] / 1e6, 2)}, {row['hogs']:.0%}" for row in each)]
            for bench, each in told.items()]  # fmt: skip
    return Grid(["late at p99, ms, and the hogs' part", *(plan.SCHEDULERS[one].title for one in _TOGETHER)], rows)


TABLES: Final = (
    Table("switch-cost", (BENCH,), _switches),
    Table("longest-calls", (BENCH,), _longest),
    Table("hackbench", (BENCH,), _hackbench),
    Table("socket-sensor", (BENCH,), _sockets),
    Table("demo", (Source("demo", ("config",)),), _demo),
    Table("demo-crowded", (Source("demo-crowded", ("config",)),), _demo),
    Table("demo-read-ahead", (Source("demo-read-ahead", ("config",)),), _demo),
    Table("demo-cores", (Source("demo-cores", ("config",)),), _demo),
    Table("waiting", (Source("waiting", ("library", "place", "hog", "config"), {"hog": [True]}),), _waiting),
    noted("agent-cost"),
    noted("contract-share", digits=3),
    Table("contract-cost", (BENCH,), _contracts),
    Table("bursts", (BENCH, Source("noted", (), {"table": ["bursts-200-ms"]})), _bursts),
    noted("netmon", digits=2),
    Table("several-cpus", (SMP,), _together),
    Table("beside-several-cpus", (SMP,), _beside),
)
