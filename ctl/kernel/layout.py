# SPDX-License-Identifier: GPL-2.0-or-later
"""The shared vocabulary, read from bpf/cosched.h: structs, enums, constants and statistics.

The header is the only place of these definitions. cffi reads the part between the marks "cdef begin" and "cdef end" in
ABI mode. So nothing is compiled, and recorded decisions can be replayed on a host without the scheduler.

>>> RULES["csm-bounded"] == constant("RULE_CSM_BOUNDED")
True
>>> members("job_stat")
('overtakes_given', 'overtakes_suffered')
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import cffi

from ctl.errors import CoschedError
from ctl.native import bpf_dir

__all__ = [
    "CAUSE_NAMES",
    "CLASSIFY",
    "C_MES",
    "EPOCHS",
    "FLT",
    "GANG",
    "HEADER",
    "OVERLOAD",
    "RULES",
    "RULE_NAMES",
    "STATS",
    "Stat",
    "constant",
    "ffi",
    "members",
    "mes_number",
    "text",
]

_MARKED = re.compile(r"/\* cdef begin \*/(.*?)/\* cdef end \*/", re.DOTALL)
_STAT_LIST = re.compile(r"#define COSCHED_STATS\(X\)(.*?[^\\])\n", re.DOTALL)
_STAT = re.compile(r'\bX\((\w+),\s*(\w+),\s*"([^"]*)"\)')


class Stat(NamedTuple):
    """One counter of COSCHED_STATS; its index is its place in STATS."""

    id: str  # INSERT
    name: str  # insertions
    description: str


def _read_header(source: str) -> tuple[cffi.FFI, tuple[Stat, ...]]:
    """The types and the statistics that a header declares."""
    marked, stat_list = _MARKED.search(source), _STAT_LIST.search(source)
    if not marked or not stat_list:
        raise CoschedError(f"{HEADER} has no cdef marks or no COSCHED_STATS: it is not the scheduler's header")
    types = cffi.FFI()
    types.cdef(marked[1])
    return types, tuple(Stat(*row) for row in _STAT.findall(stat_list[1]))


HEADER = bpf_dir() / "cosched.h"
ffi, STATS = _read_header(HEADER.read_text())
_constants = ffi.dlopen(None)


def constant(name: str) -> int:
    """A #define or enumerator between the marks: constant("MES_SHIFT"). Raises KeyError if there is none."""
    try:
        return int(getattr(_constants, name))
    except AttributeError:
        raise KeyError(f"{HEADER} defines no {name}") from None


def _words(enum: str, prefix: str) -> dict[str, int]:
    """The enumerators as people write them, without the closing count: RULE_CSM_BOUNDED -> csm-bounded."""
    values = {name: value for value, name in ffi.typeof(f"enum {enum}").elements.items()}
    return {
        name.removeprefix(prefix).lower().replace("_", "-"): value
        for name, value in sorted(values.items(), key=lambda item: item[1])
        if name.startswith(prefix)
    }


RULES = _words("insert_rule", "RULE_")
RULE_NAMES = tuple(RULES)
CAUSE_NAMES = tuple(_words("insert_cause", "CAUSE_"))
OVERLOAD = _words("overload_mode", "OVERLOAD_")
CLASSIFY = _words("classify_mode", "CLASSIFY_")
FLT = _words("flt_mode", "FLT_")
C_MES = _words("c_mes_mode", "C_MES_")
GANG = _words("gang_mode", "GANG_")
EPOCHS = _words("epochs_mode", "EPOCHS_")

_FIXED_ONE = 1 << constant("MES_SHIFT")


def members(struct: str) -> tuple[str, ...]:
    """Names of a struct's members in order: members("knobs")."""
    return tuple(name for name, _ in ffi.typeof(f"struct {struct}").fields)


def mes_number(raw: int) -> float:
    """A fixed point number of the kernel side (mes, P, L) as a number."""
    return raw / _FIXED_ONE


def text(chars: Any) -> str:
    """A char array up to its NUL; bytes that are not UTF-8 become U+FFFD."""
    content: Any = ffi.string(chars)
    return str(content.decode(errors="replace"))
