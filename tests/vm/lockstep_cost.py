# SPDX-License-Identifier: GPL-2.0-or-later
"""What lock-step costs: `python3 -m tests.vm.lockstep_cost NODES QUANTUM_US [NODES QUANTUM_US ...]`.

For each pair a cluster is booted; host's time and CPU time for a second of guest time are told for its phases: idle,
computing on all nodes, and packets going to and fro between two. The figures of docs/lockstep.md.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

from vm.host import REPO

__all__ = ["measure"]

_IDLE_S, _BUSY_S = 60, 5
_SCRIPT = f"""
    mark() {{ echo "mark $1 $(date +%s.%N)"; }}
    for each in $COSCHED_NODES; do echo 'timeout {_BUSY_S} sh -c "while :; do :; done"' |
        ssh ${{each%%=*}} 'cat >/tmp/busy'; done
    mark idle; sleep {_IDLE_S}; mark idle
    mark busy; for each in $COSCHED_NODES; do ssh -n ${{each%%=*}} sh /tmp/busy & done; wait; mark busy
    mark ping; ping -c 500 -i 0.001 -q node2 | tail -1; mark ping
"""


def _cpu_s(parent: int) -> float:
    """CPU time that the children of all threads of a process have used."""
    children = [child for task in Path(f"/proc/{parent}/task").iterdir()
                for child in (task / "children").read_text().split()]
    ticks = sum(sum(map(int, Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[11:13]))
                for child in children)
    return ticks / os.sysconf("SC_CLK_TCK")


def measure(nodes: int, quantum: int) -> str:
    """Return a row: nodes, quantum, host's time (CPU time) for a second of guest time by phase, round trip."""
    command = [str(REPO / "vm/cluster"), str(nodes), "--icount", "--quantum", str(quantum), "--alone"]
    command += ["--memory", "256", "--timeout", "900", "--", "sh", "-c", _SCRIPT]
    began: dict[str, tuple[float, float, float]] = {}
    cells = [str(nodes), str(quantum)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True) as run:
        assert run.stdout is not None
        for line in run.stdout:
            if trip := re.search(r"min/avg/max/mdev = ([\d./]+)", line):
                cells.append(trip.group(1))
                continue
            _, phase, guest_s = line.split()
            now = float(guest_s), time.monotonic(), _cpu_s(run.pid)
            if phase in began:
                guest, wall, cpu = (new - old for new, old in zip(now, began[phase], strict=True))
                cells.append(f"{phase} {wall / guest:.2f} ({cpu / guest:.2f})")
            began[phase] = now
    if run.returncode != 0:
        raise SystemExit(run.returncode)
    return " | ".join([*cells, f"load {os.getloadavg()[0]:.1f}"])


if __name__ == "__main__":
    for count, us in zip(sys.argv[1::2], sys.argv[2::2], strict=True):
        print(measure(int(count), int(us)), flush=True)
