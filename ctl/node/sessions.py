# SPDX-License-Identifier: GPL-2.0-or-later
"""Signs of a local user beyond keyboard and mouse: ssh sessions, desktops here and far, what keeps a desktop awake.

logind wakes the agent when sessions change. Between changes only what is there is looked at: terminals' times every
five seconds, because the kernel notes them in steps of eight; desktops every fifteen. On a node without sessions
nothing runs. A key or a movement here is seen at once by the sensor of input, so nobody waits for a look.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from ctl.node import logind
from ctl.node.local_user import Signs
from ctl.node.logind import Logind, Session
from ctl.policy import Settings

__all__ = ["KNOBS", "SessionWatch"]

KNOBS: Final = ("local_seat", "local_remote", "local_inhibit")
"""The knobs that say which signs count."""

_TERMINALS_EVERY, _DESKTOPS_EVERY = 5.0, 15.0  # seconds
_log = logging.getLogger("ctl.sessions")


class SessionWatch:
    """Looks at sessions. All calls are for the event loop's thread."""

    def __init__(
        self, settings: Settings, changed: Callable[[], None], login: Callable[[], Logind] = Logind,
        devices: Path = Path("/dev"),
    ) -> None:
        """`changed` is called when `signs` has changed; `login` raises OSError where there is no logind."""
        self.signs = Signs()
        self._settings, self._changed, self._login, self._devices = settings, changed, login, devices
        self._logind: Logind | None = None
        self._sessions: list[Session] = []
        self._held = ""
        self._next: asyncio.TimerHandle | None = None
        self._asking: asyncio.Task[None] | None = None
        self._asked = 0.0  # monotonic seconds

    def start(self) -> None:
        """Begin, or look anew after knobs have changed. Where there is no logind, nothing is ever seen."""
        if self._logind is None:
            try:
                self._logind = self._login()
            except OSError as error:
                _log.info("no sessions of logind are seen: %s", error)
                return
            asyncio.get_running_loop().add_reader(self._logind.descriptor, self._heard)
        self._heard()

    def stop(self) -> None:
        """No more looks."""
        if self._next is not None:
            self._next.cancel()
        if self._asking is not None:
            self._asking.cancel()
        if self._logind is not None:
            asyncio.get_running_loop().remove_reader(self._logind.descriptor)
            self._logind.close()
            self._logind = None

    def _on(self, knob: str) -> bool:
        return self._settings.word(knob) == "on"

    def _heard(self) -> None:
        """Sessions may have changed."""
        assert self._logind is not None
        wanted = {False: self._on("local_seat"), True: self._on("local_remote")}
        films = self._on("local_inhibit")
        self._sessions = [
            session for session in self._logind.sessions()
            if session.active and (wanted[session.remote] or (films and session.is_desktop))
        ]
        self._asked = 0.0
        self._look()

    def _look(self) -> None:
        """Look at what is there, now and, while there is something, later."""
        if self._next is not None:
            self._next.cancel()
            self._next = None
        now = time.monotonic()
        shown = [session for session in self._sessions if session.is_desktop]
        if self._sessions:  # set first: it goes on, whatever this look runs into
            every = _TERMINALS_EVERY if len(shown) < len(self._sessions) else _DESKTOPS_EVERY
            self._next = asyncio.get_running_loop().call_later(every, self._look)
        if not shown:
            self._held = ""
        elif self._asking is None and now - self._asked >= _DESKTOPS_EVERY:
            self._asked = now
            self._asking = asyncio.get_running_loop().create_task(self._ask(shown))
        self._tell()

    async def _ask(self, shown: list[Session]) -> None:
        """Ask logind about desktops."""
        try:
            now = await logind.desktops(session.id for session in shown)
            remote = {session.id: session.remote for session in shown}
            places = [place for name in now.busy if name in remote and (place := self._place(remote[name]))]
            films = now.inhibited and self._on("local_inhibit")
            self._held = places[0] if places else "a program keeps the desktop from going idle" if films else ""
            self._tell()
        except Exception:  # of what logind says nothing is held for ever
            self._held = ""
            raise
        finally:
            self._asking = None

    def _place(self, remote: bool) -> str:
        """The name of a desktop that counts; "" if it does not."""
        if remote:
            return "remote-desktop" if self._on("local_remote") else ""
        return "desktop" if self._on("local_seat") else ""

    def _tell(self) -> None:
        signs = Signs(*max(map(self._typed, self._sessions), default=(0, "")), self._held)
        if signs != self.signs:
            self.signs = signs
            self._changed()

    def _typed(self, session: Session) -> tuple[int, str]:
        """When its user last typed, ns of CLOCK_MONOTONIC, and where; (0, "") if unknown."""
        tty = "" if session.is_desktop else logind.terminal_of(session)
        with contextlib.suppress(OSError):  # the terminal has just gone
            if tty:
                ago = max(0, time.time_ns() - (self._devices / tty).stat().st_atime_ns)
                where = "ssh" if session.remote else "console"
                return max(1, (time.monotonic_ns() - ago) // 1_000_000_000) * 1_000_000_000, where
        return 0, ""
