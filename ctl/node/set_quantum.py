# SPDX-License-Identifier: GPL-2.0-or-later
"""Set_Quantum (CCS Alg. 2) for people: W, the quanta, and the shares that result.

The kernel side gives the quanta, by the same text (bpf/set_quantum.h). A quantum bounds the length of a turn, not the
share of a task: m tasks of jobs that never wait get m * L / (m * L + n) of a CPU beside n local tasks, more than L
(B-CCS-15). So the agent measures the share that jobs got, epoch by epoch, and shows it beside the quanta.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ctl.kernel import layout
from ctl.native import library

__all__ = ["MIN_QUANTUM_MS", "Quanta", "Shares", "mpl_bound", "quanta", "speed_weight", "stretch", "window_share"]

MIN_QUANTUM_MS: Final = layout.constant("MIN_SLICE_NS") / 1e6
"""The quantum of a task at L = 0, ms."""

_FIXED_ONE: Final = 1 << layout.constant("MES_SHIFT")
_ALIKE: Final = 0.95  # difference between two measurements of equal nodes, which must not turn MPL 3 into 2
_SLOWEST: Final = 1 / 64  # the least W: an even slower node gets no longer quanta


def speed_weight(speed: float, fastest: float) -> float:
    """W(N_k) = BOGO(N_k) / BOGO(N_max) (CCS eq. 1, B-CCS-28), within 1/64 and 1. Alone a node is the fastest.

    Within 5 % nodes are alike.

    >>> speed_weight(700, 1000), speed_weight(970, 1000), speed_weight(1000, 0)
    (0.7, 1.0, 1.0)
    """
    if speed <= 0 or speed >= _ALIKE * fastest:
        return 1.0
    return max(speed / fastest, _SLOWEST)


def stretch(weight: float) -> int:
    """1/W as the kernel side takes it, in 1/1024.

    >>> stretch(0.5)
    2048
    """
    return round(_FIXED_ONE / weight)


def mpl_bound(mpl: int, weight: float) -> int:
    """MPL(N_k) = MPL(N_max) * W(N_k), the integer part, at least 1 (CCS eq. 4, B-CCS-22); 0: no bound.

    >>> mpl_bound(3, 0.7), mpl_bound(3, 0.1), mpl_bound(0, 0.7)
    (2, 1, 0)
    """
    return max(1, int(mpl * weight + 1e-9)) if mpl else 0


@dataclass(frozen=True, slots=True)
class Quanta:
    """Lengths of a turn: ms, at nice 0."""

    local: float
    parallel: float  # of a job without a local user on any other node
    slowed: float  # of a job with a local user on another node

    @property
    def set_share(self) -> float:
        """The share of a CPU that a task of a job has beside one local task, if neither ever waits (B-CCS-16)."""
        return self.parallel / (self.parallel + self.local)


def quanta(quantum_ms: float, weight: float, share_l: float, *, on: bool, local_user: bool) -> Quanta:
    """CCS Alg. 2: Def_Q / W, times L for jobs beside a local user; L counts once (B-CCS-14). Off: all have quantum_ms.

    >>> quanta(20, 0.5, 0.25, on=True, local_user=True)
    Quanta(local=40.0, parallel=10.0, slowed=10.0)
    """
    if not on:
        return Quanta(float(quantum_ms), float(quantum_ms), float(quantum_ms))
    fixed = round(quantum_ms * 1e6), stretch(weight), round(share_l * _FIXED_ONE)
    whole, slowed = (library("set_quantum").set_quantum(*fixed, held_back) / 1e6 for held_back in (False, True))
    return Quanta(whole, slowed if local_user else whole, slowed)


def window_share(share_l: float, *, even: bool) -> float:
    """What jobs have of a CPU in windows; `even`: under Set_Quantum nobody holds them back. At least 1/16, for both.

    >>> window_share(0.25, even=False), window_share(0.25, even=True), window_share(0, even=False)
    (0.25, 0.5, 0.0625)
    """
    share: int = library("set_quantum").window_share(round(share_l * _FIXED_ONE), even)
    return share / _FIXED_ONE


class Shares:
    """CPU time per epoch: the jobs' part of all CPU time used."""

    def __init__(self) -> None:
        self.epochs = 0
        self.parallel: float | None = None  # 0..1 of the CPU time used in the last epoch; None: none was
        self.busy: float | None = None  # CPUs used in it, 0..number of CPUs
        self._last: tuple[float, int, int] | None = None

    def roll_over(self, now: float, parallel_ns: int, all_ns: int) -> None:
        """End an epoch. `now`: monotonic seconds; CPU time so far of the jobs, and of everything."""
        last, self._last = self._last, (now, parallel_ns, all_ns)
        self.epochs += 1
        if last is None or now <= last[0]:
            return
        used = max(all_ns - last[2], parallel_ns - last[1], 0)
        self.busy = used / 1e9 / (now - last[0])
        self.parallel = max(0, parallel_ns - last[1]) / used if used else None
