# SPDX-License-Identifier: GPL-2.0-or-later
"""What an agent sets on cgroups, found and undone: the settings of a killed agent stay in the kernel."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

__all__ = ["Leftover", "find", "frozen", "spare"]

_FREEZE = "cgroup.freeze"
_AVOID = "user.oomd_avoid"  # an extended attribute, for systemd-oomd
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
    _AVOID: "unset",
}


def spare(path: Path, on: bool) -> None:
    """Have systemd-oomd kill other cgroups before this one, or no longer so.

    It kills the cgroup that has most in swap, which a stopped job often is, and a job that used no memory since is not
    what made memory short. It heeds this attribute on cgroups of root.
    """
    with contextlib.suppress(OSError):  # gone, or not set
        if on:
            os.setxattr(path, _AVOID, b"1")
        else:
            os.removexattr(path, _AVOID)


def _value(path: Path, name: str) -> str:
    """A setting of a cgroup. Raises OSError."""
    if name != _AVOID:
        return (path / name).read_text().strip()
    try:
        return os.getxattr(path, name).decode()
    except OSError as error:
        if error.errno == errno.ENODATA:
            return _UNSET[name]
        raise


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
            if self.name == _AVOID:
                spare(self.path, False)
            else:
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
                value = _value(path, name)
                if value != _UNSET[name]:
                    found.append(Leftover(path, name, value))
    return found


def frozen(cgroups: Iterable[Path]) -> list[Leftover]:
    """Those of these cgroups that are frozen, or spared by systemd-oomd. In Slurm's the agent sets nothing else."""
    return find(cgroups, (_FREEZE, _AVOID))
