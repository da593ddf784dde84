# SPDX-License-Identifier: GPL-2.0-or-later
"""`ctl netmon`: samples to the display, to a file, or to both, and the monitor's report on itself."""

from __future__ import annotations

import contextlib
import gc
import signal
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple, Protocol

from ctl.errors import USAGE, CoschedError
from ctl.monitor.netmon.clock import Clock, OwnReport
from ctl.monitor.netmon.rows import Sample
from ctl.monitor.netmon.sampler import Sampler

__all__ = ["Form", "Output", "Waiting", "monitor"]

_SHORTEST_S: Final = 0.0001
_LONGEST_S: Final = 3600.0
_ENDING: Final = {signal.SIGINT, signal.SIGTERM}


Waiting = contextlib.AbstractContextManager[Callable[[float], bool]]
"""Gives a function that waits for so many seconds, and returns whether to end."""


class Form(Protocol):
    """A form of output."""

    def sample(self, sample: Sample) -> str:
        """The text of a sample, with its line ends."""

    def end(self, report: OwnReport) -> str:
        """The text after the last sample."""


class Output(NamedTuple):
    """A form, and what writes it."""

    form: Form
    write: Callable[[str], object]


def monitor(
    device: str,
    period_s: float,
    outputs: list[Output],
    *,
    finest: str,
    seconds: float | None,
    count: int | None,
    waiting: Waiting | None = None,
) -> OwnReport:
    """Sample until the time or the count is reached, or a signal comes. Raises CoschedError.

    `period_s`, `seconds`: in seconds; `finest`: one of KINDS; `waiting`: how to wait, if not for time and signals only.
    """
    if not _SHORTEST_S <= period_s <= _LONGEST_S:
        raise CoschedError(f"period {period_s:g} s is out of range: 0.1 ms to 1 h, as in -i 100ms", USAGE)
    if seconds is not None and seconds < period_s:
        raise CoschedError(f"time {seconds:g} s is shorter than one period, {period_s:g} s: give a longer -t", USAGE)
    with Sampler(device, finest, period_s) as sampler, waiting or _until_a_signal() as wait:
        gc.collect()
        gc.freeze()  # what there is now stays: no collection looks through it
        clock = Clock(period_s, wait)
        for _ in clock.ticks(seconds, count):
            sample = sampler.sample()
            for form, write in outputs:
                write(form.sample(sample))
    report = clock.report()
    for form, write in outputs:
        write(form.end(report))
    return report


@contextlib.contextmanager
def _until_a_signal() -> Iterator[Callable[[float], bool]]:
    """A wait of so many seconds, which tells whether SIGINT or SIGTERM came: not in the midst of a sample."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
    try:
        yield lambda seconds: signal.sigtimedwait(_ENDING, seconds) is not None
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
