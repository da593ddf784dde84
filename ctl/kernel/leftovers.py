# SPDX-License-Identifier: GPL-2.0-or-later
"""What an agent sets on cgroups, found and undone: the settings of a killed agent stay in the kernel."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

__all__ = ["Leftover", "find", "frozen"]

_FREEZE = "cgroup.freeze"
# the files that an agent may set on a job or on the parent, with the kernel's own values
_UNSET = {
    _FREEZE: "0",
    "memory.min": "0",
    "memory.low": "0",
    "memory.high": "max",
    "memory.max": "max",
    "memory.swap.max": "max",
    "cpu.weight": "100",
    "cpu.max": "max 100000",
}


class Leftover(NamedTuple):
    """A setting of a cgroup that is not the kernel's own."""

    path: Path  # of the cgroup
    name: str
    value: str

    def __str__(self) -> str:
        return f"{self.path.name}: {self.name} is {self.value}"

    def undo(self) -> str:
        """Write the kernel's own value; returns a sentence about the change."""
        try:
            (self.path / self.name).write_text(_UNSET[self.name])
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENODEV):  # the cgroup was removed, before or while it was open
                raise
        return f"{self.path.name}: {self.name} was left at {self.value}, is {_UNSET[self.name]} again"


def find(cgroups: Iterable[Path], names: Iterable[str] = _UNSET) -> list[Leftover]:
    """The settings of these cgroups that differ from the kernel's own values."""
    found = []
    for path in cgroups:
        for name in names:
            with contextlib.suppress(OSError):  # without this controller, or gone
                value = (path / name).read_text().strip()
                if value != _UNSET[name]:
                    found.append(Leftover(path, name, value))
    return found


def frozen(cgroups: Iterable[Path]) -> list[Leftover]:
    """Those of these cgroups that are frozen. In Slurm's the agent sets nothing else."""
    return find(cgroups, (_FREEZE,))
