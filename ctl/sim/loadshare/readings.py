# SPDX-License-Identifier: GPL-2.0-or-later
"""The experiments that a claim is judged by, under each reading, and numbers for its row."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ctl.sim.evidence import Evidence
from ctl.sim.params import Value

__all__ = ["argmin", "each", "named", "numbers", "percents"]


def each(readings: Iterable[str], *names: str) -> tuple[str, ...]:
    """The experiments of these names under every reading."""
    return tuple(f"loadshare-{name}{suffix}" for suffix in readings for name in names)


def named(readings: Sequence[str]) -> tuple[str, ...]:
    """The readings but the first, the defaults, by their suffixes."""
    return tuple(suffix[1:] for suffix in readings[1:])


def argmin(e: Evidence, line: str, metric: str) -> Value:
    """The x at which a line's mean is least."""
    return min(e.xs, key=lambda x: e.mean(line, x, metric).mean)


def numbers(values: Iterable[float], form: str = ".3g") -> str:
    """A row of numbers."""
    return " ".join(f"{value:{form}}" for value in values)


def percents(values: Iterable[float]) -> str:
    """A row of changes, in percent: 0.3 is +30 %."""
    return " ".join(f"{value:+.0%}" for value in values)
