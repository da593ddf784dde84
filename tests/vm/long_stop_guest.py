# SPDX-License-Identifier: GPL-2.0-or-later
"""The part of test_long_stops.py on node1 of vm/cluster: `python3 -m tests.vm.long_stop_guest SECONDS`.

Jobs of two ranks on two nodes, by each launcher, are on hold for so long; then they go on, and
their ranks meet again. A row a job: how it was started, and its exit status, or what it printed at last.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests import slurm

_ALIVE = "ClientAliveInterval 15\nClientAliveCountMax 3\nPort 2222\nPidFile /run/sshd-alive.pid\n"  # of node2-alive
_CLIENT = "Host node2-alive\n HostName node2\n HostKeyAlias node2\n Port 2222\n"
_HOLD_S = 20  # seconds: longer than it takes to stop the job
# What the agent does when it stops a job of Slurm, which its owner cannot put on hold; there is only one
_FREEZE = "for task in /sys/fs/cgroup/*/*slurmstepd.scope/*/step_*/user/task_*; do echo {} >$task/cgroup.freeze; done"
_LAUNCHERS = {
    "mpich": ("mpiexec.mpich", "-hosts", "node1,node2", "-n", "2", "/root/hold-mpich", str(_HOLD_S)),
    "mpich-alive": ("mpiexec.mpich", "-hosts", "node1,node2-alive", "-n", "2", "/root/hold-mpich", str(_HOLD_S)),
    "openmpi": ("mpiexec.openmpi", "--allow-run-as-root", "--mca", "btl_tcp_if_include", "10.77.0.0/24", "--host",
                "node1:1,node2:1", "-n", "2", "/root/hold-openmpi", str(_HOLD_S)),
}


def _on_both(command: str) -> None:
    for node in ("node1", "node2"):
        subprocess.run(["ssh", "-n", node, command], check=True, stdout=subprocess.DEVNULL)


def _prepare() -> None:
    """The programs and a second sshd that asks its clients whether they are alive, on both nodes."""
    for mpi in ("mpich", "openmpi"):
        subprocess.run([f"mpicc.{mpi}", "-O2", "-o", f"/root/hold-{mpi}", "/src/tests/progs/mpi_hold.c"], check=True)
    kept = ("PATH", "LANG", "COSCHED_", "PYTHON")
    known = {name: value for name, value in os.environ.items() if name.startswith(kept)}
    environment = " ".join(f'{name}="{value}"' for name, value in (known | {"COSCHED_NODE": "node2"}).items())
    config = Path("/src/vm/guest/sshd_config").read_text().replace("PidFile /run/sshd.pid\n", _ALIVE)
    Path("/root/sshd-alive").write_text(f"{config}SetEnv {environment}\n")
    with open("/etc/ssh/ssh_config.d/cosched.conf", "a") as file:
        file.write(_CLIENT)
    with open("/etc/hosts", "a") as file:
        file.write(f"{socket.gethostbyname('node2')} node2-alive\n")
    subprocess.run(["scp", "-q", *(f"/root/{name}" for name in ("hold-mpich", "hold-openmpi", "sshd-alive")), "node2:"],
                   check=True)
    subprocess.run(["ssh", "-n", "node2", "/usr/sbin/sshd -f /root/sshd-alive"], check=True)
    _on_both("ctl load --policy csm --set sensors=off")


@contextmanager
def _started() -> Iterator[dict[str, subprocess.Popen[str]]]:
    """Each launcher's job, whose JID is the launcher's name; all ranks have met once."""
    jobs = {
        name: subprocess.Popen(["ctl", "run", "--job", name, "--", *command], text=True,
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        for name, command in _LAUNCHERS.items()
    }
    try:
        for name, process in jobs.items():
            assert process.stdout is not None
            for _ in range(2):
                print(f"{name}: {process.stdout.readline().strip()}", file=sys.stderr)
        yield jobs
    finally:
        for process in jobs.values():
            process.kill()


def main(stop_s: float) -> None:
    """Stop all, wait, let all go on, and tell of each."""
    _prepare()
    with slurm.running(), _started() as jobs:
        of_slurm = slurm.sbatch(f"srun --mpi=pmi2 /root/hold-mpich {_HOLD_S}", "--nodes=2", "--ntasks=2",
                                "--output=/root/out")
        while Path("/root/out").exists() is False or Path("/root/out").read_text().count("rank") < 2:
            time.sleep(0.2)
        jids = " ".join(jobs)
        _on_both(f"ctl hold {jids}; {_FREEZE.format(1)}")
        time.sleep(stop_s)
        assert Path("/root/out").read_text().count("all met again") == 0, "Slurm's job was not stopped"
        _on_both(f"ctl release {jids}; {_FREEZE.format(0)}")
        for name, process in jobs.items():
            try:
                said, _ = process.communicate(timeout=120)
            except subprocess.TimeoutExpired:
                said = "hangs"
            print(f"{name}: status {process.returncode}: {' / '.join(said.split(chr(10))[-8:])}", flush=True)
        end = time.monotonic() + 120
        while (state := slurm.state(of_slurm)) == "RUNNING" and time.monotonic() < end:
            time.sleep(0.5)
        print(f"slurm: {state}: {' / '.join(Path('/root/out').read_text().splitlines()[-3:])}", flush=True)
    _on_both("ctl unload")


if __name__ == "__main__":
    main(float(sys.argv[1]))
