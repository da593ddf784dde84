# SPDX-License-Identifier: GPL-2.0-or-later
"""A cluster of two in one boot: an MPI job in its cgroup on both nodes; a local user of one slows it on both.

The part of `just test` on clusters of virtual machines; the other files of this directory have the rest.
"""

from __future__ import annotations

import re

import pytest

from tests.vm.test_cluster_vm import cluster

pytestmark = pytest.mark.vm

SCRIPT = """
    set -e
    alias ssh='ssh -n'
    mpicc.mpich -O2 -o /root/hold /src/tests/progs/mpi_hold.c
    scp -q /root/hold node2:
    for node in node1 node2; do
        ssh $node ctl load --policy ccs --set sensors=off --set local_user=off >/dev/null
    done
    # sees WORD...: until `ctl jobs` of both nodes has all these words in the job's line
    sees() {
        for node in node1 node2; do
            for turn in $(seq 60); do
                line=$(ssh $node ctl jobs | grep sim-7 || :) missing=
                for word; do case $line in *"$word"*) ;; *) missing=$word ;; esac; done
                [ "$missing" ] || break
                sleep 0.5
            done
            if [ "$missing" ]; then echo "$node: no $missing in '$line'" >&2; exit 1; fi
        done
        echo "both: $*"
    }
    ctl run --job sim-7 -- mpiexec.mpich -hosts node1,node2 -n 2 /root/hold 1000 >/root/ranks &
    sees free
    ssh node2 ctl set local_user=on >/dev/null
    sees slowed 'local user on node2'
    ssh node2 ctl set local_user=off >/dev/null
    sees free
    cat /root/ranks
    pkill -x hold; wait || :
    for turn in $(seq 60); do
        left=$(for node in node1 node2; do ssh $node ls /sys/fs/cgroup/cosched | grep -c '^sim-7$' || :; done | xargs)
        [ "$left" != "0 0" ] || break
        sleep 0.5
    done
    echo "left: $left"
    for node in node1 node2; do ssh $node "ctl unload >/dev/null; cat /sys/kernel/sched_ext/state"; done
"""


def test_a_job_of_two_nodes_and_the_local_user_of_one() -> None:
    done = cluster(2, SCRIPT)
    lines = done.stdout.decode().splitlines()
    assert done.returncode == 0, (lines, done.stderr)
    ranks = sorted(line for line in lines if line.startswith("rank "))
    assert ranks == [f"rank {rank} of sum 1 on node{rank + 1} in 0::/cosched/sim-7" for rank in (0, 1)], done.stderr
    assert [line for line in lines if not re.match("rank ", line)] == [
        "both: free", "both: slowed local user on node2", "both: free", "left: 0 0", "disabled", "disabled",
    ], done.stderr
