# SPDX-License-Identifier: GPL-2.0-or-later
"""The history of jobs: ParPar's rules in a file, which may be damaged or lost."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctl.errors import CoschedError
from ctl.jobs.history import VERSION, History, Run
from ctl.jobs.program import program_of, ranks_of
from ctl.policy.estimate import PERIOD_S, Runs, estimate
from ctl.protocol import LONGEST_KEY

NOW = 100 * PERIOD_S
PROGRAMS, USERS, RANKS = st.sampled_from("ab"), st.sampled_from("xyz"), st.integers(0, 4)
PEAKS = st.integers(1, 1 << 40)
RUNS = st.lists(st.tuples(PROGRAMS, USERS, PEAKS, RANKS, st.integers(0, 3)))
Rows = list[tuple[str, str, int, int, int]]


def filled(rows: Rows, times: float = 1) -> History:
    """A history, in memory, of runs: program, user, peak, ranks, period."""
    history = History(Path("/proc/none"))
    for program, user, peak, ranks, period in sorted(rows, key=lambda row: row[4]):
        history.observe(program, user, Run(int(peak * times), 0, ranks), NOW + period * PERIOD_S)
    return history


def of(peaks: list[float]) -> float | None:
    runs = Runs()
    for peak in peaks:
        runs = runs.and_one(peak)
    return estimate(runs)


@given(RUNS, RANKS)
def test_it_is_parpars_estimate_of_the_first_key_that_has_runs(rows: Rows, ranks: int) -> None:
    """Of this period and the last; in plain Python."""
    history, at = filled(rows), NOW + 3 * PERIOD_S
    for program in "ab":
        for user in "xyzw":
            fresh = [row for row in rows if row[0] == program and row[4] >= 2]
            groups = [row for row in fresh if row[1] == user], fresh
            keys = [[float(row[2]) for row in group if row[3] == ranks] for group in groups if ranks]
            keys += [[row[2] / row[3] * ranks for row in group if row[3]] for group in groups if ranks]
            keys += [[float(row[2]) for row in group] for group in groups]
            expected = next((of(key) for key in keys if key), 0)
            assert history.estimate(program, user, at, ranks) == pytest.approx(expected, rel=1e-5, abs=1)


@given(RUNS, RANKS)
def test_an_estimate_lies_within_what_there_was(rows: Rows, ranks: int) -> None:
    """For so many ranks as it had; else within the least and the most of a rank, times the ranks."""
    history, at = filled(rows), NOW + 3 * PERIOD_S
    found = history.estimate("a", "x", at, ranks)
    fresh = [row for row in rows if row[0] == "a" and row[4] >= 2]
    assert bool(found) == bool(fresh)
    if fresh:
        sizes = [size for row in fresh for size in (row[2], row[2] / max(1, row[3]) * ranks) if size]
        assert min(sizes) * (1 - 1e-5) - 1 <= found <= max(sizes) * (1 + 1e-5) + 1


@given(RUNS, RANKS, st.integers(2, 9))
def test_larger_runs_have_larger_estimates(rows: Rows, ranks: int, times: int) -> None:
    at = NOW + 3 * PERIOD_S
    one, other = filled(rows).estimate("a", "x", at, ranks), filled(rows, times).estimate("a", "x", at, ranks)
    assert other == pytest.approx(one * times, rel=1e-4, abs=times + 1)


@given(st.lists(st.tuples(USERS, PEAKS), min_size=1), st.integers(1, 4), st.integers(5, 9))
def test_more_ranks_need_more(runs: list[tuple[str, int]], had: int, ranks: int) -> None:
    history = filled([("a", user, peak, had, 3) for user, peak in runs])
    at = NOW + 3 * PERIOD_S
    needs = [history.estimate("a", "x", at, count) for count in (ranks, ranks + 1, 2 * ranks)]
    assert needs == sorted(needs)
    assert needs[0] == pytest.approx(history.estimate("a", "x", at, had) / had * ranks, rel=1e-5, abs=ranks + 1)


@given(RUNS, RANKS)
def test_runs_of_two_periods_ago_do_not_count(rows: Rows, ranks: int) -> None:
    history, at = filled(rows), NOW + 3 * PERIOD_S
    young = filled([row for row in rows if row[4] >= 2])
    assert history.estimate("a", "x", at, ranks) == young.estimate("a", "x", at, ranks)
    assert history.estimate("a", "x", at + 2 * PERIOD_S, ranks) == 0


def test_two_ranks_on_a_node_and_later_four() -> None:
    history = filled([("/bin/sim", "eve", 40, 2, 0)])
    assert [history.estimate("/bin/sim", "eve", NOW, ranks) for ranks in (0, 1, 2, 4)] == [40, 20, 40, 80]
    history.observe("/bin/sim", "bob", Run(60, 0, 4), NOW)
    assert [history.estimate("/bin/sim", "eve", NOW, ranks) for ranks in (2, 4, 8)] == [40, 60, 160]


def test_it_lasts(tmp_path: Path) -> None:
    History(tmp_path / "deep" / "h").observe("/bin/sim", "eve", Run(40, 30, 2), NOW)
    again = History(tmp_path / "deep" / "h")
    assert again.estimate("/bin/sim", "eve", NOW) == 40
    row = {"program": "/bin/sim", "user": "eve", "ranks": 2, "runs": 1, "most": 40, "working": 30, "estimate": 40}
    assert again.rows(NOW) == [row]
    assert again.rows(NOW + 2 * PERIOD_S) == []


def test_what_does_not_count_any_more_is_deleted(tmp_path: Path) -> None:
    history = History(tmp_path / "h")
    for period in range(5):
        history.observe("/bin/sim", "eve", Run(40, 30, 2), NOW + period * PERIOD_S)
    with contextlib.closing(sqlite3.connect(tmp_path / "h")) as rows:
        (kept,) = rows.execute("SELECT COUNT(DISTINCT period) FROM needs").fetchone()
    assert kept == 2


OLD = (
    "CREATE TABLE runs (program TEXT, user TEXT, period INTEGER, n INTEGER, total REAL, squares REAL, most REAL, "
    "PRIMARY KEY (program, user, period)) WITHOUT ROWID"
)


def written(file: Path, *statements: str) -> None:
    """A file by these statements."""
    with contextlib.closing(sqlite3.connect(file, isolation_level=None)) as rows:
        for statement in statements:
            rows.execute(statement)


def test_a_file_of_the_layout_before_is_taken_over(tmp_path: Path) -> None:
    """It knew no ranks, and had a row for all users beside each."""
    file, told = tmp_path / "h.sqlite", list[str]()
    period = int(NOW // PERIOD_S)
    values = (f"INSERT INTO runs VALUES ('/bin/sim', '{user}', {period}, 2, 70, 2500, 40)" for user in ("eve", ""))
    written(file, OLD, *values)
    for _ in range(2):
        history = History(file, told.append)
        row = {"program": "/bin/sim", "user": "eve", "ranks": 0, "runs": 2, "most": 40, "working": 0, "estimate": 40}
        assert history.rows(NOW) == [row]
        assert [history.estimate("/bin/sim", user, NOW, 4) for user in ("eve", "bob")] == [40, 40]
    assert told == []


@pytest.mark.parametrize(
    "statements",
    [
        (f"PRAGMA user_version = {VERSION + 1}",),
        (f"PRAGMA user_version = {VERSION}",),
        ("CREATE TABLE runs (program TEXT)",),
        (f"PRAGMA user_version = {VERSION}", "CREATE TABLE needs (program TEXT)"),
    ],
)
def test_a_file_of_another_layout_is_put_aside_and_told(statements: tuple[str, ...], tmp_path: Path) -> None:
    file, told = tmp_path / "h.sqlite", list[str]()
    written(file, *statements)
    before = file.read_bytes()
    history = History(file, told.append)
    assert len(told) == 1 and str(tmp_path / "h.damaged") in told[0], told
    assert (tmp_path / "h.damaged").read_bytes() == before
    history.observe("/bin/sim", "eve", Run(40), NOW)
    assert History(file).estimate("/bin/sim", "eve", NOW) == 40


def test_a_file_of_a_later_layout_is_put_aside_though_it_could_be_read(tmp_path: Path) -> None:
    file, told = tmp_path / "h.sqlite", list[str]()
    History(file).observe("/bin/sim", "eve", Run(40), NOW)
    written(file, f"PRAGMA user_version = {VERSION + 1}")
    assert History(file, told.append).estimate("/bin/sim", "eve", NOW) == 0
    assert len(told) == 1 and f"it is of layout {VERSION + 1}, and this is {VERSION}" in told[0], told


@pytest.mark.parametrize("act", ["observe", "estimate", "rows"])
def test_a_file_that_is_damaged_while_it_is_used_is_put_aside_and_told(act: str, tmp_path: Path) -> None:
    file, told = tmp_path / "h.sqlite", list[str]()
    history = History(file, told.append)
    for number in range(400):
        history.observe(f"/bin/sim{number}", "eve", Run(40), NOW)
    content = file.read_bytes()
    changes = bytes([content[24] ^ 1])  # the count of changes: what SQLite has in memory is out of date
    file.write_bytes(content[:24] + changes + content[25:100] + b"x" * (len(content) - 100))
    if act == "observe":
        history.observe("/bin/sim", "eve", Run(40), NOW)
    elif act == "estimate":
        assert history.estimate("/bin/sim1", "eve", NOW) == 0
    else:
        assert history.rows(NOW) == []
    assert len(told) == 1 and "damaged" in told[0] and "malformed" in told[0], told
    history.observe("/bin/sim", "eve", Run(50), NOW)
    assert (history.estimate("/bin/sim", "eve", NOW), History(file).estimate("/bin/sim", "eve", NOW)) == (50, 50)


@pytest.mark.parametrize("content", [b"SQLite format 3\0 and then nothing that makes sense" * 99, b"x" * 5000])
def test_a_damaged_file_is_put_aside_and_told(content: bytes, tmp_path: Path) -> None:
    file, told = tmp_path / "h.sqlite", list[str]()
    file.write_bytes(content)
    history = History(file, told.append)
    assert len(told) == 1 and "damaged" in told[0] and str(tmp_path / "h.damaged") in told[0]
    assert (tmp_path / "h.damaged").read_bytes() == content
    history.observe("/bin/sim", "eve", Run(40), NOW)
    assert History(file).estimate("/bin/sim", "eve", NOW) == 40


def test_no_place_to_write_is_told_and_does_no_harm() -> None:
    told = list[str]()
    history = History(Path("/proc/none/h.sqlite"), told.append)
    assert len(told) == 1 and "is not kept" in told[0] and "/proc/none" in told[0]
    history.observe("/bin/sim", "eve", Run(40), NOW)
    assert history.estimate("/bin/sim", "eve", NOW) == 40


def test_how_many_ranks_a_command_starts_here() -> None:
    assert ranks_of(["env", "A=1", "mpiexec.mpich", "-n", "4", "cat", "-n", "9"]) == 4
    assert ranks_of(["mpirun", "--oversubscribe", "-np", "3", "cat"]) == 3
    nonsense = ["-n", "x"], ["-n", "99999"], ["-n"]
    for words in (["-host", "a", "-n", "4"], ["-n", "4", "-f", "file"], ["-n", "1", "cat", ":"], *nonsense):
        assert ranks_of(["mpiexec", *words, "cat"]) == 0, words
    assert ranks_of(["cat", "-n", "4"]) == ranks_of([]) == ranks_of(["mpiexec"]) == 0


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


def executable(path: Path, text: str = "") -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return str(path)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory to work in, and beside it one with programs, which are the only ones."""
    for name in ("make", "nice", "timeout", "env", "srun", "stress-ng", "java", "apptainer", "conda", "python3", "bash",
                 "sim", "batch"):  # fmt: skip
        executable(tmp_path / "bin" / name)
    (tmp_path / "here" / "sub").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    for name in ("sim.py", "sim.jar", "Other", "image.sif", "data"):
        Path(name).touch()
    return tmp_path / "here"


