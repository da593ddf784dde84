# SPDX-License-Identifier: GPL-2.0-or-later
"""`ctl top` in a real terminal, read from its screen: tmux draws it, and an agent's real server answers with views."""

from __future__ import annotations

import asyncio
import difflib
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ctl.contract import View
from ctl.monitor.panels import PAGES, Page
from ctl.monitor.top import KEYS
from ctl.node.server import Server, open_socket
from tests.unit.monitor.test_pages import busy
from tests.unit.monitor.views import draw

ROOT = Path(__file__).resolve().parents[3]
RECORDED = Path(__file__).with_name("recorded.json")
"""A view of a virtual machine under policy fit, overloaded, with jobs that run, wait and are stopped."""
SIZES = [(80, 24), (200, 60)]


class Agent:
    """A server that answers `view`, from a thread."""

    def __init__(self, path: Path, view: View) -> None:
        self.view = view
        self._ready, self._loop = threading.Event(), asyncio.new_event_loop()
        self._thread = threading.Thread(target=lambda: self._loop.run_until_complete(self._serve(path)))

    def __enter__(self) -> Agent:
        self._thread.start()
        assert self._ready.wait(10)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join()

    async def _serve(self, path: Path) -> None:
        self._end = asyncio.Event()
        server = Server({"view": self._answer}, {})
        await server.start(open_socket(path))
        self._ready.set()
        await self._end.wait()
        await server.close()

    async def _answer(self, *_: object) -> View:
        return self.view


class Terminal:
    """A terminal of tmux's with `ctl top` in it."""

    def __init__(self, directory: Path, columns: int, lines: int, *options: str) -> None:
        tmux = shutil.which("tmux")
        assert tmux, "tmux is not installed: `./just setup` installs it"
        self._tmux = (tmux, "-u", "-S", str(directory / "tmux"), "-f", os.devnull)
        program = (sys.executable, "-m", "ctl", "top", *options)
        # what it wrote and how it ended stay to be read
        waits = 'stty -a >before; "$@"; echo "ended $?"; stty -a | cmp - before && echo as before; exec sleep 600'
        unset = ("-u", "NO_COLOR", "-u", "COLUMNS", "-u", "LINES")
        environment = ("env", *unset, f"COSCHED_RUN_DIR={directory}", f"PYTHONPATH={ROOT}", "LC_ALL=C.UTF-8")
        command = (*environment, "sh", "-c", f"cd {directory}; {waits}", "sh", *program)
        size = ("-x", str(columns), "-y", str(lines))
        self._do("new-session", "-d", *size, *command, ";", "set", "status", "off", ";", "resize-window", *size)

    def _do(self, *words: str) -> str:
        return subprocess.run((*self._tmux, *words), capture_output=True, text=True, check=True, timeout=20).stdout

    def type(self, *keys: str) -> None:
        self._do("send-keys", *keys)

    def resize(self, columns: int, lines: int) -> None:
        self._do("resize-window", "-x", str(columns), "-y", str(lines))

    def screen(self) -> list[str]:
        """All lines as they are now, without the blanks at their ends."""
        return self._do("capture-pane", "-p").split("\n")[:-1]

    def until(self, pattern: str, seconds: float = 30.0) -> list[str]:
        """Wait until a line has this pattern; the screen then."""
        end = time.monotonic() + seconds
        while not re.search(pattern, "\n".join(shown := self.screen()), re.MULTILINE):
            assert time.monotonic() < end, f"no {pattern!r} on the screen:\n" + "\n".join(shown)
            time.sleep(0.1)
        return shown

    def close(self) -> None:
        self._do("kill-server")


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Agent]:
    with Agent(tmp_path / "agent.sock", json.loads(RECORDED.read_text())) as running:
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
    wanted, end = _still(_drawn(view, page, columns, lines)), time.monotonic() + 30
    while _still(shown := terminal.screen()) != wanted:
        assert time.monotonic() < end, "\n".join(difflib.unified_diff(wanted, _still(shown), "frame", "screen", n=0))
        time.sleep(0.1)
    return shown


@pytest.mark.parametrize(("columns", "lines"), SIZES)
@pytest.mark.parametrize("kind", ["recorded", "cluster"])
def test_each_page_on_a_terminal(directory: Path, agent: Agent, kind: str, columns: int, lines: int) -> None:
    if kind == "cluster":
        agent.view = busy()
    terminal = Terminal(directory, columns, lines)
    try:
        for page in PAGES:
            shown = _seen(terminal, agent.view, page, columns, lines)
            assert " ".join(shown[-1].split()) == "1 overview 2 queue 3 nodes tab next p pause q quit"
            assert not [text for text in shown if "…" in text and not re.search(r"… \d+ more", text)]
        terminal.type("q")
        terminal.until("^ended 0$")
        terminal.until("^as before$")
    finally:
        terminal.close()


def test_what_the_recorded_node_shows(directory: Path, agent: Agent) -> None:
    queue = agent.view["queue"]
    assert queue is not None and {job["state"] for job in queue["jobs"]} == {"runs", "stopped", "waits"}
    terminal = Terminal(directory, 80, 24, "--page", "queue")
    try:
        shown = terminal.until("# JOB")
        rows = [text.split()[:3] for text in shown[:-1] if re.match(r" +\d+ ", text)]
        assert rows == [[str(place), job["jid"], job["state"]] for place, job in enumerate(queue["jobs"], 1)]
        text = " ".join(" ".join(shown).split())
        assert all(job["why"] in text for job in queue["jobs"])
        terminal.type("Tab")
        terminal.until("This node works alone")
        terminal.type("Tab")
        terminal.until("^CPU 0")
        terminal.type("p")
        terminal.until("^paused .*tab next  p go on  q quit$")
        terminal.resize(200, 60)
        assert len(terminal.until("TREND")[-1]) == 200
    finally:
        terminal.close()


def test_once_is_one_page_as_text(directory: Path, agent: Agent) -> None:
    terminal = Terminal(directory, 200, 60, "--once", "--page", "queue")
    try:
        shown = terminal.until("as before")
        assert shown[0].startswith("cosched  fit ") and "ended 0" in shown
        assert any("# JOB" in text for text in shown) and not any("q quit" in text for text in shown)
    finally:
        terminal.close()
