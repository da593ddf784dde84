# SPDX-License-Identifier: GPL-2.0-or-later
"""The engines, each compiled when it is first needed and kept under its content's digest.

An engine is a folder NAME here: engine.c, and sim.h with the declarations for Python between the "cdef" marks. Files
that engines share (engine.h, interface.h, ready_queue.h, ...) are beside this file. Engines that order queues include
bpf/insert_rq.h, and the social contract includes bpf/set_quantum.h.

>>> engine = load("csm")
>>> engine.ffi.sizeof("struct rq_task")
32
"""

from __future__ import annotations

import hashlib
import itertools
import platform
import re
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import cffi

from ctl.errors import CoschedError
from ctl.native import bpf_dir, compile_object, compiler, kept

__all__ = ["CHECKED", "PLAIN", "Engine", "compiler", "load"]

CHECKED = "checked"
"""The build that checks itself while it runs: slower, for tests."""

PLAIN = "plain"
"""The build without optimisation, which must give the same results to the last bit."""

_HERE = Path(__file__).resolve().parent
_CDEF = re.compile(r"/\* cdef begin \*/(.*?)/\* cdef end \*/", re.DOTALL)
_ENV = re.compile(r"^struct insert_env \{.*?^\};", re.DOTALL | re.MULTILINE)
# no fused multiply-add: it rounds once where others round twice, and the same seed must be the same run everywhere
_FLAGS = ("-std=gnu11", "-O3", "-g", "-Wall", "-Wextra", "-ffp-contract=off", "-fno-math-errno", "-fPIC", "-shared")
_INSERTS = '#include "insert_rq.h"'


class Engine(NamedTuple):
    """A loaded build."""

    ffi: Any
    lib: Any
    digest: str  # of all that it was made of: results of another engine are another's results


def _sources(name: str) -> list[Path]:
    own = [*sorted(_HERE.glob("*.h")), *sorted((_HERE / name).glob("*.[ch]"))]
    return own + [bpf_dir() / header for header in ("cosched.h", "insert_rq.h", "set_quantum.h") if _orders(name)]


def _orders(name: str) -> bool:
    """Whether an engine orders queues as the kernel does."""
    return any(_INSERTS in path.read_text() for path in (_HERE / name).glob("*.[ch]"))


def _digest(name: str, flags: tuple[str, ...]) -> str:
    digest = hashlib.sha256(repr((name, compiler(), flags, platform.machine())).encode())
    for path in _sources(name):
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:16]


def _compile(name: str, flags: tuple[str, ...], out: Path) -> None:
    include = [f"-I{_HERE}", *([f"-I{bpf_dir()}"] if _orders(name) else [])]
    compile_object(f"the simulator's engine {name}", [*flags, *include, str(_HERE / name / "engine.c")], out)


def _declarations(name: str) -> str:
    parts = [(_CDEF, _HERE / "native.h"), (_CDEF, _HERE / name / "sim.h")]
    if _orders(name):
        order = [(_CDEF, bpf_dir() / "cosched.h"), (_ENV, bpf_dir() / "insert_rq.h"), (_CDEF, _HERE / "decision.h")]
        parts = order + parts
    found = []
    for pattern, path in parts:
        match = pattern.search(path.read_text())
        if not match:
            raise CoschedError(f"{path} lacks a declaration that the simulator needs")
        found.append(match[match.lastindex or 0])
    return "\n".join(found)


@cache
def load(name: str, kind: str = "") -> Engine:
    """An engine; kind CHECKED: the build that checks itself, PLAIN: the one without optimisation."""
    flags = _FLAGS + {"": (), CHECKED: ("-DSIM_CHECK", "-O1"), PLAIN: ("-O0",)}[kind]
    digest = _digest(name, flags)
    path = kept("sim", name, digest, lambda out: _compile(name, flags, out))
    ffi = cffi.FFI()
    ffi.cdef(_declarations(name))
    lib: Any = ffi.dlopen(str(path))
    _agree(path, ffi, lib.sim_sizes())
    return Engine(ffi, lib, digest)


def _agree(path: Path, ffi: Any, sizes: Any) -> None:
    """Refuse an engine whose structs are of other sizes than Python thinks."""
    for i in itertools.count():
        if sizes[i].name == ffi.NULL:
            return
        name = ffi.string(sizes[i].name).decode()
        if sizes[i].size != ffi.sizeof(name):
            raise CoschedError(f"{path} lays {name} out otherwise than its sim.h says: remove it")
