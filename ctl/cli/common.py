# SPDX-License-Identifier: GPL-2.0-or-later
"""Shared by the commands: --json, --set, tables for people and for programs."""

from __future__ import annotations

import importlib
import json
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from ctl.errors import USAGE, CoschedError, brief

__all__ = [
    "JSON",
    "Group",
    "Renamed",
    "emit",
    "interval_option",
    "moment",
    "number",
    "output_option",
    "print_event",
    "seconds_of",
    "settings",
    "table",
]

_UNITS = {"us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0}
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_GAP, _CLOSE = 3, 2  # cells between two columns of a table on a terminal, and on a narrow one

F = TypeVar("F", bound=Callable[..., object])


JSON = click.option("--json", "as_json", is_flag=True, help="print JSON, for programs")


def settings(function: F) -> F:
    """--set KNOB=VALUE, as the parameter `assignments`."""
    return click.option(
        "--set",
        "-s",
        "assignments",
        metavar="KNOB=VALUE",
        multiple=True,
        help="a knob's value, checked before the command changes anything; may be repeated",
    )(function)


class Group(click.Group):
    """Commands in the order of their declaration; a mistyped name is answered with similar names.

    `places`: commands that are imported when they are wanted, each by "module:name".
    """

    def __init__(self, *arguments: Any, places: Mapping[str, str] | None = None, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self._places = dict(places or {})

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All names, as declared."""
        return [*self._places, *self.commands]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of this name, imported now if it was not yet; None if there is none."""
        if place := self._places.get(cmd_name):
            module, _, name = place.partition(":")
            command: click.Command = getattr(importlib.import_module(module), name)
            return command
        return super().get_command(ctx, cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command; a usage error with suggestions if there is none."""
        name, names = args[0] if args else "", self.list_commands(ctx)
        if name and not name.startswith("-") and name not in names:
            import difflib

            near = difflib.get_close_matches(name, names, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"choose one of {', '.join(names)}"
            raise click.UsageError(f"there is no command {name!r}: {hint}", ctx)
        return super().resolve_command(ctx, args)


class Renamed(click.Command):
    """A command that takes old names of its options, which no help shows.

    `old`: each old name with the new one. `meant`: of old names whose values were written in another way, what makes a
    value of today.
    """

    def __init__(
        self,
        *arguments: Any,
        old: Mapping[str, str],
        meant: Mapping[str, Callable[[str], str]] | None = None,
        **keywords: Any,
    ) -> None:
        super().__init__(*arguments, **keywords)
        self._old, self._meant = old, meant or {}

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the words with the new names."""
        words, rest = list[str](), list(args)
        while rest and rest[0] != "--":
            word = rest.pop(0)
            name, equals, value = word.partition("=") if word[:2] == "--" else (word[:2], word[2:], word[2:])
            new = self._old.get(name)
            if new is None or (equals and self._is_flag(new)):
                words.append(word)
                continue
            words.append(new)
            if not self._is_flag(new) and (equals or rest):
                value = value if equals else rest.pop(0)
                words.append(self._meant.get(name, str)(value))
        return super().parse_args(ctx, [*words, *rest])

    def _is_flag(self, name: str) -> bool:
        return any(isinstance(one, click.Option) and one.is_flag and name in one.opts for one in self.params)


def output_option(help: str, **more: Any) -> Callable[[F], F]:
    """--output FILE, as `output`, a path: the only name there is for what a command writes."""
    keywords = {"metavar": "FILE", "type": click.Path(path_type=Path), **more}
    return click.option("--output", "-o", "output", help=help, **keywords)


def interval_option(help: str) -> Callable[[F], F]:
    """--interval TIME, as `interval`, in seconds; None without."""

    def seconds(_context: click.Context, _parameter: click.Parameter, text: str | None) -> float | None:
        return None if text is None else seconds_of(text)

    told = f"{help}: 0.5, 500ms, 1s; a number alone is in s"
    return click.option("--interval", "-i", "interval", metavar="TIME", callback=seconds, help=told)


def seconds_of(text: str) -> float:
    """A length of time in seconds. Raises CoschedError (status 2).

    >>> seconds_of("0.5"), seconds_of("2s"), seconds_of("100us")
    (0.5, 2.0, 0.0001)
    """
    import re

    found = re.fullmatch(r"(\d+(?:\.\d+)?|\.\d+)(us|µs|ms|s)?", text.strip(), re.ASCII)
    if not found:
        raise CoschedError(f"interval {brief(text)} is no time: give 100us, 100ms or 1s; 1 alone is 1 s", USAGE)
    return round(float(found[1]) * _UNITS[found[2] or "s"], 9)


def emit(value: Any, as_json: bool, people: Callable[[], None]) -> None:
    """Print a result: one line of JSON, or by the function `people`."""
    if as_json:
        sys.stdout.write(json.dumps(value) + "\n")
    else:
        people()


def table(
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    right: Sequence[str] = (),
    empty: str = "",
    give_way: Sequence[str] = (),
) -> None:
    """Print a table: rich on a terminal, else columns of plain text.

    `right`: columns of numbers; `empty`: printed without rows; `give_way`: columns that a terminal too narrow for all
    does not show, the first one first.
    """
    rows = list(rows)
    if not rows and empty:
        click.echo(empty)
    elif sys.stdout.isatty():
        _rich_table(columns, rows, right, give_way)
    else:
        _plain_table(columns, rows, right)


def _rich_table(
    columns: Sequence[str], rows: list[Sequence[str]], right: Sequence[str], give_way: Sequence[str]
) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False)
    shown, widths = _fitting(columns, rows, give_way, console.width)
    told = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=widths is not None)
    for name in shown:
        width = widths[name] if widths else None
        told.add_column(name, justify="right" if name in right else "left", overflow="fold", width=width)
    for row in rows:
        cells = dict(zip(columns, row, strict=True))
        told.add_row(*(Text(cells[name]) for name in shown))
    console.print(told)
    if len(shown) < len(columns):
        left = ", ".join(name for name in columns if name not in shown)
        console.print(Text(f"the terminal is too narrow for {left}; --json has all", "dim"))


def _fitting(
    columns: Sequence[str], rows: list[Sequence[str]], give_way: Sequence[str], width: int
) -> tuple[list[str], dict[str, int] | None]:
    """The columns that a terminal has room for, and their widths; None: rich finds them.

    A title may be broken between its words, a cell may not: rich would tell a number in two lines.

    >>> _fitting(["job", "CPU time s", "state"], [["sim", "12.5", "free"]], ["state"], 15)
    (['job', 'CPU time s'], {'job': 3, 'CPU time s': 4})
    """
    from rich.cells import cell_len

    full = {name: max(map(cell_len, (name, *cells))) for name, *cells in zip(columns, *rows, strict=True)}
    least = {name: max(map(cell_len, (*name.split(), *cells))) for name, *cells in zip(columns, *rows, strict=True)}
    shown, hidden = list(columns), list(give_way)
    if not give_way or _needed(full, shown, _GAP) <= width:
        return shown, None
    while hidden and _needed(least, shown, _CLOSE) > width:
        shown.remove(hidden.pop(0))
    if _needed(least, shown, _CLOSE) > width:
        return shown, None
    widths = {name: least[name] for name in shown}
    for name in shown:  # titles stay in one line while there is room
        if _needed(widths | {name: full[name]}, shown, _CLOSE) <= width:
            widths[name] = full[name]
    return shown, widths


def _needed(widths: Mapping[str, int], columns: Sequence[str], gap: int) -> int:
    """The cells of a table, with one on each side."""
    return sum(widths[name] + gap for name in columns) - gap + 2


def _plain_table(columns: Sequence[str], rows: list[Sequence[str]], right: Sequence[str]) -> None:
    widths = [max(map(len, column)) for column in zip(columns, *rows, strict=True)]
    for row in [columns, *rows]:
        cells = [
            cell.rjust(width) if name in right else cell.ljust(width)
            for name, cell, width in zip(columns, row, widths, strict=True)
        ]
        click.echo("  ".join(cells).rstrip())


def number(value: float | None, digits: int = 0) -> str:
    """For a cell: "-" for an unknown value."""
    return "-" if value is None else f"{value:.{digits}f}"


def moment(text: str, now: float) -> float:
    """The value of --since as Unix time: so long ago, or a date. Raises CoschedError (status 2).

    >>> moment("90m", 10_000.0)
    4600.0
    """
    import re
    from datetime import datetime

    if ago := re.fullmatch(r"(\d{1,6})([smhdw])", text.strip(), re.ASCII):
        return now - int(ago[1]) * _SECONDS[ago[2]]
    try:
        return datetime.fromisoformat(text.strip()).timestamp()
    except (ValueError, OverflowError, OSError):
        what = f"--since {brief(text)} is no time: give 90m, 12h, 7d or a date like '2026-11-24 18:00'"
        raise CoschedError(what, USAGE) from None


def print_event(event: dict[str, Any], as_json: bool, day: bool = False) -> None:
    """Print one line for one event; `day`: with the date."""
    if as_json:
        click.echo(json.dumps(event))
    else:
        clock = time.strftime("%Y-%m-%d %H:%M:%S" if day else "%H:%M:%S", time.localtime(event["time"]))
        click.echo(f"{clock}.{int(event['time'] * 1000) % 1000:03d}  {event['text']}")
    sys.stdout.flush()
