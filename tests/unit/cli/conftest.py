# SPDX-License-Identifier: GPL-2.0-or-later
"""`ctl` as a process of its own, without an agent and without files of this machine."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]

Ctl = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def ctl(tmp_path: Path) -> Ctl:
    """Run ctl as a process of its own, with no agent."""

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        environment = {
            **os.environ,
            "COSCHED_RUN_DIR": str(tmp_path / "run"),
            "COSCHED_BPF_DIR": str(tmp_path),
            "COSCHED_CLUSTER_DIR": str(tmp_path / "cluster"),
            "COSCHED_CONFIG": str(tmp_path / "cosched.conf"),
            "PYTHONPATH": str(ROOT),
        }
        return subprocess.run(
            [sys.executable, "-m", "ctl", *arguments],
            capture_output=True,
            text=True,
            env=environment,
            cwd=tmp_path,
            stdin=subprocess.DEVNULL,
            timeout=300,
            check=False,
        )

    return run


def refused(done: subprocess.CompletedProcess[str], *words: str) -> None:
    """Exit status 2, one sentence, with these words in it."""
    assert done.returncode == 2, done
    assert done.stdout == ""
    for word in words:
        assert word in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stderr.startswith("Error: ")
    assert done.stderr.count("\n") == 1
