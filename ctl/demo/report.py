# SPDX-License-Identifier: GPL-2.0-or-later
"""The demo's results: figures from measurements, comparisons of configurations, a table and sentences.

This file runs no guest. A measurement is the object that ctl/demo/guest.py leaves. A figure is a number of a
measurement; less is better for every figure. With several measurements of a configuration a figure is their median, and
a difference counts only if it is larger than MARGIN and the two ranges do not overlap.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ctl.demo.scenario import EEVDF, PEERS, Scenario
from ctl.percentile import percentile

__all__ = [
    "MARGIN",
    "Comparison",
    "Figure",
    "Value",
    "compare",
    "conclusion",
    "figures",
    "mechanism",
    "number",
    "sentences",
    "summarise",
    "table",
    "values_of",
]

_DECIDERS: Final = {
    "messages so far": "mode_predictive",
    "messages received": "mode_dynamic",
    "page faults": "mode_csm",
}
_COLOURS: Final = {"better": "green", "worse": "red", "same": "dim"}
_RATIOS: Final = 2  # columns of ratios at most
MARGIN: Final = 0.03  # of the baseline: a smaller difference is called none


@dataclass(frozen=True, slots=True)
class Figure:
    """A number by which a configuration is judged."""

    key: str
    label: str
    unit: str
    digits: int = 1


@dataclass(frozen=True, slots=True)
class Value:
    """A figure over all measurements of one configuration."""

    median: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """A figure of configuration `of` against configuration `against`; ratio < 1 is better."""

    figure: str
    of: str
    against: str
    value: float
    baseline: float
    ratio: float | None  # None where the baseline is 0 and the value is not
    verdict: str  # "better", "worse" or "same"


def figures(jobs: Iterable[str], compiles: bool = False) -> list[Figure]:
    """The figures of a scenario with these jobs, and a user who compiles or not, in the order they are shown."""
    names = list(jobs)
    listed = []
    for name in names:
        listed += [
            Figure(f"{name}.seconds", f"{name} job: completion", "s"),
            Figure(f"{name}.major_faults", f"{name} job: major faults", "", 0),
            Figure(f"{name}.cpu_s", f"{name} job: CPU time", "s"),
            Figure(f"{name}.mpi_cpu_s", f"{name} job: of it, inside MPI", "s"),
        ]
    return [
        *listed,
        Figure("mean_completion", "jobs: mean completion", "s"),
        Figure("last_completion", "jobs: last completion", "s"),
        Figure("node.major_faults", "node: major faults", "", 0),
        Figure("local.mean", "local task: mean response", "ms", 2),
        Figure("local.p50", "local task: median response", "ms", 2),
        Figure("local.p99", "local task: p99 response", "ms"),
        Figure("local.max", "local task: longest response", "ms"),
        Figure("local.major_faults", "local task: major faults", "", 0),
        *([Figure("compiled", "user's compilers: completion", "s")] if compiles else []),
    ]


def summarise(measurement: Mapping[str, Any]) -> dict[str, float]:
    """All figures of one measurement, by key."""
    jobs = measurement["jobs"]
    summary = {
        f"{name}.{key}": float(job[key])
        for name, job in jobs.items()
        for key in ("seconds", "major_faults", "cpu_s", "mpi_cpu_s")
    }
    completions = [float(job["seconds"]) for job in jobs.values()]
    responses = [sample / 1000 for sample in measurement["local"]["response_us"]]
    return {
        **summary,
        "mean_completion": statistics.fmean(completions),
        "last_completion": max(completions),
        "node.major_faults": float(measurement["node"]["pgmajfault"]),
        "local.mean": statistics.fmean(responses),
        "local.p50": percentile(responses, 0.50),
        "local.p99": percentile(responses, 0.99),
        "local.max": max(responses),
        "local.major_faults": float(measurement["local"]["major_faults"]),
        **({"compiled": float(measurement["compiled_s"])} if "compiled_s" in measurement else {}),
    }


def values_of(measurements: Sequence[Mapping[str, Any]]) -> dict[str, Value]:
    """Every figure over all measurements of one configuration, by key."""
    summaries = [summarise(measurement) for measurement in measurements]
    return {
        key: Value(statistics.median(column), min(column), max(column))
        for key in summaries[0]
        for column in [[summary[key] for summary in summaries]]
    }


def compare(runs: Mapping[str, Sequence[Mapping[str, Any]]], of: str, against: str) -> list[Comparison]:
    """Every figure of one configuration against another's."""
    mine, theirs = values_of(runs[of]), values_of(runs[against])
    return [
        Comparison(
            key,
            of,
            against,
            value.median,
            theirs[key].median,
            _ratio(value.median, theirs[key].median),
            _verdict(value, theirs[key]),
        )
        for key, value in mine.items()
    ]


