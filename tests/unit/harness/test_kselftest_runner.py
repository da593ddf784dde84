# SPDX-License-Identifier: GPL-2.0-or-later
"""The runner of the in-guest tests, on real test files that tell the truth and on such that do not."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from tests.kselftest import runner

REPO = Path(__file__).resolve().parents[3]

GOOD = "echo KTAP version 1; echo 1..2; echo '# a note'; echo ok 1 first; echo '  ok 1 nested'; echo ok 2"


def put(directory: Path, name: str, script: str) -> None:
    """A test file that does what the shell script does, and ends as the shell does."""
    path = directory / f"{name}.py"
    path.write_text(
        f"#!{sys.executable}\nimport os, subprocess, sys\nended = subprocess.call(['sh', '-c', {script!r}])\n"
        "sys.exit(ended) if ended >= 0 else os.kill(os.getpid(), -ended)\n"
    )
    path.chmod(0o755)


def run(directory: Path, *arguments: str) -> int:
    return runner.main(["--directory", str(directory), "--timeout", "20", *arguments])


def last_line(capsys: pytest.CaptureFixture[str]) -> tuple[str, str]:
    out = capsys.readouterr().out
    return out.splitlines()[-1], out


def test_all_is_well(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    put(tmp_path, "a", GOOD)
    put(tmp_path, "b", "echo KTAP version 1; echo 1..1; echo 'ok 1 x # SKIP no swap'; exit 4")
    (tmp_path / "helper.py").write_text("raise SystemExit(1)")
    assert run(tmp_path) == 0
    line, out = last_line(capsys)
    assert line == "2 passed, 0 failed, 1 skipped"
    assert out.startswith("KTAP version 1\n1..2\n# Subtest: a\n    KTAP version 1\n    1..2\n")
    assert "\nok 1 a\n" in out and "\nok 2 b # SKIP\n" in out


@pytest.mark.parametrize(
    ("script", "words"),
    [
        (f"{GOOD}; exit 1", "exit status 1, results say 0"),
        ("echo KTAP version 1; echo 1..1; echo not ok 1 x; exit 0", "exit status 0, results say 1"),
        ("echo KTAP version 1; echo 1..2; echo ok 1", "1 results where the plan says 2"),
        ("echo KTAP version 1; echo ok 1", "no plan"),
        ("echo 1..1; echo ok 1", "no KTAP version line"),
        ("echo KTAP version 1; echo 1..1; echo ok 2", "result 2 where 1 was due"),
        ("echo KTAP version 1; echo 1..1; echo 1..1; echo ok 1", "a second plan"),
        ("echo KTAP version 1; echo 1..1; kill -9 $$", "killed by SIGKILL"),
        ("echo KTAP version 1; echo 1..1; printf 'Bail out! no cgroups'; exit 1", "Bail out! no cgroups"),
        ("exit 0", "no plan"),
        ("echo KTAP version 1; echo 1..1; echo 'ok 1 # SKIP'; exit 0", "exit status 0, results say 4"),
    ],
)
def test_what_does_not_add_up(script: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    put(tmp_path, "a", script)
    put(tmp_path, "b", GOOD)
    assert run(tmp_path) == 1
    line, out = last_line(capsys)
    assert ", 1 failed, " in line
    assert f"# a: {words}" in out
    assert "\nnot ok 1 a\n" in out and "\nok 2 b\n" in out


def test_a_failure_is_a_failure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    put(tmp_path, "a", "echo KTAP version 1; echo 1..2; echo not ok 1 x; echo ok 2; exit 1")
    assert run(tmp_path) == 1
    assert last_line(capsys)[0] == "1 passed, 1 failed, 0 skipped"


def measuring(success: int) -> str:
    """A test file whose test finds what it wants at this turn and later ones."""
    return f"""
import sys
sys.path.insert(0, {str(REPO)!r})
from tests.kselftest import ktap
turns = []
def measures():
    turns.append(1)
    ktap.measured(len(turns) >= {success}, "50 ms, not 5")
ktap._kernel_log = list
ktap.left_behind = lambda before: []
ktap.run(measures)
"""


@pytest.mark.parametrize(
    ("success", "status", "line"),
    [
        (1, 0, "1 passed, 0 failed, 0 skipped"),
        (3, 0, "1 passed, 0 failed, 0 skipped, 2 times something was measured again"),
        (4, 1, "0 passed, 1 failed, 0 skipped, 2 times something was measured again"),
    ],
)
def test_what_is_measured_is_measured_again(
    success: int, status: int, line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.py"
    path.write_text(f"#!{sys.executable}\n{measuring(success)}")
    path.chmod(0o755)
    assert run(tmp_path) == status
    assert last_line(capsys)[0] == line


def test_one_that_hangs_is_ended_with_all_it_started(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    put(tmp_path, "a", f"echo KTAP version 1; sleep 1000 & echo $! >{tmp_path}/pid; wait")
    begin = time.monotonic()
    assert run(tmp_path, "--timeout", "1") == 1
    assert time.monotonic() - begin < 100
    assert "did not end within 1 s" in last_line(capsys)[1]
    sleeper = Path(f"/proc/{int((tmp_path / 'pid').read_text())}/stat")
    while sleeper.exists() and sleeper.read_text().split()[2] != "Z":  # killed, but perhaps not gone yet
        assert time.monotonic() - begin < 100
        time.sleep(0.01)


def test_only_those_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    put(tmp_path, "a", GOOD)
    put(tmp_path, "b", "exit 1")
    assert run(tmp_path, "a") == 0
    with pytest.raises(SystemExit) as ended:
        run(tmp_path, "c")
    assert ended.value.code == 2
    assert "no test is called c: there are a, b" in capsys.readouterr().err


def test_all_but_some(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("a", "b", "c"):
        put(tmp_path, name, GOOD)
    assert run(tmp_path, "--but", "b") == 0
    assert [line for line in last_line(capsys)[1].splitlines() if line.startswith("ok")] == ["ok 1 a", "ok 2 c"]


def test_no_tests_is_no_success(tmp_path: Path) -> None:
    assert run(tmp_path) == 1


def test_every_test_file_here_can_be_run() -> None:
    """One that is not executable would be left out in silence."""
    here = Path(runner.__file__).parent
    for path in here.glob("*.py"):
        is_test = path.read_text().startswith("#!") and path.name != "decisions.py"  # that one records, for the replay
        assert is_test == os.access(path, os.X_OK), f"{path.name}: chmod +x it, or take its first line away"
