#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""What `ctl netmon` costs on this machine: `just bench-netmon`, or `python -m tests.bench.netmon`.

Each row is a run of its own, on the loopback, by job, into a file, beside pairs of TCP sockets that hold a message. The
figures are the monitor's report on itself. "By the kernel's clock" checks its first figure: the CPU time of the whole
process, less that of a run of a single sample, by getrusage(2). On a busy host samples overlap, periods are left out,
and the first figure is too small; "a sample, of a period" is what it would be without. The last lines have the shortest
period for which that is within --share, for each number of sockets.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, NamedTuple

import click

__all__ = ["Measured", "main", "markdown", "shortest"]

_PERIODS_MS: Final = (100.0, 50.0, 30.0, 25.0, 20.0, 17.0, 15.0, 13.0, 11.0, 10.0, 8.0, 6.0, 5.0)
_HEADINGS: Final = ("sockets", "period, ms", "samples", "extra execution, %", "by the kernel's clock, %", "ms a sample",
                    "a sample, of a period, %", "overlapped, %", "longest excess, ms")  # fmt: skip
_MESSAGE: Final = 1000  # bytes


class Measured(NamedTuple):
    """One run."""

    sockets: int
    period_ms: float
    kernels_share: float  # CPU time of the process as getrusage has it, without its start, as a part of one CPU
    report: dict[str, Any]  # of the monitor

    @property
    def cost(self) -> float:
        """The CPU time of a sample as a part of a period."""
        return float(self.report["cpu_s_per_sample"]) / float(self.report["period_s"])


def _pairs(stack: ExitStack, number: int) -> None:
    """Open so many TCP sockets, in pairs, each pair with a message that nobody reads."""
    server = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
    for _ in range(number // 2):
        sender = stack.enter_context(socket.create_connection(server.getsockname()))
        stack.enter_context(server.accept()[0])
        sender.sendall(bytes(_MESSAGE))


def _run(period_ms: float, *end: str) -> tuple[dict[str, Any], float]:
    """(the report, CPU seconds of the whole process) of one run."""
    with tempfile.TemporaryDirectory() as work:
        file = Path(work, "netmon.json")
        words = ["-m", "ctl", "netmon", "lo", "-d", f"{period_ms:g}ms", "-f", str(file), *end]
        process = subprocess.Popen([sys.executable, *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise click.ClickException(f"ctl netmon ended with status {process.returncode}")
        report: dict[str, Any] = json.loads(file.read_text().splitlines()[-1])["report"]
    return report, used.ru_utime + used.ru_stime


def _measure(sockets: int, period_ms: float, seconds: float) -> Measured:
    with ExitStack() as stack:
        _pairs(stack, sockets)
        first, start_s = _run(period_ms, "-t", f"{period_ms / 1000:g}")
        report, cpu_s = _run(period_ms, "-t", f"{seconds:g}")
    share = (cpu_s - start_s) / (report["seconds"] - first["seconds"])
    return Measured(sockets, period_ms, share, report)


def shortest(rows: list[Measured], share: float) -> dict[int, float | None]:
    """The shortest period, ms, by number of sockets, of those which and all longer than which are within the share."""
    found: dict[int, float | None] = {}
    for sockets in dict.fromkeys(row.sockets for row in rows):
        found[sockets] = None
        for row in sorted((row for row in rows if row.sockets == sockets), key=lambda row: -row.period_ms):
            if row.cost > share:
                break
            found[sockets] = row.period_ms
    return found


def markdown(rows: list[Measured], share: float) -> str:
    """The rows as a table, and the shortest periods."""
    lines = [f"| {' | '.join(_HEADINGS)} |", f"|{'---|' * len(_HEADINGS)}"]
    for row in rows:
        told = row.report
        cells = (
            row.sockets,
            f"{row.period_ms:g}",
            told["samples"],
            f"{100 * told['cpu_share']:.2f}",
            f"{100 * row.kernels_share:.2f}",
            f"{1000 * told['cpu_s_per_sample']:.2f}",
            f"{100 * row.cost:.2f}",
            f"{100 * told['overlapped']:.1f}",
            f"{1000 * told['longest_excess_s']:.1f}",
        )
        lines.append(f"| {' | '.join(map(str, cells))} |")
    for sockets, period_ms in shortest(rows, share).items():
        held = f"{period_ms:g} ms" if period_ms else "none of these periods"
        lines.append(f"\n{sockets} sockets: the shortest period within {100 * share:g} % is {held}")
    return "\n".join(lines)


@click.command()
@click.option("--seconds", default=5.0, show_default=True, help="Length of each run.")
@click.option("--sockets", multiple=True, type=int, default=(0, 100, 1000), show_default=True)
@click.option("--period", "periods", multiple=True, type=float, default=_PERIODS_MS, show_default=True, help="In ms.")
@click.option("--share", default=0.05, show_default=True, help="What a period has to hold, as a part of one CPU.")
def main(seconds: float, sockets: tuple[int, ...], periods: tuple[float, ...], share: float) -> None:
    """Measure the monitor at each of the periods, beside so many sockets."""
    rows = []
    for number in sockets:
        for period_ms in periods:
            rows.append(_measure(number, period_ms, seconds))
            if rows[-1].cost > 2 * share:
                break  # shorter periods only cost more
    print(markdown(rows, share))


if __name__ == "__main__":
    main()
