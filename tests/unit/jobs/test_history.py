# SPDX-License-Identifier: GPL-2.0-or-later
"""The history of jobs: ParPar's rules in a file, which may be damaged or lost."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctl.jobs.history import History
from ctl.jobs.program import program_of
from ctl.policy.estimate import PERIOD_S, Runs, estimate

NOW = 100 * PERIOD_S
RUNS = st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from("xyz"), st.integers(1, 1 << 40), st.integers(0, 3)))


@given(RUNS)
def test_it_is_parpars_estimate_of_this_period_and_the_last(rows: list[tuple[str, str, int, int]]) -> None:
    history = History(Path("/proc/none"))  # in memory
    rows = sorted(rows, key=lambda row: row[3])
    for program, user, memory, period in rows:
        history.observe(program, user, memory, NOW + period * PERIOD_S)
    at = NOW + 3 * PERIOD_S
    for program in "ab":
        for user in "xyzw":
            fresh = [row for row in rows if row[0] == program and row[3] >= 2]
            own = [row for row in fresh if row[1] == user]
            runs = Runs()
            for row in own or fresh:
                runs = runs.and_one(row[2])
            expected = estimate(runs) or 0
            assert history.estimate(program, user, at) == pytest.approx(expected, rel=1e-6, abs=1)


def test_it_lasts(tmp_path: Path) -> None:
    History(tmp_path / "deep" / "h").observe("/bin/sim", "eve", 40, NOW)
    again = History(tmp_path / "deep" / "h")
    assert again.estimate("/bin/sim", "eve", NOW) == 40
    assert again.rows(NOW) == [{"program": "/bin/sim", "user": "eve", "runs": 1, "most": 40, "estimate": 40}]
    assert again.rows(NOW + 2 * PERIOD_S) == []


@pytest.mark.parametrize("content", [b"SQLite format 3\0 and then nothing that makes sense" * 99, b"x" * 5000])
def test_a_damaged_file_is_put_aside_and_told(content: bytes, tmp_path: Path) -> None:
    file, told = tmp_path / "h.sqlite", list[str]()
    file.write_bytes(content)
    history = History(file, told.append)
    assert len(told) == 1 and "damaged" in told[0] and str(tmp_path / "h.damaged") in told[0]
    assert (tmp_path / "h.damaged").read_bytes() == content
    history.observe("/bin/sim", "eve", 40, NOW)
    assert History(file).estimate("/bin/sim", "eve", NOW) == 40


def test_no_place_to_write_is_told_and_does_no_harm() -> None:
    told = list[str]()
    history = History(Path("/proc/none/h.sqlite"), told.append)
    assert len(told) == 1 and "is not kept" in told[0] and "/proc/none" in told[0]
    history.observe("/bin/sim", "eve", 40, NOW)
    assert history.estimate("/bin/sim", "eve", NOW) == 40


def test_which_program_a_command_is_about(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.touch()
    proxy = tmp_path / "hydra_pmi_proxy"
    proxy.write_text("#!/bin/sh\n")
    proxy.chmod(0o755)
    cat, python = os.path.realpath("/bin/cat"), os.path.realpath("/usr/bin/python3")
    assert program_of(["cat", "x"]) == program_of(["env", "A=1", "nice", "-n", "5", "cat"]) == cat
    assert program_of(["env", "A=1", "/usr/bin/python3", "-u", str(script), "7"]) == f"{python} {script}"
    assert program_of(["/usr/bin/python3", "-c", "pass"]) == program_of(["no-such-program"]) == ""
    assert program_of(["mpiexec.mpich", "-n", "4", "timeout", "9", "shuf"]) == os.path.realpath("/usr/bin/shuf")
    assert program_of([str(proxy), "--control-port", "cat"]) == "", "only the launcher knows"
    assert program_of(["env"]) == os.path.realpath("/usr/bin/env"), "a launcher that launches nothing"
