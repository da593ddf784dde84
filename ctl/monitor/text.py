# SPDX-License-Identifier: GPL-2.0-or-later
"""Plain building blocks of the dashboard: numbers with units, bars, columns that never exceed their width."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.cells import cell_len, chop_cells, set_cell_size
from rich.text import Text

from ctl.monitor.palette import LIMIT, QUIET

__all__ = [
    "ASCII",
    "UNICODE",
    "Column",
    "Glyphs",
    "beside",
    "clean",
    "duration",
    "fit",
    "flow",
    "level",
    "line",
    "number",
    "of",
    "percent",
    "row",
    "share_bar",
    "size",
    "spark",
    "whole",
    "wrapped",
]


@dataclass(frozen=True)
class Glyphs:
    """Characters that depend on what the terminal can show."""

    full: str
    empty: str
    over: str
    mark: str
    none: str
    more: str
    dot: str
    sparks: str
    shades: str  # one per part of a share bar, distinct without colour


UNICODE = Glyphs("━", "─", "█", "┃", "–", "…", "·", " ▁▂▃▄▅▆▇", "█▒░")
ASCII = Glyphs("=", "-", "#", "|", "-", "~", ",", " .:-=+*#@", "#=.")


def clean(text: str) -> str:
    """Return text with '?' for each character that could move the cursor or break a line."""
    return "".join(c if c.isprintable() else "?" for c in text)


def fit(text: str, width: int, *, right: bool = False, more: str = "…") -> str:
    """Return text cut or padded to exactly width terminal cells; a cut is marked by `more`."""
    if width <= 0:
        return ""
    length = cell_len(text)
    if length > width:
        return set_cell_size(text, width - 1) + more
    return " " * (width - length) + text if right else text + " " * (width - length)


def number(value: float | None, none: str = "–") -> str:
    """Return a value in at most 5 characters with three figures: 0, 0.25, 12.3, 999, 12.3k, 4.5M."""
    if value is None or not math.isfinite(value):
        return none
    sign, value = ("-", -value) if value < 0 else ("", float(value))
    if value == int(value) and value < 10000:
        return f"{sign}{int(value)}"
    for suffix in ("", "k", "M", "G", "T", "P"):
        digits = 2 if value < 9.995 and not suffix else 1 if value < 99.95 else 0
        if value < (9999.5 if not suffix else 999.5):
            return f"{sign}{value:.{digits}f}{suffix}"
        value /= 1000
    return sign + ">999P"


def size(value: float | None, none: str = "–") -> str:
    """Return bytes as people read them, binary units: 612 MiB, 1.40 GiB."""
    if value is None or not math.isfinite(value):
        return none
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if abs(value) < 1023.5 or unit == "TiB":
            digits = 0 if unit in ("B", "KiB") or abs(value) >= 100 else 1 if abs(value) >= 10 else 2
            return f"{value:.{digits}f} {unit}" if digits else f"{round(value)} {unit}"
        value /= 1024
    raise AssertionError("unreachable")


def of(value: float | None, limit: float | None, none: str = "–") -> str:
    """Return a size against another, with the unit once if it is the same: 612 of 480 MiB."""
    first, second = size(value, none), size(limit, none)
    if first.rpartition(" ")[2] == second.rpartition(" ")[2]:
        first = first.rpartition(" ")[0] or first
    return f"{first} of {second}"


def percent(share: float | None, none: str = "–") -> str:
    """Return a fraction as whole percent, one decimal below 10 %."""
    if share is None or not math.isfinite(share):
        return none
    value = 100 * share
    return f"{value:.1f} %" if 0 < abs(value) < 9.95 else f"{value:.0f} %"


def duration(seconds: float) -> str:
    """Return a length of time in its two largest units: 42 s, 3 min 12 s, 2 h 05 min, 3 d 4 h."""
    total = max(0, int(seconds)) if math.isfinite(seconds) else 0
    if total < 60:
        return f"{total} s"
    if total < 3600:
        return f"{total // 60} min {total % 60:02d} s"
    if total < 86400:
        return f"{total // 3600} h {total % 3600 // 60:02d} min"
    return f"{total // 86400} d {total % 86400 // 3600} h"


def spark(values: Iterable[float | None], width: int, glyphs: Glyphs) -> str:
    """Return the newest `width` values as bars scaled to the largest; zero and unknown are blank."""
    if width <= 0:
        return ""
    newest = [v if v is not None and math.isfinite(v) and v > 0 else 0.0 for v in list(values)[-width:]]
    top, steps = max(newest, default=0.0), glyphs.sparks
    drawn = "".join(steps[math.ceil(v / top * (len(steps) - 1))] if v else steps[0] for v in newest)
    return fit(drawn, width, right=True)


def level(value: float | None, limit: float, width: int, glyphs: Glyphs) -> Text:
    """Return a bar of value against limit; the part beyond the limit has another glyph behind a mark."""
    if width <= 0:
        return Text()
    if value is None or not math.isfinite(value) or limit <= 0:
        return Text(glyphs.empty * width, QUIET)
    top = max(value, limit)
    filled = round(min(max(0.0, value), limit) / top * width)
    if value <= limit:
        bar = Text(glyphs.full * filled)
        return bar.append(glyphs.empty * (width - filled), QUIET)
    filled = max(0, min(filled, width - 2))
    bar = Text(glyphs.full * filled).append(glyphs.mark, "bold")
    return bar.append(glyphs.over * (width - filled - 1), LIMIT)


def share_bar(parts: Sequence[tuple[float, str]], width: int, glyphs: Glyphs) -> Text:
    """Return a bar split by the parts' shares of their sum, each (share, style) in its own shade."""
    total = sum(max(0.0, share) for share, _ in parts)
    if width <= 0:
        return Text()
    if total <= 0:
        return Text(glyphs.empty * width, QUIET)
    bar, done, ends = Text(), 0, 0.0
    for (share, style), shade in zip(parts, glyphs.shades, strict=False):
        ends += max(0.0, share) / total * width
        length = round(ends) - done
        bar.append(shade * length, style)
        done += length
    return bar


