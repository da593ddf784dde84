# SPDX-License-Identifier: GPL-2.0-or-later
"""People are told once of jobs that share CPUs for no reason, and of processes that are not where their job is. The
processes are real: bound by sched_setaffinity, outside of any job's cgroup as all of this machine's are."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import combinations
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctl.kernel import sysinfo
from ctl.kernel.cgroups import PARENT
from ctl.kernel.member import cgroup_of
from ctl.node import notices
from ctl.node.bindings import Mask, bound, clashes, cpu_list
from ctl.node.jobs import Job
from ctl.node.notices import Notices

FOUR = Mask(range(4))
_BOUND = "import os, sys, time; os.sched_setaffinity(0, {0}); print(flush=True); time.sleep(60)"

Spawn = Callable[..., int]


@pytest.fixture
def spawn() -> Iterator[Spawn]:
    """Start a program and wait for its first line; returns its process."""
    running = []

    def start(*command: str, line: bool = True) -> int:
        running.append(subprocess.Popen(command, stdout=subprocess.PIPE))
        if line:
            assert running[-1].stdout is not None
            running[-1].stdout.readline()
        return running[-1].pid

    yield start
    for process in running:
        process.kill()
        process.wait()


def job(jid: str, *pids: int) -> Job:
    return Job(jid, PARENT / jid, 1, "eve", processes=set(pids))


def of(inside: dict[str, list[int]], frozen: frozenset[str] = frozenset()) -> tuple[Notices, Mock]:
    """Notices of jobs that have these processes in their cgroups, and who is told."""
    tell = Mock()
    cgroups: Any = SimpleNamespace(parent=PARENT, pids=inside.__getitem__, is_frozen=frozen.__contains__)
    return Notices(cgroups, tell), tell


def told(tell: Mock, action: str) -> list[str]:
    return [call.args[1] for call in tell.call_args_list if call.kwargs["action"] == action]


def one(*cpus: int) -> list[Mask]:
    """A rank on each of these CPUs."""
    return [Mask({cpu}) for cpu in cpus]


@pytest.mark.parametrize(
    ("jobs", "expected"),
    [
        ({"a": one(0, 1), "b": one(0, 1)}, {("a", "b"): (Mask({0, 1}), Mask({2, 3}))}),  # mpirun and mpirun
        ({"a": one(0, 1), "b": one(1, 2)}, {("a", "b"): (Mask({1}), Mask({3}))}),
        ({"a": one(0, 1), "b": one(2)}, {}),  # each on its own
        ({"a": one(0, 1), "b": []}, {}),  # b is not bound
        ({"a": one(0, 1), "b": one(0, 1, 2, 3)}, {}),  # no CPU is free
        ({"a": [Mask({0, 1, 2})], "b": [Mask({0, 1, 2})] * 2}, {}),  # as bound to a NUMA node: room for all three
        ({"a": [Mask({0, 1})] * 2, "b": one(1)}, {("a", "b"): (Mask({1}), Mask({2, 3}))}),
        ({"a": one(0), "b": one(0), "c": one(0)}, dict.fromkeys([*combinations("abc", 2)], (Mask({0}), FOUR - {0}))),
    ],
)
def test_jobs_clash_where_they_are_bound_to_more_places_than_cpus_and_a_cpu_has_none(
    jobs: dict[str, list[Mask]], expected: dict[tuple[str, str], tuple[Mask, Mask]]
) -> None:
    assert clashes(jobs, FOUR) == expected


@given(st.dictionaries(st.sampled_from("abcd"), st.lists(st.frozensets(st.integers(0, 3), min_size=1, max_size=3))))
def test_who_clashes_could_be_apart(jobs: dict[str, list[Mask]]) -> None:
    """By the definition: both have the CPUs that are named, nobody has the free ones."""
    for (a, b), (shared, free) in clashes(jobs, FOUR).items():
        assert a < b and shared and free
        assert all(any(cpu in mask for mask in jobs[jid]) for jid in (a, b) for cpu in shared)
        assert not any(mask & free for masks in jobs.values() for mask in masks)
        assert cpu_list(free) == cpu_list(sorted(free, reverse=True))


def test_the_masks_of_real_processes(spawn: Spawn) -> None:
    pid, free = spawn(sys.executable, "-c", _BOUND), spawn(sys.executable, "-c", "print(flush=True); input()")
    online = Mask(sysinfo.online_cpus()) | {99}  # CPU 99 is nobody's: also where this machine has one CPU
    assert bound([pid, 2**22 + 1], online) == one(0), "a process that has ended is none"
    assert bound([free], Mask(sysinfo.online_cpus())) == []


def test_two_jobs_on_one_cpu_are_told_once_until_one_ends(spawn: Spawn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sysinfo, "online_cpus", lambda: [0, 1])
    monkeypatch.setattr(notices, "_LOOKS_EVERY", 0.0)
    pids = {jid: [spawn(sys.executable, "-c", _BOUND)] for jid in "ab"}
    jobs = [job(jid, *pids[jid]) for jid in "ab"]
    seen, tell = of(pids)
    seen.look(jobs)
    seen.look(jobs)
    assert told(tell, "bound") == [
        "jobs a and b are bound to the same CPUs (0), while no job has 1: start them with `mpiexec --bind-to none`"
    ]
    seen.forget("b")
    seen.look(jobs)
    assert len(told(tell, "bound")) == 2
    seen, tell = of(pids, frozenset("a"))
    seen.look(jobs)
    assert told(tell, "bound") == [], "a stopped job takes no CPU"


def test_a_process_that_left_its_job_is_told_once(spawn: Spawn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notices, "_LOOKS_EVERY", 0.0)
    pids = [spawn("sleep", "60", line=False) for _ in range(3)]
    seen, tell = of({"a": pids[:1], "b": []})
    for _ in range(2):
        seen.look([job("a", *pids)])
    (text,) = told(tell, "elsewhere")
    who, where = f"sleep (process {min(pids[1:])})", cgroup_of(pids[1])
    assert text.startswith(f"job a: {who} left its cgroup for {where} and is no part of the job")
    seen.look([job("b", 2**22 + 1)])
    assert len(told(tell, "elsewhere")) == 1, "a process that has ended is nowhere"


def test_a_client_of_a_container_service_is_told_by_its_name(spawn: Spawn, tmp_path: Path) -> None:
    docker = tmp_path / "docker"
    docker.write_bytes(Path("/usr/bin/sleep").read_bytes())
    docker.chmod(0o755)
    programs = {"a": [str(docker), "60"], "b": ["bash", "-c", f"exec -a --cgroup-parent=/cosched/b {docker} 60"]}
    pids = {jid: [spawn(*command, line=False)] for jid, command in programs.items()}
    until = time.monotonic() + 5
    while any(Path(f"/proc/{pid}/comm").read_text() != "docker\n" for (pid,) in pids.values()):
        assert time.monotonic() < until
        time.sleep(0.01)
    seen, tell = of(pids)
    seen.look([job(jid, *pids[jid]) for jid in "ab"])
    (text,) = told(tell, "elsewhere")
    assert text.startswith("job a: docker has a service start its containers, which are no part of the job without")
    assert "`--cgroup-parent=/cosched/a`" in text, "and b's container has its place in the job"
