# SPDX-License-Identifier: GPL-2.0-or-later
"""Layouts of the running kernel's structs and enums, read from BTF instead of copied by hand."""

from __future__ import annotations

import ctypes
import struct
from functools import cache
from typing import NamedTuple

from ctl.errors import CoschedError
from ctl.kernel.libbpf import library

__all__ = ["Btf", "Member", "vmlinux"]

_KIND_STRUCT, _KIND_ENUM, _KIND_ENUM64 = 4, 6, 19  # linux/btf.h, BTF_KIND_*
_TYPE = struct.Struct("=III")  # name_off, info, size or type
_MEMBER = struct.Struct("=III")  # name_off, type, offset in bits
_ENUM = struct.Struct("=Ii")  # name_off, value
_ENUM64 = struct.Struct("=III")  # name_off, low and high half of the value


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

    def _entries(self, type_id: int, entry: struct.Struct) -> list[tuple[int, ...]]:
        """The records after a type's head: members, enumerators. The low 16 bits of info are their number."""
        address = int(self._lib.btf__type_by_id(self._pointer, type_id))
        _, info, _ = _TYPE.unpack(ctypes.string_at(address, _TYPE.size))
        entries = ctypes.string_at(address + _TYPE.size, entry.size * (info & 0xFFFF))
        return list(entry.iter_unpack(entries))

    def members(self, name: str) -> dict[str, Member]:
        """The named members of a struct, bit fields left out. Raises CoschedError if there is none."""
        type_id = self._find(name, _KIND_STRUCT)
        if not type_id:
            raise CoschedError(f"struct {name} is unknown to this kernel's BTF: it is too old or was built without")
        found = {}
        for name_off, member_type, bits in self._entries(type_id, _MEMBER):
            # with kind_flag set the top 8 bits are the width of a bit field
            if bits < 1 << 24 and bits % 8 == 0:
                size = int(self._lib.btf__resolve_size(self._pointer, member_type))
                found[self._name(name_off)] = Member(bits // 8, size)
        return found

    def enum(self, name: str) -> dict[str, int]:
        """The enumerators of an enum, {} if there is no such enum."""
        if type_id := self._find(name, _KIND_ENUM):
            return {self._name(at): value for at, value in self._entries(type_id, _ENUM)}
        if type_id := self._find(name, _KIND_ENUM64):
            return {self._name(at): low | high << 32 for at, low, high in self._entries(type_id, _ENUM64)}
        return {}


@cache
def vmlinux() -> Btf:
    """The running kernel's own. Raises CoschedError if it has none."""
    pointer = library().btf__load_vmlinux_btf()
    if not pointer:
        raise CoschedError("this kernel has no BTF (/sys/kernel/btf/vmlinux): one with CONFIG_DEBUG_INFO_BTF is needed")
    return Btf(pointer)
