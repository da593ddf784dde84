# SPDX-License-Identifier: GPL-2.0-or-later
"""`ctl trace`: the scheduler's decisions, printed, kept, or as a trace for Perfetto."""

from __future__ import annotations

import contextlib
import itertools
import json
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import click

from ctl.cli.common import JSON, Renamed, output_option
from ctl.errors import FAILED, USAGE, CoschedError

__all__ = ["trace"]

_OUT = click.Path(dir_okay=False, path_type=Path)


@click.command(cls=Renamed, old={"--raw": "--output"})
@click.option("--count", "-n", type=click.IntRange(min=1), metavar="N", help="end after N decisions")
@output_option("write the kernel's records to FILE instead of printing", type=_OUT)
@click.option("--perfetto", type=_OUT, metavar="FILE", help="write a trace that ui.perfetto.dev opens to FILE instead")
@click.option(
    "--from",
    "sources",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    multiple=True,
    metavar="FILE",
    help="take the records of a FILE written by --output or --json; needs no agent; may be repeated",
)
@click.option(
    "--offset",
    "offsets",
    multiple=True,
    metavar="NODE=SECONDS",
    help="with --perfetto: add this to a node's times, by how much its clock is behind; may be repeated",
)
@JSON
def trace(
    count: int | None,
    output: Path | None,
    perfetto: Path | None,
    sources: tuple[Path, ...],
    offsets: tuple[str, ...],
    as_json: bool,
) -> None:
    """Print every insertion into a ready queue. A line has the task, its place, and the tasks that it overtook.

    The scheduler records decisions only while a reader is connected. The number of lost decisions follows at the end,
    on stderr. --perfetto writes them with the runs, queues and stops around them; of several nodes' files, named for
    their nodes (node1.jsonl), it makes one trace.

    \b
    Examples:
      ctl trace --count 20
      ctl trace --json --count 1000 > decisions.jsonl
      ctl trace --output decisions.bin --count 100000
      ctl trace --from decisions.bin --json
      ctl trace --perfetto node1.pftrace
      ctl trace --from node1.jsonl --from node2.jsonl --offset node2=-0.0015 --perfetto both.pftrace
    """
    if output is not None and (as_json or sources):
        raise CoschedError("--output writes a file and prints no decisions: leave out --json and --from", USAGE)
    if perfetto is not None and (as_json or output is not None):
        raise CoschedError("--perfetto writes a trace alone: leave out --json and --output", USAGE)
    if offsets and perfetto is None:
        raise CoschedError("--offset is for --perfetto FILE: printed decisions have their own times", USAGE)
    if sources and perfetto is not None:
        _convert(sources, count, perfetto, offsets)
    elif sources:
        from ctl.monitor.recorder import decisions, read

        for source in sources:
            _show(itertools.islice(decisions(read(source)), count), as_json)
    else:
        _live(count, output, perfetto, offsets, as_json)


def _convert(sources: tuple[Path, ...], count: int | None, out: Path, offsets: tuple[str, ...]) -> None:
    """Files to one trace."""
    from ctl.monitor.perfetto_trace import write_trace
    from ctl.monitor.recorder import from_file, shifts, together

    shift = shifts(offsets)
    recordings = [from_file(source, count, shift) for source in sources]
    together(recordings, shift)
    with out.open("wb") as file:
        _written(write_trace(file, recordings), out)


def _live(count: int | None, raw: Path | None, perfetto: Path | None, offsets: tuple[str, ...], as_json: bool) -> None:
    """The agent's stream, printed or into a file."""
    from ctl.kernel import trace as records
    from ctl.protocol import Client

    write = _writer(raw, perfetto, offsets, as_json)
    lost = records.Lost()
    with Client() as agent, contextlib.ExitStack() as stack:
        if perfetto is not None:
            stack.enter_context(_interrupt_ends(agent))
        taken = records.up_to(count, lost.watch(agent.stream_raw("trace")))
        try:
            written = write(taken)
        except KeyboardInterrupt:
            return
        finally:
            if lost.count:
                click.echo(f"{lost.count} decisions were lost: the reader is slower than the kernel", err=True)
    if count is not None and written < count:
        raise CoschedError(f"the agent ended after {written} of {count} decisions: see `ctl status`", FAILED)


def _writer(
    raw: Path | None, perfetto: Path | None, offsets: tuple[str, ...], as_json: bool
) -> Callable[[Iterable[bytes]], int]:
    """What becomes of the stream; it returns the number of decisions. All is imported before the stream begins, so that
    none is lost meanwhile."""
    if perfetto is not None:
        return _recorder(perfetto, offsets)
    from ctl.kernel import trace as records
    from ctl.monitor.recorder import Fresh, decisions

    def keep(taken: Iterable[bytes]) -> int:
        assert raw is not None
        written = records.write_file(raw, taken)
        _written(written, raw)
        return written

    return keep if raw is not None else lambda taken: _show(decisions(map(Fresh().decode, taken)), as_json)


def _recorder(out: Path, offsets: tuple[str, ...]) -> Callable[[Iterable[bytes]], int]:
    """The stream into a trace, until it has enough or is interrupted."""
    from ctl.monitor.perfetto_trace import write_trace
    from ctl.monitor.recorder import from_agent, shifts, together
    from ctl.protocol import Client

    shift = shifts(offsets)

    def record(taken: Iterable[bytes]) -> int:
        with Client() as follower:
            recording = from_agent(taken, shift, follower)
            together([recording], shift)
            with out.open("wb") as file:
                written = write_trace(file, [recording])
        _written(written, out)
        return written

    return record


@contextlib.contextmanager
def _interrupt_ends(agent: Any) -> Iterator[None]:
    """Control-C ends the stream, so that what is under way is written to its end."""
    before = signal.signal(signal.SIGINT, lambda _number, _frame: agent.finish())
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _written(number: int, out: Path) -> None:
    click.echo(f"{number} decisions in {out}", err=True)


def _show(stream: Iterable[dict[str, Any]], as_json: bool) -> int:
    """Print decisions as they come; returns their number."""
    from ctl.monitor.decisions import sentence

    shown = 0
    live = sys.stdout.isatty()
    for decision in stream:
        sys.stdout.write((json.dumps(decision) if as_json else sentence(decision)) + "\n")
        shown += 1
        if live:
            sys.stdout.flush()
    sys.stdout.flush()
    return shown
