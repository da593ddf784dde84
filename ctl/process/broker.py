# SPDX-License-Identifier: GPL-2.0-or-later
"""This node's broker as a process of its own, so that restarting the agent disturbs no other node.

Under systemd it is the service cosched-broker, whose user has nothing but the broker's secrets. Elsewhere it is a
process in the background.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import gc
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
from ctl.cluster.link import end
from ctl.cluster.membership import Files
from ctl.cluster.renewal import keep_renewing
from ctl.errors import CoschedError
from ctl.kernel.prompt import keep_small_pages
from ctl.process import run_files
from ctl.process.notify import tell_systemd
from ctl.protocol import STATE_DIR

__all__ = ["forget", "running", "serve", "start", "stop"]

_READY = 10.0  # seconds; several brokers are ready once most of them run, so a time-out is no failure then
_STOP = 8.0  # seconds

_UNIT = "cosched-broker.service"
_PLACES = ("COSCHED_CLUSTER_DIR", "COSCHED_RUN_DIR", "COSCHED_STATE_DIR")  # the service has the usual places
_log = logging.getLogger("ctl.broker")


def _directory() -> Path:
    return run_files.RUN_DIR / "broker"


def _kept() -> Path:
    return STATE_DIR / "broker"


def _lock_path() -> Path:
    return _directory() / "lock"


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


def _open_the_way() -> None:
    """Whatever mask root has: nats-server's user passes through the folders to its own."""
    run_files.RUN_DIR.mkdir(mode=0o755, parents=True, exist_ok=True)
    if os.geteuid() == 0:
        os.umask(0o022)
        run_files.RUN_DIR.chmod(0o755)


@contextlib.contextmanager
def _locked() -> Iterator[None]:
    _open_the_way()
    _directory().mkdir(mode=0o711, exist_ok=True)
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
    """Run this node's broker until SIGTERM or SIGINT; `ready` is called when it is. systemd, which waits for it at
    boot, is told after 10 s, too.

    Raises CoschedError if this node has no broker, or if the broker does not start.
    """
    content = files.need("broker", "this node has no broker; `ctl cluster init --broker NODE=ADDRESS` names brokers")

    async def until_told() -> None:
        loop = asyncio.get_running_loop()
        waits = loop.call_later(_READY, tell_systemd, "waits for other brokers")

        def is_ready() -> None:
            waits.cancel()
            gc.collect()
            gc.freeze()  # what there is now stays: a collection would read all of it back from swap, in users' memory
            tell_systemd("ready")
            ready()

        work = asyncio.create_task(Broker(content, _directory(), _kept()).run(is_ready))
        renewing = asyncio.create_task(keep_renewing(files))  # under systemd this user cannot, and a timer does it
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, work.cancel)
        with contextlib.suppress(asyncio.CancelledError):
            await work
        await end(renewing)

    if refused := keep_small_pages():  # nats-server inherits it
        _log.warning("the broker: %s", refused)
    with _locked():
        asyncio.run(until_told())


def start(files: Files) -> bool:
    """Start this node's broker in the background; True if it was ready within 10 s, False if it waits for others.

    Raises CoschedError if it ended instead.
    """
    if files.read("broker") is None or running():
        return True
    if _is_service():
        _systemctl("start")
        return True
    return _start_alone()


def _start_alone() -> bool:
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


def _is_service() -> bool:
    """Whether systemd runs this machine's services, and this one is among them."""
    if not Path("/run/systemd/system").is_dir() or any(place in os.environ for place in _PLACES):
        return False
    return subprocess.run(["systemctl", "cat", _UNIT], capture_output=True, check=False).returncode == 0


def _systemctl(verb: str) -> None:
    """Raises CoschedError if it is not done."""
    if subprocess.run(["systemctl", verb, _UNIT], capture_output=True, check=False).returncode != 0:
        raise CoschedError(f"systemd does not {verb} the broker: `journalctl -u {_UNIT}` tells why")


def stop() -> None:
    """End this node's broker, if it runs. Raises CoschedError if the broker does not end."""
    if _is_service():
        _systemctl("stop")
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
    shutil.rmtree(_kept().resolve(), ignore_errors=True)  # systemd has it elsewhere, and a link here


def start_log() -> None:
    """Log to standard error, as a service does."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s: %(message)s")
