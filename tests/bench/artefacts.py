# SPDX-License-Identifier: GPL-2.0-or-later
"""Builds what the guest needs for the benchmarks: the programs here, and two of the kernel's example schedulers.

The example schedulers come from Debian's linux-source package of the image's suite and series. They are fetched and
built at their first use and stay in the cache; this repository has none of their text.
"""

from __future__ import annotations

import os
import shlex
import tempfile
from pathlib import Path

from vm import bpf, chroot, linux_source
from vm.host import REPO, cache_dir, content_key, fresh_dir, locked, prune, stage
from vm.image import SUITE, Image, Source

__all__ = ["ensure_programs", "ensure_schedulers", "source_version"]

_HERE = Path(__file__).parent
_RECIPE = "1"  # raise when the way the example schedulers are built changes
_EXAMPLES = ("scx_simple", "scx_flatcg")
# Options of the kernel's own Makefile for them.
_EXAMPLE_CFLAGS = (
    "-g", "-O2", "-Wall", "-Wno-compare-distinct-pointer-types", "-Wno-microsoft-anon-tag", "-fms-extensions",
    "-mcpu=v3", "-mlittle-endian", "-D__TARGET_ARCH_x86", "-Iinclude", "-Iinclude/bpf-compat", "-I/mnt",
    "-idirafter", "/usr/include/x86_64-linux-gnu", "-target", "bpf",
)
_CFLAGS = ("-O2", "-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter")
_MPI = ".mpi"  # ends the stem of a program that is compiled with MPICH


def ensure_schedulers(image: Image) -> Path:
    """Return the directory that holds scx_simple and scx_flatcg, and "version", the source package's."""
    path = cache_dir() / f"scx-{content_key(_RECIPE, image.key, *_EXAMPLE_CFLAGS)}"
    if not path.exists():
        with locked(path.name):
            if not path.exists():
                with fresh_dir(path) as work:
                    _build_examples(image, work)
        prune("scx-*", path, days=30)
    os.utime(path)
    return path


def source_version(schedulers: Path) -> str:
    """Return the version of the linux-source package the example schedulers were built from."""
    return (schedulers / "version").read_text().strip()


def ensure_programs(image: Image) -> Path:
    """Return the directory of the benchmark programs and BPF objects of this directory, compiled."""
    sources = sorted([*_HERE.glob("progs/*.[ch]"), *_HERE.glob("bpf/*.c"), REPO / "tests/progs/percentile.h"])
    parts = [part for source in sources for part in (source.name, source.read_bytes())]
    path = cache_dir() / f"bench-{content_key(image.key, bpf.MAKEFILE.read_bytes(), *_CFLAGS, *parts)}"
    if not path.exists():
        with locked("bench"):
            if not path.exists():
                with fresh_dir(path) as work, stage("bench: the benchmark programs"):
                    _compile_programs(image, work)
        prune("bench-*", path)
    return path


def _compile_programs(image: Image, out: Path) -> None:
    binds = {"/src": REPO, "/mnt": image.kernel.path, "/out": out}
    script = ["set -e"]
    for source in sorted(_HERE.glob("progs/*.c")):
        compiler = "mpicc.mpich" if source.stem.endswith(_MPI) else "gcc"
        program = source.stem.removesuffix(_MPI)
        command = [compiler, *_CFLAGS, f"/src/tests/bench/progs/{source.name}", "-o", f"/out/{program}", "-lbpf"]
        script.append(shlex.join(command))
    objects = [f"/out/{source.stem}.o" for source in sorted(_HERE.glob("bpf/*.bpf.c"))]
    make = ["make", "--silent", "-C", "/src/tests/bench/bpf", "-f", "/src/bpf/Makefile", "VMLINUX=/mnt", "OUT=/out"]
    script.append(shlex.join([*make, *objects]))
    chroot.run_in(image.rootfs, ["sh", "-c", "\n".join(script)], "compiling the benchmark programs", binds)


def _build_examples(image: Image, out: Path) -> None:
    package = linux_source.package_of(image.kernel)
    with tempfile.TemporaryDirectory(prefix="scx-", dir=cache_dir()) as name:
        work = Path(name)
        with stage(f"bench: {package} of {SUITE}"):
            deb = linux_source.fetch(package, Source.from_environment(), work)
            (work / "sched_ext").mkdir()
            linux_source.unpack(deb, work / "sched_ext", "tools/sched_ext")
        version = linux_source.version_of(deb)
        (out / "version").write_text(version + "\n")
        with stage(f"bench: {', '.join(_EXAMPLES)} {version}"):
            _compile_examples(image, work / "sched_ext", out)


def _compile_examples(image: Image, source: Path, out: Path) -> None:
    commands = ["set -e", "cd /src"]
    for name in _EXAMPLES:
        commands += [
            shlex.join(["clang", *_EXAMPLE_CFLAGS, "-c", f"{name}.bpf.c", "-o", f"/out/{name}.tmp.o"]),
            f"bpftool gen object /out/{name}.bpf.o /out/{name}.tmp.o",
            f"bpftool gen skeleton /out/{name}.bpf.o name {name} > /out/{name}.bpf.skel.h",
            f"gcc -O2 -Iinclude -I/out {name}.c -o /out/{name} -lbpf",
            f"rm /out/{name}.tmp.o /out/{name}.bpf.o /out/{name}.bpf.skel.h",
        ]
    binds = {"/src": source, "/mnt": image.kernel.path, "/out": out}
    chroot.run_in(image.rootfs, ["sh", "-c", "\n".join(commands)], "building the kernel's example schedulers", binds)
