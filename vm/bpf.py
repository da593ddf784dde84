# SPDX-License-Identifier: GPL-2.0-or-later
"""Compiles bpf/*.bpf.c with the image's own clang against its kernel's BTF and its libbpf headers.

Each *.bpf.h is compiled by itself as well: it includes what it uses.
"""

from __future__ import annotations

import re
from pathlib import Path

from vm import chroot
from vm.host import REPO, VmError, cache_dir, content_key, fresh_dir, locked, prune, stage
from vm.image import Image

__all__ = ["ensure"]

CFLAGS = ("-g", "-O2", "-Wall", "-Werror", "-target", "bpf", "-mcpu=v4", "-fms-extensions", "-Wno-microsoft-anon-tag",
          "-D__TARGET_ARCH_x86",
          "-I/mnt", "-idirafter", "/usr/include/x86_64-linux-gnu")
PURE = "set_quantum.h"
_UNDEFINED = re.compile(r"GLOBAL\s+\w+\s+UND\s+(\w+)")  # a line of readelf -sW; weak symbols may be absent


def ensure(image: Image, directory: Path = REPO / "bpf") -> Path:
    """Return the directory of the compiled *.bpf.c of a source directory, compiling when sources or image changed."""
    sources = sorted(path for path in directory.glob("*") if path.suffix in (".c", ".h"))
    parts = [part for path in sources for part in (path.name, path.read_bytes())]
    path = cache_dir() / f"bpf-{content_key(image.key, *CFLAGS, *parts)}"
    if not path.exists():
        with locked(f"bpf-{image.key}"):
            if not path.exists():
                programs = [source.name.removesuffix(".bpf.c") for source in sources if source.name.endswith(".bpf.c")]
                with fresh_dir(path) as work, stage(f"vm: BPF objects ({', '.join(programs) or 'none yet'})"):
                    for program in programs:
                        _compile(image, directory, program, work)
                    _compile_pure(image, directory, work)
                    _check_headers(image, directory, [path.name for path in sources if path.name.endswith(".bpf.h")])
        prune("bpf-*", path)
    return path


def _compile(image: Image, directory: Path, program: str, out: Path) -> None:
    """Compile and link one program; linking leaves BTF in and the much larger DWARF out."""
    binds = {"/src": directory, "/mnt": image.kernel.path, "/out": out}
    what = f"compiling bpf/{program}.bpf.c"
    whole, linked = f"/out/{program}.o", f"/out/{program}.bpf.o"
    chroot.run_in(image.rootfs, ["clang", *CFLAGS, "-c", f"/src/{program}.bpf.c", "-o", whole], what, binds)
    chroot.run_in(image.rootfs, ["bpftool", "gen", "object", linked, whole], what, binds)
    (out / f"{program}.o").unlink()
    _check_kfuncs(image, program, out)


def _compile_pure(image: Image, directory: Path, out: Path) -> None:
    """Compile the header that Python calls through cffi (ctl/native.py), where there is one."""
    if (directory / PURE).is_file():
        words = ["gcc", "-O2", "-Wall", "-Werror", "-shared", "-fPIC", "-x", "c", "-DIRQ_INLINE=", f"/src/{PURE}"]
        chroot.run_in(image.rootfs, [*words, "-o", f"/out/{Path(PURE).stem}.so"], f"compiling bpf/{PURE}",
                      {"/src": directory, "/out": out})


def _check_headers(image: Image, directory: Path, headers: list[str]) -> None:
    """Raise VmError when a *.bpf.h does not compile alone: it has to include what it uses."""
    for header in headers:
        words = [flag for flag in CFLAGS if flag not in ("-g", "-O2")]
        # What a header declares has no user where it stands alone.
        chroot.run_in(image.rootfs, ["clang", *words, "-Wno-unused", "-fsyntax-only", "-x", "c",
                                     f"/src/{header}"],
                      f"compiling bpf/{header} by itself", {"/src": directory, "/mnt": image.kernel.path})


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
