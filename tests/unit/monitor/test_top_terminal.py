# SPDX-License-Identifier: GPL-2.0-or-later
"""The dashboard as a program: streams, options, keys, and a terminal that comes back."""

from __future__ import annotations

import fcntl
import io
import json
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from ctl.contract import View
from ctl.errors import CoschedError
from ctl.monitor import top
from tests.unit.monitor.views import view

REPOSITORY = Path(__file__).resolve().parents[3]


def _plain(fetch: Callable[[], View], **options: Any) -> str:
    out = io.StringIO()
    top.run(fetch, console=Console(file=out, highlight=False), **options)
    return out.getvalue()


def test_a_pipe_gets_one_plain_frame() -> None:
    text = _plain(view)
    assert "\x1b" not in text
    assert text.count("memory ") == 1
    assert all(line == line.rstrip() and len(line) <= 100 for line in text.splitlines())


def test_count_and_interval_make_a_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "64")
    text = _plain(view, count=3, interval=0.1)
    assert text.count("memory ") == 3
    assert max(map(len, text.splitlines())) <= 64


def test_json_is_one_view_per_line() -> None:
    lines = _plain(view, count=2, interval=0.1, as_json=True).splitlines()
    assert [json.loads(text) for text in lines] == [view(), view()]


@pytest.mark.parametrize("options", [{"interval": 0.01}, {"interval": 7200.0}, {"count": 0}, {"page": "jobs"}])
def test_out_of_range_options_are_usage_errors(options: dict[str, Any]) -> None:
    with pytest.raises(CoschedError, match=r"out of range: .+|choose overview, queue, nodes") as refused:
        _plain(view, **options)
    assert refused.value.status == 2


def test_no_agent_is_said_and_nothing_is_drawn() -> None:
    def fetch() -> View:
        raise CoschedError("the agent is not running: start it with `ctl load --policy csm`", 2)

    out = io.StringIO()
    with pytest.raises(CoschedError, match="agent is not running"):
        top.run(fetch, console=Console(file=out))
    assert out.getvalue() == ""


# On a terminal: a real one, in another process

_CHILD = """
import os, sys, time
sys.path[:0] = [{repository!r}, {tests!r}]
from test_top import view
from ctl.errors import CoschedError
from ctl.monitor import top
asked = 0
def fetch():
    global asked
    asked += 1
    if os.path.exists({gone!r}):
        raise CoschedError("the agent is not running: start it with `ctl load --policy csm`", 2)
    return view(node=f"frame{{asked}}")
top.run(fetch, interval=0.2)
"""


class Terminal:
    """A child on a pseudo-terminal, of which `ctl top` is the usual one, and its output."""

    def __init__(self, columns: int = 80, lines: int = 24, code: str = "", gone: str = "") -> None:
        """`gone`: a file; while it is there, the agent is not."""
        code = code or _CHILD.format(repository=str(REPOSITORY), tests=str(Path(__file__).parent), gone=gone)
        self.main, self.other = pty.openpty()
        self.resize(columns, lines)
        self.before = termios.tcgetattr(self.other)
        self.pid = os.fork()
        if self.pid == 0:
            os.login_tty(self.other) if hasattr(os, "login_tty") else _login(self.other)
            wanted = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "LINES", "NO_COLOR")}
            os.execve(
                sys.executable,
                [sys.executable, "-c", code],
                wanted | {"TERM": "xterm-256color", "LANG": "C.UTF-8"},
            )
        self.written = self._unread = ""

    def resize(self, columns: int, lines: int) -> None:
        fcntl.ioctl(self.main, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def until(self, pattern: str, seconds: float = 120.0) -> str:
        """Read until the pattern comes; returns the output since the last call, to the pattern's end. What a busy host
        has us read at once behind it is for the next call."""
        end = time.monotonic() + seconds
        while not (found := re.search(pattern, self._unread)):
            assert time.monotonic() < end, f"no {pattern!r} in {self._unread[-3000:]!r}"
            if select.select([self.main], [], [], 0.1)[0]:
                text = os.read(self.main, 65536).decode(errors="replace")
                self.written += text
                self._unread += text
        read, self._unread = self._unread[: found.end()], self._unread[found.end() :]
        return read

    def ended(self, last: str = "") -> int:
        """Wait for the end and these last words; returns the exit status, after a check of the terminal's settings."""
        self.until(r"\x1b\[\?1049l[\s\S]*" + last)
        _, status = os.waitpid(self.pid, 0)
        assert termios.tcgetattr(self.other) == self.before
        assert self.written.rindex("\x1b[?1049l") > self.written.rindex("\x1b[?1049h")
        assert "\x1b[?25h" in self.written[self.written.rindex("q quit") :]
        os.close(self.main)
        os.close(self.other)
        return os.waitstatus_to_exitcode(status)


def _login(fd: int) -> None:
    """login_tty(3), which Python has from 3.12 on."""
    os.setsid()
    fcntl.ioctl(fd, termios.TIOCSCTTY, 0)
    for standard in (0, 1, 2):
        os.dup2(fd, standard)


def test_live_pause_resize_agent_gone_and_q(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    terminal = Terminal(gone=str(gone))
    terminal.until("frame2")
    gone.touch()
    terminal.until("waiting: the agent is not running: start it with `ctl load --policy csm`.*q quit")
    gone.unlink()
    terminal.until(r"frame\d")
    terminal.resize(120, 40)
    terminal.until("TREND")  # only tall terminals have room for it
    os.write(terminal.main, b"p")
    terminal.until("paused")
    os.write(terminal.main, b"p")
    terminal.until(r"frame\d")
    os.write(terminal.main, b"q")
    assert terminal.ended() == 0
    assert "\x1b[2J" not in terminal.written  # the screen is never cleared between frames: no flicker


@pytest.mark.parametrize("end", [b"\x03", signal.SIGTERM], ids=["ctrl-c", "sigterm"])
def test_live_gives_the_terminal_back(end: bytes | signal.Signals) -> None:
    terminal = Terminal()
    terminal.until("frame2")
    if isinstance(end, bytes):
        os.write(terminal.main, end)
    else:
        os.kill(terminal.pid, end)
    assert terminal.ended() == (0 if isinstance(end, bytes) else 128 + signal.SIGTERM)


_IN_A_FINALIZER = """
import os, signal

class Signalled:
    def __del__(self):
        os.kill(os.getpid(), signal.{name})
        [None for _ in range(100)]  # the handler runs in here

draw = top._Live._draw
def drawn(self):
    draw(self)
    if asked == 3:
        Signalled()
top._Live._draw = drawn
top.run("""


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_a_signal_ends_it_whatever_python_is_doing(name: str) -> None:
    code = _CHILD.format(repository=str(REPOSITORY), tests=str(Path(__file__).parent), gone="")
    terminal = Terminal(code=code.replace("top.run(", _IN_A_FINALIZER.format(name=name)))
    assert terminal.ended() == (0 if name == "SIGINT" else 128 + signal.SIGTERM)
