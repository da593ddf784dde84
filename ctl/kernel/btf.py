# SPDX-License-Identifier: GPL-2.0-or-later
"""Layouts of the running kernel's structs and enums, read from BTF instead of copied by hand."""

from __future__ import annotations

import contextlib
import ctypes
import os
import struct
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from ctl.errors import CoschedError
from ctl.kernel.libbpf import library

__all__ = ["Btf", "Member", "of_file", "vmlinux"]

_STRUCT, _UNION, _ENUM, _FUNC, _DATASEC, _DECL_TAG, _ENUM64 = 4, 5, 6, 12, 15, 17, 19  # linux/btf.h, BTF_KIND_*
_OPTIONAL = "optional"  # the tag of functions that an object does without (bpf/scx.bpf.h)
_KSYMS = ".ksyms"  # the section of functions that the kernel has, in an object
_TRANSPARENT = (8, 9, 10, 11, 18)  # typedef, volatile, const, restrict, type tag
_TYPE = struct.Struct("=III")  # name_off, info, size or type
_MEMBER_ENTRY = struct.Struct("=III")  # name_off, type, offset in bits; of a bit field, its width in the top 8 bits
_DATASEC_ENTRY = struct.Struct("=III")  # type, offset, size
_ENUM_ENTRY = struct.Struct("=Ii")  # name_off, value
_ENUM64_ENTRY = struct.Struct("=III")  # name_off, low and high half of the value


class Member(NamedTuple):
    """The place of a member in its struct, in bytes."""

    offset: int
    size: int


class Btf:
    """Type information behind a struct btf * of libbpf, which must stay alive."""

    def __init__(self, pointer: int) -> None:
        """Wrap the pointer."""
        self._lib, self._pointer = library(), pointer

    def _find(self, name: str, kind: int) -> int:
        """Id of a type, 0 if there is none."""
        return max(0, int(self._lib.btf__find_by_name_kind(self._pointer, name.encode(), kind)))

    def _name(self, offset: int) -> str:
        """A name out of the string section."""
        return (self._lib.btf__name_by_offset(self._pointer, offset) or b"").decode()

    def _head(self, type_id: int) -> tuple[int, int, int, int]:
        """(address, kind, number of members or enumerators, size or type) of a type."""
        address = int(self._lib.btf__type_by_id(self._pointer, type_id))
        _, info, target = _TYPE.unpack(ctypes.string_at(address, _TYPE.size))
        return address, (info >> 24) & 0x1F, info & 0xFFFF, target

    def _entries(self, type_id: int, entry: struct.Struct) -> list[tuple[int, ...]]:
        """The records after a type's head: members, enumerators."""
        address, _, count, _ = self._head(type_id)
        return list(entry.iter_unpack(ctypes.string_at(address + _TYPE.size, entry.size * count)))

    def members(self, name: str) -> dict[str, Member]:
        """The named members of a struct, bit fields left out. Raises CoschedError if there is none."""
        type_id = self._find(name, _STRUCT)
        if not type_id:
            raise CoschedError(f"struct {name} is unknown to this kernel's BTF: it is too old or was built without")
        found = {}
        for name_off, member_type, bits in self._entries(type_id, _MEMBER_ENTRY):
            if bits < 1 << 24 and bits % 8 == 0:
                size = int(self._lib.btf__resolve_size(self._pointer, member_type))
                found[self._name(name_off)] = Member(bits // 8, size)
        return found

    def _step(self, type_id: int, name: str) -> tuple[int, int] | None:
        """(offset in bits, type id) of a member, also inside anonymous structs and unions; None if there is none."""
        _, kind, _, target = self._head(type_id)
        while kind in _TRANSPARENT:
            type_id = target
            _, kind, _, target = self._head(type_id)
        if kind not in (_STRUCT, _UNION):
            return None
        for name_off, member_type, place in self._entries(type_id, _MEMBER_ENTRY):
            found, bits = self._name(name_off), place & 0xFFFFFF
            if found == name:
                return bits, member_type
            if not found and (inner := self._step(member_type, name)):
                return bits + inner[0], inner[1]
        return None

    def offset(self, path: str) -> int:
        """Byte offset of a field, path "struct.field.field…". Raises CoschedError naming the one this kernel lacks.

        >>> vmlinux().offset("sock.sk_receive_queue.qlen")  # doctest: +SKIP
        208
        """
        head, *fields = path.split(".")
        type_id, bits = self._find(head, _STRUCT), 0
        for field in fields:
            step = self._step(type_id, field) if type_id else None
            if step is None:
                raise CoschedError(f"this kernel has no {path}: the sensors know Linux 7.2, see `uname -r`")
            bits, type_id = bits + step[0], step[1]
        return bits // 8

    def externs(self) -> list[str]:
        """The functions of the kernel that an object needs (kfuncs), sorted."""
        type_id, optional = self._find(_KSYMS, _DATASEC), self._optional()
        symbols = [symbol for symbol, _, _ in self._entries(type_id, _DATASEC_ENTRY)] if type_id else []
        named = [self._named(symbol) for symbol in symbols if symbol not in optional]
        return sorted(name for kind, name in named if kind == _FUNC)

    def _optional(self) -> set[int]:
        """The types that are tagged as optional."""
        heads = [(type_id, self._head(type_id)) for type_id in range(1, int(self._lib.btf__type_cnt(self._pointer)))]
        tags = [(type_id, target) for type_id, (_, kind, _, target) in heads if kind == _DECL_TAG]
        return {target for type_id, target in tags if self._named(type_id)[1] == _OPTIONAL}

    def _named(self, type_id: int) -> tuple[int, str]:
        """(kind, name) of a type."""
        address, kind, _, _ = self._head(type_id)
        return kind, self._name(_TYPE.unpack(ctypes.string_at(address, _TYPE.size))[0])

    def has_function(self, name: str) -> bool:
        """Whether there is a function of this name; "NAME___suffix" is NAME, too, as for libbpf."""
        return bool(self._find(name, _FUNC) or self._find(name.partition("___")[0] or name, _FUNC))

    def enum(self, name: str) -> dict[str, int]:
        """The enumerators of an enum, {} if there is no such enum."""
        if type_id := self._find(name, _ENUM):
            return {self._name(at): value for at, value in self._entries(type_id, _ENUM_ENTRY)}
        if type_id := self._find(name, _ENUM64):
            return {self._name(at): low | high << 32 for at, low, high in self._entries(type_id, _ENUM64_ENTRY)}
        return {}


@contextlib.contextmanager
def of_file(path: Path) -> Iterator[Btf]:
    """An object file's own. Opened as an object, libbpf has replaced the functions of the kernel in it. Raises
    CoschedError."""
    pointer = library().btf__parse_elf(os.fsencode(path), None)
    if not pointer:
        raise CoschedError(f"{path} has no BTF: compile it again")
    try:
        yield Btf(pointer)
    finally:
        library().btf__free(pointer)


@cache
def vmlinux() -> Btf:
    """The running kernel's own. Raises CoschedError if it has none."""
    pointer = library().btf__load_vmlinux_btf()
    if not pointer:
        raise CoschedError("this kernel has no BTF (/sys/kernel/btf/vmlinux): one with CONFIG_DEBUG_INFO_BTF is needed")
    return Btf(pointer)
