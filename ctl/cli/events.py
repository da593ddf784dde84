# SPDX-License-Identifier: GPL-2.0-or-later
"""`ctl events`: what happened on this node, and what happens."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import Any, Final

import click

from ctl.cli.common import JSON, moment, print_event

__all__ = ["events"]

_SINCE: Final = "1d"
_OF_ALL_JOBS: Final = ("follow", "lost")  # kinds that are told with --job, too: what may be missing


@click.command()
@click.option("--follow", "-f", is_flag=True, help="print events as they come, until interrupted")
@click.option("--since", metavar="T", help=f"how far back: 90m, 12h, 7d, or a time  [default: {_SINCE}; with --follow "
              "from now on]")  # fmt: skip
@click.option("--job", "-j", "jid", metavar="JID", help="only events of this job")
@JSON
def events(follow: bool, since: str | None, jid: str | None, as_json: bool) -> None:
    """Print what happened on this node, an event a line.

    Events: jobs that begin, wait, are stopped or put on hold, go on and end, with reasons; overload; local users;
    policies and knobs; schedulers that start and end; the cluster's nodes, and their messages.

    The agent keeps a log for 30 days; members of group cosched may read it. --follow prints what comes, too, and needs
    no log. With --json a line is an object. `ctl report` makes one page of the log, `ctl cluster events` prints the
    messages between nodes alone.

    \b
    Examples:
      ctl events
      ctl events --since 7d --job sim
      ctl events --follow --json
    """
    from ctl.monitor import event_log
    from ctl.monitor.follow import follow as come

    now = time.time()
    begin = moment(since or _SINCE, now)
    coming = come() if follow else iter(())
    first = next(coming, None)  # none is missed from here on
    known = event_log.read(begin, now, event_log.FILE).events if since or not follow else []
    told = [event for event in known if event["kind"] != event_log.FIGURES]
    for event in _of(jid, told):
        print_event(event, as_json, day=True)
    if first is not None:
        print_event(first, as_json, day=bool(told))
        twice = {(event["time"], event["text"]) for event in told}
        for event in _of(jid, coming):
            if (event["time"], event["text"]) not in twice:
                print_event(event, as_json, day=bool(told))


def _of(jid: str | None, found: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The events of a job, or all of them."""
    return (event for event in found if jid is None or event.get("jid") == jid or event["kind"] in _OF_ALL_JOBS)
