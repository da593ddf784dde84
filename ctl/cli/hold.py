# SPDX-License-Identifier: GPL-2.0-or-later
"""`ctl hold`, `ctl release`."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import click

from ctl.cli.common import JSON, emit

__all__ = ["hold", "release"]


@click.command()
@click.argument("jids", metavar="JID…", nargs=-1, required=True)
@JSON
def hold(jids: tuple[str, ...], as_json: bool) -> None:
    """Stop jobs on all their nodes until `ctl release`.

    A job that runs is frozen, and its memory goes to swap. A job that waits in the queue of policy fit does not begin.
    Meanwhile it keeps no room from others, and no turn. A job's owner and root may put it on hold, and release it,
    on any of its nodes. `ctl cancel` ends a job on hold as any other.

    Where cosched is unloaded or its agent ends, jobs on hold go on. A new agent hears from a job's other nodes, if
    there are any, that it is on hold. Nodes tell each other in a cluster (`ctl cluster`) under policies with events, as
    ccs and fit; elsewhere a hold is of one node.

    \b
    Examples:
      ctl hold sim
      ctl release sim
    """
    _each("hold", jids, as_json, _held)


@click.command()
@click.argument("jids", metavar="JID…", nargs=-1, required=True)
@JSON
def release(jids: tuple[str, ...], as_json: bool) -> None:
    """Let jobs on hold go on, on all their nodes.

    Under policy fit a job waits for memory, behind those that waited meanwhile.

    \b
    Example:
      ctl release sim
    """
    _each("release", jids, as_json, _released)


def _each(op: str, jids: tuple[str, ...], as_json: bool, words: Callable[[dict[str, Any]], str]) -> None:
    """Ask for an operation on each job, and print what was done, also before one is refused."""
    from ctl.protocol import Client

    done: list[dict[str, Any]] = []

    def people() -> None:
        for one in done:
            click.echo(f"job {one['jid']} {words(one)}")

    try:
        with Client() as agent:
            for jid in jids:
                done.append(agent.call(op, jid=jid))
    finally:
        emit(done, as_json, people)


def _held(one: dict[str, Any]) -> str:
    since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(one["since"]))
    if one["already"]:
        return f"is on hold already, by {one['by']} since {since}"
    what = "on hold" if one["was"] == "here" else "on hold, and does not begin"
    return f"is {what}: `ctl release {one['jid']}` lets it go on"


def _released(one: dict[str, Any]) -> str:
    if one["state"] == "stopped":
        return f"is released, and stopped: {one['why']}"
    return "goes on" if one["was"] == "here" else "is released: it begins when it is its turn"
