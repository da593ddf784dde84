# SPDX-License-Identifier: GPL-2.0-or-later
"""What a service says to systemd, if systemd has started it (sd_notify)."""

from __future__ import annotations

import os
import socket

__all__ = ["tell_systemd"]


def tell_systemd(status: str) -> None:
    """The service is ready; `status` is shown by `systemctl status`."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
        notify.connect("\0" + address[1:] if address[0] == "@" else address)
        notify.sendall(f"READY=1\nSTATUS={status}\n".encode())
