# SPDX-License-Identifier: GPL-2.0-or-later
"""`ctl sim workload`: summaries of logs, and generated logs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from ctl.cli.sim_workload import workload
from ctl.errors import CoschedError
from ctl.sim.workloads import summary, swf


def command(*arguments: str) -> Result:
    return CliRunner().invoke(workload, list(arguments))


def test_a_log_in_numbers(tmp_path: Path) -> None:
    path = tmp_path / "a.swf"
    path.write_text(
        "; MaxProcs: 8\n"
        "1 0   2 100 4 -1 1000 4 -1 -1 1 1 1 7 -1 -1 -1 -1\n"
        "2 100 4 300 1 -1 3000 1 -1 -1 1 1 1 7 -1 -1 -1 -1\n"
        "3 200 0  -1 -1 -1 -1  3 -1 -1 0 2 1 -1 -1 -1 -1 -1\n"
        "torn\n"
    )
    found = json.loads(command(str(path), "--skip-malformed", "--json").stdout)
    assert (found["jobs"], found["skipped_lines"], found["with_run_and_size"], found["users"]) == (3, 1, 2, 2)
    assert found["load"] == (4 * 100 + 300) / (8 * 200)
    assert (found["serial_part"], found["power_of_two_part"], found["job_kinds"]) == (0.5, 1.0, 2)
    assert found["used_memory_kb"] == {"mean": 2000, "median": 3000, "90 %": 3000, "most": 3000}
    assert found["requested_memory_kb"] is None
    shown = command(str(path), "--skip-malformed")
    assert "skipped: " in shown.stderr and "a.swf:5" in shown.stderr and "0.4375" in shown.stdout
    assert isinstance(command(str(path)).exception, CoschedError)


def test_a_made_log_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "lublin.swf.gz"
    found = json.loads(
        command("--generate", "lublin", "--jobs", "300", "--nodes", "16", "--out", str(path), "--json").stdout
    )
    assert (found["jobs"], found["processors"], found["size"]["most"]) == (300, 16, 16)
    assert swf.read(path) == summary.lublin_log(1, 300, 16)
    assert json.loads(command(str(path), "--json").stdout) == found


@pytest.mark.parametrize("arguments", [(), ("log.swf", "--generate", "lublin")])
def test_a_log_is_read_or_made(arguments: tuple[str, ...]) -> None:
    refused = command(*arguments)
    assert isinstance(refused.exception, CoschedError) and "not both" in str(refused.exception)


def test_nothing_in_a_log_is_no_trouble() -> None:
    assert summary.summary(swf.Log(swf.Header(), ()))["load"] is None
