# SPDX-License-Identifier: GPL-2.0-or-later
"""Signs of a local user in sessions, with a logind made for them; tests/kselftest/local_user.py has libsystemd."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from unittest.mock import Mock

import pytest

from ctl import policy
from ctl.node import logind, sessions
from ctl.node.local_user import Signs
from ctl.node.logind import Desktops, Session, terminal_of
from ctl.node.sessions import SessionWatch
from ctl.policy import Settings

SSH = Session("3", "tty", True, True, "pts/0", 0)
MPI = Session("4", "tty", True, True, "", 0)
VT = Session("1", "tty", False, True, "tty1", 0)
SEAT = Session("2", "wayland", False, True, "tty2", 0)
FAR = Session("5", "x11", True, True, "", 0)
HIDDEN = SEAT._replace(active=False)


def signs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, there: list[Session], said: Desktops | None = None, **knobs: str
) -> Signs:
    """What a watch sees of these sessions, while logind says this of their desktops."""
    reader, writer = os.pipe()
    fake = Mock(descriptor=reader, sessions=lambda: there)

    async def desktops(_ids: object) -> Desktops:
        return said or Desktops()

    async def seen() -> Signs:
        values = {**policy.defaults(), **knobs}
        watch = SessionWatch(Settings(policy.find_policy("ccs"), values), Mock(), lambda: fake, tmp_path)
        watch.start()
        if watch._asking is not None:
            await watch._asking
        watch.stop()
        return watch.signs

    monkeypatch.setattr(logind, "desktops", desktops)
    try:
        return asyncio.run(seen())
    finally:
        os.close(reader)
        os.close(writer)


def typed(tmp_path: Path, tty: str, ago_s: float) -> None:
    """A terminal on which somebody typed so long ago."""
    (tmp_path / tty).parent.mkdir(exist_ok=True)
    (tmp_path / tty).touch()
    os.utime(tmp_path / tty, (time.time() - ago_s,) * 2)


def test_who_types_by_ssh_or_at_a_console_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    typed(tmp_path, "pts/0", 30)
    typed(tmp_path, "tty1", 90)
    now = signs(tmp_path, monkeypatch, [VT, SSH, MPI])
    assert (now.where, now.held) == ("ssh", "")
    assert time.monotonic() - now.typed_ns / 1e9 == pytest.approx(30, abs=2)
    assert signs(tmp_path, monkeypatch, [VT, SSH], local_remote="off").where == "console"
    assert signs(tmp_path, monkeypatch, [VT, SSH], local_remote="off", local_seat="off") == Signs()


def test_the_ssh_of_a_launcher_is_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert signs(tmp_path, monkeypatch, [MPI]) == Signs()


BUSY = Desktops(("2", "5"), ("2", "5"))
FILM = Desktops((), ("2",), True)
_SLEEPLESS = "a program keeps the desktop from going idle"


@pytest.mark.parametrize(
    ("there", "said", "knobs", "held"),
    [
        ([SEAT], BUSY, {}, "desktop"),
        ([FAR], BUSY, {}, "remote-desktop"),
        ([FAR], BUSY, {"local_remote": "off"}, ""),
        ([SEAT], BUSY, {"local_seat": "off"}, ""),
        ([HIDDEN], BUSY, {}, ""),
        ([SEAT], FILM, {}, _SLEEPLESS),
        ([SEAT], FILM, {"local_seat": "off"}, _SLEEPLESS),
        ([SEAT], FILM, {"local_inhibit": "off"}, ""),
        ([SEAT], Desktops((), ("2",)), {}, ""),
    ],
)
def test_desktops(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, there: list[Session], said: Desktops, knobs: dict[str, str],
    held: str,
) -> None:
    assert signs(tmp_path, monkeypatch, there, said, **knobs) == Signs(0, "", held)


def test_a_node_without_sessions_has_no_look(tmp_path: Path) -> None:
    reader, writer = os.pipe()

    async def watched() -> object:
        settings = Settings(policy.find_policy("ccs"), policy.defaults())
        watch = SessionWatch(settings, Mock(), lambda: Mock(descriptor=reader, sessions=list), tmp_path)
        watch.start()
        return watch._next

    assert asyncio.run(watched()) is None
    os.close(reader)
    os.close(writer)


def test_where_no_logind_is_nobody_is_seen(tmp_path: Path) -> None:
    watch = SessionWatch(Settings(policy.find_policy("ccs"), policy.defaults()), Mock(), Mock(side_effect=OSError))
    watch.start()
    assert watch.signs == Signs()


def test_looks_go_on_after_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "_TERMINALS_EVERY", 0.01)
    looked = Mock(side_effect=[ValueError, "", ""])
    monkeypatch.setattr(logind, "terminal_of", looked)
    reader, writer = os.pipe()

    async def watched() -> None:
        settings = Settings(policy.find_policy("ccs"), policy.defaults())
        watch = SessionWatch(settings, Mock(), lambda: Mock(descriptor=reader, sessions=lambda: [SSH]), tmp_path)
        asyncio.get_running_loop().set_exception_handler(lambda *_: None)
        asyncio.get_running_loop().call_soon(watch.start)
        async with asyncio.timeout(60):
            while looked.call_count < 3:
                await asyncio.sleep(0.01)
        watch.stop()

    asyncio.run(watched())
    os.close(reader)
    os.close(writer)


def process(proc: Path, pid: int, tty: int, children: str = "") -> None:
    """A process in a /proc made for it."""
    (proc / f"{pid}" / "task" / f"{pid}").mkdir(parents=True)
    (proc / f"{pid}" / "task" / f"{pid}" / "children").write_text(children)
    (proc / f"{pid}" / "stat").write_text(f"{pid} (a) b) c) S 1 {pid} {pid} {tty} -1 0\n")


def test_the_terminal_of_an_ssh_session_is_its_shell_s(tmp_path: Path) -> None:
    """logind may not know it; a rank's own terminal, a generation further, is none."""
    process(tmp_path, 10, 0, "11 ")
    process(tmp_path, 11, 0, "12 ")
    process(tmp_path, 12, 136 << 8 | 7)
    process(tmp_path, 20, 0, "21 ")
    process(tmp_path, 21, 0, "22 ")
    process(tmp_path, 22, 0, "23 ")
    process(tmp_path, 23, 136 << 8 | 8)
    process(tmp_path, 40, 0, "41 ")
    process(tmp_path, 41, 4 << 8 | 65)  # a serial line
    found = [terminal_of(MPI._replace(leader=leader), tmp_path) for leader in (10, 20, 30, 40, 0)]
    assert found == ["pts/7", "", "", "", ""]
    assert terminal_of(SSH, tmp_path) == "pts/0"


_SAID = """Id=1\nIdleHint={idle}\nIdleSinceHint={since}\nLockedHint={locked}\n\nId=2\nIdleHint=yes\nIdleSinceHint=5\n\
LockedHint=yes\n"""


@pytest.mark.parametrize(
    ("idle", "since", "locked", "blocked", "found"),
    [
        ("no", "5", "no", "", Desktops(("1",), ("1",))),
        ("no", "5", "yes", "idle", Desktops()),
        ("no", "0", "no", "shutdown:sleep", Desktops((), ("1",))),
        ("yes", "5", "no", "sleep:idle", Desktops((), ("1",), True)),
    ],
)
def test_what_logind_says_of_desktops(
    monkeypatch: pytest.MonkeyPatch, idle: str, since: str, locked: str, blocked: str, found: Desktops
) -> None:
    """A desktop that has never called itself idle is not believed that it is busy; a locked one has no user."""

    async def said(*words: str) -> str:
        return blocked + "\n" if "--value" in words else _SAID.format(idle=idle, since=since, locked=locked)

    monkeypatch.setattr(logind, "_loginctl", said)
    assert asyncio.run(logind.desktops(["1", "2"])) == found
