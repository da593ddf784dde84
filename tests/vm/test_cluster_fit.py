# SPDX-License-Identifier: GPL-2.0-or-later
"""Policy `fit` on two nodes in lock-step: MPI jobs take turns on both at once, whatever fails (fit_together.py)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.vm.test_cluster_vm import cluster

pytestmark = pytest.mark.vm

LIMIT_S = 1800  # in lock-step, on a busy host
APART_MS = 100.0  # the most that nodes may be apart at a change, p99


def test_jobs_of_two_nodes_take_turns_on_both_at_once(tmp_path: Path) -> None:
    script = "cd /src && python3 -m tests.cluster.fit_together --seconds 30 --json /out/x"
    options = ("--icount", "--cpus", "1", "--memory", "512", "--out", str(tmp_path), "--timeout", "9000")
    done = cluster(2, script, *options, limit=LIMIT_S)
    assert done.returncode == 0, done.stdout.decode() + done.stderr.decode()
    found = json.loads((tmp_path / "x").read_text())
    assert found["changes"] >= 4 and found["p99_ms"] <= APART_MS, found
