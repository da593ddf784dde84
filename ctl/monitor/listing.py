# SPDX-License-Identifier: GPL-2.0-or-later
"""Tables whose rows have a sentence each: in a column of its own where there is room, else in the lines beneath."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from rich.cells import cell_len
from rich.text import Text

from ctl.monitor.palette import HEAD, QUIET
from ctl.monitor.pen import Pen
from ctl.monitor.text import Column, line, row, wrapped

__all__ = ["Entry", "listing"]

_NAME: Final = (8, 40)  # cells of the first column: at least, at most
_NOTE: Final = 44  # cells below which a column of sentences is not worth having
_INDENT: Final = 4


class Entry(NamedTuple):
    """A row: its name and the cells of the other columns, each a text and its style, and its sentence."""

    name: tuple[str, str]
    cells: Sequence[tuple[str, str]]
    note: str = ""


def listing(pen: Pen, names: str, columns: Sequence[Column], entries: Sequence[Entry], room: int) -> list[Text]:
    """A table in at most `room` lines, each exactly as wide as the page; rows that do not fit are counted.

    `names` is the title of the first column. Names are not cut: the last columns give way to a long name.
    """
    least, most = _NAME
    longest = max([least, cell_len(names), *(min(most, cell_len(entry.name[0])) for entry in entries)])
    kept = list(columns)
    while kept and longest + _taken(kept) > pen.width:
        kept.pop()
    spare = pen.width - longest - _taken(kept)
    beside = spare - 2 >= _NOTE and any(entry.note for entry in entries)
    if not beside:
        longest = min(most, longest + max(0, spare))
    shown = [Column(names, longest), *kept]
    head = row(shown, [(column.title, "") for column in shown], style=HEAD, more=pen.glyphs.more)
    if beside:
        head.append("  WHY", HEAD)
    head.append(" " * max(0, pen.width - head.cell_len), HEAD)
    blocks = [_block(pen, shown, entry, beside) for entry in entries]
    return [head, *_fill(pen, blocks, room - 1)][: max(0, room)]


def _taken(columns: Sequence[Column]) -> int:
    return sum(column.width + 1 for column in columns)


def _block(pen: Pen, columns: Sequence[Column], entry: Entry, beside: bool) -> list[Text]:
    first = row(columns, [entry.name, *entry.cells[: len(columns) - 1]], more=pen.glyphs.more)
    if not entry.note:
        return [line(pen.width, [first])]
    at = first.cell_len + 2 if beside else _INDENT
    notes = [Text(text, QUIET) for text in wrapped(entry.note, pen.width - at)]
    if not beside:
        return [line(pen.width, [first]), *(line(pen.width, [" " * at, note]) for note in notes)]
    return [
        line(pen.width, [first, "  ", notes[0]]),
        *(line(pen.width, [" " * at, note]) for note in notes[1:]),
    ]


def _fill(pen: Pen, blocks: Sequence[list[Text]], room: int) -> list[Text]:
    lines: list[Text] = []
    for place, block in enumerate(blocks):
        left = len(blocks) - place - 1
        if len(lines) + len(block) + bool(left) > room:
            return [*lines, line(pen.width, [Text(f"{pen.glyphs.more} {left + 1} more", QUIET)])]
        lines += block
    return lines
