# SPDX-License-Identifier: GPL-2.0-or-later
"""Builds what the guest needs for the benchmarks: the programs here, and two of the kernel's example schedulers.

The example schedulers come from Debian's linux-source package of the image's suite and series. They are fetched and
built at their first use and stay in the cache; this repository has none of their text.
"""

from __future__ import annotations

import os
import re
import shlex
import tempfile
from pathlib import Path

from vm import bpf, chroot
from vm.host import REPO, VmError, cache_dir, content_key, fresh_dir, locked, prune, run, stage
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
_CLANG = ("clang", *bpf.CFLAGS, "-fms-extensions", "-Wno-microsoft-anon-tag")  # vmlinux.h uses both
_GCC = ("gcc", "-O2", "-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter")


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
    path = cache_dir() / f"bench-{content_key(image.key, *_CLANG, *_GCC, *parts)}"
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
        command = [*_GCC, f"/src/tests/bench/progs/{source.name}", "-o", f"/out/{source.stem}", "-lbpf"]
        script.append(shlex.join(command))
    for source in sorted(_HERE.glob("bpf/*.bpf.c")):
        name = source.name.removesuffix(".c")
        command = [*_CLANG, "-c", f"/src/tests/bench/bpf/{source.name}", "-o", f"/out/{name}.o"]
        script.append(shlex.join(command))
    chroot.run_in(image.rootfs, ["sh", "-c", "\n".join(script)], "compiling the benchmark programs", binds)


def _build_examples(image: Image, out: Path) -> None:
    series = re.match(r"\d+\.\d+", image.kernel.release)
    if series is None:
        raise VmError(f"no kernel series in the release {image.kernel.release!r}")
    with tempfile.TemporaryDirectory(prefix="scx-", dir=cache_dir()) as name:
        work = Path(name)
        package = f"linux-source-{series[0]}"
        with stage(f"bench: {package} of {SUITE}"):
            deb = _fetch(package, work, Source.from_environment().url)
            _unpack(deb, series[0], work)
        version = run(["dpkg-deb", "--field", deb, "Version"], f"reading {deb.name}").decode()
        (out / "version").write_text(version)
        with stage(f"bench: {', '.join(_EXAMPLES)} {version.strip()}"):
            _compile_examples(image, work / "sched_ext", out)


def _fetch(package: str, work: Path, url: str) -> Path:
    """Download a package of the image's suite with the host's apt, whose own state is not touched."""
    for directory in ("state/lists/partial", "cache/archives/partial"):
        (work / directory).mkdir(parents=True)
    (work / "status").touch()
    (work / "sources.list").write_text(f"deb {url} {SUITE} main\n")
    options = [
        f"Dir::State={work}/state", f"Dir::State::status={work}/status", f"Dir::Cache={work}/cache",
        f"Dir::Etc::SourceList={work}/sources.list", "Dir::Etc::SourceParts=-", "Acquire::Check-Valid-Until=false",
        "APT::Sandbox::User=root", "Acquire::Languages=none", "Acquire::Retries=3",
    ]
    flags = [flag for option in options for flag in ("-o", option)]
    run(["apt-get", *flags, "-qq", "update"], f"reading the package list of {SUITE} at {url}")
    download = shlex.join(["apt-get", *flags, "-qq", "download", package])
    run(["sh", "-c", f"cd {shlex.quote(str(work))} && exec {download}"], f"fetching {package} from {url}")
    return next(work.glob(f"{package}_*.deb"))


def _unpack(deb: Path, series: str, work: Path) -> None:
    """Take tools/sched_ext out of a linux-source package; the rest of the package, 1.5 GB, never touches the disk."""
    script = (f"set -o pipefail; dpkg-deb --fsys-tarfile {shlex.quote(str(deb))}"
              f" | tar -xO ./usr/src/linux-source-{series}.tar.xz"
              f" | tar -xJ -C {shlex.quote(str(work))} --strip-components=2 linux-source-{series}/tools/sched_ext")
    run(["bash", "-c", script], f"unpacking {deb.name}")


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
