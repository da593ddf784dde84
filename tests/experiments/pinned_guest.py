# SPDX-License-Identifier: GPL-2.0-or-later
"""The workloads of pinned.py in the kernel: `python3 -m tests.experiments.pinned_guest POLICY...`, in a guest.

Reads what pinned_tasks is called with, {workload: arguments}, and prints a JSON line for each run:
{"workload", "policy", "ends": [[name, at_s, CPU s of each of places()]], "stats"}.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tests.experiments.pinned import KNOBS, WORKLOADS, Place, Work, places, tasks
from tests.kselftest.node import job, loaded

_SOURCE = Path(__file__).resolve().parents[1] / "progs/pinned_tasks.c"
_TIMEOUT_S = 600


def _ends(said: str, workload: Sequence[Work]) -> list[tuple[str, float, list[float]]]:
    """Of the program's output: the end of each job's last task and of each local one."""
    where, left = tasks(workload), Counter(name for name, _ in tasks(workload))
    found = []
    for line in said.splitlines():
        end = json.loads(line)
        name, _ = where[end["task"]]
        left[name] -= 1
        if left[name]:
            continue
        cpu_us: Counter[Place] = Counter()
        for place, us in zip(where, end["cpu_us"], strict=True):
            cpu_us[place] += us
        found.append((name, end["at_us"] / 1e6, [cpu_us[place] / 1e6 for place in places(workload)]))
    return found


def _measure(program: Path, name: str, arguments: Sequence[str], policy: str) -> None:
    with job("pinned") as cgroup, loaded(policy, **KNOBS) as scheduler:
        command = [str(program), str(cgroup / "cgroup.procs"), *arguments]
        said = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, timeout=_TIMEOUT_S).stdout
        stats = scheduler.stats()
    ends = _ends(said, WORKLOADS[name])
    print(json.dumps({"workload": name, "policy": policy, "ends": ends, "stats": stats}), flush=True)


def main(policies: Sequence[str]) -> int:
    """Measure each workload under each policy."""
    asked = json.load(sys.stdin)
    with tempfile.TemporaryDirectory() as directory:
        program = Path(directory) / "pinned_tasks"
        subprocess.run(["gcc", "-O2", "-o", str(program), str(_SOURCE)], check=True)
        for name, arguments in asked.items():
            for policy in policies:
                _measure(program, name, arguments, policy)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
