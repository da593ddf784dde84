# SPDX-License-Identifier: GPL-2.0-or-later
"""Another kernel than the image's own, for vm/run --kernel."""

from __future__ import annotations

import dataclasses
import os
import re
import shutil
import tempfile
from pathlib import Path

from vm.chroot import AS_ROOT
from vm.host import VmError, cache_dir, content_key, locked, prune, run
from vm.image import Image
from vm.kernel import unpack_vmlinuz

__all__ = ["Custom", "load", "modules_disk"]


@dataclasses.dataclass(frozen=True)
class Custom:
    """A kernel's ELF file, and its lib/modules/RELEASE directory when it has one."""

    vmlinux: Path
    release: str
    modules: Path | None


def load(path: Path) -> Custom:
    """Return the kernel in a bzImage or vmlinux, ready to boot.

    Modules are looked for where "make modules_install INSTALL_MOD_PATH=DIR" and Debian's packages put them: in
    lib/modules/RELEASE, or usr/lib/modules/RELEASE, of the file's directory or the one above it.
    """
    try:
        data = path.read_bytes()
    except OSError as err:
        raise VmError(f"cannot read the kernel {path}: {err.strerror}") from err
    vmlinux = cache_dir() / f"kernel-{content_key(data)}"
    if not vmlinux.exists():
        with locked(vmlinux.name):
            partial = vmlinux.with_suffix(".new")
            unpack_vmlinuz(path, partial)
            partial.rename(vmlinux)
        prune("kernel-*", vmlinux)
    version = re.search(rb"Linux version (\S+) ", vmlinux.read_bytes())
    if version is None:
        raise VmError(f"{path} does not say which version of Linux it is")
    release = version.group(1).decode()
    places = [above / lib / "modules" / release for above in path.resolve().parents[:2] for lib in ("lib", "usr/lib")]
    return Custom(vmlinux, release, next((place for place in places if place.is_dir()), None))


def modules_disk(custom: Custom, image: Image) -> Path | None:
    """Return a disk with the kernel's modules for the guest's /usr/lib/modules, None when it has none.

    bcc compiles against /lib/modules/RELEASE/build. If this link leads out of the tree, the headers of the image's
    kernel take its place; a patched build of the same version resembles them.
    """
    if custom.modules is None:
        return None
    stamp = (custom.modules / "modules.dep").stat().st_mtime_ns
    disk = cache_dir() / f"modules-{content_key(str(custom.modules), str(stamp), image.key)}.img"
    if disk.exists():
        return disk
    with locked(disk.name), tempfile.TemporaryDirectory(prefix="cosched-") as work:
        tree = Path(work) / custom.release
        shutil.copytree(custom.modules, tree, symlinks=True, ignore=shutil.ignore_patterns("build", "source"))
        own = image.modules
        for link in ("build", "source"):
            (tree / link).symlink_to(os.path.normpath(f"/usr/lib/modules/RELEASE/{os.readlink(own / link)}"))
        size = sum(path.stat().st_size for path in tree.rglob("*") if path.is_file() and not path.is_symlink()) >> 20
        partial = disk.with_suffix(".new")
        run([*AS_ROOT, "mke2fs", "-q", "-F", "-t", "ext4", "-O", "^has_journal", "-E", "root_owner=0:0", "-m", "0",
             "-d", work, partial, f"{size * 2 + 32}M"], "packing the kernel's modules")
        partial.rename(disk)
    prune("modules-*", disk)
    return disk
