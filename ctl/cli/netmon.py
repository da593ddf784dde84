# SPDX-License-Identifier: GPL-2.0-or-later
"""`ctl netmon`: the queues on the way of a message."""

from __future__ import annotations

import contextlib
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from ctl.cli.common import JSON, Renamed, interval_option, output_option
from ctl.errors import USAGE, CoschedError, brief
from ctl.monitor.netmon.figures import FIGURES, KINDS, Figure

if TYPE_CHECKING:
    from ctl.monitor.netmon.live import LiveView
    from ctl.monitor.netmon.run import Form, Output

__all__ = ["netmon"]

_NUMBER: Final = re.compile(r"\d+(\.\d+)?|\.\d+")


def _figure(figure: Figure) -> str:
    """A line of the help."""
    kind = f"{figure.unit} in the period" if figure.counts else figure.unit
    return f"  {figure.key:<21} {figure.head:<6} {kind + ':':<23} {figure.meaning}"


_HELP: Final = """\
Show the queues on the way of a message, each period: of MPI, sockets, the qdisc, the device, the CPUs' backlogs.

Levels are those at the end of a period, counts are of the period. IFACE is the device of the default route if none
is named. DELAY is in seconds and COUNT is the number of samples, as for vmstat(8). --output writes CSV if the file's
name ends in .csv, else JSON, an object a line. Packets in sockets are known of jobs, while an agent's sensors run.
MPI's queues are known of ranks that have a library preloaded: --preload builds it with the MPI compiler MPICC. On a
terminal, without COUNT, --show and --output, the figures are shown live with their trends; q quits. At the end, or
after Ctrl-C, the monitor tells what it has cost itself: its CPU time, the samples that ended after the next was
due, and the longest excess of a period. --plot writes FILE's name with .png and .svg.

\b
Figures, the heads of their columns, and units:
{figures}

\b
Examples:
  ctl netmon 1 5
  ctl netmon -i 20ms -t 60 --each task -o run.json eth0
  ctl netmon --plot run.json
  ctl netmon --csv -t 10 lo > lo.csv
  mpiexec -x LD_PRELOAD=$(ctl netmon --preload mpicc) PROGRAM
""".format(figures="\n".join(map(_figure, FIGURES)))


def _in_ms(text: str) -> str:
    """A value of --period as one of --interval: as in the thesis, a number alone was in ms."""
    return f"{text}ms" if _NUMBER.fullmatch(text) else text


