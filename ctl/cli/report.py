# SPDX-License-Identifier: GPL-2.0-or-later
"""`ctl report`: one page about what happened."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import click

from ctl.cli.common import JSON, moment, output_option
from ctl.errors import FAILED, CoschedError

__all__ = ["report"]

@click.command()
@click.option("--since", metavar="T", default="1d", show_default=True, help="how far back: 90m, 12h, 7d, or a time")
@output_option("-: print it", type=str, default="cosched-report.html", show_default=True)
@click.option("--from", "logs", metavar="LOG", multiple=True, type=click.Path(path_type=Path), help="read this log")
@JSON
def report(since: str, output: str, logs: tuple[Path, ...], as_json: bool) -> None:
    """Write one HTML page about what happened on this node.

    The page has jobs, their waits and stops with reasons, the contract's share as set and as achieved, local latency,
    and lost records. It needs nothing from elsewhere. The agent keeps a log for 30 days; members of group cosched may
    read it. It does not say what jobs run. --from reads other nodes' logs instead, copied from
    /var/lib/cosched/events.jsonl: one page about a cluster.

    \b
    Examples:
      ctl report
      ctl report --since 7d -o week.html
      ctl report --since '2026-11-24 18:00' --json
      ctl report --from node1.jsonl --from node2.jsonl -o cluster.html
    """
    from ctl.monitor.event_log import FILE, read
    from ctl.monitor.report import tell_of

    until = time.time()
    begin = moment(since, until)
    told = [tell_of(read(begin, until, path), begin, until) for path in logs or (FILE,)]
    if as_json:
        import json
        from dataclasses import asdict

        sys.stdout.write(json.dumps([asdict(one) for one in told]) + "\n")
        return
    from ctl.monitor.report_page import page

    text = page(told)
    if output == "-":
        sys.stdout.write(text)
        return
    _write(Path(output), text)
    jobs = sum(len(one.jobs) for one in told)
    click.echo(f"{output}: {jobs} jobs, {sum(len(one.events) for one in told)} other events since {since}")


def _write(path: Path, text: str) -> None:
    """Write a page whole or not at all."""
    new = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        new.write_text(text, encoding="utf-8")
        new.replace(path)
    except OSError as error:
        new.unlink(missing_ok=True)
        raise CoschedError(f"cannot write {path}: {error.strerror}: choose another file with -o", FAILED) from None
