# SPDX-License-Identifier: GPL-2.0-or-later
"""`ctl top` in a real terminal, read from its screen, page by page, at two sizes."""

from __future__ import annotations

import difflib
import json
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ctl.contract import View
from ctl.monitor.panels import PAGES, Page
from ctl.monitor.top import KEYS
from tests.unit.monitor.test_pages import busy
from tests.unit.monitor.views import draw
from tests.unit.screen import Agent, Terminal

RECORDED = Path(__file__).with_name("recorded.json")
"""A view of a virtual machine under policy fit, overloaded, with jobs that run, wait and are stopped."""
SIZES = [(80, 24), (200, 60)]


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Agent]:
    with Agent(tmp_path / "agent.sock", {"view": json.loads(RECORDED.read_text())}) as running:
        yield running


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Of the agent and of tmux."""
    return tmp_path


def _still(lines: list[str]) -> list[str]:
    """The lines without what grows from frame to frame: sparklines, and the number of frames."""
    return [re.sub(r"\d+ frames", "N frames", re.sub(r"[ ▁▂▃▄▅▆▇█]+$", "", text)) for text in lines]


def _drawn(view: View, page: Page, columns: int, lines: int) -> list[str]:
    return draw(view, columns, lines, page=page, keys=KEYS)


def _seen(terminal: Terminal, view: View, page: Page, columns: int, lines: int) -> list[str]:
    """Wait for the page; the screen, checked to be the frame, line for line: nothing is broken, cut or drawn over."""
    terminal.until("1 overview")  # a key that comes before is not for it
    terminal.type(str(PAGES.index(page) + 1))
    wanted, end = _still(_drawn(view, page, columns, lines)), time.monotonic() + 120
    while _still(shown := terminal.screen()) != wanted:
        assert time.monotonic() < end, "\n".join(difflib.unified_diff(wanted, _still(shown), "frame", "screen", n=0))
        time.sleep(0.1)
    return shown


@pytest.mark.parametrize(("columns", "lines"), SIZES)
@pytest.mark.parametrize("kind", ["recorded", "cluster"])
def test_each_page_on_a_terminal(directory: Path, agent: Agent, kind: str, columns: int, lines: int) -> None:
    if kind == "cluster":
        agent.answers["view"] = busy()
    terminal = Terminal(directory, columns, lines, "top")
    try:
        for page in PAGES:
            shown = _seen(terminal, agent.answers["view"], page, columns, lines)
            assert shown[-1].startswith(" 1 overview  2 queue  3 nodes ") and shown[-1].endswith(KEYS)
            assert not [text for text in shown if "…" in text and not re.search(r"… \d+ more", text)]
        terminal.type("q")
        terminal.until("^ended 0$")
        terminal.until("^as before$")
    finally:
        terminal.close()


def test_what_the_recorded_node_shows(directory: Path, agent: Agent) -> None:
    queue = agent.answers["view"]["queue"]
    assert queue is not None and {job["state"] for job in queue["jobs"]} == {"runs", "stopped", "waits"}
    terminal = Terminal(directory, 80, 24, "top", "--page", "queue")
    try:
        shown = terminal.until("# JOB")
        rows = [text.split()[:3] for text in shown[:-1] if re.match(r" +\d+ ", text)]
        assert rows == [[str(place), job["jid"], job["state"]] for place, job in enumerate(queue["jobs"], 1)]
        text = " ".join(" ".join(shown).split())
        assert all(job["why"] in text for job in queue["jobs"])
        terminal.type("Tab")
        terminal.until("This node works alone")
        terminal.type(*["Tab"] * (len(PAGES) - 2))
        terminal.until("^CPU 0")
        terminal.type("Tab", "Tab", "Up", "Tab", *["Tab"] * (len(PAGES) - 3))  # typed faster than they are read
        terminal.until("^CPU 0")
        terminal.type("p")
        terminal.until("^paused .*tab next  p go on  q quit$")
        terminal.resize(200, 60)
        assert len(terminal.until("TREND")[-1]) == 200
    finally:
        terminal.close()


def test_once_is_one_page_as_text(directory: Path, agent: Agent) -> None:
    terminal = Terminal(directory, 200, 60, "top", "--once", "--page", "queue")
    try:
        shown = terminal.until("as before")
        assert shown[0].startswith("cosched  fit ") and "ended 0" in shown
        assert any("# JOB" in text for text in shown) and not any("q quit" in text for text in shown)
    finally:
        terminal.close()