@pytest.mark.parametrize(
    ("command", "key"),
    [
        ("make small", "BIN/make HERE small"),
        ("nice -n 5 make -j 4 -s big CC=gcc all", "BIN/make HERE big all"),
        ("make -j -C sub -f ../Other", "BIN/make HERE/Other"),
        ("make --directory=sub", "BIN/make HERE/sub"),
        ("stress-ng -t 9 --vm 1 --vm-bytes 600M", "BIN/stress-ng --vm"),
        ("stress-ng --timeout=9 --metrics -c 2", "BIN/stress-ng -c"),
        ("java -Xmx2g -cp a:b -jar sim.jar 7", "BIN/java HERE/sim.jar"),
        ("java -cp a:b org.Sim 7", "BIN/java org.Sim"),
        ("python3 -u -W ignore sim.py 7", "BIN/python3 HERE/sim.py"),
        ("python3 -m sim data", "BIN/python3 -m sim"),
        ("python3 -c pass data", ""),
        ("./hand", "BIN/python3 HERE/hand"),
        ("bash -e run.sh small 7", "BIN/bash HERE/run.sh small"),
        ("./run.sh small 7", "BIN/bash HERE/run.sh small"),
        ("./run.sh 7", "BIN/bash HERE/run.sh"),
        ("./run.sh data", "BIN/bash HERE/run.sh"),
        ("bash -c sim", ""),
        ("./itself", ""),
        ("srun -p batch -n 4 timeout -s KILL 9 sim", "BIN/sim"),
        ("env -u sim A=1 sim 7", "BIN/sim"),
        ("conda run -n sim python3 sim.py", "BIN/python3 HERE/sim.py"),
        ("conda run --no-capture-output -n sim gmx data", "gmx"),
        ("apptainer --quiet exec --bind a:b image.sif env A=1 gmx mdrun", "BIN/apptainer HERE/image.sif gmx"),
        ("apptainer run docker://gmx mdrun", "BIN/apptainer docker://gmx"),
    ],
)
def test_the_key_is_what_a_wrapper_starts(here: Path, command: str, key: str) -> None:
    executable(here / "hand", "#!/usr/bin/env python3\n")
    executable(here / "run.sh", "#!/bin/bash -e\n".replace("/bin/bash", f"{here.parent}/bin/bash"))
    executable(here / "itself", f"#!{here}/itself\n")
    assert program_of(command.split()) == key.replace("BIN", f"{here.parent}/bin").replace("HERE", str(here))