def _ratio(value: float, baseline: float) -> float | None:
    if baseline:
        return value / baseline
    return None if value else 1.0


def _verdict(value: Value, baseline: Value) -> str:
    difference = value.median - baseline.median
    apart = value.high < baseline.low or value.low > baseline.high
    if not apart or abs(difference) <= MARGIN * baseline.median:
        return "same"
    return "better" if difference < 0 else "worse"


def mechanism(config: str, measurement: Mapping[str, Any]) -> str | None:
    """In one sentence how a policy came to its figures; None for the kernel's own scheduler."""
    agent = measurement.get("agent")
    if not agent:
        return None
    counters, last = agent["status"]["counters"], max(job["seconds"] for job in measurement["jobs"].values())
    overloaded, first = _overloaded(agent["verdicts"], last)
    seen = (
        f"overloaded from {first:.1f} s on, {overloaded / last:.0%} of the time" if overloaded else "never overloaded"
    )
    decided = {name: counters[key] for name, key in _DECIDERS.items() if counters[key]}
    order = "the order of jobs" if agent["status"].get("rule") == "order" else "arrival"
    by = ", ".join(f"{number:,} by {name}" for name, number in decided.items()) or f"all by {order}"
    return f"{config}: {seen}; {counters['insertions']:,} insertions, {by}; {counters['overtakes']:,} overtakes."


def _overloaded(verdicts: Sequence[tuple[float, bool]], end: float) -> tuple[float, float]:
    """Seconds from 0 to `end` in which the verdict was overload, and when it was first."""
    total, since, first = 0.0, None, 0.0
    for at, overloaded in [*verdicts, (end, False)]:
        moment = min(max(at, 0.0), end)
        if overloaded and since is None:
            first, since = (moment, moment) if total == 0 else (first, moment)
        elif not overloaded and since is not None:
            total, since = total + moment - since, None
    return total, first


def _pairs(configs: Sequence[str]) -> list[tuple[str, str]]:
    """The comparisons in words: every other configuration with the kernel's scheduler; without it, with the first."""
    baseline = EEVDF if EEVDF in configs else configs[0]
    return [(config, baseline) for config in configs if config != baseline]


def _ms(value: float) -> str:
    """Milliseconds, with a decimal where it matters: 1.8 ms, 434 ms, 1465 ms."""
    return f"{value:.{int(value < 10)}f} ms"


def _s(value: float) -> str:
    """Seconds, with a decimal where it matters."""
    return f"{value:.{int(value < 10)}f} s"


def _listed(words: Sequence[str]) -> str:
    return f"{', '.join(words[:-1])} and {words[-1]}"


