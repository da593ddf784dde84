# SPDX-License-Identifier: GPL-2.0-or-later
"""What an agent left on cgroups is found and undone, on files like the kernel's."""

from __future__ import annotations

import os
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


def test_a_stopped_job_is_spared_by_systemd_oomd_until_it_goes_on(tmp_path: Path) -> None:
    job = cgroup(tmp_path / "cosched" / "sim", cgroup_freeze="0")
    groups = JobCgroups(tmp_path / "cosched")
    groups.set_frozen("sim", True)
    assert os.getxattr(job, "user.oomd_avoid") == b"1"
    groups.set_frozen("sim", False)
    assert os.listxattr(job) == []
    groups.set_frozen("gone", True)


def test_what_a_killed_agent_had_spared_is_spared_no_more(tmp_path: Path) -> None:
    job, task = cgroup(tmp_path / "cosched" / "sim", cgroup_freeze="0"), cgroup(tmp_path / "task_0")
    for path in (job, task):
        os.setxattr(path, "user.oomd_avoid", b"1")
    assert [left.name for left in leftovers.frozen([task])] == ["user.oomd_avoid"], "of Slurm's, too"
    assert JobCgroups(tmp_path / "cosched").repair() == ["sim: user.oomd_avoid was left at 1, is unset again"]
    assert os.listxattr(job) == []
