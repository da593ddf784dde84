#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""The local user: present from a key or a typed line on, gone after local_idle_s, and forced by a knob."""

from __future__ import annotations

import os
import pty
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from unittest import mock

from tests.kselftest import ktap
from tests.kselftest.command import TIMEOUT, agent, asked, ctl, following
from tests.kselftest.node import spawned
from tests.kselftest.sensor_input import keyboard, press

_KEY_A = 30
_SESSIONS = Path("/run/systemd/sessions")  # here is no logind, and libsystemd reads what a test writes


def _user() -> Any:
    return asked("status")["contract"]["local_user"]


def comes_and_goes() -> None:
    """A key makes a user present at once, until local_idle_s later; so does the knob, and by a knob a terminal."""
    with agent("local_idle_s=600", policy="ccs", sensors=True), following("status", "--follow") as heard:

        def told(words: str) -> int:
            return heard.text().count(words)

        ktap.expect((_user()["present"], _user()["why"]), (False, "no input seen"), "before any input")
        pressed = time.monotonic()
        press(keyboard(), _KEY_A)
        ktap.until(lambda: told("local user here: keyboard") == 1, "the user is noticed")
        ktap.note(f"noticed, and read here, after {(time.monotonic() - pressed) * 1000:.0f} ms")
        now = asked("status")["contract"]
        ktap.expect(now["local_user"]["present"], True, "a user after a key")
        ktap.expect(now["quantum"]["parallel_ms"], now["quantum"]["local_ms"] / 2, "quantum of jobs")
        assert "local user present: keyboard" in ctl("status")
        ctl("set", "local_idle_s=6")  # which every command above may have taken on a slow machine
        ktap.until(lambda: told("local user gone") == 1, "the user has gone", 60)
        pressed = time.monotonic()
        press(keyboard(), _KEY_A)
        ktap.until(lambda: told("local user gone") == 2, "the user has gone again", 60)
        lasted = time.monotonic() - pressed
        ktap.measured(5.9 < lasted < 60, f"present for {lasted:.1f} s, local_idle_s is 6")
        ktap.expect(asked("status")["contract"]["local_user"]["present"], False, "a user after 6 s without input")
        ctl("set", "sensors=off")
        ktap.expect((_user()["present"], "sensors=off" in _user()["why"]), (False, True), "with sensors=off")
        ctl("set", "sensors=on", "local_idle_s=600")  # the sensor has forgotten the key
        ktap.until(lambda: asked("status")["sensors"]["state"] == "on", "all observe again", TIMEOUT)
        _terminal_and_knob()


def _terminal_and_knob() -> None:
    """A program's output at a terminal is no input, a line typed there is by a knob; the knob forces both states."""
    master, slave = pty.openpty()
    os.write(slave, b"output is no input\n")
    time.sleep(0.5)
    ktap.expect(_user()["present"], False, "a user, for a program's output")
    os.write(master, b"ls\n")
    time.sleep(0.5)
    ktap.expect(_user()["present"], False, "a user, for a line on a terminal, which anybody can type")
    ctl("set", "local_user_tty=on")
    ktap.until(lambda: (_user()["present"], _user()["why"]) == (True, "terminal"), "a user at the terminal")
    ctl("set", "local_user=off")
    ktap.expect(_user()["present"], False, "a user, knob local_user=off")
    ctl("set", "local_user=auto")
    ktap.expect(_user()["present"], True, "a user, knob local_user=auto again")
    ctl("set", "local_user=off")
    ctl("set", "local_user=on")
    ktap.expect(_user()["present"], True, "a user, knob local_user=on")
    os.close(master)
    os.close(slave)


_LEADER = """
import os, pty, sys
pid, terminal = pty.fork()
if not pid:
    os.execvp("cat", ["cat"])
sys.stdin.read()
"""
_LOGINCTL = """#!/bin/sh
printf 'Id=d\\nIdleHint=no\\nIdleSinceHint=5\\nLockedHint=no\\n'
"""


def _session(name: str, **facts: object) -> None:
    """A session of a user, as logind notes it."""
    _SESSIONS.mkdir(parents=True, exist_ok=True)
    text = "".join(f"{key}={value}\n" for key, value in {"UID": 0, "CLASS": "user", **facts}.items())
    (_SESSIONS.parent / name).write_text(text)
    (_SESSIONS.parent / name).rename(_SESSIONS / name)


def sessions() -> None:
    """A login by ssh makes a user, by its knob, and the ssh of a launcher does not; so does a desktop that is busy."""
    (_SESSIONS.parent / "bin").mkdir(parents=True)
    (_SESSIONS.parent / "bin" / "loginctl").write_text(_LOGINCTL)
    (_SESSIONS.parent / "bin" / "loginctl").chmod(0o755)
    path = f"{_SESSIONS.parent / 'bin'}:{os.environ['PATH']}"
    with (
        mock.patch.dict(os.environ, PATH=path),
        spawned("sleep", "1000") as launcher,
        subprocess.Popen([sys.executable, "-c", _LEADER], stdin=subprocess.PIPE) as leader,
    ):
        _session("m", TYPE="tty", REMOTE=1, STATE="active", LEADER=launcher.pid)
        with agent("local_idle_s=600", policy="ccs"):
            ktap.expect(_user()["present"], False, "a user, for the ssh of a launcher")
            _session("s", TYPE="tty", REMOTE=1, STATE="active", LEADER=leader.pid)
            ktap.until(lambda: (_user()["present"], _user()["why"]) == (True, "ssh"), "a user who came by ssh", 30)
            ctl("set", "local_remote=off")
            ktap.expect(_user()["present"], False, "a user, knob local_remote=off")
            _session("d", TYPE="wayland", REMOTE=0, STATE="active", SEAT="seat0")
            ktap.until(lambda: (_user()["present"], _user()["why"]) == (True, "desktop"), "a user at a desktop", 30)
            (_SESSIONS / "d").unlink()
            ktap.until(lambda: not _user()["present"], "the user has logged out", 30)
        assert leader.stdin is not None
        leader.stdin.close()
    shutil.rmtree(_SESSIONS.parent)


def assumed_where_the_sensor_fails() -> None:
    """Without bcc the load says what to install and fails after a wait; the policy stays, and jobs have L of quanta."""
    with mock.patch.dict(sys.modules, bcc=None):  # the agent is a fork
        said = ctl("load", "--wait", "--policy", "ccs", status=1)
    try:
        assert "install python3-bpfcc" in said, said
        now = asked("status")["contract"]
        ktap.expect((now["local_user"]["present"], now["local_user"]["why"][:7]), (True, "assumed"), "without a sensor")
        ktap.expect(now["quantum"]["parallel_ms"], now["quantum"]["local_ms"] / 2, "quantum of jobs")
        ctl("set", "local_user=off")
        ktap.expect(_user()["present"], False, "a user, knob local_user=off")
    finally:
        ctl("unload")


if __name__ == "__main__":
    ktap.run(comes_and_goes, sessions, assumed_where_the_sensor_fails)
