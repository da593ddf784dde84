# SPDX-License-Identifier: GPL-2.0-or-later
"""`ctl` in a real terminal, read from its screen: tmux draws it, and an agent's real server answers."""

from __future__ import annotations

import asyncio
import itertools
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ctl.node.server import Server, open_socket

__all__ = ["Agent", "Terminal"]

ROOT = Path(__file__).resolve().parents[2]
_NUMBERS = itertools.count()


class Agent:
    """A server that gives the answers of a mapping, by operation, from a thread."""

    def __init__(self, path: Path, answers: dict[str, Any]) -> None:
        """`answers` may be changed at any time."""
        self.answers = answers
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
        server = Server({name: self._operation(name) for name in self.answers}, {})
        await server.start(open_socket(path))
        self._ready.set()
        await self._end.wait()
        await server.close()

    def _operation(self, name: str) -> Callable[..., Any]:
        async def answer(*_: object) -> Any:
            return self.answers[name]

        return answer


class Terminal:
    """A terminal of tmux's with a command of `ctl` in it, whose agent has its socket in `directory`."""

    def __init__(self, directory: Path, columns: int, lines: int, *command: str) -> None:
        tmux = shutil.which("tmux")
        assert tmux, "tmux is not installed: `./just setup` installs it"
        socket = directory / f"tmux{next(_NUMBERS)}"  # a server that ends may still have the last one
        self._tmux = (tmux, "-u", "-S", str(socket), "-f", os.devnull)
        program = (sys.executable, "-m", "ctl", *command)
        # what it wrote and how it ended stay to be read
        waits = 'stty -a >before; "$@"; echo "ended $?"; stty -a | cmp - before && echo as before; exec sleep 600'
        unset = ("-u", "NO_COLOR", "-u", "COLUMNS", "-u", "LINES")
        environment = ("env", *unset, f"COSCHED_RUN_DIR={directory}", f"PYTHONPATH={ROOT}", "LC_ALL=C.UTF-8")
        words = (*environment, "sh", "-c", f"cd {directory}; {waits}", "sh", *program)
        size = ("-x", str(columns), "-y", str(lines))
        self._do("new-session", "-d", *size, *words, ";", "set", "status", "off", ";", "resize-window", *size)

    def _do(self, *words: str) -> str:
        return subprocess.run((*self._tmux, *words), capture_output=True, text=True, check=True, timeout=120).stdout

    def type(self, *keys: str) -> None:
        self._do("send-keys", *keys)

    def resize(self, columns: int, lines: int) -> None:
        self._do("resize-window", "-x", str(columns), "-y", str(lines))

    def screen(self) -> list[str]:
        """All lines as they are now, without the blanks at their ends."""
        return self._do("capture-pane", "-p").split("\n")[:-1]

    def until(self, pattern: str, seconds: float = 120.0) -> list[str]:
        """Wait until a line has this pattern; the screen then."""
        end = time.monotonic() + seconds
        while not re.search(pattern, "\n".join(shown := self.screen()), re.MULTILINE):
            assert time.monotonic() < end, f"no {pattern!r} on the screen:\n" + "\n".join(shown)
            time.sleep(0.1)
        return shown

    def close(self) -> None:
        self._do("kill-server")
