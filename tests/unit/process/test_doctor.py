# SPDX-License-Identifier: GPL-2.0-or-later
"""`ctl doctor`'s checks on directories made for them; tests/kselftest/doctor.py makes all on a real kernel."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ctl.errors import CoschedError
from ctl.kernel import slurm
from ctl.process import doctor, run_files
from ctl.process.doctor import Finding, Limited, State


def test_what_a_check_says_and_how_it_ends_is_its_finding() -> None:
    def fails() -> str:
        raise CoschedError("no swap: add some")

    def is_limited() -> str:
        raise Limited("no group: make one")

    def may_not_look() -> str:
        raise PermissionError(13, "Permission denied", "/secret")

    def has_no_module() -> str:
        import no_such_module  # type: ignore[import-not-found]

        return str(no_such_module)

    checks = {"a": lambda: "fine", "b": fails, "c": is_limited, "d": may_not_look, "e": has_no_module}
    findings = doctor.examine(checks)
    assert findings == [
        Finding("a", State.OK, "fine"),
        Finding("b", State.FAILS, "no swap: add some"),
        Finding("c", State.LIMITED, "no group: make one"),
        Finding("d", State.LIMITED, f"user {os.geteuid()} may not look at /secret: use sudo"),
        Finding("e", State.FAILS, "Python's no_such_module is missing: install it"),
    ]
    assert doctor.is_well([findings[0], findings[2], findings[3]])
    assert not doctor.is_well(findings[:2])


def cgroup(path: Path, controllers: str, **files: str) -> Path:
    """A directory like a cgroup's."""
    path.mkdir(parents=True, exist_ok=True)
    (path / "cgroup.controllers").write_text(controllers + "\n")
    for name, value in files.items():
        (path / name.replace("_", ".", 1)).write_text(value + "\n")
    return path


def test_cgroups_need_version_2_the_controllers_and_the_freezer(tmp_path: Path) -> None:
    with pytest.raises(CoschedError, match="cgroup v2 is not at"):
        doctor._cgroups(tmp_path)
    cgroup(tmp_path, "cpuset pids")
    with pytest.raises(CoschedError, match="has no cpu and no memory controller"):
        doctor._cgroups(tmp_path)
    cgroup(tmp_path, "cpu memory")
    with pytest.raises(Limited, match="has no pids controller"):
        doctor._cgroups(tmp_path)
    cgroup(tmp_path, "memory pids cpu")
    assert doctor._cgroups(tmp_path) == "version 2, with cpu, memory, pids"
    cgroup(tmp_path / "child", "")
    with pytest.raises(CoschedError, match="cannot be frozen"):
        doctor._cgroups(tmp_path)
    cgroup(tmp_path / "child", "", cgroup_freeze="0")
    assert doctor._cgroups(tmp_path)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run directory of no agent."""
    path = tmp_path / "run"
    path.mkdir()
    monkeypatch.setattr(run_files, "RUN_DIR", path)
    monkeypatch.setattr(run_files, "STATE", path / "agent.json")
    monkeypatch.setattr(run_files, "_LOCK", path / "agent.lock")
    return path


def test_leftovers_are_named(tmp_path: Path, run: Path) -> None:
    places = tmp_path / "cosched", tmp_path / "pins", tmp_path / "ext_server.json"
    assert doctor._leftovers(*places) == "no agent left anything"
    cgroup(places[0], "cpu memory", memory_high="max", cgroup_freeze="0")
    cgroup(places[0] / "sim", "", cgroup_freeze="0", memory_high="max")
    places[1].mkdir()
    assert doctor._leftovers(*places) == "no agent left anything"
    cgroup(places[0] / "sim", "", cgroup_freeze="1", memory_high="4096")
    (places[1] / "obs").touch()
    places[2].touch()
    with pytest.raises(CoschedError) as refused:
        doctor._leftovers(*places)
    text = refused.value.sentence
    for word in ("sim: cgroup.freeze is 1", "sim: memory.high is 4096", "obs is pinned", "deadline server", "ctl load"):
        assert word in text
    (run / "agent.json").write_text('{"pid": 77, "policy": "csm", "since": 0}')
    with pytest.raises(CoschedError, match=r"agent \(pid 77, policy csm\) was killed.*ctl unload"):
        doctor._leftovers(*places)
    with run_files.locked():
        assert "an agent runs" in doctor._leftovers(*places)


@pytest.mark.skipif(os.geteuid() != 0, reason="only scopes of root count, so only root can make one")
def test_slurm_needs_its_scope_and_the_controllers_in_it(tmp_path: Path) -> None:
    root, processes = tmp_path / "cgroup", tmp_path / "proc"
    (processes / "12").mkdir(parents=True)
    (processes / "12" / "comm").write_text("slurmctld\n")
    root.mkdir()
    assert slurm.check(root, processes) == "no slurmd runs"
    (processes / "12" / "comm").write_text("slurmd\n")
    with pytest.raises(CoschedError, match=r"no slurmstepd\.scope.*cgroup/v2"):
        slurm.check(root, processes)
    scope = root / "system.slice" / "node1_slurmstepd.scope"
    cgroup(scope, "cpuset cpu")
    with pytest.raises(CoschedError, match=r"no memory controller.*EnableControllers=yes"):
        slurm.check(root, processes)
    cgroup(scope, "cpuset cpu memory")
    assert slurm.check(root, processes) == "slurmd runs, its jobs are below system.slice/node1_slurmstepd.scope"
