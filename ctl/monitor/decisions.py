# SPDX-License-Identifier: GPL-2.0-or-later
"""Decisions of insert_RQ for people: a sentence for each."""

from __future__ import annotations

from typing import Any

__all__ = ["sentence"]


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
