# SPDX-License-Identifier: GPL-2.0-or-later
"""A job of Slurm on two virtual machines is one job, by its id, and both nodes know the job; Slurm's gangs take
turns."""

from __future__ import annotations

import re
import subprocess

import pytest

from tests.vm.test_cluster_vm import cluster
from vm.host import REPO

pytestmark = pytest.mark.vm


@pytest.fixture(scope="module", autouse=True)
def built() -> None:
    """Build missing artefacts first, so that no stage line gets into a test's output."""
    subprocess.run([REPO / "vm" / "build"], check=True, capture_output=True)


def test_job_is_one_job_on_both_nodes() -> None:
    done = cluster(2, "cd /src && exec python3 -m tests.vm.slurm_guest one_job")
    lines = done.stdout.decode().splitlines()
    assert lines[:2] == ["one job on both nodes", "slowed on both"], done.stderr
    assert "local user on node2" in lines[2]
    assert lines[3:5] == ["free again", "gone from both"], done.stderr
    place = r"rank (\d) of sum 1 on (\w+) in 0::/system.slice/(\w+)_slurmstepd.scope/(\w+)/step_\d+/user/task_\w+"
    for line, start, job in zip(lines[5:], ("srun --mpi=pmi2", "mpiexec.mpich"), ("2", "3"), strict=True):
        assert line.startswith(f"{start} {job} ")
        ranks = sorted(re.findall(place, line))
        assert [rank[:3] for rank in ranks] == [("0", "node1", "node1"), ("1", "node2", "node2")], line
        assert ranks[0][3] == ranks[1][3], line


def test_gangs_take_turns() -> None:
    done = cluster(2, "cd /src && exec python3 -m tests.vm.slurm_guest gang", "--alone")
    assert done.stdout.decode().splitlines() == [f"{job} waits, the other runs" for job in (1, 2)] * 3, done.stderr
