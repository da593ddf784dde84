# SPDX-License-Identifier: GPL-2.0-or-later
"""`ctl` run as people run it, for the tests of it."""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Iterator
from typing import Any

from tests.kselftest import ktap

__all__ = ["TIMEOUT", "agent", "asked", "ctl", "refused"]

TIMEOUT = 120  # seconds: the sensors compile in five, on a busy emulated CPU in thirty


def ctl(*arguments: str, status: int = 0) -> str:
    """Run ctl; what it printed, on either stream. Fails unless it exits as expected."""
    done = subprocess.run(["ctl", *arguments], capture_output=True, text=True, timeout=TIMEOUT, check=False)
    if done.returncode != status:
        raise AssertionError(f"ctl {' '.join(arguments)}: status {done.returncode}, not {status}: {done.stderr}")
    return done.stdout + done.stderr


def asked(*arguments: str) -> Any:
    """Run ctl with --json; what it printed."""
    return json.loads(ctl(*arguments, "--json"))


@contextlib.contextmanager
def agent(*knobs: str, policy: str = "csm", sensors: bool = False) -> Iterator[int]:
    """An agent, loaded and unloaded by ctl; its pid."""
    settings = [*knobs, f"sensors={'on' if sensors else 'off'}"]
    answer = asked("load", "--policy", policy, *(f"--set={setting}" for setting in settings))
    try:
        yield answer["pid"]
    finally:
        subprocess.run(["ctl", "unload"], capture_output=True, timeout=TIMEOUT, check=False)


def refused(*arguments: str, words: tuple[str, ...]) -> None:
    """ctl says no: status 2, one sentence with these words."""
    text = ctl(*arguments, status=2)
    ktap.expect(text.count("\n"), 1, f"lines of {text!r}")
    for word in words:
        assert word in text, f"no {word!r} in {text!r}"
