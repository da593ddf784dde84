# SPDX-License-Identifier: GPL-2.0-or-later
"""The ready queues: a list per CPU, or a strip of letters per CPU where there are too many for lists."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from ctl.contract import Cpu, Task
from ctl.monitor.palette import HEAD, LIMIT, LOCAL, PARALLEL, QUIET, WARN
from ctl.monitor.pen import Pen
from ctl.monitor.text import Column, beside, clean, fit, line, number, row

__all__ = ["queues"]

_CELL = 38  # narrowest list of a ready queue
_STRIP = 26  # narrowest strip of a ready queue


def queues(pen: Pen, room: int) -> list[Text]:
    """Lists side by side while each CPU gets a header and at least two lines, else strips."""
    cpus = pen.view["cpus"]
    if room <= 0:
        return []
    if not cpus:
        return [line(pen.width, [Text("CPU", HEAD), Text("  no ready queue: nothing is loaded", QUIET)])]
    across = max(1, min(len(cpus), (pen.width + 2) // (_CELL + 2)))
    rows = -(-len(cpus) // across)
    across = -(-len(cpus) // rows)  # the same number of rows, evenly filled: 2 + 2 rather than 3 + 1
    if rows == 1 or room // rows >= 4:
        return _lists(pen, cpus, across, room)
    return _strips(pen, cpus, room)


def _lists(pen: Pen, cpus: Sequence[Cpu], across: int, room: int) -> list[Text]:
    width = (pen.width - 2 * (across - 1)) // across
    groups = [cpus[i : i + across] for i in range(0, len(cpus), across)]
    needs = [2 + max(pen.history.lines_for(cpu) for cpu in group) for group in groups]
    heights = _divide(needs, room)
    lines: list[Text] = []
    for group, height in zip(groups, heights, strict=True):
        blocks = [_list(pen, cpu, width, height) for cpu in group]
        block = beside(blocks, [width] * len(group))
        lines += block + [line(pen.width, [])] * (height - len(block) if pen.steady else 0)
    return lines


def _divide(needs: Sequence[int], room: int) -> list[int]:
    """Share out room: no queue gets more than it needs; short queues come first, and the rest is shared equally."""
    given = [0] * len(needs)
    left = room
    for count, i in zip(range(len(needs), 0, -1), sorted(range(len(needs)), key=needs.__getitem__), strict=True):
        given[i] = max(0, min(needs[i], left // count))
        left -= given[i]
    return given


def _columns(pen: Pen, width: int) -> list[Column]:
    """The columns of a queue list that fit into width; the command takes the rest."""
    wide = [Column("", 3, True), Column("job", 9 if width >= 48 else 8), Column("command", 0)]
    if width >= 51:
        wide.append(Column("tid", 7, True))
    limits = [pen.knob("mnol"), pen.knob("mnod")]
    de = 5 if any(isinstance(n, int) and n > 9 for n in limits) else 4
    wide += [Column("de", de, True), Column("mes", 5, True)]
    if width >= 59:
        wide += [Column("COM", 4, True), Column("rec", 4, True)]
    wide.append(Column("FLT", 4, True))
    free = max(0, width - sum(c.width for c in wide) - len(wide) + 1)
    wide[2] = Column("command", min(16, free))
    return wide


def _list(pen: Pen, cpu: Cpu, width: int, height: int) -> list[Text]:
    """One CPU: a header, the running task, the ready queue head first."""
    columns = _columns(pen, width)
    queued = f"CPU {cpu['cpu']} {pen.glyphs.dot} {cpu['nr_queued']} queued"
    if cpu["nr_expired"]:
        queued += f", {cpu['nr_expired']} expired"
    named = sum(c.width + 1 for c in columns if c.title in ("", "job", "command", "tid")) - 1
    numbers = [c for c in columns if c.title not in ("", "job", "command", "tid")]
    header = Text(fit(queued, named) + " ", HEAD)
    header.append_text(row(numbers, [(c.title, "") for c in numbers], style=HEAD))
    header.append(" " * (width - header.cell_len), HEAD)
    lines = [header]
    running = cpu["running"]
    lines.append(_task(pen, columns, "run", running) if running else Text(" run idle or another class", QUIET))
    hidden_after = cpu["nr_queued"]
    for position, task in enumerate(cpu["queue"][: max(0, height - 2)]):
        lines.append(_task(pen, columns, str(position + 1), task))
        hidden_after -= 1
    if hidden_after > 0 and len(lines) > 2:
        if len(lines) >= height:
            lines.pop()
            hidden_after += 1
        lines.append(Text(f"    {pen.glyphs.more} {hidden_after} more", QUIET))
    return lines[:height]


def _task(pen: Pen, columns: Sequence[Column], position: str, task: Task) -> Text:
    jid = task.get("jid") or ("parallel" if task["parallel"] else "local")
    kind = PARALLEL if task["parallel"] else LOCAL
    bold = "bold " if position == "run" else ""
    values = {
        "": (position, bold or QUIET),
        "job": (clean(jid), bold + kind),
        "command": (clean(task["comm"]), bold),
        "tid": (str(task["tid"]), QUIET),
        "de": _de(pen, task),
        "mes": (number(round(task["mes"], 2), pen.glyphs.none), "" if task["mes"] else QUIET),
        "COM": (number(task["com"]), "" if task["com"] else QUIET),
        "rec": (number(task["rec"]), "" if task["rec"] else QUIET),
        "FLT": (number(task["flt"]), WARN if task["flt"] else QUIET),
    }
    return row(columns, [(v.strip() if c.right else v, s.strip()) for c in columns for v, s in [values[c.title]]])


def _de(pen: Pen, task: Task) -> tuple[str, str]:
    """Return de against its limit: dim untouched, yellow overtaken, red protected from now on."""
    limit = pen.limit(task)
    text = f"{task['de']}/{limit}" if limit is not None else str(task["de"])
    if task["de"] <= 0:
        return text, QUIET
    return text, LIMIT if limit is not None and task["de"] >= limit else WARN


def _strips(pen: Pen, cpus: Sequence[Cpu], room: int) -> list[Text]:
    """Many CPUs: a letter per queued task, the longest queues where not all CPUs fit."""
    across = max(1, (pen.width + 2) // (_STRIP + 2))
    legend = "READY QUEUES  > runs, then head first: l local, p parallel; capital: at MNO"
    header = Text(fit(legend, pen.width, more=pen.glyphs.more), HEAD)
    fitting = max(0, room - 1) * across
    note: list[Text] = []
    if len(cpus) > fitting:
        fitting = max(0, room - 2) * across
        busiest = sorted(cpus, key=lambda c: -c["nr_queued"])
        shown = sorted(busiest[:fitting], key=lambda c: c["cpu"])
        rest = busiest[fitting:]
        queued = sum(c["nr_queued"] for c in rest)
        note = [line(pen.width, [Text(f"{pen.glyphs.more} {len(rest)} more CPUs with {queued} queued", QUIET)])]
    else:
        shown = list(cpus)
        across = max(1, min(across, -(-len(shown) // max(1, min(room - 1, 8)))))
    width = (pen.width - 2 * (across - 1)) // across
    lines = [header]
    height = -(-len(shown) // across)  # column by column, so that neighbours stand under each other
    columns = [shown[i * height : (i + 1) * height] for i in range(across)] if height else []
    lines += beside([[_strip(pen, cpu, width) for cpu in column] for column in columns], [width] * len(columns))
    return (lines + note)[:room]


def _strip(pen: Pen, cpu: Cpu, width: int) -> Text:
    text = Text(no_wrap=True, end="")
    text.append(f"{cpu['cpu']:>3} ", QUIET).append(">", QUIET)
    running = cpu["running"]
    text.append_text(_letter(pen, running) if running else Text(pen.glyphs.none, QUIET))
    text.append(f" {number(cpu['nr_queued']):>4} ")
    free = max(0, width - text.cell_len)
    queue = cpu["queue"]
    cut = cpu["nr_queued"] > free or len(queue) > free
    for task in queue[: free - 1 if cut else free]:
        text.append_text(_letter(pen, task))
    if cut and free:
        text.append(pen.glyphs.more, QUIET)
    return text


def _letter(pen: Pen, task: Task) -> Text:
    letter, style = ("p", PARALLEL) if task["parallel"] else ("l", LOCAL)
    limit = pen.limit(task)
    if limit is not None and task["de"] >= limit:
        return Text(letter.upper(), LIMIT)
    return Text(letter, style)