def test_a_key_is_safe_to_send_and_to_print(here: Path) -> None:
    assert program_of(["make", "a\x1b[2J\udc80"]) == f"{here.parent}/bin/make {here} a?[2J?"
    assert len(program_of(["make", *["target"] * 1000])) == LONGEST_KEY


def test_what_a_user_forgets_is_the_users_own(tmp_path: Path) -> None:
    history = filled([("a", "x", 10, 0, 3), ("a", "x", 20, 2, 3), ("a", "y", 90, 0, 3), ("b", "x", 30, 0, 3)])
    at = NOW + 3 * PERIOD_S
    assert history.forget("a", "x") == 2
    assert [(row["program"], row["user"]) for row in history.rows(at)] == [("a", "y"), ("b", "x")]
    assert history.forget("a", "x") == history.forget("c", None) == 0
    assert history.forget("a", None) == 1
    assert history.estimate("a", "y", at) == 0 < history.estimate("b", "x", at)


def test_a_file_that_is_in_use_forgets_nothing_and_says_so(tmp_path: Path) -> None:
    history = History(tmp_path / "h.sqlite")
    history.observe("a", "x", Run(40), NOW)
    with contextlib.closing(sqlite3.connect(tmp_path / "h.sqlite")) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(CoschedError, match="in use"):
            history.forget("a", "x")
    assert history.estimate("a", "x", NOW) == 40
