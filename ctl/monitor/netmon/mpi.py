# SPDX-License-Identifier: GPL-2.0-or-later
"""The message queues inside MPI's ranks, as the preload library tells them (preload/preload.c), and that library.

A rank's file is its user's, who may write anything into it or cut it off at any time. So files are read, not mapped.
The process that a file names must have it mapped: no file counts that a dead rank left behind or another user made.
"""

from __future__ import annotations

import hashlib
import os
import re
import struct
import time
from pathlib import Path
from typing import Any, Final

import cffi

from ctl.kernel.kernfs import read
from ctl.kernel.owners import Task, task
from ctl.monitor.netmon.rows import NODE, Owner, Values, owners_of
from ctl.native import compile_object, kept

__all__ = ["Ranks", "preload_library"]

_HERE: Final = Path(__file__).with_name("preload")
_SOURCES: Final = ("preload.c", "posted.c", "unexpected.c")
_FLAGS: Final = ("-O2", "-Wall", "-shared", "-fPIC")
_SHM: Final = Path("/dev/shm")
_PREFIX: Final = "cosched-mpi-"
_NAME: Final = re.compile(rf"{_PREFIX}[1-9][0-9]{{0,9}}")
_KEYS: Final = ("mpi.posted", "mpi.unexpected")
_AGAIN_S: Final = 1.0  # between two looks for ranks
_WANTED_NS: Final = 3 * 10**9  # ranks keep their figures up to date for so long after a look, or for two periods
_MOST: Final = 1 << 40  # there is no longer queue

_ffi = cffi.FFI()
_ffi.cdef((_HERE / "queues.h").read_text().partition("/* cdef begin */")[2].partition("/* cdef end */")[0])
_constants: Any = _ffi.dlopen(None)
_MAGIC: Final = int(_constants.MPI_QUEUES_MAGIC)
_SIZE: Final = _ffi.sizeof("struct mpi_queues")
_WISH: Final = _ffi.offsetof("struct mpi_queues", "period_ns")


def preload_library(compiler: str) -> Path:
    """The library to preload into ranks of the MPI library that this compiler, "mpicc", is of; built at its first use.

    Raises CoschedError if it cannot be built.
    """
    sources = [str(_HERE / name) for name in _SOURCES]
    texts = [path.read_text() for path in sorted(_HERE.iterdir()) if path.suffix in (".c", ".h")]
    digest = hashlib.sha256(repr((compiler, _FLAGS, texts)).encode()).hexdigest()[:16]
    words = [*_FLAGS, *sources, "-lpthread"]
    name = f"mpi-queues-{Path(compiler).name}"
    what = "the library for MPI's queues"
    return kept("native", name, digest, lambda out: compile_object(what, words, out, compiler))


class Ranks:
    """The ranks on this node that have the library."""

    def __init__(self, period_s: float, finest: str) -> None:
        """`period_s`: how often they will be read; `finest`: whose figures are wanted, of KINDS.

        Ranks hear of it within 0.1 s, and keep their figures up to date from then on.
        """
        self._period_ns, self._finest = int(period_s * 1e9), finest
        self._ranks: dict[int, tuple[int, Task]] = {}  # by pid: the file's descriptor, the process
        self._look()

    def add_to(self, rows: dict[Owner, Values]) -> None:
        """Add the figures of group "mpi" to the rows of the ranks' owners; without ranks they are unknown."""
        if time.monotonic() >= self._next:
            self._look()
        rows[NODE] |= dict.fromkeys(_KEYS)
        for descriptor, process in self._ranks.values():
            lengths = _lengths(os.pread(descriptor, _SIZE, 0))
            for owner in owners_of(process, self._finest):
                values = rows.setdefault(owner, {})
                for key, length in zip(_KEYS, lengths, strict=True):
                    values[key] = values.get(key) if length is None else (values.get(key) or 0) + length

    def close(self) -> None:
        """Close the files."""
        for descriptor, _ in self._ranks.values():
            os.close(descriptor)
        self._ranks = {}

    def _look(self) -> None:
        """Find ranks that came, drop those that went, and tell all of them that somebody reads."""
        self._next = time.monotonic() + _AGAIN_S
        names = {int(name[len(_PREFIX) :]) for name in os.listdir(_SHM) if _NAME.fullmatch(name)}
        for pid in self._ranks.keys() - names:
            os.close(self._ranks.pop(pid)[0])
        for pid in names - self._ranks.keys():
            if (process := task(pid)) is None:
                (_SHM / f"{_PREFIX}{pid}").unlink(missing_ok=True)  # left by a rank that was killed
            elif (descriptor := _opened(pid)) is not None:
                self._ranks[pid] = descriptor, process
        until = time.monotonic_ns() + max(_WANTED_NS, 2 * self._period_ns)
        for descriptor, _ in self._ranks.values():
            if os.fstat(descriptor).st_size == _SIZE:
                os.pwrite(descriptor, struct.pack("=QQ", self._period_ns, until), _WISH)


def _opened(pid: int) -> int | None:
    """The file of a rank, if the rank has it mapped; None if it has not, or if it may not be looked at."""
    path = _SHM / f"{_PREFIX}{pid}"
    try:
        if str(path) not in read(f"/proc/{pid}/maps"):
            return None
        return os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return None


def _lengths(data: bytes) -> tuple[int | None, int | None]:
    """(posted, unexpected) of a rank; None: unknown, or not there yet."""
    if len(data) != _SIZE:
        return None, None
    one: Any = _ffi.from_buffer("struct mpi_queues *", data)
    if one.magic != _MAGIC:
        return None, None
    return _length(one.posted), _length(one.unexpected)


def _length(told: int) -> int | None:
    return told if 0 <= told < _MOST else None
