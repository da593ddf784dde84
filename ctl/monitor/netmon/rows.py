# SPDX-License-Identifier: GPL-2.0-or-later
"""What one look gives: the figures of the node, of its jobs and of their tasks."""

from __future__ import annotations

from typing import Final, NamedTuple

from ctl.kernel.owners import Task
from ctl.monitor.netmon.figures import KINDS
from ctl.monitor.text import clean

__all__ = ["NODE", "Owner", "Sample", "Values", "owners_of"]


Values = dict[str, int | None]
"""Figures by their key; None: unknown here. A figure that is not there has no meaning for its owner."""


class Owner(NamedTuple):
    """Whose figures they are."""

    kind: str  # one of KINDS
    name: str  # the JID, or the task's command, printable
    pid: int = 0  # of a task


NODE: Final = Owner("node", "")


def owners_of(process: Task | None, finest: str) -> list[Owner]:
    """Whose figures those of a process are, down to the finest of KINDS that is wanted."""
    owners = [NODE]
    if process is not None and process.jid and finest != "node":
        owners.append(Owner("job", process.jid))
    if process is not None and finest == "task":
        owners.append(Owner("task", clean(process.comm), process.pid))
    return owners


class Sample(NamedTuple):
    """The figures of one period."""

    time: float  # Unix time of its end
    seconds: float  # since the sample before
    rows: dict[Owner, Values]

    def ordered(self) -> list[tuple[Owner, Values]]:
        """The rows: the node, then jobs, then tasks."""
        return sorted(self.rows.items(), key=lambda row: (KINDS.index(row[0].kind), row[0]))
