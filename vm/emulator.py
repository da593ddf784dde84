# SPDX-License-Identifier: GPL-2.0-or-later
"""The emulator: QEMU of the image's own suite, unpacked into the cache and run from there.

The host's QEMU is not used. Before 8.1, Debian 12's included, an emulated CPU may go on executing the breakpoint that
another one has put into the kernel's code and taken out again (translation does not lock the page it reads); kernels
patch themselves whenever a static key flips or a kprobe is set, so guests with two CPUs die of "Oops: int3" within
seconds. With this one it is rare: once in some hundred loadings of a scheduler, on a host that is busy with other
guests. With one QEMU for every host, --icount also counts the same everywhere.
"""

from __future__ import annotations

import os

from vm.host import cache_dir, content_key, fresh_dir, locked, prune, stage
from vm.image import SUITE, Source, bootstrap

__all__ = ["ensure"]

_RECIPE = "2"  # raise when the way the entry is made changes its content
_PACKAGES = ("qemu-system-x86",)
_FIRMWARE = ("usr/share/qemu", "usr/share/seabios", "usr/lib/ipxe/qemu")


def ensure(source: Source | None = None) -> list[str]:
    """Return the words QEMU's command line begins with, unpacking QEMU when it is not in the cache.

    COSCHED_QEMU names another QEMU to use, for comparisons.
    """
    if own := os.environ.get("COSCHED_QEMU"):
        return [own]
    source = source or Source.from_environment()
    entry = cache_dir() / f"qemu-{content_key(_RECIPE, SUITE, source.url, *_PACKAGES)}"
    root = entry / "rootfs"
    if entry.exists():
        os.utime(entry)
    else:
        with locked(entry.name):
            if not entry.exists():
                with fresh_dir(entry) as work, stage(f"vm: QEMU of Debian {SUITE}"):
                    bootstrap(work / root.name, source, _PACKAGES, variant="extract",
                              log=cache_dir() / "mmdebstrap-qemu.log")
        prune("qemu-*", entry, days=14)
    libraries = root / "usr/lib/x86_64-linux-gnu"
    words = [libraries / "ld-linux-x86-64.so.2", "--library-path", libraries, root / "usr/bin/qemu-system-x86_64"]
    for firmware in _FIRMWARE:
        words += ["-L", root / firmware]
    return [str(word) for word in words]
