# SPDX-License-Identifier: GPL-2.0-or-later
"""Which parts of the benchmarks run when, under which schedulers, and with what words filled in."""

from __future__ import annotations

import os

import click
import pytest
from click.testing import CliRunner

from tests.bench import __main__ as bench
from tests.bench import guest, plan

TIMES = ("time", "instructions", "observations")
SMP = ("smp-2", "smp-4")


def choice(
    *parts: str, schedulers: tuple[str, ...] = (), only: tuple[str, ...] = (), quick: bool = False
) -> bench._Choice:
    return bench._Choice(schedulers, only, parts, quick)


def test_several_cpus_are_measured_only_when_named() -> None:
    assert tuple(choice().orders()) == TIMES
    assert tuple(choice(*SMP).orders()) == SMP
    assert tuple(choice("smp-8").orders()) == ("smp-8",)


def test_what_is_whole_is_kept_under_its_name() -> None:
    assert choice().kept_as == "bench" and choice(*SMP).kept_as == choice(*reversed(SMP)).kept_as == "smp"
    assert choice("smp-2").kept_as == "smp-2" and choice("gangs-2", "gangs-4", "gangs-8").kept_as == "gangs"
    narrowed = (choice(*SMP, "smp-8"), choice("time"), choice("gangs-2", "gangs-4"), choice(*SMP, quick=True),
                choice(*SMP, schedulers=("csm",)), choice(only=("switch-2",)))  # fmt: skip
    assert [one.kept_as for one in narrowed] == [""] * len(narrowed)


def test_a_group_of_parts_stands_for_them() -> None:
    names = bench._names(dict(plan.PARTS), False, bench._GROUPS)
    context, option = click.Context(bench.main), click.Option(["--part"])
    assert names(context, option, ("smp",)) == SMP
    assert names(context, option, ("smp-8", "smp", "smp-2")) == ("smp-8", *SMP)
    told = CliRunner().invoke(bench.main, ["--part", "sm"]).output
    assert "'sm' is none of" in told and "smp" in told


def test_ways_to_run_a_job_are_measured_with_jobs() -> None:
    order = choice("smp-2", schedulers=("nice19", "csm", "faults")).orders()["smp-2"]
    assert order.schedulers == ["eevdf", "nice19", "eevdf", "csm", "eevdf"]
    assert [name for name in order.benchmarks if not plan.runs("nice19", name)] == ["pingpong-pipe", "hackbench-pipes"]
    assert all(plan.runs("csm", name) for name in order.benchmarks)
    assert bench._steps(order) == 5 * len(order.benchmarks) - 2
    assert choice("time", schedulers=("nice19",)).orders()["time"].schedulers == ["eevdf"]


JOBS = [name for name in plan.PARTS["smp-2"].benchmarks if plan.BENCHMARKS[name].job]


@pytest.mark.parametrize("name", JOBS)
@pytest.mark.parametrize("quick", [False, True])
def test_every_word_of_a_benchmark_is_filled_in(name: str, quick: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    one = plan.BENCHMARKS[name]
    words = guest._fill(one.quick if quick else one.argv, "idle")
    assert "idle" in words and not [word for word in words if "{" in word]
    jobs = [word for word in words if word.endswith("/cgroup.procs")]
    assert len(set(jobs)) == len(jobs) == (2 if name.endswith("two-jobs") else 1)
    if name.startswith("barriers"):
        assert words[words.index("--threads") + 1] == ("8" if name.endswith("twice") else "4")
        assert ("--repeats" in words) == quick and ("--sleeper" in words) == ("-hogs" in name)
