# SPDX-License-Identifier: GPL-2.0-or-later
"""What an agent left on cgroups is found and undone, on files like the kernel's."""

from __future__ import annotations

from pathlib import Path

from ctl.kernel import leftovers
from ctl.kernel.cgroups import JobCgroups


def cgroup(path: Path, **files: str) -> Path:
    """A directory with files like a cgroup's: memory_high is memory.high."""
    path.mkdir(parents=True, exist_ok=True)
    for name, value in files.items():
        (path / name.replace("_", ".", 1)).write_text(value + "\n")
    return path


def test_repair_undoes_what_is_set_and_nothing_else(tmp_path: Path) -> None:
    parent = cgroup(tmp_path / "cosched", memory_low="4096", memory_high="max", cpu_weight="100")
    job = cgroup(parent / "sim", cgroup_freeze="1", memory_max="max", cpu_max="max 100000")
    inner = cgroup(job / "inner", cgroup_freeze="1", memory_high="8192")
    (job / "pids.max").write_text("7\n")
    groups = JobCgroups(parent)
    assert {(left.path.name, left.name, left.value) for left in groups.leftovers()} == {
        ("cosched", "memory.low", "4096"),
        ("sim", "cgroup.freeze", "1"),
        ("inner", "cgroup.freeze", "1"),
        ("inner", "memory.high", "8192"),
    }
    done = groups.repair()
    assert "inner: memory.high was left at 8192, is max again" in done and len(done) == 4
    assert groups.leftovers() == [] and groups.repair() == []
    assert (parent / "memory.low").read_text() == "0" and (inner / "memory.high").read_text() == "max"
    assert (job / "pids.max").read_text() == "7\n", "a limit that goes with the processes stays"


def test_of_slurms_cgroups_only_the_freeze_counts(tmp_path: Path) -> None:
    task = cgroup(tmp_path / "task_0", cgroup_freeze="1", memory_high="4096")
    assert [left.name for left in leftovers.frozen([task])] == ["cgroup.freeze"]


def test_a_cgroup_that_has_gone_needs_no_repair(tmp_path: Path) -> None:
    task = cgroup(tmp_path / "gone", cgroup_freeze="1")
    (left,) = leftovers.find([task])
    (task / "cgroup.freeze").unlink()
    task.rmdir()
    assert "gone" in left.undo()
