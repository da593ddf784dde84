# SPDX-License-Identifier: GPL-2.0-or-later
"""What a job asked Slurm for, read from the environment of real processes."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ctl.kernel.slurm_request import _memory, _tasks, request_of

TEXT = st.text(max_size=20)


@contextmanager
def process(**environment: str) -> Iterator[int]:
    """A process with this environment."""
    with subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE, env=environment) as child:
        try:
            while not Path(f"/proc/{child.pid}/environ").read_bytes():  # its execve has not ended yet
                time.sleep(0.001)
            yield child.pid
        finally:
            child.kill()


def test_what_a_job_asked_for() -> None:
    """slurmstepd's copy of itself has not got the job's environment yet: the next process has."""
    job = {"SLURM_JOB_ID": "7", "SLURM_JOB_NAME": "sim=2", "SLURM_MEM_PER_NODE": "48", "SLURM_TASKS_PER_NODE": "3(x2)"}
    with process(SLURM_JOB_ID="8") as other, process(**job, SLURM_NODEID="1") as pid:
        found = request_of("7", [1 << 30, other, pid])
        assert found is not None
        assert found[:4] == (os.getuid(), "sim=2", 48 << 20, 3)
        assert found.static > 4096
        assert request_of("9", [other, pid]) is None


def test_what_it_asked_for_on_the_whole_node_goes_before_what_it_asked_for_on_each_cpu() -> None:
    each = {"SLURM_MEM_PER_CPU": "10", "SLURM_CPUS_ON_NODE": "4"}
    assert _memory(each) == 40 << 20
    assert _memory({**each, "SLURM_MEM_PER_NODE": "48"}) == 48 << 20


def test_a_long_name_is_cut() -> None:
    with process(SLURM_JOB_ID="7", SLURM_JOB_NAME="sim" * 100) as pid:
        found = request_of("7", [pid])
        assert found is not None and found.name == ("sim" * 100)[:256]


@pytest.mark.parametrize("name", ["sim\x1b[2J", "wrap", "sbatch"])
def test_a_name_that_terminals_would_obey_or_that_many_jobs_have_is_none(name: str) -> None:
    with process(SLURM_JOB_ID="7", SLURM_JOB_NAME=name) as pid:
        found = request_of("7", [pid])
        assert found is not None and found.name == ""


def test_who_asked_for_nothing() -> None:
    with process(SLURM_JOB_ID="7") as pid:
        found = request_of("7", [pid])
        assert found is not None and found[1:4] == ("", 0, 0)


@given(st.fixed_dictionaries({}, optional=dict.fromkeys(
    ("SLURM_MEM_PER_NODE", "SLURM_MEM_PER_CPU", "SLURM_CPUS_ON_NODE", "SLURM_TASKS_PER_NODE", "SLURM_NODEID"),
    TEXT | st.integers(-9, 1 << 70).map(str) | st.from_regex(r"\d{1,12}\(x\d{1,12}\)(,\d+)?", fullmatch=True),
)))
@example({"SLURM_MEM_PER_NODE": "²", "SLURM_TASKS_PER_NODE": "²"})
def test_nonsense_gives_numbers_within_bounds(told: dict[str, str]) -> None:
    assert 0 <= _memory(told) <= 1 << 60
    assert 0 <= _tasks(told) <= 1 << 16
