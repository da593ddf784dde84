# SPDX-License-Identifier: GPL-2.0-or-later
"""`ctl top`: the dashboard on a terminal, or its frames as plain text or JSON.

A feeder thread asks the agent, so that a slow or stopped agent never delays a key or a resize. The main thread sleeps
in select() on the keyboard and a wake pipe, and draws after each event.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import sys
import termios
import threading
import time
import tty
from collections.abc import Callable, Iterator
from types import FrameType

from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.segment import Segment
from rich.text import Text

from ctl.contract import View
from ctl.errors import CoschedError
from ctl.monitor.panels import PAGES, History, Page, frame
from ctl.monitor.text import ASCII, UNICODE, Glyphs, duration
from ctl.protocol import Client

__all__ = ["KEYS", "Frame", "agent_view", "glyphs_for", "keyboard", "run"]

INTERVAL_S = 1.0
MIN_INTERVAL_S, MAX_INTERVAL_S = 0.1, 3600.0
_PLAIN_WIDTH = 100  # cells, if the reader's width is unknown
_SILENT_S = 3.0  # a later answer is reported
KEYS = "tab next  p pause  q quit"

Fetch = Callable[[], View]


def agent_view() -> View:
    """Ask the node's agent for a view; raises CoschedError without an agent."""
    with Client() as agent:
        view: View = agent.call("view")
        return view


def glyphs_for(console: Console) -> Glyphs:
    """Return the characters this console's encoding can show."""
    return UNICODE if console.encoding.lower().replace("-", "").startswith("utf") else ASCII


@contextlib.contextmanager
def keyboard() -> Iterator[None]:
    """Read keys as they are typed, unechoed; the terminal's settings are restored in any case."""
    fd = sys.stdin.fileno()
    before = termios.tcgetattr(fd)
    try:
        tty.setcbreak(fd)
        yield
    finally:
        termios.tcsetattr(fd, termios.TCSADRAIN, before)


class Frame:
    """A frame as a rich renderable, never larger than the console."""

    def __init__(
        self, view: View, history: History, *, glyphs: Glyphs, page: Page = PAGES[0], note: str = "", keys: str = ""
    ) -> None:
        self._view, self._history, self._page = view, history, page
        self._glyphs, self._note, self._keys = glyphs, note, keys

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        lines = frame(
            self._view,
            self._history,
            options.max_width,
            options.size.height,  # options.height does not reach what a screen contains
            page=self._page,
            glyphs=self._glyphs,
            note=self._note,
            keys=self._keys,
        )
        for i, text in enumerate(lines):
            if i:
                yield Segment.line()
            yield from text.render(console)


def run(
    fetch: Fetch = agent_view,
    *,
    interval: float | None = None,
    count: int | None = None,
    as_json: bool = False,
    page: str = PAGES[0].name,
    console: Console | None = None,
) -> None:
    """Show the dashboard until q, or write frames.

    On a terminal: live, every `interval` seconds (default 1), or `count` plain frames. Elsewhere: one plain frame, or a
    stream if interval or count is given. `as_json` writes each view as one line of JSON. `page` names one of PAGES.
    Raises CoschedError if interval, count or page is out of range, or if the agent does not answer the first time.
    """
    first = next((one for one in PAGES if one.name == page), None)
    if first is None:
        raise CoschedError(f"there is no page {page!r}: choose {', '.join(one.name for one in PAGES)}", 2)
    if interval is not None and not MIN_INTERVAL_S <= interval <= MAX_INTERVAL_S:
        raise CoschedError(f"interval {interval:g} s is out of range: {MIN_INTERVAL_S:g} to {MAX_INTERVAL_S:g} s", 2)
    if count is not None and count < 1:
        raise CoschedError(f"count {count} is out of range: at least 1 frame", 2)
    out = console or Console(highlight=False)
    live = out.is_terminal and sys.stdin.isatty() and not out.is_dumb_terminal
    if live and not as_json and count is None:
        _Live(fetch, out, interval or INTERVAL_S, first).run()
        return
    if count is None and interval is None:
        count = 1
    try:
        _stream(fetch, out, interval or INTERVAL_S, count, None if as_json else first)
    except BrokenPipeError:  # the reader has closed the pipe
        with contextlib.suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except KeyboardInterrupt:
        return


def _stream(fetch: Fetch, out: Console, interval: float, count: int | None, page: Page | None) -> None:
    """Write frames one after the other, or without a page views as JSON; an error of the agent ends them."""
    history, glyphs = History(), glyphs_for(out)
    width = out.width if out.is_terminal or "COLUMNS" in os.environ else _PLAIN_WIDTH
    history.add(fetch())  # rates and recent shares need two looks
    time.sleep(min(interval, INTERVAL_S))
    shown, due = 0, time.monotonic()
    while True:
        view = fetch()
        if page is None:
            out.file.write(json.dumps(view) + "\n")
        else:
            history.add(view)
            for text in ([Text()] if shown else []) + frame(view, history, width, None, page=page, glyphs=glyphs):
                text.rstrip()
                out.print(text, end="\n", soft_wrap=True)
        out.file.flush()
        shown += 1
        if count is not None and shown >= count:
            return
        due = max(due + interval, time.monotonic())
        time.sleep(due - time.monotonic() if due > time.monotonic() else 0)


