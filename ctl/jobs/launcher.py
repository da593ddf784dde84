# SPDX-License-Identifier: GPL-2.0-or-later
"""How a job's ranks on other nodes get into the job there: mpiexec is given another ssh.

MPI's launchers start a daemon of theirs on each node by ssh, and the daemon starts the ranks. Both Hydra (MPICH,
MVAPICH, Intel MPI) and PRRTE (Open MPI) can be told, by the environment, which program to use for it. `ctl run` names
`ctl/jobs/launch`, which runs `ctl run` with the same JID over there: the daemon, and so every rank, is in the job's
cgroup from its first moment. On the node of mpiexec itself the daemon is mpiexec's child. Programs and job scripts are
as before.

Where a batch system's own launcher is used nothing is changed: its daemons start the ranks.

One thing more is asked of Open MPI, by the environment too: that a rank which waits yields, as MPICH's do. Its ranks on
one node would otherwise wait in a loop without a system call, in which nothing outside them can see that they wait.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

__all__ = ["LAUNCH", "environment"]

LAUNCH = Path(__file__).with_name("launch")
JOB, SSH = "COSCHED_JOB", "COSCHED_SSH"  # read by LAUNCH

# Hydra's newer and older names; PRRTE's, and the one before it.
_HYDRA, _HYDRA_EXEC = ("HYDRA_LAUNCHER", "HYDRA_BOOTSTRAP"), ("HYDRA_LAUNCHER_EXEC", "HYDRA_BOOTSTRAP_EXEC")
_AGENTS = ("PRTE_MCA_plm_ssh_agent", "OMPI_MCA_plm_rsh_agent")
_YIELD = "OMPI_MCA_mpi_yield_when_idle"
# In these batch systems' jobs Hydra takes their launcher, and would call ours in its place.
_BATCH = ("SLURM_JOB_ID", "SLURM_JOBID", "PBS_JOBID", "LSB_JOBID", "PE_HOSTFILE", "LOADL_STEP_ID", "COBALT_JOBID")


def environment(jid: str, own: Mapping[str, str]) -> dict[str, str]:
    """What a job's commands find in their environment, from what this program finds in its own.

    >>> environment("sim", {"HYDRA_LAUNCHER": "slurm"})["COSCHED_JOB"]
    'sim'
    """
    added = {JOB: jid}
    launch = str(LAUNCH)
    hydra = next((own[name] for name in _HYDRA if name in own), "")
    if hydra in ("ssh", "rsh") or (not hydra and not any(name in own for name in _BATCH)):
        added |= {"HYDRA_LAUNCHER": "ssh", "HYDRA_LAUNCHER_EXEC": launch}
    added |= dict.fromkeys(_AGENTS, launch)
    added[_YIELD] = own.get(_YIELD, "1")
    chosen = [own[name] for name in (*_HYDRA_EXEC, *_AGENTS) if own.get(name, launch) != launch]
    if chosen:
        # The user's own way to other nodes stays in use, below ours. Open MPI's may be several, "ssh -q : rsh".
        added[SSH] = chosen[0].partition(":")[0].strip()
    return {**own, **added}
