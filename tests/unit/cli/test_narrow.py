# SPDX-License-Identifier: GPL-2.0-or-later
"""What commands print on a terminal of 80 columns, read from its screen: no cell is cut, no number is in two lines."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctl.cli.common import _CLOSE, _fitting, _needed
from tests.unit.screen import Agent, Terminal

_VIEW = json.loads((Path(__file__).resolve().parents[1] / "monitor/recorded.json").read_text())
RECORDED: dict[str, Any] = {"jobs": _VIEW["jobs"], "queue": _VIEW["queue"]}
"""Answers of an agent in a virtual machine (docs/record), by operation."""


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Agent]:
    with Agent(tmp_path / "agent.sock", RECORDED) as running:
        yield running


def _printed(directory: Path, command: str, columns: int = 80) -> list[str]:
    terminal = Terminal(directory, columns, 50, command)
    try:
        lines = terminal.until("^ended 0$")
    finally:
        terminal.close()
    return lines[: lines.index("ended 0")]


def _rows(lines: list[str], title: str) -> list[list[str]]:
    """The rows of the table whose last title this is."""
    start = next(place for place, text in enumerate(lines) if text.strip().endswith(title))
    return [text.split() for text in lines[start + 2 :] if text.startswith(" ") and text.strip()]


def test_jobs(tmp_path: Path, agent: Agent) -> None:
    lines = _printed(tmp_path, "jobs")
    jobs = RECORDED["jobs"]
    assert [(row[0], row[1], row[-1]) for row in _rows(lines, "state")] == [
        (job["jid"], str(job["tasks"]), job["state"]) for job in jobs
    ]
    assert "the terminal is too narrow for" in "\n".join(lines)
    text = " ".join(" ".join(lines).split())
    assert all(f"job {job['jid']} is {job['state']}: {job['why']}" in text for job in jobs if job["why"])
    assert any(job["why"] for job in jobs)
    wide = _printed(tmp_path, "jobs", 140)
    assert not any("too narrow" in text for text in wide) and "overtaken" in "\n".join(wide)


def test_queue(tmp_path: Path, agent: Agent) -> None:
    lines = _printed(tmp_path, "queue")
    text = " ".join(" ".join(lines).split())
    for job in RECORDED["queue"]["jobs"]:
        assert any(row[:2] == [job["jid"], job["state"]] for row in _rows(lines, "why")), job
        assert all(word in text for word in job["why"].split())


_WORD = st.text("abc ", min_size=1, max_size=20).map(str.strip).filter(bool)


@given(st.lists(_WORD, min_size=2, max_size=9, unique=True), st.data(), st.integers(10, 150))
def test_no_cell_of_a_narrow_table_is_cut(columns: list[str], data: st.DataObject, width: int) -> None:
    row = [data.draw(_WORD) for _ in columns]
    give_way = data.draw(st.lists(st.sampled_from(columns[1:]), min_size=1, unique=True))
    shown, widths = _fitting(columns, [row], give_way, width)
    assert set(columns) - set(shown) <= set(give_way)
    assert shown == [name for name in columns if name in shown]
    if widths is not None:
        assert _needed(widths, shown, _CLOSE) <= width
        assert all(widths[name] >= len(cell) for name, cell in zip(columns, row, strict=True) if name in shown)
        assert all(widths[name] >= len(word) for name in shown for word in name.split())
