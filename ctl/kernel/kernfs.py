# SPDX-License-Identifier: GPL-2.0-or-later
"""Small files of procfs, sysfs and cgroups, read as cheaply as Python can: the agent reads a dozen of them an epoch.
It writes fewer, and only if the kernel has another value.

Path.read_text() builds three objects around a descriptor and a decoder for each file. On a slow CPU these cost several
times the kernel's own work.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Final

__all__ = ["keyed", "numbers", "put", "read"]

_MOST: Final = 1 << 16  # bytes asked for at a time; the kernel often gives a page


def read(path: Path | str) -> str:
    """The whole file; bytes that are not UTF-8, as in a task's name, are escaped as in file names. Raises OSError."""
    return os.fsdecode(_bytes(path))


def _bytes(path: Path | str) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        text = os.read(descriptor, _MOST)
        while more := os.read(descriptor, _MOST):
            text += more
    finally:
        os.close(descriptor)
    return text


def keyed(path: Path | str) -> dict[str, int]:
    """A file of lines "name number": cpu.stat, memory.stat, cgroup.events, /proc/vmstat. Raises OSError."""
    words = read(path).split()
    return dict(zip(words[::2], map(int, words[1::2]), strict=True))


def numbers(path: Path | str, *names: str) -> list[int]:
    """The numbers behind these names, each at the beginning of a line: a few lines of memory.stat, /proc/vmstat or
    /proc/meminfo (names with their colons there; KB) at a quarter of the price of all. Raises OSError, and ValueError
    if a name is not there."""
    text = b"\n" + _bytes(path)
    found = []
    for name in names:
        start = text.index(f"\n{name} ".encode()) + len(name) + 2
        found.append(int(text[start : text.index(b"\n", start)].split(None, 1)[0]))
    return found


def put(path: Path, text: str) -> None:
    """Write a file of a cgroup, unless it has this value already or the cgroup is gone.

    O_NONBLOCK, because otherwise a write of memory.high reclaims memory before it returns.
    """
    try:
        if read(path).strip() != text:
            descriptor = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                os.write(descriptor, text.encode())
            finally:
                os.close(descriptor)
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ENODEV):  # it was removed, before or while it was open
            raise
