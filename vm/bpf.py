# SPDX-License-Identifier: GPL-2.0-or-later
"""Compiles bpf/*.bpf.c with the image's own clang against its kernel's BTF and its libbpf headers, by bpf/Makefile.

Each *.bpf.h is compiled by itself as well: it includes what it uses.
"""

from __future__ import annotations

import re
from pathlib import Path

from vm import chroot
from vm.host import REPO, VmError, cache_dir, content_key, fresh_dir, locked, prune, stage
from vm.image import Image

__all__ = ["MAKEFILE", "ensure"]

MAKEFILE = REPO / "bpf" / "Makefile"
PURE = "set_quantum.h"
_UNDEFINED = re.compile(r"GLOBAL\s+\w+\s+UND\s+(\w+)")  # a line of readelf -sW; weak symbols may be absent


def ensure(image: Image, directory: Path = REPO / "bpf") -> Path:
    """Return the directory of the compiled *.bpf.c of a source directory, compiling when sources or image changed."""
    sources = sorted(path for path in directory.glob("*") if path.suffix in (".c", ".h"))
    parts = [part for path in sources for part in (path.name, path.read_bytes())]
    path = cache_dir() / f"bpf-{content_key(image.key, MAKEFILE.read_bytes(), *parts)}"
    if not path.exists():
        with locked(f"bpf-{image.key}"):
            if not path.exists():
                programs = [source.name.removesuffix(".bpf.c") for source in sources if source.name.endswith(".bpf.c")]
                with fresh_dir(path) as work, stage(f"vm: BPF objects ({', '.join(programs) or 'none yet'})"):
                    for program in programs:
                        _compile(image, directory, program, work)
                    _compile_pure(image, directory, work)
                    headers = [path.name for path in sources if path.name.endswith(".bpf.h")]
                    _check_headers(image, directory, headers, work)
        prune("bpf-*", path)
    return path


def _make(image: Image, directory: Path, target: str, what: str, out: Path) -> None:
    """Make one target of bpf/Makefile from a source directory."""
    binds = {"/src": directory, "/host": MAKEFILE.parent, "/mnt": image.kernel.path, "/out": out}
    words = ["make", "--silent", "-C", "/src", "-f", f"/host/{MAKEFILE.name}", "VMLINUX=/mnt", "OUT=/out", target]
    chroot.run_in(image.rootfs, words, what, binds)


def _compile(image: Image, directory: Path, program: str, out: Path) -> None:
    """Compile and link one program."""
    _make(image, directory, f"/out/{program}.bpf.o", f"compiling bpf/{program}.bpf.c", out)
    _check_kfuncs(image, program, out)


def _compile_pure(image: Image, directory: Path, out: Path) -> None:
    """Compile the header that Python calls through cffi (ctl/native.py), where there is one."""
    if (directory / PURE).is_file():
        _make(image, directory, f"/out/{Path(PURE).stem}.so", f"compiling bpf/{PURE}", out)


def _check_headers(image: Image, directory: Path, headers: list[str], out: Path) -> None:
    """Raise VmError when a *.bpf.h does not compile alone: it has to include what it uses."""
    for header in headers:
        _make(image, directory, f"{header}.alone", f"compiling bpf/{header} by itself", out)


def _check_kfuncs(image: Image, program: str, out: Path) -> None:
    """Raise VmError when the object calls a kernel function that the image's kernel does not offer."""
    symbols = chroot.run_in(image.rootfs, ["readelf", "-sW", f"/out/{program}.bpf.o"], f"reading {program}.bpf.o",
                            {"/out": out}).decode()
    # A "___suffix" marks a flavour of the same kernel function, see libbpf's bpf_core_essential_name_len().
    wanted = {name for name in _UNDEFINED.findall(symbols) if re.match(r"(__)?(scx_)?bpf_", name)}
    have = image.kernel.functions
    missing = sorted(name for name in wanted if name not in have and name.rpartition("___")[0] not in have)
    if missing:
        raise VmError(
            f"bpf/{program}.bpf.c calls kernel functions that the BTF of kernel {image.kernel.release} lacks: "
            f"{', '.join(missing)}; declare them __weak and test with bpf_ksym_exists(), or use another kernel"
        )
