# SPDX-License-Identifier: GPL-2.0-or-later
"""A bare guest: Debian with systemd and with nothing of ours, to install the package in (tests/vm/test_package.py).

An entry of the cache, bare-<key>/root.img, has what the package depends on, as apt has found it by the package's own
words: a guest has no network, and unpacking it there would take an emulated CPU minutes. The kernel and its initrd are
the image's.
"""

from __future__ import annotations

import shlex
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from vm import checkout, emulator, image, initrd, qemu
from vm.host import cache_dir, content_key, fresh_dir, locked, prune, run, stage

__all__ = ["machine"]

_PACKAGES = ("systemd", "systemd-sysv-", "udev", "dbus-")
_GUEST = Path(__file__).parent / "guest"
_UNITS = ("cosched-command.service", "cosched-command.target")


@contextmanager
def machine(package: Path, files: Iterable[Path], *, memory: int = 1024) -> Iterator[qemu.Machine]:
    """Yield a machine with systemd and two CPUs, for as long as the block lasts; `memory`: MB.

    package: what it depends on is installed. files: what the guest finds in /src.
    """
    made = image.ensure()
    root = _ensure(package)
    with tempfile.TemporaryDirectory(prefix="cosched-") as name:
        content, disk = Path(name, "content"), Path(name, "host.img")
        for directory in ("src", "systemd"):
            (content / directory).mkdir(parents=True)
        for file in files:
            shutil.copy2(file, content / "src")
        for unit in _UNITS:
            shutil.copy2(_GUEST / unit, content / "systemd")
        checkout.pack(content, disk)
        yield qemu.Machine(
            emulator=tuple(emulator.ensure()), vmlinux=made.kernel.vmlinux, initrd=initrd.ensure(made, made.modules),
            disks=(root, disk), memory=memory, init="systemd",
        )


def _ensure(package: Path) -> Path:
    """Return the root disk, making it when the package depends on others than before."""
    source = image.Source.from_environment()
    depends = run(["dpkg-deb", "--field", package, "Depends"], f"reading {package.name}").decode().strip()
    hooks = ('mkdir -p "$1/src" "$1/out" "$1/host"', *image.IDENTITY,
             f'chroot "$1" apt-get --quiet --yes satisfy {shlex.quote(depends)}',
             'rm "$1/etc/dpkg/dpkg.cfg.d/99mmdebstrap"')  # the package's man pages are not left out
    entry = cache_dir() / f"bare-{content_key(image.SUITE, source.url, *_PACKAGES, *hooks)}"
    if not entry.exists():
        with locked(entry.name):
            if not entry.exists():
                with fresh_dir(entry) as work, stage(f"vm: a bare Debian {image.SUITE}"):
                    image.bootstrap(work / "rootfs", source, _PACKAGES, variant="minbase", hooks=hooks,
                                    log=cache_dir() / "mmdebstrap-bare.log")
                    image.make_disk(work / "rootfs", work / "root.img")
        prune("bare-*", entry, days=14)
    return entry / "root.img"