@click.command(
    help=_HELP,
    cls=Renamed,
    old={"--period": "--interval", "-d": "--interval", "--file": "--output", "-f": "--output", "--by": "--each",
         "-s": "--show"},
    meant={"--period": _in_ms, "-d": _in_ms},
)  # fmt: skip
@interval_option("between two samples [default: 100ms]")
@click.option("--time", "-t", "seconds", type=float, metavar="SECONDS", help="end after so many seconds")
@click.option("--show", is_flag=True, help="print lines, also beside --output")
@output_option("write to a file", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--each", "finest", type=click.Choice(KINDS), default="job", show_default=True, help="the finest lines")
@click.option("--preload", "mpicc", metavar="MPICC", help="print the library for the ranks of this compiler, and end")
@click.option(
    "--plot", "record", metavar="FILE", type=click.Path(path_type=Path), help="draw a file of --output, and end"
)
@click.option("--csv", "as_csv", is_flag=True, help="print CSV")
@JSON
@click.argument("words", nargs=-1, metavar="[IFACE] [DELAY [COUNT]]")
def netmon(
    interval: float | None,
    seconds: float | None,
    show: bool,
    output: Path | None,
    finest: str,
    mpicc: str | None,
    record: Path | None,
    as_csv: bool,
    as_json: bool,
    words: tuple[str, ...],
) -> None:
    """The command; its help is _HELP."""
    if mpicc is not None:
        from ctl.monitor.netmon.mpi import preload_library

        click.echo(preload_library(mpicc))
    elif record is not None:
        from ctl.monitor.netmon.plot import draw

        for drawn in draw(record):
            click.echo(drawn)
    else:
        if as_csv and as_json:
            raise CoschedError("--csv and --json exclude each other: choose one", USAGE)
        device, delay, count = _positional(words)
        if interval is not None and delay is not None:
            raise CoschedError(f"the interval is given twice, -i {interval:g} and {delay:g}: leave one out", USAGE)
        form = "csv" if as_csv else "json" if as_json else "lines" if show or count else "live" if not output else ""
        _monitor(device, delay if interval is None else interval, form, output, finest, seconds, count)


def _monitor(
    device: str | None,
    period_s: float | None,
    form: str,
    file: Path | None,
    finest: str,
    seconds: float | None,
    count: int | None,
) -> None:
    """Watch the queues. `form` of the display: csv, json, lines, live (lines where there is no terminal), or none."""
    from ctl.kernel.net_device import default_device
    from ctl.monitor.netmon.lines import in_words
    from ctl.monitor.netmon.run import Output, Waiting, monitor
    from ctl.monitor.netmon.sampler import PERIOD_S

    device = device or default_device()
    waiting: Waiting | None = None
    with contextlib.ExitStack() as stack:
        outputs = [_to_file(stack, file)] if file else []
        if form == "live" and (view := _live_view(device)) is not None:
            outputs.append(Output(view, _print))
            waiting = view.shown()
        elif form:
            outputs.append(Output(_form(form, finest), _print))
        report = monitor(
            device,
            PERIOD_S if period_s is None else period_s,
            outputs,
            finest=finest,
            seconds=seconds,
            count=count,
            waiting=waiting,
        )
    if form != "json":
        click.echo(in_words(report), err=True)


def _live_view(device: str) -> LiveView | None:
    """The view on the terminal; None where there is none."""
    from rich.console import Console

    from ctl.monitor.netmon.live import LiveView

    console = Console(highlight=False)
    if not (console.is_terminal and sys.stdin.isatty()) or console.is_dumb_terminal:
        return None
    return LiveView(console, f"netmon {device}")


def _form(form: str, finest: str) -> Form:
    """The form of what is printed."""
    from ctl.monitor.netmon.lines import Lines
    from ctl.monitor.netmon.records import Csv, Json

    if form in ("csv", "json"):
        return Csv() if form == "csv" else Json()
    return Lines(named=finest != "node", colour=sys.stdout.isatty() and not os.environ.get("NO_COLOR"))


def _print(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def _to_file(stack: contextlib.ExitStack, path: Path) -> Output:
    """The file, in the form that its name says."""
    from ctl.monitor.netmon.records import Csv, Json
    from ctl.monitor.netmon.run import Output

    def failed(error: OSError) -> CoschedError:
        return CoschedError(f"cannot write {path}: {error.strerror}: choose another file with -f")

    try:
        file = stack.enter_context(path.open("wb", buffering=0))  # each sample is there at once
    except OSError as error:
        raise failed(error) from None

    def write(text: str) -> None:
        left = text.encode()
        try:
            while left:
                left = left[file.write(left) :]
        except OSError as error:
            raise failed(error) from None

    return Output(Csv() if path.suffix == ".csv" else Json(), write)


def _positional(words: tuple[str, ...]) -> tuple[str | None, float | None, int | None]:
    """(interface, delay in seconds, count): of the words, numbers are delay and count. Raises CoschedError (status 2).

    >>> _positional(("eth0", "0.5", "3")), _positional(("1",)), _positional(())
    (('eth0', 0.5, 3), (None, 1.0, None), (None, None, None))
    """
    numbers = [word for word in words if _NUMBER.fullmatch(word)]
    names = [word for word in words if not _NUMBER.fullmatch(word)]
    if len(names) > 1 or len(numbers) > 2 or [*names, *numbers] != list(words):
        raise CoschedError(
            f"{brief(' '.join(words))} is not [IFACE] [DELAY [COUNT]], as in `ctl netmon eth0 1 5`", USAGE
        )
    if numbers[1:] and (not numbers[1].isdigit() or int(numbers[1]) < 1):
        raise CoschedError(f"count {numbers[1]} is out of range: a whole number of samples, at least 1", USAGE)
    delay = float(numbers[0]) if numbers else None
    return names[0] if names else None, delay, int(numbers[1]) if numbers[1:] else None
