# SPDX-License-Identifier: GPL-2.0-or-later
"""`ctl cancel`."""

from __future__ import annotations

import signal
from typing import Any

import click

from ctl.cli.common import JSON, emit
from ctl.errors import CoschedError

__all__ = ["cancel"]


def _signal(_context: click.Context, _parameter: click.Parameter, text: str) -> signal.Signals:
    """The value of --signal: TERM, SIGTERM or 15."""
    try:
        if text.isascii() and text.isdigit():
            return signal.Signals(int(text))
        return signal.Signals["SIG" + text.upper().removeprefix("SIG")]
    except (KeyError, ValueError):
        raise CoschedError(f"--signal {text!r} is no signal: write TERM, USR1 or 15; `kill -l` lists them", 2) from None


@click.command()
@click.argument("jids", metavar="JID…", nargs=-1, required=True)
@click.option("--grace", metavar="S", type=click.IntRange(1, 600), default=30, show_default=True,
              help="seconds from the signal to SIGKILL")
@click.option("--now", is_flag=True, help="SIGKILL at once")
@click.option("--signal", "number", metavar="NAME", default="TERM", show_default=True, callback=_signal,
              help="the signal that tells the job to end")
@JSON
def cancel(jids: tuple[str, ...], grace: int, now: bool, number: signal.Signals, as_json: bool) -> None:
    """End jobs here, or take them out of the queue.

    The processes of a job get a signal, and SIGKILL if they are there --grace seconds later. MPI's launchers get none:
    Open MPI's would kill the ranks. A stopped job goes on, to end. A second cancel can only shorten the grace. If
    cosched is unloaded before, nobody is killed.

    \b
    Examples:
      ctl cancel sim
      ctl cancel --grace 300 --signal USR1 sim other
      ctl cancel --now sim
    """
    from ctl.protocol import Client

    done: list[dict[str, Any]] = []

    def people() -> None:
        for one in done:
            words = f"got {number.name}; killed in {one['grace']} s if it has not ended" if one["grace"] else "killed"
            waited = "waits no longer: its `ctl run` ends"
            click.echo(f"job {one['jid']} {words if one['was'] == 'here' else waited}")

    try:
        with Client() as agent:
            for jid in jids:
                done.append(agent.call("cancel", jid=jid, signal=int(number), grace=0 if now else grace))
    finally:  # what was done before one is refused
        emit(done, as_json, people)
