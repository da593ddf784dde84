# SPDX-License-Identifier: GPL-2.0-or-later
"""The part of test_cluster_slurm.py on node1 of vm/cluster: `python3 -m tests.vm.slurm_guest WHAT`."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tests import slurm

_NODES = ("node1", "node2")
_LOAD = "ctl load --policy ccs --set sensors=off --set local_user=off"
_LIMIT_S = 60.0


def _on(node: str, command: str) -> str:
    """Run a command on a node; returns its output."""
    return subprocess.run(["ssh", "-n", node, command], check=True, stdout=subprocess.PIPE, text=True).stdout


def _jobs() -> list[dict[str, tuple[str, str, str]]]:
    """The jobs of `ctl jobs`, node by node: JID to origin, state, reason."""
    tables = [json.loads(_on(node, "ctl jobs --json")) for node in _NODES]
    return [{job["jid"]: (job["from"], job["state"], job["why"]) for job in table} for table in tables]


def _await(wanted: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + _LIMIT_S
    while not wanted():
        if time.monotonic() > end:
            logs = "\n".join(_on(node, "tail -n 20 /run/cosched/agent.log") for node in _NODES)
            sys.exit(f"{what}: not so after {_LIMIT_S:g} s: {_jobs()}\n{logs}")
        time.sleep(0.2)
    print(what, flush=True)


def _everywhere(jid: str, state: str) -> bool:
    """Whether both nodes have just this job, from Slurm, in this state."""
    return all(table.keys() == {jid} and table[jid][:2] == ("slurm", state) for table in _jobs())


def one_job() -> None:
    """One agent is loaded before Slurm starts, the other after; the other node's user slows a job."""
    subprocess.run(["mpicc.mpich", "-O2", "-o", "/root/hold", "/src/tests/progs/mpi_hold.c"], check=True)
    subprocess.run(["scp", "-q", "/root/hold", "node2:"], check=True)
    _on("node1", _LOAD)
    with slurm.running():
        _on("node2", _LOAD)
        jid = slurm.sbatch("srun --mpi=pmi2 /root/hold 1000", "--nodes=2", "--ntasks=2")
        _await(lambda: _everywhere(jid, "free"), "one job on both nodes")
        _on("node2", "ctl set local_user=on")
        _await(lambda: _everywhere(jid, "slowed"), "slowed on both")
        print(_jobs()[0][jid][2])
        _on("node2", "ctl set local_user=off")
        _await(lambda: _everywhere(jid, "free"), "free again")
        slurm.cancel(jid)
        _await(lambda: _jobs() == [{}, {}], "gone from both")
        for start in ("srun --mpi=pmi2", "mpiexec.mpich"):
            job = slurm.sbatch(f"{start} /root/hold 0", "--nodes=2", "--ntasks=2", "--output=/root/out")
            slurm.wait(job, "COMPLETED")
            print(start, job, *shlex.split(Path("/root/out").read_text()))


def gang() -> None:
    """Two jobs on the same CPUs, three turns each."""
    with slurm.running(slurm.Settings(gang=True, slots=2)):
        jobs = [slurm.sbatch("srun sleep 1000", "--nodes=2", "--ntasks=2") for _ in range(2)]
        for _ in range(3):
            for job in jobs:
                slurm.wait(job, "SUSPENDED")
                began = time.monotonic()
                other = next(one for one in jobs if one != job)
                slurm.wait(other, "RUNNING")
                print(job, "waits, the other runs", flush=True)
                print(f"{time.monotonic() - began:.1f} s", file=sys.stderr)


if __name__ == "__main__":
    {"one_job": one_job, "gang": gang}[sys.argv[1]]()
