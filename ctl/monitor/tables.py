# SPDX-License-Identifier: GPL-2.0-or-later
"""Below the queues: jobs, insert rules, events, and trends where the terminal is tall."""

from __future__ import annotations

import time
from collections.abc import Sequence

from rich.cells import cell_len
from rich.text import Text

from ctl.contract import ON_HOLD, Job, in_words
from ctl.monitor.palette import HEAD, LIMIT, PARALLEL, QUIET, WARN
from ctl.monitor.pen import Pen
from ctl.monitor.text import Column, beside, clean, fit, level, line, number, percent, row, size, spark, wrapped

__all__ = ["jobs", "rules_and_events", "trends"]

_NAME = (9, 40)  # cells for the name of a job: at least, at most
_GIVE_WAY = ("STATE", "OVERTAKEN", "OVERTOOK", "FAULTS/s", "SWAP")  # columns, for a long name or on a narrow terminal


def jobs(pen: Pen) -> list[Text]:
    columns = _job_columns(pen)
    lines = [row(columns, [(c.title, "") for c in columns], style=HEAD)]
    lines[0].append(" " * max(0, pen.width - lines[0].cell_len), HEAD)
    for job in pen.view["jobs"]:
        lines.append(_job(pen, columns, job))
    if len(lines) == 1:
        lines.append(line(pen.width, [Text("no job: start a job with ctl run --job JID -- COMMAND", QUIET)]))
    return lines


def _job_columns(pen: Pen) -> list[Column]:
    """The columns that leave enough room for the longest name, most of all a bar where there is room for one."""
    columns = [
        Column("TASKS", 5, True),
        Column("CPU", 6, True),
        Column("FAULTS/s", 8, True),
        Column("OVERTOOK", 8, True),
        Column("OVERTAKEN", 9, True),
        Column("MEMORY", 8, True),
        Column("SWAP", 8, True),
        Column("STATE", 7),
    ]
    least, most = _NAME
    name = max([least, *(min(most, cell_len(job["jid"])) for job in pen.view["jobs"])])
    for title in _GIVE_WAY:
        if name + sum(column.width + 1 for column in columns) > pen.width:
            columns = [column for column in columns if column.title != title]
    spare = pen.width - name - sum(column.width + 1 for column in columns)
    bar = min(20, spare - 9)
    if bar >= 6:
        columns.insert(2, Column("", bar))
        spare -= bar + 1
    return [Column("JOB", max(8, min(most, name + max(0, spare)))), *columns]


def _job(pen: Pen, columns: Sequence[Column], job: Job) -> Text:
    none, frozen = pen.glyphs.none, bool(job.get("frozen"))
    stop = frozen and "STATE" not in [column.title for column in columns]
    cpus = max(1, len(pen.view["cpus"]))
    faults = job["majflt_s"]
    values = {
        "JOB": (clean(job["jid"]), PARALLEL),
        "TASKS": (number(job["tasks"]), ""),
        "CPU": ("stop", LIMIT) if stop else (percent(job["cpu_share"], none), ""),
        "": ("", ""),
        "FAULTS/s": (number(faults, none), WARN if faults else QUIET),
        "OVERTOOK": (number(job["overtakes_given"], none), ""),
        "OVERTAKEN": (number(job["overtakes_suffered"], none), ""),
        "MEMORY": (size(job["memory"], none), ""),
        "SWAP": (size(job["swap"], none), "" if job["swap"] else QUIET),
        "STATE": _state(job.get("state", ""), frozen),
    }
    text = Text(no_wrap=True, end="")
    for i, column in enumerate(columns):
        text.append(" " if i else "")
        if column.title:
            value, style = values[column.title]
            text.append(fit(value, column.width, right=column.right, more=pen.glyphs.more), style)
        else:
            text.append_text(level(job["cpu_share"], float(cpus), column.width, pen.glyphs))
    return text


def _state(wanted: str, frozen: bool) -> tuple[str, str]:
    """A job's state: on hold, stopped, slowed down beside a local user, or none of these."""
    if wanted == ON_HOLD:
        return in_words(wanted), WARN
    if frozen:
        return "stopped", LIMIT
    return ("slowed", WARN) if wanted == "slowed" else ("runs", QUIET)


def rules_and_events(pen: Pen, height: int) -> list[Text]:
    """Rules on the left, the newest events on the right, newest first, each whole or not at all but the first."""
    narrow = pen.width < 64
    left = pen.width if narrow else 34 if pen.width < 100 else 44
    columns = [Column("RULE", left - 23), Column("INSERTED/s", 10, True), Column("OVERTAKES/s", 11, True)]
    rules = [row(columns, [(c.title, "") for c in columns], style=HEAD)]
    current = pen.view["rule"]
    for name, rate in sorted(pen.view["rules"].items(), key=lambda kv: (kv[0] != current, kv[0])):
        style = "bold" if name == current else QUIET
        values = [
            (clean(name), style),
            (number(rate["insertions_s"]), style),
            (number(rate["overtakes_s"]), style),
        ]
        rules.append(row(columns, values))
    if len(rules) == 1:
        rules.append(line(left, [Text("nothing inserted yet", QUIET)]))
    width = pen.width if narrow else pen.width - left - 2
    title = "EVENTS" if not pen.view.get("traced_lost") else f"EVENTS ({pen.view['traced_lost']} records lost)"
    events = [Text(fit(title, width), HEAD)]
    for event in reversed(pen.view["events"]):
        stamp = time.strftime("%H:%M:%S", time.localtime(event["time"]))
        first, *more = wrapped(event["text"], width - 9)
        if not narrow and len(events) > 1 and len(events) + 1 + len(more) > height:
            break
        events.append(line(width, [Text(stamp + " ", QUIET), first]))
        events += [line(width, [" " * 9, text]) for text in more]
    if len(events) == 1:
        events.append(line(width, [Text("none", QUIET)]))
    if narrow:
        return (rules + events)[:height]
    return beside([rules[:height], events[:height]], [left, width])


def trends(pen: Pen) -> list[Text]:
    """On a tall terminal: trends of the last frames, newest on the right."""
    shown = [
        ("insertions/s", list(pen.history.insertions), "", number),
        ("overtakes/s", list(pen.history.overtakes), "", number),
        ("swap-ins/s", list(pen.history.swapins), WARN, number),
        ("memory", list(pen.history.memory), "", size),
    ]
    lines = [Text(fit(f"TREND {pen.glyphs.dot} {len(pen.history.swapins)} frames, newest right", pen.width), HEAD)]
    for name, values, style, unit in shown:
        newest, most = (
            (values[-1] if values else None),
            max((v for v in values if v is not None), default=None),
        )
        label = f"{name:<13}{unit(newest, pen.glyphs.none):>9}  peak {unit(most, pen.glyphs.none):>9}  "
        lines.append(line(pen.width, [label, Text(spark(values, pen.width - len(label), pen.glyphs), style)]))
    return lines
