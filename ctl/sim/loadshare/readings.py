# SPDX-License-Identifier: GPL-2.0-or-later
"""A claim is judged by the defaults; its row reports the results of other readings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from ctl.sim.claim import Found
from ctl.sim.evidence import Evidence
from ctl.sim.params import Value

__all__ = ["Test", "argmin", "by_reading", "each", "numbers", "percents"]

Test = Callable[..., Found]


def by_reading(test: Test, readings: Sequence[str]) -> Test:
    """Judge by the experiments of the first reading, and report the results of the other readings. `readings` are their
    suffixes."""

    def judged(*evidence: Evidence) -> Found:
        n = len(evidence) // len(readings)
        of = [evidence[i : i + n] for i in range(0, len(evidence), n)]
        holds, shown = test(*of[0])
        for suffix, others in zip(readings[1:], of[1:], strict=True):
            would, instead = test(*others)
            shown += f" [{suffix[1:]}: {'holds' if would else 'does not hold'}, {instead}]"
        return holds, shown

    return judged


def each(readings: Iterable[str], *names: str) -> tuple[str, ...]:
    """The experiments of these names under every reading."""
    return tuple(f"loadshare-{name}{suffix}" for suffix in readings for name in names)


def argmin(e: Evidence, line: str, metric: str) -> Value:
    """The x at which a line's mean is least."""
    return min(e.xs, key=lambda x: e.mean(line, x, metric).mean)


def numbers(values: Iterable[float], form: str = ".3g") -> str:
    """A row of numbers."""
    return " ".join(f"{value:{form}}" for value in values)


def percents(values: Iterable[float]) -> str:
    """A row of changes, in percent: 0.3 is +30 %."""
    return " ".join(f"{value:+.0%}" for value in values)
