# SPDX-License-Identifier: GPL-2.0-or-later
"""Shared by the commands: --json, --set, tables for people and for programs."""

from __future__ import annotations

import importlib
import json
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import click

__all__ = ["JSON", "Group", "emit", "print_event", "settings", "table"]

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
) -> None:
    """Print a table: rich on a terminal, else columns of plain text. `right`: columns of numbers; `empty`: printed
    without rows."""
    rows = list(rows)
    if not rows and empty:
        click.echo(empty)
    elif sys.stdout.isatty():
        _rich_table(columns, rows, right)
    else:
        _plain_table(columns, rows, right)


def _rich_table(columns: Sequence[str], rows: list[Sequence[str]], right: Sequence[str]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    shown = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in columns:
        shown.add_column(name, justify="right" if name in right else "left", overflow="fold")
    for row in rows:
        shown.add_row(*(Text(cell) for cell in row))
    Console(highlight=False).print(shown)


def _plain_table(columns: Sequence[str], rows: list[Sequence[str]], right: Sequence[str]) -> None:
    widths = [max(map(len, column)) for column in zip(columns, *rows, strict=True)]
    for row in [columns, *rows]:
        cells = [
            cell.rjust(width) if name in right else cell.ljust(width)
            for name, cell, width in zip(columns, row, widths, strict=True)
        ]
        click.echo("  ".join(cells).rstrip())


def print_event(event: dict[str, Any], as_json: bool) -> None:
    """Print one line for one event."""
    if as_json:
        click.echo(json.dumps(event))
    else:
        clock = time.strftime("%H:%M:%S", time.localtime(event["time"]))
        click.echo(f"{clock}.{int(event['time'] * 1000) % 1000:03d}  {event['text']}")
    sys.stdout.flush()
