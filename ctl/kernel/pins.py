# SPDX-License-Identifier: GPL-2.0-or-later
"""The maps that the scheduler and the sensors share, by their pins in a bpffs: whoever comes first makes them."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

from ctl.errors import CoschedError
from ctl.kernel.libbpf import library

__all__ = ["PINS", "map_id", "pin", "pinned_map_id", "remove_pins"]

PINS = Path("/sys/fs/bpf/cosched")
"""The directory of the pins."""


def map_id(fd: int) -> int:
    """The kernel's number of an open map."""
    info = Path(f"/proc/self/fdinfo/{fd}").read_text()
    return int(info.split("map_id:")[1].split()[0])


def pin(fd: int, path: Path) -> None:
    """Pin an open map. Raises CoschedError."""
    if library().bpf_obj_pin(fd, bytes(path)):
        raise CoschedError(f"cannot pin {path}: {os.strerror(ctypes.get_errno())}: is a bpffs mounted at /sys/fs/bpf?")


def pinned_map_id(path: Path) -> int | None:
    """The kernel's number of a pinned map, None if there is no such pin."""
    fd = library().bpf_obj_get(bytes(path))
    if fd < 0:
        return None
    try:
        return map_id(fd)
    finally:
        os.close(fd)


def remove_pins() -> list[str]:
    """Remove the pinned maps, and return their names. Maps in use live on until their last user closes them."""
    if not PINS.is_dir():
        return []
    names = sorted(entry.name for entry in PINS.iterdir())
    for name in names:
        (PINS / name).unlink(missing_ok=True)
    PINS.rmdir()
    return names
