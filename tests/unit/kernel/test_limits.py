# SPDX-License-Identifier: GPL-2.0-or-later
"""Limits of the cgroup that a process comes from: which go with it into a job, and which refuse it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ctl.errors import CoschedError
from ctl.kernel.limits import Limit, check_limits, hold_tasks, limits_of

JOBS = "/cosched"


def test_the_number_of_tasks_goes_with_the_process() -> None:
    login, service = Limit("/user.slice/user-7.slice", "pids.max", "300"), Limit("/a.service", "pids.max", "40")
    assert check_limits([], "sim", JOBS) is None
    assert check_limits([login, service], "sim", JOBS) == 40


@pytest.mark.parametrize(
    "limit",
    [
        Limit("/a.scope", "memory.max", "157286400"),
        Limit("/a.slice", "memory.high", "1"),
        Limit("/a.scope", "cpu.max", "20000 100000"),
        Limit("/a.scope", "cpuset.cpus", "0-3"),
        Limit("/a.scope", "io.max", "8:0 rbps=1"),
        Limit("/coschedule", "memory.max", "1"),
    ],
)
def test_other_limits_would_be_left_behind(limit: Limit) -> None:
    with pytest.raises(CoschedError, match=f"{limit.name} {limit.value} of {limit.cgroup}, in which") as refusal:
        check_limits([limit], "sim", JOBS)
    assert refusal.value.status == 2


def test_the_agents_own_limits_are_no_limits_of_the_user() -> None:
    inside = [Limit("/cosched", "memory.high", "1"), Limit("/cosched/a", "memory.low", "1")]
    assert check_limits([*inside, Limit("/cosched/a", "pids.max", "30")], "b", JOBS) == 30


def test_limits_are_those_of_all_cgroups_above(tmp_path: Path) -> None:
    text = Path(f"/proc/{os.getpid()}/cgroup").read_text().rpartition("::")[2].strip().lstrip("/")
    place = tmp_path / text / "x"
    place.mkdir(parents=True)
    (place.parent / "memory.max").write_text("7\n")
    (place.parent / "cpu.max").write_text("max 100000\n")
    (place.parent / "cpuset.cpus").write_text("\n")
    if text:
        assert limits_of(os.getpid(), tmp_path) == [Limit(f"/{text}", "memory.max", "7")]
    else:
        assert limits_of(os.getpid(), tmp_path) == [], "the root has no limits"
    with pytest.raises(CoschedError, match="has ended"):
        limits_of(2**22 + 1, tmp_path)


def test_a_job_keeps_the_smallest(tmp_path: Path) -> None:
    file = tmp_path / "pids.max"
    file.write_text("max\n")
    for tasks, now in ((300, "300"), (40, "40"), (300, "40"), (None, "40")):
        hold_tasks(tmp_path, tasks)
        assert file.read_text().strip() == now
    with pytest.raises(CoschedError, match="cannot be held to 3 tasks"):
        hold_tasks(tmp_path / "nowhere", 3)
