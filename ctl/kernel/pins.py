# SPDX-License-Identifier: GPL-2.0-or-later
"""The maps that the scheduler and the sensors share, by their pins in a bpffs: whoever comes first makes them."""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Iterator
from pathlib import Path

from ctl.errors import CoschedError
from ctl.kernel.libbpf import BpfMap, library

__all__ = ["PINS", "PinnedMap", "map_id", "pin", "pinned", "pinned_map_id", "remove_pins"]

_BATCH = 1024  # elements; more than a bucket of a hash ever holds

PINS = Path("/sys/fs/bpf/cosched")
"""The directory of the pins."""


class PinnedMap(BpfMap):
    """A map that another process made, by its pin. Keys and values are bytes."""

    def __init__(self, fd: int, name: str, key_size: int, value_size: int) -> None:
        """The map behind a descriptor, which stays the caller's."""
        self._lib, self._fd, self.name = library(), fd, name
        self._sizes = key_size, value_size

    @property
    def fd(self) -> int:
        """Its descriptor."""
        return self._fd

    @property
    def key_size(self) -> int:
        """Bytes of a key."""
        return self._sizes[0]

    @property
    def value_size(self) -> int:
        """Bytes of a value."""
        return self._sizes[1]

    def batches(self) -> Iterator[tuple[int, bytes, bytes]]:
        """All elements of a hash, many for each call of the kernel: (their number, their keys, their values)."""
        keys, values = (ctypes.create_string_buffer(size * _BATCH) for size in self._sizes)
        place, started = ctypes.create_string_buffer(max(8, self.key_size)), False
        while True:
            count = ctypes.c_uint32(_BATCH)
            given = place if started else None
            result = self._lib.bpf_map_lookup_batch(self.fd, given, place, keys, values, ctypes.byref(count), None)
            yield count.value, keys.raw, values.raw
            if not self._found("look up all", result):  # that was the end
                return
            started = True


@contextlib.contextmanager
def pinned(path: Path, key_size: int, value_size: int) -> Iterator[PinnedMap | None]:
    """The map that is pinned there now; None if there is no such pin, or if it is another's to read."""
    fd = library().bpf_obj_get(bytes(path)) if os.access(path, os.R_OK) else -1
    if fd < 0:
        yield None
        return
    try:
        yield PinnedMap(fd, path.name, key_size, value_size)
    finally:
        os.close(fd)


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
