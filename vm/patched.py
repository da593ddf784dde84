# SPDX-License-Identifier: GPL-2.0-or-later
"""Build the image's kernel with the series of kernel-patches/, for vm/run --kernel patched.

The source is Debian's, the compiler and what else a build needs are packages of the image's suite in a root of their
own, and the configuration is that of the image's kernel, cut to what guests need. The result stays in the cache under a
key made of all of its inputs.

An entry of the cache, patched-<key>/:
    vmlinux      the ELF kernel without debugging information
    lib/modules/ its modules
    config       its configuration
"""

from __future__ import annotations

import os
import shlex
import shutil
import tempfile
from pathlib import Path

from vm import chroot, image, linux_source
from vm.host import REPO, VmError, cache_dir, content_key, fresh_dir, locked, prune, stage
from vm.kernel import read_words

__all__ = ["ensure", "find"]

_HERE = Path(__file__).parent
_RECIPE = "1"  # raise when the way the kernel is built changes it
_PATCHES = REPO / "kernel-patches"
_LIST = ("patched-modules.txt", "patched-without.txt")
_TOOLS = ("gcc", "make", "flex", "bison", "bc", "libc6-dev", "libelf-dev", "libssl-dev", "dwarves", "cpio", "kmod",
          "zstd", "xz-utils", "perl", "python3", "patch", "gawk", "findutils", "diffutils")
_NEEDED_MB = 12000  # of disk while it is built: the source and all objects
# The same kernel from the same source, whoever builds it, wherever and whenever.
_STAMP = {"KBUILD_BUILD_TIMESTAMP": "2026-01-01", "KBUILD_BUILD_USER": "cosched", "KBUILD_BUILD_HOST": "vm"}


def _patches() -> list[Path]:
    return sorted(_PATCHES.glob("*.patch"))


def _path(made: image.Image) -> Path:
    sources = [*_patches(), *(_HERE / name for name in _LIST)]
    parts = [part for path in sources for part in (path.name, path.read_bytes())]
    return cache_dir() / f"patched-{content_key(_RECIPE, made.key, *_TOOLS, *parts)}"


def find(made: image.Image) -> Path:
    """Return the patched kernel's ELF file; VmError if it has not been built, which takes too long to do unasked."""
    path = _path(made)
    if not path.exists():
        raise VmError("the patched kernel has not been built with the patches as they are now: './just kernel' does it")
    os.utime(path)
    return path / "vmlinux"


def ensure(made: image.Image, source: image.Source) -> Path:
    """Return the patched kernel's ELF file, building it when it is not in the cache: made has the configuration."""
    path = _path(made)
    if not path.exists():
        with locked(path.name):
            if not path.exists():
                _build(made, source, path)
        prune("patched-*", path, days=30)
    return find(made)


def _build(made: image.Image, source: image.Source, path: Path) -> None:
    if (free := shutil.disk_usage(path.parent).free >> 20) < _NEEDED_MB:
        raise VmError(f"{free} MB are left on the file system of {path.parent}, and a kernel takes {_NEEDED_MB} MB to "
                      "build: free some, or name another place in XDG_CACHE_HOME")
    tools = _ensure_tools(source)
    with fresh_dir(path) as out, tempfile.TemporaryDirectory(prefix="build-", dir=cache_dir()) as name:
        work = Path(name)
        _unpack(made, source, work)
        binds = {"/src": work / "source", "/out": out}
        with stage("kernel: configuration"):
            shutil.copyfile(made.kernel.path / "config", work / "source/.config")
            (work / "source/modules.txt").write_text(_as_lsmod(read_words(_HERE / "patched-modules.txt")))
            chroot.run_in(tools, ["sh", "-c", _configure()], "configuring the kernel", binds)
        with stage("kernel: vmlinux and modules"):
            chroot.run_in(tools, ["sh", "-c", _compile()], "building the kernel", binds)


def _ensure_tools(source: image.Source) -> Path:
    path = cache_dir() / f"build-tools-{content_key(image.SUITE, source.url, *_TOOLS)}"
    if not path.exists():
        with locked(path.name):
            if not path.exists():
                with fresh_dir(path) as work, stage(f"kernel: compiler and tools of {image.SUITE}"):
                    image.bootstrap(work / "rootfs", source, _TOOLS, variant="minbase",
                                    log=cache_dir() / "mmdebstrap.log", hooks=('mkdir -p "$1/src" "$1/out"',))
        prune("build-tools-*", path, days=30)
    os.utime(path)
    return path / "rootfs"


def _unpack(made: image.Image, source: image.Source, work: Path) -> None:
    package = linux_source.package_of(made.kernel)
    (work / "package").mkdir()
    (work / "source").mkdir()
    with stage(f"kernel: {package} of {image.SUITE}"):
        deb = linux_source.fetch(package, source, work / "package")
        linux_source.unpack(deb, work / "source")
    for patch in _patches():
        shutil.copy(patch, work / "source")


def _as_lsmod(modules: list[str]) -> str:
    """Return modules in the form of lsmod's output, which `make localmodconfig` reads."""
    return "Module Size Used\n" + "".join(f"{name} 1 0\n" for name in modules)


def _configure() -> str:
    without = [word for name in read_words(_HERE / "patched-without.txt") for word in ("--disable", name)]
    changes = [*without, "--enable", "DEBUG_INFO_COMPRESSED_NONE", "--set-str", "SYSTEM_TRUSTED_KEYS", "",
               "--set-str", "SYSTEM_REVOCATION_KEYS", "", "--set-str", "LOCALVERSION", "-cosched"]
    return "\n".join([
        "set -e", "cd /src",
        *(f"patch --quiet -p1 < {shlex.quote(patch.name)}" for patch in _patches()),
        # the questions of localmodconfig are about options that the image's kernel does not know: their defaults
        "yes '' | make LSMOD=/src/modules.txt localmodconfig >/dev/null 2>&1",
        shlex.join(["scripts/config", *changes]), "make olddefconfig >/dev/null", "cp .config /out/config",
    ])


def _compile() -> str:
    """The shell lines that build and install. A build works at the lowest priority, on all CPUs."""
    stamp = " ".join(f"{name}={value}" for name, value in _STAMP.items())
    make = f"nice -n 19 make -s -j{os.cpu_count() or 1}"
    return "\n".join([
        "set -e", "cd /src", f"export {stamp}",
        f"{make} vmlinux modules >/dev/null",
        f"{make} INSTALL_MOD_PATH=/out INSTALL_MOD_STRIP=1 modules_install >/dev/null",
        "objcopy --strip-debug vmlinux /out/vmlinux",
    ])
