# SPDX-License-Identifier: GPL-2.0-or-later
"""The engine, compiled when it is first needed and kept under its content's digest.

>>> engine = load()
>>> engine.ffi.sizeof("struct rq_task")
32
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import platform
import re
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import cffi

from ctl.errors import CoschedError

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
_SIZES = ("sim_params", "sim_script", "sim_record", "sim_stats", "sim_view", "sim_decision")


class Engine(NamedTuple):
    """A loaded build."""

    ffi: Any
    lib: Any
    digest: str  # of all that it was made of: results of another engine are another's results


def _bpf_dir() -> Path:
    """Where insert_rq.h is: beside ctl/ in a checkout, else among the installed BPF objects."""
    places = [_HERE.parents[1] / "bpf", Path(os.environ.get("COSCHED_BPF_DIR", "/usr/lib/cosched"))]
    for place in places:
        if (place / "insert_rq.h").is_file():
            return place
    raise CoschedError(f"insert_rq.h is in none of {', '.join(map(str, places))}: set COSCHED_BPF_DIR to its directory")


def compiler() -> str:
    """The C compiler's command: $CC, else gcc."""
    return os.environ.get("CC", "gcc")


def _sources() -> list[Path]:
    bpf = _bpf_dir()
    return [*sorted(_HERE.glob("*.[ch]")), bpf / "cosched.h", bpf / "insert_rq.h"]


def _digest(flags: tuple[str, ...]) -> str:
    digest = hashlib.sha256(repr((compiler(), flags, platform.machine())).encode())
    for path in _sources():
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:16]


def _compile(flags: tuple[str, ...], out: Path) -> None:
    command = [compiler(), *flags, f"-I{_bpf_dir()}", f"-I{_HERE}", str(_HERE / "engine.c"), "-o", str(out)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise CoschedError(f"the simulator's engine needs a C compiler, and there is no {command[0]!r}") from None
    if done.returncode:
        raise CoschedError(f"the simulator's engine does not compile: {done.stderr.strip()}")


def _declarations() -> str:
    bpf = _bpf_dir()
    parts = [(_CDEF, bpf / "cosched.h"), (_ENV, bpf / "insert_rq.h"), (_CDEF, _HERE / "sim.h")]
    found = []
    for pattern, path in parts:
        match = pattern.search(path.read_text())
        if not match:
            raise CoschedError(f"{path} does not declare what the simulator needs of it")
        found.append(match[match.lastindex or 0])
    return "\n".join(found)


@cache
def load(kind: str = "") -> Engine:
    """The engine; kind CHECKED: the build that checks itself, PLAIN: the one without optimisation."""
    flags = _FLAGS + {"": (), CHECKED: ("-DSIM_CHECK", "-O1"), PLAIN: ("-O0",)}[kind]
    digest = _digest(flags)
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "cosched" / "sim"
    base.mkdir(parents=True, exist_ok=True)
    path = base / f"engine-{digest}.so"
    with (base / f"engine-{digest}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # workers that start together compile once
        if not path.exists():
            with tempfile.TemporaryDirectory(dir=base) as work:
                _compile(flags, Path(work) / "engine.so")
                (Path(work) / "engine.so").rename(path)
    ffi = cffi.FFI()
    ffi.cdef(_declarations())
    lib: Any = ffi.dlopen(str(path))
    sizes = ffi.new("uint64_t[]", len(_SIZES))
    lib.sim_sizes(sizes)
    if list(sizes) != [ffi.sizeof(f"struct {name}") for name in _SIZES]:
        raise CoschedError(f"{path} lays its data out otherwise than sim.h says: remove it")
    return Engine(ffi, lib, digest)
