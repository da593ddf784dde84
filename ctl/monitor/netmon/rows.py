# SPDX-License-Identifier: GPL-2.0-or-later
"""What one look gives: the figures of the node, of its jobs and of their tasks."""

from __future__ import annotations

from typing import Final, NamedTuple

__all__ = ["KINDS", "NODE", "Owner", "Sample", "Values"]

KINDS: Final = ("node", "job", "task")
"""The kinds of owners, the coarsest first."""

Values = dict[str, int | None]
"""Figures by their key; None: unknown here. A figure that is not there has no meaning for its owner."""


class Owner(NamedTuple):
    """Whose figures they are."""

    kind: str  # one of KINDS
    name: str  # the JID, or the task's command, printable
    pid: int = 0  # of a task


NODE: Final = Owner("node", "")


class Sample(NamedTuple):
    """The figures of one period."""

    time: float  # Unix time of its end
    seconds: float  # since the sample before
    rows: dict[Owner, Values]

    def ordered(self) -> list[tuple[Owner, Values]]:
        """The rows: the node, then jobs, then tasks."""
        return sorted(self.rows.items(), key=lambda row: (KINDS.index(row[0].kind), row[0]))
