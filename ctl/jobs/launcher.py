# SPDX-License-Identifier: GPL-2.0-or-later
"""The way of a job's ranks into the job on other nodes: mpiexec gets another ssh.

MPI's launchers start a daemon on each node by ssh, and the daemon starts the ranks. Hydra (MPICH, MVAPICH, Intel MPI)
and PRRTE (Open MPI) read the name of the ssh program from the environment. `ctl run` names `ctl/jobs/launch` there,
which runs `ctl run` with the same JID on the other node. So the daemon, and every rank, is in the job's cgroup from its
first moment. On the node of mpiexec itself the daemon is mpiexec's child. Programs and job scripts stay unchanged.

A batch system's own launcher stays in use: its daemons start the ranks.

The environment also tells Open MPI to yield in a waiting rank, as MPICH does. Otherwise Open MPI's ranks on one node
would wait in a loop without a system call, which the scheduler cannot notice. For the same reason the threads of OpenMP
sleep where they wait, if the job has more of them than CPUs: a runtime sees that within one rank, but not of several.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

__all__ = ["LAUNCH", "environment", "hosts", "wait_policy"]

LAUNCH = Path(__file__).with_name("launch")
JOB, SSH, MEMORY = "COSCHED_JOB", "COSCHED_SSH", "COSCHED_MEMORY"  # read by LAUNCH

# Hydra's newer and older names; PRRTE's, and the one before it.
_HYDRA, _HYDRA_EXEC = ("HYDRA_LAUNCHER", "HYDRA_BOOTSTRAP"), ("HYDRA_LAUNCHER_EXEC", "HYDRA_BOOTSTRAP_EXEC")
_AGENTS = ("PRTE_MCA_plm_ssh_agent", "OMPI_MCA_plm_rsh_agent")
_HOST_FILES = ("PRTE_MCA_prte_default_hostfile", "OMPI_MCA_orte_default_hostfile")
_YIELD = "OMPI_MCA_mpi_yield_when_idle"
_THREADS, _WAIT = "OMP_NUM_THREADS", "OMP_WAIT_POLICY"
_WAITS = (_WAIT, "GOMP_SPINCOUNT", "KMP_BLOCKTIME", "KMP_LIBRARY")  # by any of these the user has chosen
# In jobs of these batch systems Hydra takes their launcher, and would replace it by ours.
_BATCH = ("SLURM_JOB_ID", "SLURM_JOBID", "PBS_JOBID", "LSB_JOBID", "PE_HOSTFILE", "LOADL_STEP_ID", "COBALT_JOBID")


def hosts(nodes: Sequence[str], per_node: int) -> dict[str, str]:
    """The environment that makes Hydra and Open MPI start `per_node` ranks on each of these nodes.

    Both read a file of hosts, each in its own form. The files are in memory, and last as long as a process has them
    open: mpiexec inherits them.
    """
    hydra = _file("hosts", "".join(f"{node}:{per_node}\n" for node in nodes))
    prrte = _file("hosts", "".join(f"{node} slots={per_node}\n" for node in nodes))
    return {"HYDRA_HOST_FILE": hydra, **dict.fromkeys(_HOST_FILES, prrte)}


def _file(name: str, text: str) -> str:
    """The path of a file in memory, for this process and those that it starts."""
    number = os.memfd_create(name, 0)
    os.write(number, text.encode())
    return f"/proc/self/fd/{number}"


def wait_policy(own: Mapping[str, str], ranks: int, cpus: int) -> dict[str, str]:
    """What tells OpenMP's threads to sleep where they wait, if `ranks` ranks (0: unknown, so one) have more threads
    than there are CPUs. Without OMP_NUM_THREADS a rank has one for each CPU.

    >>> wait_policy({"OMP_NUM_THREADS": "2"}, 2, 4), wait_policy({}, 2, 4)
    ({}, {'OMP_WAIT_POLICY': 'passive'})
    """
    first = own.get(_THREADS, "").partition(",")[0].strip()
    threads = int(first) if first.isascii() and first.isdigit() else cpus
    if max(ranks, 1) * threads <= cpus or any(name in own for name in _WAITS):
        return {}
    return {_WAIT: "passive"}


def environment(jid: str, own: Mapping[str, str], memory: int = 0) -> dict[str, str]:
    """The environment of a job's commands, made from this program's environment. `memory`: bytes on each node, or 0.

    >>> environment("sim", {"HYDRA_LAUNCHER": "slurm"})["COSCHED_JOB"]
    'sim'
    """
    added = {JOB: jid, MEMORY: str(memory >> 10 or "")}
    launch = str(LAUNCH)
    hydra = next((own[name] for name in _HYDRA if name in own), "")
    if hydra in ("ssh", "rsh") or (not hydra and not any(name in own for name in _BATCH)):
        added |= {"HYDRA_LAUNCHER": "ssh", "HYDRA_LAUNCHER_EXEC": launch}
    added |= dict.fromkeys(_AGENTS, launch)
    added[_YIELD] = own.get(_YIELD, "1")
    chosen = [own[name] for name in (*_HYDRA_EXEC, *_AGENTS) if own.get(name, launch) != launch]
    if chosen:
        # The user's own ssh stays in use, below ours. Open MPI may name several programs, "ssh -q : rsh".
        added[SSH] = chosen[0].partition(":")[0].strip()
    return {**own, **added}
