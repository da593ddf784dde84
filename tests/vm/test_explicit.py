# SPDX-License-Identifier: GPL-2.0-or-later
"""Explicit coscheduling on two virtual machines: jobs are stopped and go on at the same time on both."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.vm.test_cluster_vm import cluster

pytestmark = pytest.mark.vm

RUN_MS, STOP_MS = 300, 200  # far longer than a busy host is late


def test_slots_of_two_nodes_are_in_step(tmp_path: Path) -> None:
    script = f"cd /src && python3 -m tests.cluster.in_step --seconds 12 --run {RUN_MS} --stop {STOP_MS} --json /out/x"
    done = cluster(2, script, "--alone", "--out", str(tmp_path))
    assert done.returncode == 0, done.stdout.decode() + done.stderr.decode()
    found = json.loads((tmp_path / "x").read_text())
    assert found["stops_on_both"] >= 10, found
    # out of step they would be apart by up to half a period, 125 ms in the median
    assert found["stop_apart_ms"]["median"] + found["clock_error_ms"] < 60, found
    assert found["go_apart_ms"]["median"] + found["clock_error_ms"] < 60, found
