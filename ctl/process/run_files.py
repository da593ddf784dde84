# SPDX-License-Identifier: GPL-2.0-or-later
"""The agent's files in the run directory for other programs: COSCHED_RUN_DIR, else /run/cosched.

agent.sock      see ctl/protocol.py
metrics.sock    figures for Prometheus, over HTTP: see ctl/node/metrics.py
agent.json      {"pid", "policy", "since"} of the agent that runs, or that was killed
agent.lock      held as long as agent or supervisor live
agent.log       events, and the kernel's dump after it ended a scheduler
last_exit.json  why the last agent ended: see `Ended`
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NotRequired, TypedDict

from ctl import protocol
from ctl.errors import FAILED, CoschedError

__all__ = [
    "LAST_EXIT",
    "LOG",
    "METRICS",
    "RUN_DIR",
    "STATE",
    "Ended",
    "append_log",
    "ended",
    "last_exit",
    "left_behind",
    "lock_is_held",
    "locked",
    "read",
    "start_log",
    "write_exit",
]

RUN_DIR = protocol.SOCKET.parent
LOG, LAST_EXIT, STATE = RUN_DIR / "agent.log", RUN_DIR / "last_exit.json", RUN_DIR / "agent.json"
METRICS = RUN_DIR / "metrics.sock"
_LOCK = RUN_DIR / "agent.lock"
_LOG_LIMIT = 4 << 20  # bytes: of tmpfs; the log before it is kept once more


class Ended(TypedDict):
    """Why the last agent ended."""

    time: float  # Unix time
    pid: int
    policy: str
    why: str  # one sentence
    killed: bool  # the agent did not end by itself
    exit: NotRequired[dict[str, Any] | None]  # the kernel's record: kind_name, reason, msg, dump


def last_exit() -> Ended | None:
    """Why the last agent ended; None if none did since boot, or one runs."""
    record: Ended | None = read(LAST_EXIT)
    return record


def left_behind() -> str | None:
    """A sentence if an agent was killed and its changes are not undone yet."""
    state = read(STATE)
    if state is None or lock_is_held():
        return None
    return (
        f"the agent (pid {state['pid']}, policy {state['policy']}) was killed; the kernel is back on its own "
        "scheduler, start another with `ctl load`, or clean up with `ctl unload`"
    )


@contextlib.contextmanager
def locked() -> Iterator[None]:
    """Hold the agent's lock. The agent inherits it, so it is free when both processes are gone."""
    RUN_DIR.mkdir(mode=0o755, exist_ok=True)
    fd = os.open(_LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        _take_lock(fd)
        yield
    finally:
        os.close(fd)


def _take_lock(fd: int) -> None:
    """Try for a second, because a command that tests the lock holds it for a moment."""
    deadline = time.monotonic() + 1
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > deadline:
                what = "another agent is just starting: see `ctl status`"
                raise CoschedError(what, FAILED) from None
            time.sleep(0.01)


def lock_is_held() -> bool:
    """Whether an agent or its supervisor lives."""
    try:
        fd = os.open(_LOCK, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


def start_log() -> None:
    """Log to agent.log from now on."""
    if LOG.exists() and LOG.stat().st_size > _LOG_LIMIT:
        LOG.replace(LOG.with_suffix(".log.1"))
    import logging

    logging.basicConfig(
        filename=LOG, level=logging.INFO, format="%(asctime)s %(name)s %(levelname)s %(message)s", force=True
    )
    logging.getLogger("ctl.libbpf").setLevel(logging.WARNING)


def append_log(lines: list[str]) -> None:
    """Add the supervisor's few lines; the supervisor does not keep the log open."""
    stamp = time.strftime("%Y-%m-%d %H:%M:%S")
    with LOG.open("a") as log:
        log.writelines(f"{stamp} ctl.supervisor INFO {line}\n" for line in lines)


def ended(pid: int, name: str, why: str) -> Ended:
    """A record of an end, now."""
    return {"time": time.time(), "pid": pid, "policy": name, "why": why, "killed": False}


def write_exit(record: Ended) -> None:
    """Write a record for `ctl status`, atomically."""
    new = LAST_EXIT.with_suffix(".new")
    new.write_text(json.dumps(record))
    new.replace(LAST_EXIT)


def read(path: Path) -> Any:
    """The JSON in a file; None if there is none."""
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError):
        return None
