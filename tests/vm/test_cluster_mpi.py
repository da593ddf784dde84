# SPDX-License-Identifier: GPL-2.0-or-later
"""Ranks of real MPI jobs across two virtual machines are in their job's cgroup on both, and end with the job."""

from __future__ import annotations

import re
import subprocess

import pytest

from tests.vm.test_cluster_vm import cluster
from vm.host import REPO

pytestmark = pytest.mark.vm

# Both nodes run an agent; the program is compiled once and copied. Open MPI's launcher takes any program.
READY = """
    set -e
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    mpicc.mpich -O2 -o /root/hold /src/tests/progs/mpi_hold.c
    printf '#!/bin/sh\necho rank $OMPI_COMM_WORLD_RANK of sum 6 on $(hostname) in $(cat /proc/self/cgroup)' >/root/tell
    chmod +x /root/tell
    scp -q /root/hold /root/tell node2:
    for node in node1 node2; do ssh $node ctl load --policy csm --set sensors=off >/dev/null; done
    jobs() { for node in node1 node2; do ssh $node ls /sys/fs/cgroup/cosched | grep -c "^$1\\$" || :; done; }
"""


@pytest.fixture(scope="module", autouse=True)
def built() -> None:
    """Build missing artefacts first, so that no stage line gets into a test's output."""
    subprocess.run([REPO / "vm" / "build"], check=True, capture_output=True)


def ranks(output: str) -> list[str]:
    return sorted(re.findall(r"^rank .*$", output, re.M))


def expected(jid: str) -> list[str]:
    """Four ranks, two to a node."""
    return [f"rank {rank} of sum 6 on node{1 + rank // 2} in 0::/cosched/{jid}" for rank in range(4)]


def test_ranks_are_in_the_job_on_both_nodes_and_it_ends_with_them() -> None:
    script = READY + """
        ctl run --job sim-7 -- mpiexec.mpich -hosts node1,node2 -ppn 2 -n 4 /root/hold 8 &
        sleep 6; echo during; jobs sim-7; wait %1; echo status $?; sleep 1; echo after; jobs sim-7
        echo openmpi
        ctl run --job 42 -- mpiexec.openmpi --host node1:2,node2:2 -n 4 --map-by slot /root/tell
        echo status $?; sleep 1; echo after; jobs 42
    """
    done = cluster(2, script, "--alone")
    mpich, _, openmpi = done.stdout.decode().partition("openmpi\n")
    assert ranks(mpich) == expected("sim-7"), done.stderr
    assert re.sub(r"rank .*\n", "", mpich) == "during\n1\n1\nall met again\nstatus 0\nafter\n0\n0\n"
    assert ranks(openmpi) == expected("42"), done.stderr
    assert re.sub(r"rank .*\n", "", openmpi) == "status 0\nafter\n0\n0\n"


def test_node_without_an_agent_says_so_and_the_job_fails() -> None:
    script = READY + """
        ssh node2 ctl unload >/dev/null
        timeout 60 ctl run --job sim -- mpiexec.mpich -hosts node1,node2 -n 2 /root/hold 0 || echo status $?
        sleep 1; jobs sim
    """
    done = cluster(2, script, "--alone")
    assert b"the agent is not running" in done.stderr
    assert done.stdout.decode().split("\n")[-4:-2] != ["status 0"]
    assert ranks(done.stdout.decode()) == []
