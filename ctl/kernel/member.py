# SPDX-License-Identifier: GPL-2.0-or-later
"""The job that a thread is in now, by its cgroup."""

from __future__ import annotations

from pathlib import Path

from ctl.kernel import slurm
from ctl.kernel.cgroups import PARENT, ROOT

__all__ = ["cgroup_of", "jid_below", "jid_of"]


def cgroup_of(tid: int) -> str:
    """The thread's cgroup, as in /proc/TID/cgroup; empty if the thread has ended."""
    try:
        text = Path(f"/proc/{tid}/cgroup").read_text()
    except OSError:
        return ""
    return text.rpartition("::")[2].rstrip("\n")


def jid_below(cgroup: str, parent: Path) -> str | None:
    """The job of `ctl run` whose processes are in this cgroup; None if it is of none.

    >>> jid_below("/cosched/a/inner", Path("/sys/fs/cgroup/cosched")), jid_below("/user.slice", PARENT)
    ('a', None)
    """
    top = f"/{parent.relative_to(ROOT)}/"
    return cgroup.removeprefix(top).partition("/")[0] if cgroup.startswith(top) else None


def jid_of(tid: int) -> str | None:
    """The job of a thread, also of Slurm; None for a local task or an ended thread."""
    ours = jid_below(cgroup_of(tid), PARENT)
    if ours is not None:
        return ours
    theirs = slurm.job_of(tid)
    return theirs.jid if theirs is not None else None
