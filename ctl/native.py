# SPDX-License-Identifier: GPL-2.0-or-later
"""Pure C of bpf/ for Python: the functions of a header, compiled to a shared object and called through cffi.

The kernel side, the simulator and Python then compute by the same text. An installation brings the shared object beside
the BPF objects. A checkout compiles the object at its first use, and keeps it under its content's digest.

>>> library("set_quantum").set_quantum(20_000_000, 2048, 256, True)  # ns, 1/W and L in 1/1024
10000000
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import platform
import re
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import cffi

from ctl.errors import CoschedError

__all__ = ["bpf_dir", "compile_object", "compiler", "kept", "library"]

_FUNCTION = re.compile(r"^IRQ_INLINE ([^;{}]*?\))\s*\{", re.MULTILINE)
_FLAGS = ("-O2", "-Wall", "-shared", "-fPIC", "-x", "c", "-DIRQ_INLINE=")  # without it the functions are static


def bpf_dir() -> Path:
    """The headers of bpf/: beside ctl/ in a checkout, else among the installed BPF objects, or in ctl/ from a wheel."""
    here = Path(__file__).resolve().parent
    places = [here.parent / "bpf", _objects(), here / "bpf"]
    for place in places:
        if (place / "cosched.h").is_file():
            return place
    raise CoschedError(f"cosched.h is in none of {', '.join(map(str, places))}: set COSCHED_BPF_DIR to its directory")


def _objects() -> Path:
    return Path(os.environ.get("COSCHED_BPF_DIR", "/usr/lib/cosched"))


def compiler() -> str:
    """The C compiler's command: $CC, else gcc."""
    return os.environ.get("CC", "gcc")


def kept(kind: str, name: str, digest: str, build: Callable[[Path], None]) -> Path:
    """The shared object of that name and digest under ~/.cache/cosched/KIND; build(path) makes a missing one."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "cosched" / kind
    base.mkdir(parents=True, exist_ok=True)
    path = base / f"{name}-{digest}.so"
    with (base / f"{name}-{digest}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # processes that start together compile once
        if not path.exists():
            with tempfile.TemporaryDirectory(dir=base) as work:
                build(Path(work) / "made.so")
                (Path(work) / "made.so").rename(path)
    return path


def compile_object(what: str, words: Sequence[str], out: Path, program: str | None = None) -> None:
    """Run the C compiler, or `program`, with these words, to make `out`. `what` is the name for people, in errors."""
    command = [program or compiler(), *words, "-o", str(out)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        way_out = "set CC to one" if program is None else "install or name one that is there"
        raise CoschedError(f"{what} needs a C compiler, and there is no {command[0]!r}: {way_out}") from None
    if done.returncode:
        raise CoschedError(f"{what} does not compile: {done.stderr.strip()}")


@cache
def library(stem: str) -> Any:
    """The functions of bpf/STEM.h that are declared IRQ_INLINE, as a cffi library. They work on numbers only."""
    header = bpf_dir() / f"{stem}.h"
    text = header.read_text()
    path = _objects() / f"{stem}.so"
    if not path.is_file():
        made_of = (compiler(), platform.machine(), *_FLAGS, text, (header.parent / "cosched.h").read_text())
        words = [*_FLAGS, f"-I{header.parent}", str(header)]
        digest = hashlib.sha256(repr(made_of).encode()).hexdigest()[:16]
        path = kept("native", stem, digest, lambda out: compile_object(header.name, words, out))
    ffi = cffi.FFI()
    ffi.cdef("".join(f"{prototype};\n" for prototype in _FUNCTION.findall(text)))
    return ffi.dlopen(str(path))
