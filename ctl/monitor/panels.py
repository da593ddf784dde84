# SPDX-License-Identifier: GPL-2.0-or-later
"""The dashboard's frame: a View and its recent history drawn as lines of exact width.

Top to bottom: title, memory, swap, mode, cluster | one ready queue per CPU | jobs | rules and events | trends | keys.
`frame()` divides the height: queues first, then jobs, then events, then trends where the terminal is tall.
"""

from __future__ import annotations

import time

from rich.cells import cell_len
from rich.text import Text

from ctl.contract import View
from ctl.monitor.nodes import nodes
from ctl.monitor.pen import LIMIT, LOCAL, QUIET, WARN, History, Pen
from ctl.monitor.queues import queues
from ctl.monitor.tables import jobs, rules_and_events, trends
from ctl.monitor.text import (
    UNICODE,
    Glyphs,
    clean,
    duration,
    fit,
    flow,
    level,
    line,
    number,
    of,
    percent,
    share_bar,
    size,
    spark,
)

__all__ = ["History", "frame"]

_MODE_STYLES = ("cyan", "magenta", "yellow")


def frame(
    view: View,
    history: History,
    width: int,
    height: int | None,
    *,
    glyphs: Glyphs = UNICODE,
    note: str = "",
    keys: str = "",
) -> list[Text]:
    """Return the lines of one frame, each exactly `width` cells, at most `height` (None: as many as needed).

    `note` is one sentence about the dashboard itself (paused, agent silent), `keys` the keys that work.
    """
    pen = Pen(view, history, max(1, width), glyphs, height is not None)
    room = height if height is not None else 100000
    top = [_title(pen), *_status(pen), *nodes(pen)][: max(1, room - 3)]
    foot = [_footer(pen, note, keys)] if (note or keys) and room > 1 else []
    body = _body(pen, room - len(top) - len(foot))
    lines = [*top, *body, *foot][:room]
    for text in lines:
        text.truncate(pen.width, overflow="crop", pad=True)
        text.stylize_before(text.style)  # Text.render() leaves out the style of a text without spans
        if not glyphs.more.isascii():
            continue
        text.plain = "".join(c if c.isascii() else glyphs.more * cell_len(c) for c in text.plain)
    return lines


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
    sections = [queue_lines, job_lines[: few + more_jobs], lower[: low + more_events], trend]
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


# Title and status


def _title(pen: Pen) -> Text:
    view = pen.view
    clock = Text(f"{clean(view['node'])} {time.strftime('%H:%M:%S', time.localtime(view['time']))}", "bold")
    policy = view["policy"]
    if policy is None:
        why = Text("no policy loaded: the kernel's own scheduler runs", WARN)
        return line(pen.width, [Text("cosched ", "bold"), why], clock)
    name = Text(f" {clean(policy)} ", "bold reverse")
    rule = f"rule {clean(view['rule'])}" if view["rule"] and view["rule"] != policy else ""
    since = view.get("since")
    up = f"up {duration(view['time'] - since)}" if since is not None else ""
    facts = [
        rule,
        _mno(pen),
        _knob(pen, "p", "P"),
        _knob(pen, "share_l", "L"),
        _user(view.get("local_user")),
        _knob(pen, "quantum_ms", "Q", " ms"),
        up,
    ]
    shown = flow(
        max(0, pen.width - 8 - name.cell_len - 2 - clock.cell_len - 2),
        [Text(f) for f in facts if f],
        gap=f" {pen.glyphs.dot} ",
    )
    shown.rstrip()
    return line(pen.width, [Text("cosched ", "bold"), name, "  ", shown], clock)


def _user(why: str | None) -> str:
    """A local user, with the sign of it: "keyboard", or the knob that forces it."""
    if not why:
        return ""
    return f"user at {clean(why)}" if " " not in why else "local user"


def _mno(pen: Pen) -> str:
    local, parallel = pen.knob("mnol"), pen.knob("mnod")
    if local is None:
        return _knob(pen, "mno", "MNO")
    return clean(f"MNO {local}" if local == parallel else f"MNOL {local} MNOD {parallel}")


def _knob(pen: Pen, name: str, label: str, unit: str = "") -> str:
    value = pen.knob(name)
    if value is None:
        return ""
    return clean(f"{label} {value:g}{unit}" if isinstance(value, (int, float)) else f"{label} {value}{unit}")


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
    """Policy fit: the room for jobs, how many run, and why the first of those that wait does."""
    queue = pen.view.get("queue")
    if queue is None:
        return []
    pieces: list[Text | str] = [_label("queue"), f"room {size(queue['room'])}, {len(queue['runs'])} run"]
    if queue["waits"]:
        jid, why = queue["waits"][0]
        others = len(queue["waits"]) - 1
        who = f"{clean(jid)} and {others} more wait" if others else f"{clean(jid)} waits"
        turn = "" if queue["turn_left_s"] is None else f", first in {duration(queue['turn_left_s'])}"
        pieces += [Text(f", {who}{turn}", WARN), Text(f"  {clean(why)}", QUIET)]
    return [line(pen.width, pieces)]


def _label(name: str) -> Text:
    return Text(f"{name:<9}", QUIET)


def _psi(pen: Pen) -> Text:
    some, full = pen.view["memory"]["psi_some"], pen.view["memory"]["psi_full"]
    if some is None:
        return Text()
    text = Text().append("stalled ", QUIET).append(f"{some:.0f} %", WARN if some >= 10 else "")
    if full is not None and pen.width >= 72:
        text.append(f" (all tasks {full:.0f} %)", QUIET)
    return text


def _mode(pen: Pen, bar: int) -> Text:
    recent, span = pen.history.recent_modes(pen.view)
    counts = [("predictive", recent["predictive"]), ("dynamic", recent["dynamic"]), ("CSM", recent["csm"])]
    total = sum(max(0, n) for _, n in counts)
    pieces: list[Text | str] = [
        _label("mode"),
        share_bar([(n, style) for (_, n), style in zip(counts, _MODE_STYLES, strict=True)], bar, pen.glyphs),
        " ",
    ]
    for (name, n), style, shade in zip(counts, _MODE_STYLES, pen.glyphs.shades, strict=True):
        share = percent(max(0, n) / total) if total else pen.glyphs.none
        pieces.append(Text(f"{shade} ", style))
        pieces.append(Text(f"{name} {share}  ", "bold" if total and n == max(c for _, c in counts) else ""))
    pieces.append(Text(span if total else "nothing compared yet", QUIET))
    return line(pen.width, pieces)


def _footer(pen: Pen, note: str, keys: str) -> Text:
    """The keys stay readable; a sentence too long for the rest of the line is cut."""
    room = pen.width - (cell_len(keys) + 2 if keys else 0)
    if room < pen.width // 3:
        return line(pen.width, [Text(clean(note) or keys, LIMIT if note else QUIET)])
    return line(pen.width, [Text(fit(clean(note), room, more=pen.glyphs.more), LIMIT)], Text(keys, QUIET))
