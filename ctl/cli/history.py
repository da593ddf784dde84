# SPDX-License-Identifier: GPL-2.0-or-later
"""`ctl history`: what jobs needed, and to forget it."""

from __future__ import annotations

import os
import shutil
from typing import Any

import click

from ctl.cli.common import JSON, Group, emit, number, table
from ctl.errors import USAGE, CoschedError, brief

__all__ = ["history"]

_MIB = 1 << 20


class _Lists(Group):
    """A group that lists where no command of it is named: `ctl history ./sim` is `ctl history list ./sim`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Name the command first."""
        known = args and (args[0] in self.list_commands(ctx) or args[0] in self.get_help_option_names(ctx))
        return super().parse_args(ctx, args if known else ["list", *args])


@click.group(cls=_Lists)
def history() -> None:
    """List what jobs needed on this node so far, by key, user and ranks, and the estimate for the next run.

    The key is the program that a job is about, behind wrappers as nice, timeout, mpiexec or conda run, with the script
    of an interpreter, the directory and targets of make, the jar of java, the image of apptainer. `ctl run
    --estimate-as` chooses another one, `ctl run --verbose` tells it. A job of Slurm has slurm: and its name.

    Without a command `ctl history` lists.

    \b
    Examples:
      ctl history
      ctl history ./sim
      ctl history forget ./sim
    """


@history.command("list")
@click.argument("key", required=False)
@JSON
def list_(key: str | None, as_json: bool) -> None:
    """List what jobs needed: all, or those whose key is or has this word.

    most: in memory and in swap. working set: the most that a run had in memory while no page came back from swap, or in
    both. estimate: the smaller of the most and of the mean plus three standard deviations, of this month's runs and the
    last one's; for another number of ranks, by rank. Policy fit uses it for jobs without --memory.

    \b
    Examples:
      ctl history
      ctl history ./sim
    """
    from ctl.protocol import Client

    with Client() as agent:
        found: list[dict[str, Any]] = agent.call("history")
    if key is not None:
        found = [one for one in found if _is_called(one["program"], key)]

    def people() -> None:
        rows = [
            (
                *(one["program"], one["user"], number(one["ranks"] or None), str(one["runs"])),
                *(number(one[name] / _MIB if one[name] else None, 1) for name in ("most", "working", "estimate")),
            )
            for one in found
        ]
        columns = ("key", "user", "ranks", "runs", "most MiB", "working set MiB", "estimate MiB")
        table(columns, rows, right=columns[2:], empty="no job has ended under policy fit yet")

    emit(found, as_json, people)


@history.command()
@click.argument("words", metavar="KEY…", nargs=-1, required=True)
@JSON
def forget(words: tuple[str, ...], as_json: bool) -> None:
    """Forget the runs of one key: one's own; as root those of all users.

    KEY as `ctl history` lists it, with or without quotes, or a word of one key alone.

    \b
    Examples:
      ctl history forget ./sim
      ctl history forget /usr/bin/make /home/eve/sim small
    """
    from ctl.protocol import Client

    with Client() as agent:
        key = _chosen(" ".join(words), {one["program"] for one in agent.call("history")})
        answer: dict[str, Any] = agent.call("forget", program=key)
    runs = answer["runs"]
    emit(answer, as_json, lambda: click.echo(f"{runs} run{'' if runs == 1 else 's'} of {key} forgotten"))


def _chosen(wanted: str, keys: set[str]) -> str:
    """The key that these words name. Raises CoschedError (status 2) if they name none, or several.

    >>> _chosen("/x/sim.py", {"/bin/python3 /x/sim.py", "/bin/python3 /x/other.py"})
    '/bin/python3 /x/sim.py'
    """
    near = sorted(key for key in keys if _is_called(key, wanted))
    if wanted in keys or len(near) == 1:
        return wanted if wanted in keys else near[0]
    what = f"{brief(wanted)} is in {len(near)} keys" if near else f"no run of {brief(wanted)} is known"
    raise CoschedError(f"{what}: `ctl history` lists the keys, give the whole of one", USAGE)


def _is_called(key: str, word: str) -> bool:
    """Whether a key is or has this word, or the program or file that it leads to."""
    return bool({word, os.path.realpath(word), os.path.realpath(shutil.which(word) or word)} & {key, *key.split()})
