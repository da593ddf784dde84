# SPDX-License-Identifier: GPL-2.0-or-later
"""The part of libbpf that the scheduler, the sensor of sockets and their maps need, bound with ctypes.

bcc cannot load struct_ops, so the scheduler goes through libbpf 1.x. Objects close their maps and programs; a map or
program is valid as long as its object is open. Messages of libbpf (the verifier's log included) go to the logger
"ctl.libbpf" and into the LibbpfError that they explain.
"""

from __future__ import annotations

import ctypes
import errno
import logging
import mmap
import os
import threading
from collections.abc import Callable, Iterator
from ctypes import (
    CDLL,
    CFUNCTYPE,
    POINTER,
    Structure,
    byref,
    c_char_p,
    c_int,
    c_size_t,
    c_uint32,
    c_uint64,
    c_void_p,
)
from functools import cache
from pathlib import Path
from typing import TypeVar

from ctl.errors import CoschedError

__all__ = ["BpfLink", "BpfMap", "BpfObject", "BpfProgram", "LibbpfError", "check", "library"]

_T = TypeVar("_T")
_log = logging.getLogger("ctl.libbpf")
_WARN, _INFO, _DEBUG = 0, 1, 2  # enum libbpf_print_level
_LEVELS = {_WARN: logging.WARNING, _INFO: logging.INFO, _DEBUG: logging.DEBUG}
_PRINT = CFUNCTYPE(c_int, c_int, c_char_p, c_void_p)
SAMPLE = CFUNCTYPE(c_int, c_void_p, c_void_p, c_size_t)  # of a ring buffer


class _OpenOptions(Structure):
    """struct bpf_object_open_opts, up to the last field used here; sz tells libbpf where it ends."""

    _fields_ = (
        ("sz", c_size_t),
        ("object_name", c_char_p),
        ("relaxed_maps", ctypes.c_bool),
        ("pin_root_path", c_char_p),
    )


class _TestRunOptions(Structure):
    """struct bpf_test_run_opts."""

    _fields_ = (
        ("sz", c_size_t),
        ("data_in", c_void_p),
        ("data_out", c_void_p),
        ("data_size_in", c_uint32),
        ("data_size_out", c_uint32),
        ("ctx_in", c_void_p),
        ("ctx_out", c_void_p),
        ("ctx_size_in", c_uint32),
        ("ctx_size_out", c_uint32),
        ("retval", c_uint32),
        ("repeat", c_int),
        ("duration", c_uint32),
        ("flags", c_uint32),
        ("cpu", c_uint32),
        ("batch_size", c_uint32),
    )


class _IterOptions(Structure):
    """struct bpf_iter_attach_opts."""

    _fields_ = (("sz", c_size_t), ("link_info", c_void_p), ("link_info_len", c_uint32))


