# SPDX-License-Identifier: GPL-2.0-or-later
"""Gangs are worth it: threads at barriers beside a hog on each CPU are faster than under the kernel's scheduler."""

from __future__ import annotations

import json
import subprocess
import sys
from statistics import mean

from vm.host import REPO

_ROW = "barriers-yield-hogs-15us"


def test_a_job_beside_busy_cpus_is_faster_than_without() -> None:
    command = ("-m", "tests.bench", "--part", "smp-2", "--scheduler", "csm", "--only", _ROW, "--quick")
    done = subprocess.run((sys.executable, *command), check=False, cwd=REPO, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    told = [json.loads(line[line.index("{") :]) for line in done.stderr.splitlines() if '"result"' in line]
    took = {name: [one["result"]["value"] for one in told if one["scheduler"] == name] for name in ("eevdf", "csm")}
    assert mean(took["csm"]) < 0.7 * mean(took["eevdf"]), took
