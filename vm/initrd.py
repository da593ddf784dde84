# SPDX-License-Identifier: GPL-2.0-or-later
"""Makes the guest's initrd: the static init and the few modules the root disk needs, about 1 MB and not compressed."""

from __future__ import annotations

import lzma
import tempfile
from pathlib import Path

from vm import chroot
from vm.host import cache_dir, content_key, locked, prune
from vm.image import Image

__all__ = ["cpio", "ensure"]

_GUEST = Path(__file__).parent / "guest"
# Loaded in this order; the rest is modprobe's.
_BLOCK = ("virtio_blk",)
_PMEM = ("libnvdimm", "nd_virtio", "virtio_pmem", "nd_btt", "nd_pmem")
_INPUT = ("evdev", "virtio_input")
_CFLAGS = ("-O2", "-std=gnu17", "-Wall", "-Wextra", "-Werror", "-static")


def cpio(files: dict[str, tuple[int, bytes]]) -> bytes:
    """Return a "newc" archive of name to (st_mode, content), as the kernel unpacks it; parents must come first."""
    parts = []
    for inode, (name, (mode, data)) in enumerate([*files.items(), ("TRAILER!!!", (0, b""))], 1):
        path = name.encode() + b"\0"
        fields = (inode, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(path), 0)
        head = b"070701" + b"".join(b"%08X" % field for field in fields) + path
        parts += [head, b"\0" * (-len(head) % 4), data, b"\0" * (-len(data) % 4)]
    return b"".join(parts)


def ensure(image: Image, modules: Path | None, *, pmem: bool = False) -> Path:
    """Return the initrd for guests whose disks are block devices or pmem, building it when it is not in the cache.

    It has this checkout's init, and modules of a lib/modules/RELEASE directory; without one, the kernel must have the
    drivers built in.
    """
    wanted = (*(_PMEM if pmem else _BLOCK), *_INPUT)
    sources = sorted(path for path in _GUEST.iterdir() if path.suffix in (".c", ".h"))
    key = content_key(image.key, str(modules), *_CFLAGS, *wanted,
                      *(part for path in sources for part in (path.name, path.read_bytes())))
    initrd = cache_dir() / f"initrd-{key}"
    if not initrd.exists():
        with locked(f"initrd-{image.key}"):
            files = {"dev": (0o040755, b""), "root": (0o040755, b""), "modules": (0o040755, b"")}
            files["init"] = (0o100755, _compile(image, [path.name for path in sources if path.suffix == ".c"]))
            for order, module in enumerate(wanted):
                if modules is not None and (content := _module(modules, module)):
                    files[f"modules/{order:02}-{module}.ko"] = (0o100644, content)
            partial = initrd.with_suffix(".new")
            partial.write_bytes(cpio(files))
            partial.rename(initrd)
        prune("initrd-*", initrd)
    return initrd


def _compile(image: Image, sources: list[str]) -> bytes:
    with tempfile.TemporaryDirectory() as out:
        chroot.run_in(
            image.rootfs, ["gcc", *_CFLAGS, "-o", "/mnt/init", *(f"/src/{name}" for name in sources)],
            "compiling the guest's init", {"/src": _GUEST, "/mnt": Path(out)},
        )
        return (Path(out) / "init").read_bytes()


def _module(modules: Path, name: str) -> bytes:
    """Return a module uncompressed, as finit_module needs it; empty if it is built in."""
    path = next(iter(modules.rglob(f"{name}.ko*")), None)
    if path is None:
        return b""
    return lzma.decompress(path.read_bytes()) if path.suffix == ".xz" else path.read_bytes()