# name: (result, arguments...)
_FUNCTIONS: dict[str, tuple[type | None, ...]] = {
    "libbpf_set_print": (c_void_p, _PRINT),
    "bpf_object__open_file": (c_void_p, c_char_p, POINTER(_OpenOptions)),
    "bpf_object__load": (c_int, c_void_p),
    "bpf_object__close": (None, c_void_p),
    "bpf_object__btf": (c_void_p, c_void_p),
    "bpf_object__next_map": (c_void_p, c_void_p, c_void_p),
    "bpf_object__next_program": (c_void_p, c_void_p, c_void_p),
    "bpf_map__name": (c_char_p, c_void_p),
    "bpf_map__fd": (c_int, c_void_p),
    "bpf_map__key_size": (c_uint32, c_void_p),
    "bpf_map__value_size": (c_uint32, c_void_p),
    "bpf_map__initial_value": (c_void_p, c_void_p, POINTER(c_size_t)),
    "bpf_map__attach_struct_ops": (c_void_p, c_void_p),
    "bpf_map_lookup_elem": (c_int, c_int, c_void_p, c_void_p),
    "bpf_map_update_elem": (c_int, c_int, c_void_p, c_void_p, c_uint64),
    "bpf_map_delete_elem": (c_int, c_int, c_void_p),
    "bpf_map_get_next_key": (c_int, c_int, c_void_p, c_void_p),
    "bpf_map_lookup_batch": (c_int, c_int, c_void_p, c_void_p, c_void_p, c_void_p, POINTER(c_uint32), c_void_p),
    "bpf_program__name": (c_char_p, c_void_p),
    "bpf_program__fd": (c_int, c_void_p),
    "bpf_program__attach": (c_void_p, c_void_p),
    "bpf_program__attach_iter": (c_void_p, c_void_p, POINTER(_IterOptions)),
    "bpf_program__set_autoload": (c_int, c_void_p, ctypes.c_bool),
    "bpf_iter_create": (c_int, c_int),
    "bpf_link__fd": (c_int, c_void_p),
    "bpf_prog_test_run_opts": (c_int, c_int, POINTER(_TestRunOptions)),
    "bpf_prog_query": (c_int, c_int, c_int, c_uint32, c_void_p, POINTER(c_uint32), POINTER(c_uint32)),
    "bpf_link__destroy": (c_int, c_void_p),
    "ring_buffer__new": (c_void_p, c_int, SAMPLE, c_void_p, c_void_p),
    "ring_buffer__consume_n": (c_int, c_void_p, c_size_t),
    "ring_buffer__ring": (c_void_p, c_void_p, c_uint32),
    "ring__avail_data_size": (c_size_t, c_void_p),
    "ring_buffer__epoll_fd": (c_int, c_void_p),
    "ring_buffer__free": (None, c_void_p),
    "btf__load_vmlinux_btf": (c_void_p,),
    "btf__parse_elf": (c_void_p, c_char_p, c_void_p),
    "btf__free": (None, c_void_p),
    "btf__find_by_name_kind": (c_int, c_void_p, c_char_p, c_uint32),
    "btf__type_by_id": (c_void_p, c_void_p, c_uint32),
    "btf__type_cnt": (c_uint32, c_void_p),
    "btf__name_by_offset": (c_char_p, c_void_p, c_uint32),
    "btf__resolve_size": (ctypes.c_int64, c_void_p, c_uint32),
}


class LibbpfError(OSError):
    """A libbpf call failed; `printed` has all messages of libbpf about the failure."""

    def __init__(self, what: str, number: int, printed: str = "") -> None:
        super().__init__(number, os.strerror(number), what)
        self.what = what
        self.printed = printed

    def __str__(self) -> str:
        return f"{self.what}: {self.strerror}"


class _Printed(threading.local):
    """Messages of libbpf in this thread since the last call began."""

    def __init__(self) -> None:
        self.text: list[str] = []


_printed = _Printed()


@cache
def library() -> CDLL:
    """libbpf.so.1, its functions declared, its messages caught. Raises CoschedError if it is not installed."""
    try:
        lib = CDLL("libbpf.so.1", use_errno=True)
    except OSError as error:
        raise CoschedError(f"libbpf cannot be loaded ({error}): install the package libbpf1") from None
    for name, (result, *arguments) in _FUNCTIONS.items():
        function = getattr(lib, name, None)
        if function is None:
            raise CoschedError(f"this libbpf has no {name}: version 1.5 or newer is needed")
        function.restype, function.argtypes = result, arguments
    lib.libbpf_set_print(_print_callback)
    return lib


def _on_print(level: int, template: bytes, arguments: int) -> int:
    """Format one message of libbpf. A va_list can be walked once only, hence vasprintf."""
    if level > _INFO and not _log.isEnabledFor(logging.DEBUG):
        return 0  # a load prints 1,500 of them
    libc = _libc()
    message = c_void_p()
    if libc.vasprintf(byref(message), template, arguments) < 0:
        return 0
    text = ctypes.string_at(message.value or 0).decode(errors="replace")
    libc.free(message)
    _log.log(_LEVELS.get(level, logging.DEBUG), "%s", text.rstrip())
    if level <= _INFO:
        _printed.text.append(text)
    return len(text)


_print_callback = _PRINT(_on_print)  # libbpf keeps its address


