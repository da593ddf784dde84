# SPDX-License-Identifier: GPL-2.0-or-later
"""QEMU's control protocol, as far as a cluster needs it: network cables and keys."""

from __future__ import annotations

import json
import socket
import threading
from typing import Any

from vm.host import VmError

__all__ = ["Qmp"]

_ANSWER_S = 20.0  # an emulator that does not answer for so long never will


class Qmp:
    """The control socket of one QEMU; for several threads."""

    def __init__(self, control: socket.socket) -> None:
        control.settimeout(_ANSWER_S)
        self._stream = control.makefile("rwb", buffering=0)
        self._lock = threading.Lock()
        self._greeted = False

    def link(self, interface: str, up: bool) -> None:
        """Plug a network cable in, or pull it; the guest sees its carrier come or go."""
        self._execute("set_link", name=interface, up=up)

    def key(self, name: str) -> None:
        """Press and release a key, by QEMU's name for it: "a", "shift", "ret"."""
        self._execute("send-key", keys=[{"type": "qcode", "data": name}])

    def _execute(self, command: str, **arguments: Any) -> None:
        with self._lock:
            try:
                if not self._greeted:
                    self._read()
                    self._ask("qmp_capabilities", {})
                    self._greeted = True
                self._ask(command, arguments)
            except (OSError, ValueError) as error:
                raise VmError(f"QEMU does not answer to {command}: {error}") from None

    def _ask(self, command: str, arguments: dict[str, Any]) -> None:
        self._stream.write(json.dumps({"execute": command, "arguments": arguments}).encode() + b"\n")
        while "return" not in (answer := self._read()):
            if "error" in answer:
                raise VmError(f"QEMU refuses {command}: {answer['error'].get('desc')}")

    def _read(self) -> dict[str, Any]:
        """The next answer, or event."""
        line = self._stream.readline()
        if not line:
            raise OSError("it is gone")
        answer = json.loads(line)
        return answer if isinstance(answer, dict) else {}
