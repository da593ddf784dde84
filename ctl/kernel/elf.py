# SPDX-License-Identifier: GPL-2.0-or-later
"""The static size of a program: the memory of its ELF segments, before it asks for any (ParPar §2.2).

It is the least that each process of the program needs: text, data and bss, without libraries, stack and heap. So it
stands for the need of a job of which nothing else is known.
"""

from __future__ import annotations

import os
import stat
import struct
from typing import Final

__all__ = ["static_size"]

_HEADER: Final = 64  # bytes of the longer of the two headers
_LOAD: Final = 1  # PT_LOAD
_MOST_SEGMENTS: Final = 512  # compilers make about ten
_MOST_BYTES: Final = 1 << 47  # the address space of a process
# by EI_CLASS: from e_phoff on; e_phentsize and e_phnum; p_type; p_memsz; each with its place
_LAYOUT: Final = {
    1: (("I", 28), ("HH", 42), ("I", 0), ("I", 20)),
    2: (("Q", 32), ("HH", 54), ("I", 0), ("Q", 40)),
}
_ORDER: Final = {1: "<", 2: ">"}  # by EI_DATA


def static_size(path: str) -> int | None:
    """Bytes of the program's loaded segments; None if the file is no ELF program, is damaged, or cannot be read.

    >>> bool(static_size("/proc/self/exe")), static_size("/etc/passwd"), static_size("/none")
    (True, None, None)
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # a pipe would wait for its writer
    except (OSError, ValueError):
        return None
    try:
        return _size(descriptor) if stat.S_ISREG(os.fstat(descriptor).st_mode) else None
    except (OSError, KeyError, IndexError, struct.error, OverflowError):  # too short, or nonsense
        return None
    finally:
        os.close(descriptor)


def _size(descriptor: int) -> int | None:
    head = os.pread(descriptor, _HEADER, 0)
    if head[:4] != b"\x7fELF":
        return None
    table, shape, kind, memory = _LAYOUT[head[4]]
    order = _ORDER[head[5]]
    (start,) = struct.unpack_from(order + table[0], head, table[1])
    length, count = struct.unpack_from(order + shape[0], head, shape[1])
    if not 0 < count <= _MOST_SEGMENTS:
        return None
    segments, total = os.pread(descriptor, length * count, start), 0
    for at in range(0, length * count, length):
        (size,) = struct.unpack_from(order + memory[0], segments, at + memory[1])
        if struct.unpack_from(order + kind[0], segments, at + kind[1])[0] == _LOAD:
            total += size
    return total if 0 < total < _MOST_BYTES else None
