# SPDX-License-Identifier: GPL-2.0-or-later
"""Slurm's cgroups by their names; and what the helper of the tests writes into slurm.conf."""

from __future__ import annotations

from pathlib import Path

import pytest

from ctl.kernel.cgroups import JobCgroups
from ctl.kernel.slurm import SlurmJob, place
from tests.slurm import Settings, slurm_conf


@pytest.mark.parametrize(("cgroup", "job"), [
    ("/system.slice/slurmstepd.scope/job_42/step_0/user/task_1", "system.slice/slurmstepd.scope/job_42"),
    ("/system.slice/slurmstepd.scope/job_42/step_batch/user", "system.slice/slurmstepd.scope/job_42"),
    ("/slurmstepd.scope/s8Y1M7ZKWCEB00/step_0/user/task_special", "slurmstepd.scope/s8Y1M7ZKWCEB00"),
    ("/a/n1_slurmstepd.scope/job_4/step_extern/user/task_special/of/its/own", "a/n1_slurmstepd.scope/job_4"),
    ("/docker/x/a.slice/slurmstepd.scope/job_1/step_1+0/user/task_0", "docker/x/a.slice/slurmstepd.scope/job_1"),
    ("/system.slice/slurmstepd.scope/job_42/step_0/slurm", None),
    ("/system.slice/slurmstepd.scope/job_42/step_0/users", None),
    ("/system.slice/slurmstepd.scope/job_42/some/user/task_0", None),
    ("/system.slice/my-slurmstepd.scope/job_42/step_0/user/task_0", None),
    ("/system.slice/slurmstepd.scope/system", None),
    ("/system.slice/slurmd.service", None),
    ("/cosched/42", None),
])
def test_place(cgroup: str, job: str | None) -> None:
    assert place(cgroup) == (Path("/sys/fs/cgroup") / job if job else None)


def test_job_of_slurm_is_frozen_by_its_tasks_and_nothing_else_is_written(tmp_path: Path) -> None:
    job = tmp_path / "slurmstepd.scope" / "job_7"
    for name in ("step_0/user/task_0", "step_0/user/task_1", "step_batch/user/task_0", "step_0/slurm"):
        (job / name).mkdir(parents=True)
    for path in (job.parent, job, *job.rglob("*")):
        if path.is_dir():
            zeros = ((name, "0\n") for name in ("cgroup.freeze", "memory.low", "memory.min"))
            for file, text in (*zeros, ("cpu.stat", "usage_usec 0\n")):
                (path / file).write_text(text)
    groups = JobCgroups(tmp_path / "cosched")
    groups.take_up(SlurmJob("7", job))
    groups.set_frozen("7", True)
    groups.protect("7", 4096, 4096)
    frozen = {str(path.parent.relative_to(job)) for path in job.rglob("cgroup.freeze") if path.read_text()[0] == "1"}
    assert frozen == {"step_0/user/task_0", "step_0/user/task_1", "step_batch/user/task_0"}
    assert {path.read_text() for name in ("memory.low", "memory.min") for path in job.rglob(name)} == {"0\n"}
    groups.drop("7")
    assert groups.path("7") == tmp_path / "cosched" / "7"


def test_gangs() -> None:
    nodes = {"node1": "10.77.0.1", "node2": "10.77.0.2"}
    text = slurm_conf(nodes, Settings(gang=True, slots=3, cpus=1))
    for line in ("SlurmctldHost=node1(10.77.0.1)", "PreemptMode=GANG", "SchedulerTimeSlice=5"):
        assert line in text.splitlines()
    assert "Nodes=node1,node2" in text and "OverSubscribe=FORCE:3" in text
    assert "GANG" not in slurm_conf(nodes, Settings(cpus=1))
