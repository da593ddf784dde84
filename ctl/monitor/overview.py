# SPDX-License-Identifier: GPL-2.0-or-later
"""The page of a node: memory, swap, mode, cluster, queue of jobs | one ready queue per CPU | jobs | rules and events |
trends.

The height is divided: ready queues first, then jobs, then events, then trends where the terminal is tall.
"""

from __future__ import annotations

from rich.cells import cell_len
from rich.text import Text

from ctl.monitor.job_queue import place_in_queue
from ctl.monitor.nodes import nodes
from ctl.monitor.palette import LIMIT, LOCAL, MODES, QUIET, WARN
from ctl.monitor.pen import Pen
from ctl.monitor.queues import queues
from ctl.monitor.tables import jobs, rules_and_events, trends
from ctl.monitor.text import clean, duration, flow, level, line, number, of, percent, share_bar, size, spark

__all__ = ["overview"]

_LABEL = 9  # cells


def overview(pen: Pen, room: int) -> list[Text]:
    """The lines of the page, at most `room`."""
    top = [*_status(pen), *nodes(pen)][: max(0, room - 2)]
    return [*top, *_body(pen, room - len(top))]


def _body(pen: Pen, room: int) -> list[Text]:
    """Divide the room between queues, jobs, rules with events, and trends."""
    if room <= 0:
        return []
    job_lines, lower = jobs(pen), rules_and_events(pen, 1 + max(3, len(pen.view["events"])))
    few = 1 + min(3, max(1, len(pen.view["jobs"])))
    low = min(len(lower), 1 + max(3, min(6, len(pen.view["rules"]))))
    spare = room - few - low
    if spare < 4:  # a very low terminal: queues, then whatever fits
        low = max(0, min(low, room - few - 4)) if room - few >= 6 else 0
        few = few if room - few - low >= 3 else 0
        spare = room - few - low
    airy = spare >= (12 if len(pen.view["cpus"]) <= 8 else 24)
    gaps = 3 if airy else 0
    queue_lines = queues(pen, spare - gaps)
    left = spare - gaps - len(queue_lines)
    more_jobs = min(left, len(job_lines) - few) if few else 0
    left -= more_jobs
    trend = trends(pen) if left >= 8 and pen.steady else []
    left -= len(trend) + bool(trend)
    more_events = min(left, len(lower) - low) if low else 0
    left -= more_events
    blank = [line(pen.width, [])]
    lower = rules_and_events(pen, low + more_events)
    sections = [queue_lines, job_lines[: few + more_jobs], lower, trend]
    if few and len(job_lines) > few + more_jobs:
        hidden = len(job_lines) - few - more_jobs + 1
        sections[1][-1] = line(pen.width, [Text(f"{pen.glyphs.more} {hidden} more jobs", QUIET)])
    lines: list[Text] = []
    for section in sections:
        if section:
            lines += (blank if airy and lines else []) + section
    if airy:
        lines = blank + lines
    return (lines + blank * (room - len(lines)))[:room] if pen.steady else lines


def _status(pen: Pen) -> list[Text]:
    """Memory, swap, the verdict on overload, and the modes of the insertions."""
    memory, overload, none, width = pen.view["memory"], pen.view["overload"], pen.glyphs.none, pen.width
    bar = max(8, min(40, width // 6))
    needed = f" {of(memory['mem'], memory['m'], none):<19} "
    first: list[Text | str] = [_label("memory"), level(memory["mem"], memory["m"], bar, pen.glyphs), needed, _psi(pen)]
    swapins = memory["swapins_s"]
    second: list[Text | str] = [
        _label("swap"),
        level(memory["swap_used"], memory["swap_total"], bar, pen.glyphs),
        f" {of(memory['swap_used'], memory['swap_total'], none):<19} ",
        Text("swap-ins ", QUIET),
        Text(f"{number(swapins, none)}/s".ljust(7), WARN if swapins else ""),
    ]
    free = width - sum(cell_len(str(piece)) for piece in second) - 2
    second += ["  ", Text(spark(pen.history.swapins, min(40, free), pen.glyphs), WARN)]
    verdict = Text("OVERLOADED", LIMIT) if overload["verdict"] else Text("no", LOCAL)
    by = clean(": ".join(part for part in (overload["mode"], overload["why"]) if part))
    third: list[Text | str] = [_label("overload"), verdict, Text(f"  {by}", QUIET)]
    return [line(width, first), line(width, second), line(width, third), *_queue(pen), _mode(pen, bar)]


def _queue(pen: Pen) -> list[Text]:
    """Policy fit: the room for jobs, how many run and wait, and why the first waits where there is room to say it."""
    queue = pen.view.get("queue")
    if queue is None:
        return []
    run, rest = place_in_queue(queue)
    turn = "" if queue["turn_left_s"] is None else f", first in {duration(queue['turn_left_s'])}"
    pieces = [Text(f"room {size(queue['room'])}, {len(run)} run")]
    if rest:
        pieces.append(Text(f"{len(rest)} wait{turn}", WARN))
        pieces.append(Text(f"{clean(rest[0]['jid'])}: {clean(rest[0]['why'])}", QUIET))
    return [line(pen.width, [_label("queue"), flow(pen.width - _LABEL, pieces, gap="  ")])]


def _label(name: str) -> Text:
    return Text(f"{name:<{_LABEL}}", QUIET)


def _psi(pen: Pen) -> Text:
    some, full = pen.view["memory"]["psi_some"], pen.view["memory"]["psi_full"]
    if some is None:
        return Text()
    text = Text().append("stalled ", QUIET).append(f"{some:.0f} %", WARN if some >= 10 else "")
    if full is not None and pen.width >= 72:
        text.append(f" (all tasks {full:.0f} %)", QUIET)
    return text


def _mode(pen: Pen, bar: int) -> Text:
    """The shares of the modes; the bar gives way to the words."""
    recent, span = pen.history.recent_modes(pen.view)
    counts = [("predictive", recent["predictive"]), ("dynamic", recent["dynamic"]), ("CSM", recent["csm"])]
    total = sum(max(0, n) for _, n in counts)
    words: list[Text] = []
    for (name, n), style, shade in zip(counts, MODES, pen.glyphs.shades, strict=True):
        share = percent(max(0, n) / total) if total else pen.glyphs.none
        words.append(Text(f"{shade} ", style))
        words.append(Text(f"{name} {share}  ", "bold" if total and n == max(c for _, c in counts) else ""))
    words.append(Text(span if total else "nothing compared yet", QUIET))
    bar = min(bar, pen.width - _LABEL - 1 - sum(text.cell_len for text in words))
    parts = [(n, style) for (_, n), style in zip(counts, MODES, strict=True)]
    return line(pen.width, [_label("mode"), share_bar(parts, bar, pen.glyphs), " ", *words])
