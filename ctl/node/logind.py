# SPDX-License-Identifier: GPL-2.0-or-later
"""The sessions of this node's users, as systemd-logind knows them.

libsystemd's sd-login tells of sessions, and wakes who reads `descriptor` when one comes, goes or changes: it costs
nothing meanwhile. What desktops say of themselves is on the system bus only; loginctl asks there.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple

__all__ = ["Desktops", "Logind", "Session", "desktops", "terminal_of"]

_LIBRARY: Final = "libsystemd.so.0"
_TEXT: Final = ctypes.c_char_p
_LONGEST: Final = 10.0  # seconds until logind has answered
_USERS: Final = "user"  # classes of sessions that begin so are a person's; others are a greeter's, a manager's
_GENERATIONS: Final = 2  # from the leader of an ssh session to the shell: its server for the user, and the shell
_PTS: Final = range(136, 144)  # majors of /dev/pts, 256 each


class Session(NamedTuple):
    """A person's session."""

    id: str
    kind: str  # "tty", "x11", "wayland"
    remote: bool
    active: bool  # in the foreground of its seat; without a seat: not about to close
    tty: str  # "tty1", "pts/3"; "": none
    leader: int  # the process that opened it; 0: unknown

    @property
    def is_desktop(self) -> bool:
        """Whether it is graphical."""
        return self.kind in ("x11", "wayland", "mir")


class Desktops(NamedTuple):
    """What logind says of desktops."""

    busy: tuple[str, ...] = ()  # sessions that are not locked and do not call themselves idle, but have done so before
    unlocked: tuple[str, ...] = ()
    inhibited: bool = False  # some program keeps the machine from going idle


class Logind:
    """Sessions, by libsystemd."""

    def __init__(self) -> None:
        """Raises OSError if there is no libsystemd, or logind does not run."""
        self._lib, self._libc = ctypes.CDLL(_LIBRARY), ctypes.CDLL(None)
        self._libc.free.argtypes = [ctypes.c_void_p]
        self._monitor = ctypes.c_void_p()
        if (status := self._lib.sd_login_monitor_new(b"session", ctypes.byref(self._monitor))) < 0:
            raise OSError(-status, "sd_login_monitor_new")

    @property
    def descriptor(self) -> int:
        """Readable when a session came, went or changed; sessions() makes it unreadable."""
        return int(self._lib.sd_login_monitor_get_fd(self._monitor))

    def close(self) -> None:
        """No more is heard."""
        self._lib.sd_login_monitor_unref(self._monitor)

    def sessions(self) -> list[Session]:
        """Persons' sessions now."""
        self._lib.sd_login_monitor_flush(self._monitor)
        names = ctypes.POINTER(ctypes.c_void_p)()
        count = self._lib.sd_get_sessions(ctypes.byref(names))
        found = [self._session(self._taken(names[number])) for number in range(max(0, count))]
        self._libc.free(ctypes.cast(names, ctypes.c_void_p))
        return [session for session in found if session is not None]

    def _session(self, name: str) -> Session | None:
        if not self._said("class", name).startswith(_USERS):
            return None
        leader = ctypes.c_int()
        with contextlib.suppress(AttributeError):  # before systemd 254
            self._lib.sd_session_get_leader(name.encode(), ctypes.byref(leader))
        remote = self._lib.sd_session_is_remote(name.encode()) > 0
        state = self._said("state", name)
        active = state == "active" or (state == "online" and not self._said("seat", name))
        return Session(name, self._said("type", name), remote, active, self._said("tty", name), leader.value)

    def _said(self, what: str, name: str) -> str:
        """A text that sd_session_get_WHAT() gives; "" where there is none."""
        text = ctypes.c_void_p()
        status = getattr(self._lib, f"sd_session_get_{what}")(name.encode(), ctypes.byref(text))
        return self._taken(text.value) if status >= 0 else ""

    def _taken(self, address: int | None) -> str:
        """A text of the library's, which is freed."""
        text = ctypes.string_at(address).decode(errors="replace") if address else ""
        self._libc.free(address)
        return text


def terminal_of(session: Session, proc: Path = Path("/proc")) -> str:
    """The terminal on which a session's user types, as "pts/3"; "": it has none.

    sshd opens a session before it has a terminal, so logind may not know it: it is that of the login shell. What an MPI
    launcher starts by ssh has none, and what runs in it may have as many as it wants: nobody types there.
    """
    if session.tty or not session.leader:
        return session.tty
    pids = [str(session.leader)]
    for _ in range(_GENERATIONS):
        pids = [child for pid in pids for child in _read(proc / pid / "task" / pid / "children").split()]
        for pid in pids:
            number = int((_read(proc / pid / "stat").rpartition(")")[2].split() + ["0"] * 5)[4])
            if (major := number >> 8 & 0xFFF) in _PTS:
                return f"pts/{(major - _PTS.start) * 256 + (number & 0xFF | number >> 12 & 0xFFF00)}"
    return ""


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:  # it has just ended
        return ""


async def desktops(ids: Iterable[str]) -> Desktops:
    """What logind says of these sessions; nothing if it does not answer."""
    names = ("Id", "IdleHint", "IdleSinceHint", "LockedHint")
    said = await _loginctl("show-session", *(f"--property={name}" for name in names), "--", *ids)
    busy, unlocked = [], []
    for block in said.split("\n\n"):
        now = dict(line.split("=", 1) for line in block.splitlines() if "=" in line)
        if now.get("LockedHint") != "no":
            continue
        unlocked.append(now["Id"])
        if now["IdleHint"] == "no" and now["IdleSinceHint"] != "0":
            busy.append(now["Id"])
    if busy or not unlocked:
        return Desktops(tuple(busy), tuple(unlocked))
    blocked = await _loginctl("show-session", "--property=BlockInhibited", "--value")
    return Desktops((), tuple(unlocked), "idle" in blocked.strip().split(":"))


async def _loginctl(*words: str) -> str:
    """What loginctl prints; "" if it cannot be started, or does not end in time."""
    nothing, pipe = asyncio.subprocess.DEVNULL, asyncio.subprocess.PIPE
    try:
        process = await asyncio.create_subprocess_exec("loginctl", *words, stdin=nothing, stdout=pipe, stderr=nothing)
    except OSError:
        return ""
    try:
        said, _ = await asyncio.wait_for(process.communicate(), _LONGEST)
        return said.decode(errors="replace")
    except TimeoutError:
        return ""
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
