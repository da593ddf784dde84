# SPDX-License-Identifier: GPL-2.0-or-later
"""Decisions of insert_RQ for people: a sentence for each, and the number of lost decisions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ctl.kernel.layout import ffi

__all__ = ["Lost", "sentence"]


class Lost:
    """Counts the records missing from a stream: gaps in seq, per CPU."""

    def __init__(self) -> None:
        self.count = 0
        self._next: dict[int, int] = {}

    def watch(self, stream: Iterable[bytes]) -> Iterator[bytes]:
        """Pass the records on."""
        for record in stream:
            head: Any = ffi.cast("struct decision *", ffi.from_buffer(record))
            expected = self._next.get(head.cpu, head.seq)
            self.count += (head.seq - expected) & 0xFFFFFFFF
            self._next[head.cpu] = (head.seq + 1) & 0xFFFFFFFF
            yield record


def sentence(decision: dict[str, Any]) -> str:
    """One line for a decision as ctl/kernel/trace.py decodes it."""
    task, queue = decision["task"], decision["queue"]
    marks = [word for word in ("preempt", "truncated", "bounded", "gap", "overloaded") if decision.get(word)]
    overtaken = f" overtook {','.join(map(str, decision['overtaken']))}" if decision["overtaken"] else ""
    ready = " ".join(_task(entry) for entry in queue) or "empty"
    return (
        f"cpu {decision['cpu']} {decision['rule']} {decision['cause']}: {_task(task)} to {decision['position']} "
        f"of {len(queue)}{overtaken}{' (' + ', '.join(marks) + ')' if marks else ''} | "
        f"{_task(decision['running']) if decision['running'] else 'idle'} | {ready}"
    )


def _task(task: dict[str, Any]) -> str:
    kind = "P" if task["parallel"] else "L"
    return f"{task['comm']}/{task['tid']}{kind}[de {task['de']} mes {task['mes']:.2f} flt {task['flt']}]"
