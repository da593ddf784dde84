# SPDX-License-Identifier: GPL-2.0-or-later
"""`ctl doctor` where there is no agent."""

from __future__ import annotations

import json
from pathlib import Path

from ctl.process.doctor import CHECKS
from tests.unit.cli.conftest import Ctl


def found(ctl: Ctl) -> dict[str, tuple[str, str]]:
    """check -> (state, text), by --json; the exit status agrees with them."""
    done = ctl("doctor", "--json")
    answer = json.loads(done.stdout)
    checks = {check["check"]: (check["state"], check["text"]) for check in answer["checks"]}
    assert answer["well"] == all(state != "fails" for state, _ in checks.values())
    assert done.returncode == (0 if answer["well"] else 1)
    assert done.stderr == ""
    return checks


def test_every_check_has_one_sentence(ctl: Ctl) -> None:
    checks = found(ctl)
    assert list(checks) == list(CHECKS)
    for state, text in checks.values():
        assert state in ("ok", "limited", "fails")
        assert text and "\n" not in text
    table = ctl("doctor").stdout.splitlines()
    assert len(table) == 1 + len(CHECKS)
    assert table[0].split() == ["check", "state", "what"]


def test_a_part_that_does_not_work_is_told(ctl: Ctl, tmp_path: Path) -> None:
    checks = found(ctl)
    assert checks["functions"][0] == "fails" and "cosched.bpf.o" in checks["functions"][1]
    assert [checks[name][0] for name in ("configuration", "leftovers", "cluster")] == ["ok", "ok", "ok"]
    (tmp_path / "cosched.conf").write_text("[knobs]\nmno = 0\n")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "agent.json").write_text('{"pid": 77, "policy": "csm", "since": 0}')
    (tmp_path / "cluster").mkdir()
    (tmp_path / "cluster" / "member.json").write_text("{}")
    checks = found(ctl)
    for name, word in (("configuration", "mno"), ("leftovers", "was killed"), ("cluster", "invited again")):
        assert checks[name][0] == "fails" and word in checks[name][1], checks[name]