def conclusion(runs: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """The best policy of ours beside each peer, in one sentence for people who meet this for the first time.

    Best is the least mean completion of jobs; the sentence also tells what each does to the local task, because the
    peer that is best for jobs need not be best for the person at the keyboard. Empty without a policy or a peer.
    """
    values = {config: values_of(measured) for config, measured in runs.items()}

    ours, peers = [one for one in runs if one not in PEERS], [one for one in runs if one in PEERS]
    if not ours or not peers:
        return ""

    def words(config: str) -> list[str]:
        found = values[config]
        compiled = [_s(found["compiled"].median)] if "compiled" in found else []
        return [_s(found["mean_completion"].median), *compiled, _ms(found["local.p99"].median)]

    mine = min(ours, key=lambda config: values[config]["mean_completion"].median)
    jobs, *rest, local = words(mine)
    compiled = "".join(f", compilers after {one}" for one in rest)
    others = "; ".join(f"with {peer}, {_listed(words(peer))}" for peer in peers)
    return (
        f"With {mine} jobs end after {jobs} in the mean{compiled} and the person at the keyboard waits at most {local} "
        f"in 99 of 100 cases; {others}."
    )


def sentences(runs: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[str]:
    """For each pair of configurations, the better, the worse and the equal figures."""
    first = next(iter(runs.values()))[0]
    labels = {figure.key: figure for figure in figures(first["jobs"], "compiled_s" in first)}
    told = []
    for of, against in _pairs(list(runs)):
        parts: dict[str, list[str]] = {"better": [], "worse": [], "same": []}
        for comparison in compare(runs, of, against):
            if comparison.figure in labels:
                parts[comparison.verdict].append(_phrase(comparison, labels[comparison.figure]))
        told += [
            f"{of} against {against}, {verdict}: {'; '.join(parts[verdict]) or 'nothing'}."
            for verdict in ("better", "worse")
        ]
        if parts["same"]:
            told.append(
                f"{of} against {against}, no difference (within {MARGIN:.0%}, or ranges overlap): "
                f"{'; '.join(parts['same'])}."
            )
    return told


def _phrase(comparison: Comparison, figure: Figure) -> str:
    if comparison.verdict == "same":
        return figure.label
    numbers = f"{number(comparison.baseline, figure)} → {number(comparison.value, figure)}"
    unit = f" {figure.unit}" if figure.unit else ""
    return f"{figure.label} {numbers}{unit} ({_times(comparison)})"


def _times(comparison: Comparison) -> str:
    """The ratio of two values, or the difference in percent if it is small."""
    ratio = comparison.ratio
    if ratio is None or ratio == 0:
        return "from none" if ratio is None else "to none"
    factor = 1 / ratio if ratio < 1 else ratio
    if factor >= 2:
        return f"{factor:.1f} times {'less' if ratio < 1 else 'more'}"
    return f"{abs(ratio - 1):.0%} {'less' if ratio < 1 else 'more'}"


def number(value: float, figure: Figure) -> str:
    """A value of a figure with the figure's digits, without its unit: 25,546."""
    return f"{value:,.{figure.digits}f}"


def table(runs: Mapping[str, Sequence[Mapping[str, Any]]], scenario: Scenario) -> RenderableType:
    """The figures as a table, with the verdicts below it."""
    jobs = " and ".join(f"{name} ({job.ranks} ranks, {job.mb:g} MB)" for name, job in scenario.jobs.items())
    title = f"{jobs} beside a local task of {scenario.local.kb / 1024:g} MB, {_where(scenario)}"
    columns, pairs = {config: values_of(measured) for config, measured in runs.items()}, _pairs(list(runs))
    verdicts = {pair: {one.figure: one for one in compare(runs, *pair)} for pair in pairs}

    grid = Table(title=title, title_justify="left", caption=_caption(runs, scenario), caption_justify="left")
    grid.add_column("less is better")
    for config in columns:
        grid.add_column(config, justify="right")
    ratios = pairs if len(pairs) <= _RATIOS else []  # else a terminal is too narrow, and colours say it
    for of, against in ratios:
        grid.add_column(f"{of} : {against}", justify="right")
    listed = figures(scenario.jobs, bool(scenario.compilers))
    for row, figure in enumerate(listed):
        last = row + 1 == len(listed) or listed[row + 1].label.split(":")[0] != figure.label.split(":")[0]
        cells = [
            Text(_cell(values[figure.key], figure), style=_style(config, figure.key, verdicts))
            for config, values in columns.items()
        ]
        grid.add_row(
            f"{figure.label} {figure.unit}".strip(),
            *cells,
            *(_ratio_cell(verdicts[pair][figure.key]) for pair in ratios),
            end_section=last,
        )
    told = [mechanism(config, measurement) for config, measured in runs.items() for measurement in measured]
    words = [*filter(None, told), *(sentences(runs) if ratios else ()), conclusion(runs)]
    return Group(grid, Text(), *(Text(sentence) for sentence in words))


def _where(scenario: Scenario) -> str:
    if scenario.compilers:
        return f"and {scenario.compilers} compilers, on {scenario.cpus} CPUs"
    return f"in {scenario.room} MB of memory"


def _caption(runs: Mapping[str, Sequence[Mapping[str, Any]]], scenario: Scenario) -> str:
    repeats = max(len(measured) for measured in runs.values())
    how = f"median of {repeats} runs (lowest to highest)" if repeats > 1 else "one run each"
    pages = 1 << scenario.page_cluster
    brings = f"a fault brings {pages} pages" if pages > 1 else "a fault brings one page"
    paged = f"; swap answers in {scenario.swap_ms} ms; {brings}" if scenario.room else ""
    return f"{how}, seconds of guest time{paged}"


def _cell(value: Value, figure: Figure) -> str:
    text = number(value.median, figure)
    if value.low == value.high:
        return text
    return f"{text} ({number(value.low, figure)} to {number(value.high, figure)})"


def _style(config: str, figure: str, verdicts: Mapping[tuple[str, str], Mapping[str, Comparison]]) -> str:
    """The colour of a configuration's figure: what it is compared with has none."""
    found = [compared[figure].verdict for (of, _), compared in verdicts.items() if of == config]
    return _COLOURS[found[0]] if found else ""


def _ratio_cell(comparison: Comparison) -> Text:
    return Text("-" if comparison.ratio is None else f"{comparison.ratio:.2f}", style=_COLOURS[comparison.verdict])
