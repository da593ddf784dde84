# SPDX-License-Identifier: GPL-2.0-or-later
"""The quantum of an epoch in plain Python: Linux 2.4's rule, as CCS assumed it (CCS §3.1, B-CCS-31), and L shared.

Written from the papers; the native text is bpf/set_quantum.h. Times are whole ns.
"""

from __future__ import annotations

__all__ = ["next_quantum", "saved_quantum", "shared_quantum"]

TWO_TICKS = 8_000_000  # ns, of 250 Hz
DEBT = 4  # quanta
SHORTEST = 1_000_000  # ns: the shortest slice


def next_quantum(left: int, quantum: int) -> int:
    """What a task has of the next epoch: half of what is left and a quantum, two quanta at the most.

    A task that ran on past its quantum has `left` < 0, and owes that whole, up to a limit.
    """
    if left > 0:
        return min(left // 2 + quantum, 2 * quantum)
    return max(left, -DEBT * quantum - TWO_TICKS) + quantum


def saved_quantum(left: int, quantum: int) -> int:
    """The same for a quantum that is shorter than the shortest slice: saved whole until the task can run, then no more.

    A reading of ours: CCS has no such quanta, as L is each task's there (B-CCS-15).
    """
    return min(max(left, -DEBT * quantum - TWO_TICKS), SHORTEST) + quantum


def shared_quantum(local_ns: int, share_l: float, jobs: int, most: int) -> int:
    """A part of L for each of so many tasks of jobs: together they have L / (1 - L) of what local tasks used.

    share_l: L, 0 to 1; `most` where no local task ran or L is 1.
    """
    if not local_ns or share_l >= 1:
        return most
    return min(int(local_ns * share_l / (1 - share_l) / max(jobs, 1)), most)