class _Feed(threading.Thread):
    """Asks for views and hands over the newest answer; wakes the drawer through `wake`."""

    def __init__(self, fetch: Fetch, interval: float, wake: Callable[[], None]) -> None:
        super().__init__(name="top-feed", daemon=True)
        self._fetch, self._interval, self._wake = fetch, interval, wake
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._view: View | None = None
        self._error: str | None = None
        self._asked = 0.0  # monotonic time of the unanswered question, 0: none open

    def run(self) -> None:
        due = time.monotonic()
        while not self._over.is_set():
            with self._lock:
                self._asked = time.monotonic()
            view: View | None = None
            error: str | None = None
            try:
                view = self._fetch()
            except CoschedError as refused:
                error = str(refused)
            with self._lock:
                self._view, self._error, self._asked = view, error, 0.0
            self._wake()
            due = max(due + self._interval, time.monotonic())
            self._over.wait(due - time.monotonic())

    def take(self) -> tuple[View | None, str | None]:
        """Return the newest view once, and the error's sentence if there is no view."""
        with self._lock:
            view, self._view = self._view, None
            return view, self._error

    def waiting(self) -> float:
        """Return the age of the unanswered question, seconds."""
        with self._lock:
            return time.monotonic() - self._asked if self._asked else 0.0

    def stop(self) -> None:
        self._over.set()


class _Live:
    """The dashboard on a terminal: alternate screen, keys, resizing, job control; gives the terminal back."""

    def __init__(self, fetch: Fetch, console: Console, interval: float, page: Page) -> None:
        self._first = fetch()  # the ordinary screen shows the error of a missing agent
        self._console, self._interval = console, interval
        self._glyphs, self._history = glyphs_for(console), History()
        self._view, self._error, self._paused, self._page = self._first, "", False, page
        self._in, self._out = os.pipe()
        os.set_blocking(self._out, False)
        self._ended_by: int | None = None  # a signal
        self._feed = _Feed(fetch, interval, self._wake)
        self._live = Live(console=console, screen=True, auto_refresh=False, redirect_stdout=False)

    def run(self) -> None:
        self._history.add(self._first)
        with self._signals():
            self._feed.start()
            try:
                with keyboard(), self._live:
                    self._loop()
            finally:
                self._feed.stop()
        if self._ended_by not in (None, signal.SIGINT):
            raise SystemExit(128 + self._ended_by)

    def _loop(self) -> None:
        self._draw()
        while True:
            ready, _, _ = select.select([sys.stdin, self._in], [], [], 1.0)
            if self._in in ready:
                os.read(self._in, 4096)
            if self._ended_by is not None:
                return
            if sys.stdin in ready and not self._key(os.read(sys.stdin.fileno(), 64)):
                return
            view, error = self._feed.take()
            self._error = error or ""
            if view is not None:
                self._history.add(view)
                if not self._paused:
                    self._view = view
            self._draw()

    def _key(self, typed: bytes) -> bool:
        """Act on keys; return False to end the dashboard (q, Ctrl-C, Ctrl-D, end of input)."""
        if not typed or typed[:1] in (b"q", b"Q", b"\x03", b"\x04"):
            return False
        if typed.startswith(b"\x1b"):  # an arrow, or another key that sends several bytes
            return True
        for key in typed.decode("ascii", "replace").lower():
            if key in "p ":
                self._paused = not self._paused
            elif key == "\t":
                self._page = PAGES[(PAGES.index(self._page) + 1) % len(PAGES)]
            elif key in "123456789"[: len(PAGES)]:
                self._page = PAGES[int(key) - 1]
        return True

    def _draw(self) -> None:
        age = self._feed.waiting()
        note = ""
        if self._error:
            note = f"waiting: {self._error}"
        elif age > _SILENT_S:
            note = f"waiting: the agent has not answered for {duration(age)}"
        elif self._paused:
            note = "paused"
        keys = "q quit" if note.startswith("waiting") else KEYS
        if self._paused:
            keys = keys.replace("pause", "go on")
        shown = Frame(self._view, self._history, glyphs=self._glyphs, page=self._page, note=note, keys=keys)
        self._live.update(shown, refresh=True)

    def _wake(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.write(self._out, b".")

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        """Redraw on a resize, end in order on Ctrl-C, SIGTERM and SIGHUP.

        The loop ends, not the handler: Python drops what a handler raises while an object is finalized.
        """

        def resized(_number: int, _frame: FrameType | None) -> None:
            self._wake()

        def ended(number: int, _frame: FrameType | None) -> None:
            if self._ended_by is not None:  # the terminal takes no output, so the loop does not get there
                raise SystemExit(128 + number)
            self._ended_by = number
            self._wake()

        ends = dict.fromkeys((signal.SIGINT, signal.SIGTERM, signal.SIGHUP), ended)
        wanted = {signal.SIGWINCH: resized, **ends}
        before = {number: signal.signal(number, handler) for number, handler in wanted.items()}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
