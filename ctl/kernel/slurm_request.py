# SPDX-License-Identifier: GPL-2.0-or-later
"""What a job asked Slurm for, as Slurm tells it the job's processes in their environment (sbatch(1), srun(1)).

    SLURM_MEM_PER_NODE     --mem, MiB
    SLURM_MEM_PER_CPU      --mem-per-cpu, MiB, for each of SLURM_CPUS_ON_NODE
    SLURM_TASKS_PER_NODE   tasks of each node, "2(x3),1"; SLURM_NODEID is this node's place among them
    SLURM_JOB_NAME         --job-name, or the name of the script; "sbatch" or "wrap" where it has none

The limit of the job's cgroup is no such figure: where no memory was asked for, it is that of the whole node. The
environment is the user's, who may change it: it is read as a wish, and no more.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from ctl.kernel.elf import static_size

__all__ = ["Request", "request_of"]

_MOST: Final = 1 << 20  # bytes of an environment that are read
_MOST_MIB: Final = 1 << 40
_MOST_TASKS: Final = 1 << 16
_LONGEST_NAME: Final = 256  # characters
_NO_NAMES: Final = ("sbatch", "wrap", "interactive")
_TASKS: Final = re.compile(r"(\d{1,9})(?:\(x(\d{1,9})\))?")


class Request(NamedTuple):
    """What a job of Slurm wants on this node."""

    uid: int  # whose job it is
    name: str  # empty: unknown
    memory: int  # bytes; 0: it did not say
    tasks: int  # 0: unknown
    static: int  # bytes, of the program of the process that tells; 0: unknown


def request_of(jid: str, pids: Iterable[int], processes: Path = Path("/proc")) -> Request | None:
    """The request, from the first of these processes that has Slurm's environment of this job; None: none has it."""
    for pid in pids:
        try:
            place = processes / str(pid)
            with (place / "environ").open("rb") as file:
                pairs = file.read(_MOST).decode(errors="replace").split("\0")
            uid = os.stat(place).st_uid
        except OSError:  # it has just ended
            continue
        told = dict(pair.split("=", 1) for pair in pairs if pair.startswith("SLURM_") and "=" in pair)
        if told.get("SLURM_JOB_ID") == jid:
            name, static = told.get("SLURM_JOB_NAME", ""), static_size(str(place / "exe"))
            shown = name[:_LONGEST_NAME] if name.isprintable() and name not in _NO_NAMES else ""
            return Request(uid, shown, _memory(told), _tasks(told), static or 0)
    return None


def _memory(told: Mapping[str, str]) -> int:
    """Bytes on this node.

    >>> _memory({"SLURM_MEM_PER_NODE": "48"}) >> 20
    48
    >>> _memory({"SLURM_MEM_PER_CPU": "9", "SLURM_CPUS_ON_NODE": "4"}) >> 20
    36
    """
    whole = _number(told.get("SLURM_MEM_PER_NODE"))
    each = _number(told.get("SLURM_MEM_PER_CPU")) * _number(told.get("SLURM_CPUS_ON_NODE"))
    return min(whole or each, _MOST_MIB) << 20


def _tasks(told: Mapping[str, str]) -> int:
    """Tasks on this node.

    >>> [_tasks({"SLURM_TASKS_PER_NODE": "4,2(x3)", "SLURM_NODEID": at}) for at in ("0", "1", "3", "4")]
    [4, 2, 2, 0]
    """
    left = _number(told.get("SLURM_NODEID"))
    for part in told.get("SLURM_TASKS_PER_NODE", "").split(","):
        found = _TASKS.fullmatch(part)
        if found is None:
            return 0
        nodes = int(found[2] or 1)
        if left < nodes:
            return min(int(found[1]), _MOST_TASKS)
        left -= nodes
    return 0


def _number(text: str | None) -> int:
    """The number in a variable; 0 if it is none."""
    return int(text) if text is not None and text.isascii() and text.isdigit() and len(text) < 16 else 0
