# SPDX-License-Identifier: GPL-2.0-or-later
"""Run a part of the plan in a virtual machine of its own and hand over the guest's output, line by line."""

from __future__ import annotations

import dataclasses
import io
import json
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.bench.guest import Order
from vm.host import REPO, VmError

__all__ = ["Message", "end_guests", "run_guest"]

Message = dict[str, Any]
_TIMEOUT_S = 4 * 3600  # a whole part takes 15 minutes on an idle host, and hours beside other work
_running: list[subprocess.Popen[bytes]] = []


def _archive(directories: list[Path], order: Order) -> bytes:
    """Pack the programs and the order."""
    text = json.dumps(dataclasses.asdict(order)).encode()
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for directory in directories:
            for path in sorted(directory.iterdir()):
                archive.add(path, path.name)
        entry = tarfile.TarInfo("order.json")
        entry.size = len(text)
        archive.addfile(entry, io.BytesIO(text))
    return packed.getvalue()


def end_guests() -> None:
    """End all guests that run; each run_guest() then raises VmError."""
    for process in list(_running):
        process.terminate()


def run_guest(order: Order, directories: list[Path], options: tuple[str, ...], hear: Callable[[Message], None]) -> None:
    """Boot a guest that counts instructions, of one CPU unless options ask for more, and call hear with each message.

    Raises VmError, with the guest's own last words, when it does not end well.
    """
    command = [sys.executable, str(REPO / "vm/run"), "--cpus", "1", "--icount", "--timeout", str(_TIMEOUT_S), *options,
               "--", "python3", "-m", "tests.bench.guest"]
    with tempfile.TemporaryFile() as packed, tempfile.TemporaryFile() as errors:
        packed.write(_archive(directories, order))
        packed.seek(0)
        with subprocess.Popen(command, stdin=packed, stdout=subprocess.PIPE, stderr=errors) as process:
            assert process.stdout is not None
            _running.append(process)
            try:
                for line in process.stdout:
                    hear(json.loads(line))
            except BaseException:
                process.terminate()
                raise
            finally:
                _running.remove(process)
        errors.seek(0)
        words = errors.read().decode(errors="replace").splitlines()[-25:]
    if process.returncode != 0:
        raise VmError(f"the guest ended with status {process.returncode}", "\n".join(words))
