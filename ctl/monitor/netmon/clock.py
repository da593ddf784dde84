# SPDX-License-Identifier: GPL-2.0-or-later
"""The periods of Netmon, and its report on itself (Monito §4.1): extra execution, overlaps, the longest excess."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

__all__ = ["Clock", "OwnReport"]

_SLACK: float = 1e-6  # seconds; sums of periods are not exact


@dataclass(frozen=True)
class OwnReport:
    """What the monitor itself cost."""

    period_s: float
    seconds: float  # of monitoring
    samples: int
    cpu_share: float  # extra execution: CPU time of the monitor, as a part of one CPU
    cpu_s_per_sample: float
    overlapped: float  # part of the samples that ended after the next one was due
    longest_excess_s: float  # of a sample beyond its period


def _sleep(seconds: float) -> bool:
    time.sleep(seconds)
    return False


class Clock:
    """Periods that do not drift: a sample is due at a multiple of the period after the start."""

    def __init__(self, period_s: float, wait: Callable[[float], bool] = _sleep) -> None:
        """The clock starts now. `wait` waits for so many seconds, from 0 on, and returns whether to end."""
        self._period, self._wait = period_s, wait
        self._start = self._end = time.monotonic()
        self._cpu = time.process_time()
        self._samples = self._overlapped = 0
        self._excess = 0.0

    def ticks(self, seconds: float | None = None, count: int | None = None) -> Iterator[None]:
        """Wait for the end of each period, then yield; the caller takes its sample, and asks for the next tick.

        `seconds`: end after so long, `count`: after so many samples; None: never. A period in which the sample before
        has not ended is left out.
        """
        due = self._start + self._period
        while (count is None or self._samples < count) and (seconds is None or due <= self._start + seconds + _SLACK):
            if self._wait(max(0.0, due - time.monotonic())):
                return
            yield
            self._end = time.monotonic()
            self._samples += 1
            excess = self._end - (due + self._period)
            if excess > 0:
                self._overlapped += 1
                self._excess = max(self._excess, excess)
            due += self._period * (1 + max(0, (self._end - due) // self._period))

    def report(self) -> OwnReport:
        """The report on all samples so far."""
        seconds, cpu, samples = self._end - self._start, time.process_time() - self._cpu, self._samples
        return OwnReport(
            self._period,
            seconds,
            samples,
            cpu / seconds if seconds else 0.0,
            cpu / samples if samples else 0.0,
            self._overlapped / samples if samples else 0.0,
            self._excess,
        )