def line(width: int, left: Iterable[Text | str], right: Text | str = "") -> Text:
    """Return one line: pieces from the left, one piece flush right where it fits, cut to width."""
    text = Text(no_wrap=True, end="")
    for piece in left:
        text.append(piece) if isinstance(piece, str) else text.append_text(piece)
    tail = Text(right) if isinstance(right, str) else right
    if tail.cell_len and text.cell_len + tail.cell_len + 2 <= width:
        text.pad_right(width - text.cell_len - tail.cell_len)
        text.append_text(tail)
    text.truncate(max(0, width), overflow="ellipsis", pad=True)
    return text


def wrapped(text: str, width: int) -> list[str]:
    """Return text in lines of at most `width` cells, broken between words, or inside a word that is longer than a line.

    >>> wrapped("needs 48 MiB, 31 are free", 14)
    ['needs 48 MiB,', '31 are free']
    """
    lines, room = [""], max(1, width)
    for word in clean(text).split():
        if lines[-1] and cell_len(lines[-1]) + 1 + cell_len(word) <= room:
            lines[-1] += " " + word
            continue
        first, *more = chop_cells(word, room) or [word]  # a mark that only changes the character before it
        lines += [first, *more]
    return lines[1:] if len(lines) > 1 else lines


def whole(width: int, pieces: Sequence[Text], more: str, gap: str = "  ") -> Text:
    """Return the pieces that fit into width, in order, and the number of the others: "… 3 more"; always one."""
    text = Text(no_wrap=True, end="")
    for place, piece in enumerate(pieces):
        left = len(pieces) - place - 1
        note = f"{gap}{more} {left + 1} more"
        needed = text.cell_len + (len(gap) if place else 0) + piece.cell_len + (cell_len(note) if left else 0)
        if place and needed > width:
            return text.append(note, QUIET)
        text.append(gap if place else "").append_text(piece)
    return text


def flow(width: int, pieces: Sequence[Text], gap: str = "   ") -> Text:
    """Return the pieces, in order, that fit into width whole; other pieces are left out."""
    text = Text(no_wrap=True, end="")
    for piece in pieces:
        if not piece.cell_len:
            continue
        between = gap if text.cell_len else ""
        if text.cell_len + len(between) + piece.cell_len <= width:
            text.append(between).append_text(piece)
    text.truncate(max(0, width), pad=True)
    return text


@dataclass(frozen=True)
class Column:
    """One column of a table: title, width in cells, alignment."""

    title: str
    width: int
    right: bool = False


def row(columns: Sequence[Column], values: Sequence[tuple[str, str]], *, style: str = "", more: str = "…") -> Text:
    """Return one table row, the columns a space apart; values are (text, style)."""
    text = Text(no_wrap=True, end="", style=style)
    for i, (column, (value, value_style)) in enumerate(zip(columns, values, strict=True)):
        if i:
            text.append(" ")
        text.append(fit(value, column.width, right=column.right, more=more), value_style)
    return text


def beside(blocks: Sequence[Sequence[Text]], widths: Sequence[int], gap: int = 2) -> list[Text]:
    """Return blocks of lines set side by side, top aligned, each padded to its width."""
    lines = []
    for i in range(max((len(b) for b in blocks), default=0)):
        text = Text(no_wrap=True, end="")
        for n, (block, width) in enumerate(zip(blocks, widths, strict=True)):
            if n:
                text.append(" " * gap)
            piece = block[i].copy() if i < len(block) else Text()
            piece.truncate(width, overflow="crop", pad=True)
            text.append_text(piece)
        lines.append(text)
    return lines
