# SPDX-License-Identifier: GPL-2.0-or-later
"""Offsets of fields inside the running kernel's structs, by path, for probes on opaque pointers.

>>> field_offset("sock.sk_receive_queue.qlen")  # doctest: +SKIP
208
"""

from __future__ import annotations

import ctypes
import struct
from functools import cache

from ctl.errors import CoschedError
from ctl.kernel.libbpf import library

__all__ = ["field_offset"]

_STRUCT, _UNION = 4, 5  # linux/btf.h, BTF_KIND_*
_TRANSPARENT = (8, 9, 10, 11, 18)  # typedef, volatile, const, restrict, type tag
_ENTRY = struct.Struct("=III")  # a type: name, info, size or type; a member: name, type, offset in bits


@cache
def _kernel_btf() -> int:
    """The kernel's own BTF, a struct btf * of libbpf; kept for the life of the process."""
    pointer = library().btf__load_vmlinux_btf()
    if not pointer:
        raise CoschedError("this kernel has no BTF (/sys/kernel/btf/vmlinux): one with CONFIG_DEBUG_INFO_BTF is needed")
    return int(pointer)


def _type(type_id: int) -> tuple[int, int, int]:
    """(address, kind, low 16 bits of info: number of members), modifiers and typedefs looked through."""
    while True:
        address = int(library().btf__type_by_id(_kernel_btf(), type_id))
        _, info, target = _ENTRY.unpack(ctypes.string_at(address, _ENTRY.size))
        if (info >> 24) & 0x1F not in _TRANSPARENT:
            return address, (info >> 24) & 0x1F, info & 0xFFFF
        type_id = target


def _member(type_id: int, name: str) -> tuple[int, int] | None:
    """(offset in bits, type id) of a member, also inside anonymous structs and unions; None if there is none."""
    address, kind, count = _type(type_id)
    if kind not in (_STRUCT, _UNION):
        return None
    body = ctypes.string_at(address + _ENTRY.size, _ENTRY.size * count)
    for name_off, member_type, place in _ENTRY.iter_unpack(body):
        found = library().btf__name_by_offset(_kernel_btf(), name_off) or b""
        bits = place & 0xFFFFFF  # the top 8 bits are the width of a bit field
        if found == name.encode():
            return bits, member_type
        if not found and (inner := _member(member_type, name)):
            return bits + inner[0], inner[1]
    return None


def field_offset(path: str) -> int:
    """Byte offset of a field, path "struct.field.field…". Raises CoschedError naming the one this kernel lacks."""
    head, *fields = path.split(".")
    type_id = int(library().btf__find_by_name_kind(_kernel_btf(), head.encode(), _STRUCT))
    bits = 0
    for field in fields:
        step = _member(type_id, field) if type_id > 0 else None
        if step is None:
            raise CoschedError(f"this kernel has no {path}: the sensors know Linux 7.2, see `uname -r`")
        bits, type_id = bits + step[0], step[1]
    return bits // 8
