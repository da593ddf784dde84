# SPDX-License-Identifier: GPL-2.0-or-later
"""This node's broker as a process of its own, so that restarting the agent disturbs no other node."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import logging
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from ctl.cluster.broker import Broker
from ctl.cluster.membership import Files
from ctl.errors import CoschedError
from ctl.process import run_files
from ctl.protocol import STATE_DIR

__all__ = ["forget", "running", "serve", "start", "stop"]

_READY = 10.0  # seconds; several brokers are ready once most of them run, so a time-out is no failure then
_STOP = 8.0  # seconds


def _directory() -> Path:
    return run_files.RUN_DIR / "broker"


def _accounts() -> Path:
    return STATE_DIR / "accounts"


def _lock_path() -> Path:
    return run_files.RUN_DIR / "broker.lock"


def running() -> int:
    """The process id of the running broker's keeper, 0 if none runs."""
    try:
        with _lock_path().open("r") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return int(file.read() or -1)
    except FileNotFoundError:
        pass
    return 0


@contextlib.contextmanager
def _locked() -> Iterator[None]:
    run_files.RUN_DIR.mkdir(mode=0o755, parents=True, exist_ok=True)
    with _lock_path().open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise CoschedError(f"this node's broker runs already (pid {running()})") from None
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield


def serve(files: Files, ready: Callable[[], None] = lambda: None) -> None:
    """Run this node's broker until SIGTERM or SIGINT. Raises CoschedError if this node has no broker, or if the broker
    does not start."""
    content = files.need("broker", "this node has no broker; `ctl cluster init --broker NODE=ADDRESS` names brokers")

    async def until_told() -> None:
        work = asyncio.create_task(Broker(content, _directory(), _accounts()).run(ready))
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, work.cancel)
        with contextlib.suppress(asyncio.CancelledError):
            await work

    with _locked():
        asyncio.run(until_told())


def start(files: Files) -> bool:
    """Start this node's broker in the background; True if it was ready within 10 s, False if it waits for others.

    Raises CoschedError if it ended instead.
    """
    if files.read("broker") is None or running():
        return True
    run_files.RUN_DIR.mkdir(mode=0o755, parents=True, exist_ok=True)
    log = run_files.RUN_DIR / "broker.log"
    ours, theirs = os.pipe()
    with log.open("ab") as output, open(os.devnull, "rb") as null:
        process = subprocess.Popen(
            [sys.executable, "-m", "ctl", "cluster", "serve", "--ready-fd", str(theirs)],
            stdin=null,
            stdout=output,
            stderr=output,
            start_new_session=True,
            pass_fds=(theirs,),
            cwd="/",
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
    os.close(theirs)
    with os.fdopen(ours, "rb", buffering=0) as pipe:
        os.set_blocking(pipe.fileno(), False)
        deadline = time.monotonic() + _READY
        while time.monotonic() < deadline:
            if pipe.read(1) == b"r":
                return True
            if process.poll() is not None:
                raise CoschedError(f"the broker ended with status {process.returncode}: see {log}")
            time.sleep(0.05)
    return False


def stop() -> None:
    """End this node's broker, if it runs. Raises CoschedError if the broker does not end."""
    pid = running()
    if not pid:
        return
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + _STOP
    while running() == pid:
        if time.monotonic() > deadline:
            raise CoschedError(f"the broker (pid {pid}) has not ended after {_STOP:g} s: end it with kill -9")
        time.sleep(0.05)


def forget() -> None:
    """Remove what the broker has kept. It must not run."""
    shutil.rmtree(_accounts(), ignore_errors=True)


def start_log() -> None:
    """Log to standard error, as a service does."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s: %(message)s")
