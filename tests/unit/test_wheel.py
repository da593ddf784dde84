# SPDX-License-Identifier: GPL-2.0-or-later
"""The wheel: the simulator and the client work from it alone, far from a checkout."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parents[2]
_PIP = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check")


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory into which the wheel was installed, without what it depends on: that is here already."""
    place = tmp_path_factory.mktemp("wheel")
    wanted = ("--no-deps", "--no-build-isolation", "--wheel-dir", str(place), str(REPO))
    subprocess.run([*_PIP, "wheel", *wanted], check=True, timeout=300)
    (wheel,) = place.glob("cosched-*.whl")
    subprocess.run([*_PIP, "install", "--no-deps", "--target", str(place / "lib"), str(wheel)], check=True, timeout=300)
    return place / "lib"


def _ctl(installed: Path, *words: str) -> subprocess.CompletedProcess[str]:
    places = {"XDG_CACHE_HOME": installed / "cache", "COSCHED_RUN_DIR": installed / "run", "PYTHONPATH": installed}
    environment = {**os.environ, **{name: str(place) for name, place in places.items()}}
    command = [sys.executable, "-m", "ctl", *words]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=installed, env=environment, timeout=300
    )


def test_a_model_runs_and_orders_its_queues_by_the_kernels_text(installed: Path) -> None:
    done = _ctl(installed, "sim", "run", "csm", "--policy", "csm", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)
    assert list((installed / "cache" / "cosched" / "sim").glob("csm-*.so")), "no engine was compiled"


def test_the_client_says_that_no_agent_runs(installed: Path) -> None:
    done = _ctl(installed, "jobs")
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith("Error: ")
    assert "ctl load" in done.stderr


def test_the_wheel_has_no_part_that_needs_a_checkout(installed: Path) -> None:
    assert sorted(path.name for path in (installed / "ctl" / "bpf").iterdir()) == [
        "cosched.h", "insert_rq.h", "set_quantum.h",
    ]
    assert not (installed / "ctl" / "demo").exists()