@cache
def _libc() -> CDLL:
    libc = CDLL(None)
    libc.vasprintf.argtypes = (c_void_p, c_char_p, c_void_p)
    libc.free.argtypes = (c_void_p,)
    return libc


def check(what: str, result: int | None) -> int:
    """The result, or LibbpfError: libbpf 1.x returns NULL or a negative number and sets errno."""
    if result is None or result < 0:
        raise LibbpfError(what, ctypes.get_errno() or -(result or -errno.EINVAL), "".join(_printed.text))
    return result


class BpfObject:
    """An opened object file; a context manager. load() creates its maps and programs in the kernel."""

    def __init__(self, path: Path, pin_root: Path | None = None) -> None:
        """Open; maps that are pinned by name go to (or come from) pin_root. Raises LibbpfError."""
        options = _OpenOptions(sz=ctypes.sizeof(_OpenOptions))
        if pin_root is not None:
            options.pin_root_path = os.fsencode(pin_root)
        _printed.text.clear()
        self._lib = library()
        self.path = path
        self.pointer: int | None = check(
            f"open {path}", self._lib.bpf_object__open_file(os.fsencode(path), byref(options))
        )
        self.maps = {m.name: m for m in self._each(self._lib.bpf_object__next_map, BpfMap)}
        self.programs = {p.name: p for p in self._each(self._lib.bpf_object__next_program, BpfProgram)}

    def _each(self, next_of: Callable[..., int | None], wrap: Callable[[CDLL, int], _T]) -> Iterator[_T]:
        """Everything of one kind in the object."""
        pointer = next_of(self.pointer, None)
        while pointer:
            yield wrap(self._lib, pointer)
            pointer = next_of(self.pointer, pointer)

    @property
    def btf(self) -> int:
        """Its own BTF, a struct btf *; 0 if it has none."""
        return self._lib.bpf_object__btf(self.pointer) or 0

    def load(self) -> None:
        """Create maps and programs in the kernel. Raises LibbpfError; the verifier's log is in `printed`."""
        _printed.text.clear()
        check(f"load {self.path}", self._lib.bpf_object__load(self.pointer))

    def close(self) -> None:
        """Free the object; programs and maps that are neither attached nor pinned go with it."""
        if self.pointer is not None:
            self._lib.bpf_object__close(self.pointer)
            self.pointer = None

    def __enter__(self) -> BpfObject:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class BpfMap:
    """A map of an object. Keys and values are bytes."""

    def __init__(self, lib: CDLL, pointer: int) -> None:
        self._lib, self._pointer = lib, pointer
        self.name: str = lib.bpf_map__name(pointer).decode()

    @property
    def fd(self) -> int:
        """Its descriptor; only once loaded."""
        return check(f"map {self.name}", self._lib.bpf_map__fd(self._pointer))

    @property
    def key_size(self) -> int:
        """Bytes of a key."""
        return int(self._lib.bpf_map__key_size(self._pointer))

    @property
    def value_size(self) -> int:
        """Bytes of a value."""
        return int(self._lib.bpf_map__value_size(self._pointer))

    def initial_value(self) -> ctypes.Array[ctypes.c_char]:
        """The value it is loaded with, to be changed in place before load(): a data section, a struct_ops."""
        size = c_size_t()
        address = self._lib.bpf_map__initial_value(self._pointer, byref(size))
        return (ctypes.c_char * size.value).from_address(check(f"initial value of {self.name}", address))

    def mmap(self, *, writable: bool) -> mmap.mmap:
        """The memory of a loaded, mmapable array with one element: a data section."""
        pages = -(-self.value_size // mmap.PAGESIZE) * mmap.PAGESIZE
        protection = mmap.PROT_READ | (mmap.PROT_WRITE if writable else 0)
        return mmap.mmap(self.fd, pages, mmap.MAP_SHARED, protection)

    def lookup(self, key: bytes) -> bytes | None:
        """The value of a key, None if it is not there."""
        value = ctypes.create_string_buffer(self.value_size)
        result = self._lib.bpf_map_lookup_elem(self.fd, key, value)
        return value.raw if self._found("look up", result) else None

    def update(self, key: bytes, value: bytes, flags: int = 0) -> None:
        """Set a key's value; flags as of bpf(2): 0 any, 1 only new, 2 only existing."""
        assert len(key) == self.key_size and len(value) == self.value_size
        check(f"update {self.name}", self._lib.bpf_map_update_elem(self.fd, key, value, flags))

    def delete(self, key: bytes) -> bool:
        """Remove a key; False if it was not there."""
        return self._found("delete", self._lib.bpf_map_delete_elem(self.fd, key))

    def _found(self, what: str, result: int) -> bool:
        """Whether the key was there; other failures raise."""
        if result < 0 and ctypes.get_errno() == errno.ENOENT:
            return False
        check(f"{what} in {self.name}", result)
        return True

    def keys(self) -> Iterator[bytes]:
        """All keys; those that come or go meanwhile may be missed or seen."""
        fd, seen = self.fd, None
        following = ctypes.create_string_buffer(self.key_size)
        while self._found("next key", self._lib.bpf_map_get_next_key(fd, seen, following)):
            seen = following.raw
            yield seen

    def items(self) -> Iterator[tuple[bytes, bytes]]:
        """All keys with their values."""
        for key in self.keys():
            value = self.lookup(key)
            if value is not None:
                yield key, value

    def attach_struct_ops(self) -> BpfLink:
        """Register the struct_ops with the kernel; it is in force while the link is. Raises LibbpfError."""
        _printed.text.clear()
        return BpfLink(self._lib, self._lib.bpf_map__attach_struct_ops(self._pointer), self.name)


class BpfProgram:
    """A program of an object."""

    def __init__(self, lib: CDLL, pointer: int) -> None:
        self._lib, self._pointer = lib, pointer
        self.name: str = lib.bpf_program__name(pointer).decode()

    @property
    def fd(self) -> int:
        """Its descriptor; only once loaded."""
        return check(f"program {self.name}", self._lib.bpf_program__fd(self._pointer))

    def attach(self) -> BpfLink:
        """Attach as its section says. Raises LibbpfError."""
        _printed.text.clear()
        return BpfLink(self._lib, self._lib.bpf_program__attach(self._pointer), self.name)

    def want(self, wanted: bool) -> None:
        """Choose whether load() loads it."""
        check(f"program {self.name}", self._lib.bpf_program__set_autoload(self._pointer, wanted))

    def over(self, map_fd: int) -> bytes:
        """Run an iterator over all elements of a map; returns its output. Raises LibbpfError, OSError."""
        which = ctypes.create_string_buffer(map_fd.to_bytes(4, "little"), 16)  # union bpf_iter_link_info
        options = _IterOptions(ctypes.sizeof(_IterOptions), ctypes.addressof(which), len(which))
        link = BpfLink(self._lib, self._lib.bpf_program__attach_iter(self._pointer, byref(options)), self.name)
        try:
            fd = check(f"run {self.name}", self._lib.bpf_iter_create(self._lib.bpf_link__fd(link.pointer)))
            with open(fd, "rb", buffering=0) as reader:
                return reader.read()
        finally:
            link.destroy()

    def run(self, context: bytes) -> int:
        """Run a SYSCALL program once; returns its (signed) result. Raises LibbpfError."""
        argument = ctypes.create_string_buffer(context, len(context))
        options = _TestRunOptions(sz=ctypes.sizeof(_TestRunOptions))
        options.ctx_in, options.ctx_size_in = ctypes.addressof(argument), len(context)
        check(f"run {self.name}", self._lib.bpf_prog_test_run_opts(self.fd, byref(options)))
        return ctypes.c_int32(options.retval).value


class BpfLink:
    """Something attached; detached by destroy()."""

    def __init__(self, lib: CDLL, pointer: int | None, name: str) -> None:
        """Take over the link that an attach call returned. Raises LibbpfError if it returned none."""
        self._lib, self.pointer = lib, check(f"attach {name}", pointer)

    def destroy(self) -> None:
        """Detach; returns when the kernel is done."""
        if self.pointer:
            self._lib.bpf_link__destroy(self.pointer)
            self.pointer = 0
