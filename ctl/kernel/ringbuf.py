# SPDX-License-Identifier: GPL-2.0-or-later
"""The consumer's side of a BPF ring buffer."""

from __future__ import annotations

import ctypes
import errno
from collections.abc import Callable

from ctl.kernel.libbpf import SAMPLE, check, library

__all__ = ["RingBuffer"]


class RingBuffer:
    """Consumer of a ring buffer map. A callback that raises ends the reading; read() calls then raise it."""

    def __init__(self, map_fd: int, callback: Callable[[bytes], None], smallest: int) -> None:
        """Call back with each record, of at least `smallest` bytes; the map must stay open. Raises LibbpfError."""
        self._lib = library()
        self._callback = callback
        self._smallest = smallest
        self._raised: BaseException | None = None
        self._on_sample = SAMPLE(self._sample)  # libbpf keeps the address: it must live as long as this
        self._pointer = check("ring buffer", self._lib.ring_buffer__new(map_fd, self._on_sample, None, None))
        self._ring = self._lib.ring_buffer__ring(self._pointer, 0)

    def _sample(self, _context: int, address: int, size: int) -> int:
        """One record, from within libbpf, through which no exception may pass."""
        try:
            self._callback(ctypes.string_at(address, size))
        except BaseException as error:
            self._raised = error
            return -errno.EIO
        return 0

    @property
    def epoll_fd(self) -> int:
        """A descriptor that is readable when there are records."""
        return check("ring buffer", self._lib.ring_buffer__epoll_fd(self._pointer))

    def consume(self, at_most: int | None = None) -> int:
        """Call back for the records there are now, and some that come meanwhile; returns their number."""
        # plain consume() reads until the buffer is empty, which a writer faster than we are never lets happen
        most = at_most or self._lib.ring__avail_data_size(self._ring) // self._smallest + 1
        result = self._lib.ring_buffer__consume_n(self._pointer, most)
        raised, self._raised = self._raised, None
        if raised is not None:
            raise raised
        return check("consume ring buffer", result)

    def close(self) -> None:
        """Free it."""
        if self._pointer:
            self._lib.ring_buffer__free(self._pointer)
            self._pointer = 0
