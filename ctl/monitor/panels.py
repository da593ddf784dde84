# SPDX-License-Identifier: GPL-2.0-or-later
"""The dashboard's frame: a View and its recent history drawn as lines of exact width.

Top to bottom: a title, one of the PAGES, the keys.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, NamedTuple

from rich.cells import cell_len
from rich.text import Text

from ctl.contract import View
from ctl.monitor.job_queue import job_queue
from ctl.monitor.nodes import cluster
from ctl.monitor.overview import overview
from ctl.monitor.palette import LIMIT, QUIET, WARN
from ctl.monitor.pen import History, Pen
from ctl.monitor.text import UNICODE, Glyphs, clean, duration, fit, flow, line

__all__ = ["PAGES", "History", "Page", "frame"]


class Page(NamedTuple):
    """A page of the dashboard; its key is its place in PAGES, from 1."""

    name: str
    draw: Callable[[Pen, int], list[Text]]  # at most so many lines


PAGES: Final = (Page("overview", overview), Page("queue", job_queue), Page("nodes", cluster))


def frame(
    view: View,
    history: History,
    width: int,
    height: int | None,
    *,
    page: Page = PAGES[0],
    glyphs: Glyphs = UNICODE,
    note: str = "",
    keys: str = "",
) -> list[Text]:
    """Return the lines of one frame, each exactly `width` cells, at most `height` (None: as many as needed).

    `note` is one sentence about the dashboard itself (paused, agent silent), `keys` the keys that work beside those of
    the pages; without keys there is no line of them.
    """
    pen = Pen(view, history, max(1, width), glyphs, height is not None)
    room = height if height is not None else 100000
    foot = [_footer(pen, page, note, keys)] if (note or keys) and room > 1 else []
    body = page.draw(pen, max(0, room - 1 - len(foot)))
    if pen.steady:
        body += [line(pen.width, [])] * (room - 1 - len(foot) - len(body))
    lines = [_title(pen), *body, *foot][:room]
    for text in lines:
        text.truncate(pen.width, overflow="crop", pad=True)
        text.stylize_before(text.style)  # Text.render() leaves out the style of a text without spans
        if not glyphs.more.isascii():
            continue
        text.plain = "".join(c if c.isascii() else glyphs.more * cell_len(c) for c in text.plain)
    return lines


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


def _footer(pen: Pen, page: Page, note: str, keys: str) -> Text:
    """The pages on the left, this one in reverse, and the keys on the right; a note takes the place of the pages."""
    room = pen.width - (cell_len(keys) + 2 if keys else 0)
    if room < pen.width // 3:
        return line(pen.width, [Text(clean(note) or keys, LIMIT if note else QUIET)])
    if note:
        return line(pen.width, [Text(fit(clean(note), room, more=pen.glyphs.more), LIMIT)], Text(keys, QUIET))
    names = [(f" {key} {one.name} ", "reverse" if one is page else QUIET) for key, one in enumerate(PAGES, 1)]
    return line(pen.width, [Text(name, style) for name, style in names], Text(keys, QUIET))
