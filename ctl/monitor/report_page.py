# SPDX-License-Identifier: GPL-2.0-or-later
"""A report as one HTML page that needs nothing else: no scripts, no fonts, no addresses. Light or dark, wide or narrow.

The colours are those of Okabe and Ito, https://jfly.uni-koeln.de/color/: people with any kind of colour blindness tell
them apart.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from typing import Final

from ctl.monitor.chart import Curve, Span, bars, lines
from ctl.monitor.report import Job, Report
from ctl.monitor.report_style import STYLE

__all__ = ["page"]

_MOST_JOBS, _MOST_EVENTS, _MOST_POINTS = 300, 200, 800
_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'"
_RESOURCES: Final = ("cpu", "memory", "io")


def page(reports: Sequence[Report]) -> str:
    """The page about these nodes."""
    names = ", ".join(report.node or "this node" for report in reports)
    first = reports[0]
    span = f"{_moment(first.since)} to {_moment(first.until)}"
    body = "".join(f"<article>{_node(report, len(reports) > 1)}</article>" for report in reports)
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" '
        f'content="light dark"><title>cosched: {escape(names)}</title><style>{STYLE}</style></head><body><main>'
        f"<h1>cosched on {escape(names)}</h1><p class=span>{span} ({escape(time.strftime('%Z'))})</p>"
        f"{body}</main></body></html>\n"
    )


def _node(report: Report, named: bool) -> str:
    parts = [f"<h2>{escape(report.node or 'a node')}</h2>"] if named else []
    if not (report.jobs or report.rows or report.events):
        words = "No agent ran here in this time. A longer <code>--since</code> goes back further"
        return "".join([*parts, f'<p class="empty">{words}, up to 30 days.</p>'])
    parts.append(_summary(report))
    for title, text in (
        ("Jobs", _jobs(report)),
        ("Waits and stops, and why", _reasons(report)),
        ("The contract: jobs' share of the CPU", _contract(report)),
        ("Latency: part of the time in which a task had to wait", _pressure(report)),
        ("Lost records", _lost(report)),
        ("The agent and the cluster", _events(report)),
    ):
        parts.append(f"<section><h3>{title}</h3>{text}</section>")
    return "".join(parts)


def _summary(report: Report) -> str:
    stops = sum(len(job.stops) for job in report.jobs)
    waited = [job.waited(report.until) for job in report.jobs if job.asked is not None]
    user, overload = report.part("user"), report.part("overloaded")
    tiles = [
        ("jobs", str(len(report.jobs))),
        ("jobs that waited", f"{len(waited)}, {_lasting(sum(waited))} in all" if waited else "0"),
        ("stops", str(stops)),
        ("local user present", _percent(user)),
        ("memory overloaded", _percent(overload)),
        ("records lost", str(sum(report.lost.values()) + report.damaged)),
    ]
    return "<dl>" + "".join(f"<div><dt>{name}</dt><dd>{value}</dd></div>" for name, value in tiles) + "</dl>"


# jobs


def _jobs(report: Report) -> str:
    if not report.jobs:
        return "<p>No job in this time.</p>"
    shown = report.jobs[-_MOST_JOBS:]
    legend = (
        '<p class="legend"><span><i class="run"></i> runs (full bar)</span> <span><i class="stop"></i> stopped (lower '
        'half)</span> <span><i class="wait"></i> waits to begin (thin line)</span></p>'
    )
    rows = "".join(
        f'<div class="job"><b>{escape(job.jid)}</b> {bars(list(_spans(report, job)), f"job {job.jid}")}</div>'
        for job in shown
    )
    cut = f"<p>The newest {_MOST_JOBS} of {len(report.jobs)} jobs.</p>" if len(report.jobs) > _MOST_JOBS else ""
    head = ("job", "user", "waited", "began", "lasted", "stopped", "CPU time", "most memory", "end")
    return f"{cut}{legend}{rows}{_axis(report, 'job')}{_table(head, [_job_row(job, report.until) for job in shown])}"


def _spans(report: Report, job: Job) -> Iterator[Span]:
    """The states of a job over time."""

    def span(start: float, end: float, state: str, words: str) -> Span:
        return (*_place(report, start, end), state, f"{words}, {_lasting(end - start)} from {_clock(start)}")

    if job.asked is not None:
        yield span(job.asked, job.began or job.ended or report.until, "wait", "waits")
    if job.began is not None:
        end, since = job.ended or report.until, job.began
        for stop in job.stops:
            if stop.since > since:
                yield span(since, stop.since, "run", "runs")
            since = stop.until or end
            yield span(stop.since, since, "stop", f"stopped: {stop.why}")
        if end > since or not job.stops:
            yield span(since, end, "run", "runs")


def _job_row(job: Job, until: float) -> list[str]:
    lasted = "" if job.began is None else _lasting((job.ended or until) - job.began)
    stopped = f"{len(job.stops)} ×, {_lasting(job.stopped(until))}" if job.stops else ""
    return [
        job.jid,
        job.user,
        _lasting(job.waited(until)) if job.asked is not None else "",
        "" if job.began is None else _moment(job.began),
        lasted,
        stopped,
        "" if job.cpu_s is None else f"{job.cpu_s:.1f} s",
        "" if job.most is None else f"{job.most / (1 << 20):.0f} MiB",
        job.end or ("waits" if job.began is None else "still there"),
    ]


def _reasons(report: Report) -> str:
    found = [(job.asked, job.jid, "waits to begin", job.waited(report.until), job.why)
             for job in report.jobs if job.asked is not None]  # fmt: skip
    for job in report.jobs:
        for stop in job.stops:
            length = (stop.until or job.ended or report.until) - stop.since
            found.append((stop.since, job.jid, "stopped", length, stop.why))
    if not found:
        return "<p>No job had to wait, and none was stopped.</p>"
    found.sort()
    rows = [[_moment(at), jid, what, _lasting(length), why] for at, jid, what, length, why in found[-_MOST_EVENTS:]]
    cut = f"<p>The newest {_MOST_EVENTS} of {len(found)}.</p>" if len(found) > _MOST_EVENTS else ""
    return cut + _table(("time", "job", "", "for", "why"), rows)


# figures


def _contract(report: Report) -> str:
    if not report.rows:
        return "<p>No figures in this time: the agent takes them each minute, and more often while there are jobs.</p>"
    curves = [("set", _pieces(report, "set")), ("achieved", _pieces(report, "achieved"))]
    legend = (
        '<p class="legend"><span><i class="achieved"></i> achieved, of all CPU time used (solid)</span> <span><i '
        'class="set"></i> set, beside busy local tasks (dashed)</span> <span><i class="band"></i> a local user '
        "is present</span></p>"
    )
    users = [
        _place(report, a.at, b.at) for a, b in zip(report.rows, report.rows[1:], strict=False) if b.joined and b.user
    ]
    return legend + _chart(lines(curves, users, "share of the CPU, set and achieved"), report)


def _pressure(report: Report) -> str:
    curves: list[Curve] = [(name, _pieces(report, name)) for name in _RESOURCES]
    if not any(pieces for _, pieces in curves):
        return "<p>No figures in this time.</p>"
    legend = (
        '<p class="legend"><span><i class="cpu"></i> for a CPU (solid)</span> <span><i class="memory"></i> for memory '
        '(dashed)</span> <span><i class="io"></i> for a disk (dotted)</span></p>'
    )
    note = "<p>The kernel's pressure figures (PSI, some), over the whole node: waits of jobs are among them.</p>"
    return legend + _chart(lines(curves, (), "time stalled, by resource"), report) + note


def _pieces(report: Report, name: str) -> list[list[tuple[float, float]]]:
    """A curve's pieces, broken where no agent ran or the value is unknown."""
    pieces: list[list[tuple[float, float]]] = []
    thin = max(1, len(report.rows) // _MOST_POINTS)
    whole = False
    for number, row in enumerate(report.rows):
        value = {"set": row.set_share, "achieved": row.achieved}.get(name, row.stalled.get(name))
        if value is None or not row.joined:
            whole = False
        if value is None or (number % thin and whole):
            continue
        if not whole:
            pieces.append([])
        pieces[-1].append((_place(report, row.at, row.at)[0], min(1.0, max(0.0, value))))
        whole = True
    return pieces


def _lost(report: Report) -> str:
    rows = [[name.replace("_", " "), str(count)] for name, count in sorted(report.lost.items())]
    if report.damaged:
        rows.append(["damaged lines of the log", str(report.damaged)])
    return _table(("what", "records"), rows) if rows else "<p>None.</p>"


def _events(report: Report) -> str:
    shown = report.events[-_MOST_EVENTS:]
    cut = f"<p>The newest {_MOST_EVENTS} of {len(report.events)}.</p>" if len(report.events) > _MOST_EVENTS else ""
    rows = [[_moment(event["time"]), event["text"]] for event in shown]
    return cut + _table(("time", "event"), rows) if rows else "<p>Nothing else happened.</p>"


# pieces of HTML


def _chart(svg: str, report: Report) -> str:
    return (
        f'<div class="chart"><div class="scale"><span>100 %</span><span>50 %</span><span>0</span></div>{svg}</div>'
        + (_axis(report, "chart"))
    )


def _axis(report: Report, kind: str) -> str:
    times = [report.since + (report.until - report.since) * part / 2 for part in range(3)]
    show = _clock if report.until - report.since < 86_400 else _moment
    return f'<div class="axis {kind}">' + "".join(f"<span>{show(at)}</span>" for at in times) + "</div>"


def _table(head: Iterable[str], rows: Iterable[Sequence[str]]) -> str:
    names = list(head)
    cells = "".join(f"<th>{name}</th>" for name in names)
    body = "".join(
        "<tr>"
        + "".join(f'<td data-name="{name}">{escape(text)}</td>' for name, text in zip(names, row, strict=True))
        + "</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{cells}</tr></thead><tbody>{body}</tbody></table>"


def _place(report: Report, start: float, end: float) -> tuple[float, float]:
    """Times as parts of the width."""
    length = max(1e-9, report.until - report.since)
    return tuple(min(1.0, max(0.0, (at - report.since) / length)) for at in (start, end))  # type: ignore[return-value]


def _moment(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))


def _clock(at: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(at))


def _percent(part: float | None) -> str:
    return "not known" if part is None else f"{part:.0%} of the time"


def _lasting(seconds: float) -> str:
    """A length of time.

    >>> _lasting(3.24), _lasting(200), _lasting(7320), _lasting(200_000)
    ('3.2 s', '3 min 20 s', '2 h 2 min', '2 d 7 h')
    """
    if seconds < 60:
        return f"{max(0.0, seconds):.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    return f"{days} d {hours} h" if days else f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"
