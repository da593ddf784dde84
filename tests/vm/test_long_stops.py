# SPDX-License-Identifier: GPL-2.0-or-later
"""Jobs of two nodes that are stopped for long go on, by each launcher; with COSCHED_STOP_S=600, after ten minutes."""

from __future__ import annotations

import os
import re
import subprocess

import pytest

from tests.vm.test_cluster_vm import LIMIT_S, cluster
from vm.host import REPO

pytestmark = pytest.mark.vm

_STOP_S = float(os.environ.get("COSCHED_STOP_S", "70"))  # seconds; sshd gives up a silent client after 45 there
_LAUNCHERS = {"mpich", "mpich-alive", "openmpi", "slurm"}


def test_jobs_go_on_after_a_long_stop() -> None:
    """Also where sshd has given up the ssh of the launcher, stopped with its job, and closed the connection."""
    subprocess.run([REPO / "vm" / "build"], check=True, capture_output=True)
    command = f"cd /src && exec python3 -m tests.vm.long_stop_guest {_STOP_S:g}"
    done = cluster(2, command, limit=LIMIT_S + int(2 * _STOP_S))
    said = dict(re.findall(r"^([a-z-]+): (.*)$", done.stdout.decode(), re.MULTILINE))
    assert said.keys() == _LAUNCHERS, f"{said}\n{done.stderr.decode()}"
    assert all("all met again" in words for words in said.values()), said
