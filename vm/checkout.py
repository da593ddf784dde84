# SPDX-License-Identifier: GPL-2.0-or-later
"""Packs this checkout, the BPF objects and the guest's own files into a small disk that init lays over the root.

Layout of the disk: src/ (the files git knows or would add), bpf/ (compiled objects, and in progs/ the C programs of
tests and of the demo: /usr/lib/cosched), bin/, systemd/ and default/ (linked into /usr/local/bin, /etc/systemd/system
and /etc/default). Programs and Python files are compiled here, natively, because an emulated CPU would take seconds
for each in every run.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from vm import bpf, chroot
from vm.chroot import AS_ROOT
from vm.host import REPO, VmError, cache_dir, content_key, locked, prune, run
from vm.image import Image

__all__ = ["commit", "ensure", "files", "pack"]

_HERE = Path(__file__).parent
_ROOM_MB = 64  # free space on the disk, for what programs write next to the sources
_PROGRAMS = ("ctl/demo/progs", "tests/kselftest/progs")  # of these directories, by progs.mk
_GUEST_FILES = {
    "bin/ctl": _HERE / "guest/ctl",
    "systemd/cosched.service": _HERE / "cosched.service",
    "systemd/cosched-broker.service": _HERE / "cosched-broker.service",
    "systemd/cosched-renew.service": _HERE / "cosched-renew.service",
    "systemd/cosched-renew.timer": _HERE / "cosched-renew.timer",
    "systemd/cosched-command.service": _HERE / "guest/cosched-command.service",
    "systemd/cosched-command.target": _HERE / "guest/cosched-command.target",
    "default/cosched": _HERE / "guest/cosched.default",
}


def _git(*args: str) -> str:
    # Root may run a checkout that belongs to another user; git refuses that unless told.
    return run(["git", "-C", REPO, "-c", "safe.directory=*", *args], "reading the checkout").decode()


def commit() -> str:
    """Return the checkout's commit, with "-dirty" when files differ from it, or "unknown" outside git."""
    try:
        return _git("describe", "--always", "--dirty", "--abbrev=12").strip()
    except VmError:
        return "unknown"


def files() -> list[str]:
    """Return the checkout's files, tracked or new but not ignored, as sorted paths relative to it."""
    names = _git("ls-files", "-z", "--cached", "--others", "--exclude-standard").split("\0")
    return sorted({name for name in names if name and (REPO / name).is_file()})


def ensure(image: Image) -> Path:
    """Return the disk for the checkout as it is now."""
    objects = bpf.ensure(image)
    names = files()
    parts: list[str | bytes] = [image.key, objects.name]
    for name in names:
        path = REPO / name
        parts += [name, oct(path.stat().st_mode & 0o777), path.read_bytes()]
    disk = cache_dir() / f"checkout-{content_key(*parts)}.img"
    if disk.exists():
        os.utime(disk)
        return disk
    with locked(disk.name), tempfile.TemporaryDirectory(prefix="cosched-") as work:
        if not disk.exists():
            _stage(Path(work), names, objects, image)
            partial = disk.with_suffix(".new")
            pack(Path(work), partial)
            partial.rename(disk)
    prune("checkout-*", disk, days=1)
    return disk


def pack(directory: Path, disk: Path) -> None:
    """Write a directory as a disk for init to lay over the root, with room for what programs write."""
    size = sum(path.stat().st_size for path in directory.rglob("*") if path.is_file()) >> 20
    run([*AS_ROOT, "mke2fs", "-q", "-F", "-t", "ext4", "-b", "4096", "-O", "^has_journal,^resize_inode", "-E",
         "lazy_itable_init=0,nodiscard,root_owner=0:0", "-m", "0", "-L", "checkout", "-d", directory, disk,
         f"{_ROOM_MB + size * 2}M"], f"packing {disk.name}")


def _stage(work: Path, names: list[str], objects: Path, image: Image) -> None:
    """Lay out the disk's content in a directory."""
    work.chmod(0o755)
    for directory in ("src", "bin", "systemd", "default"):
        (work / directory).mkdir()
    for name in names:
        target = work / "src" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(REPO / name, target)
    shutil.copytree(objects, work / "bpf")
    for name, source in _GUEST_FILES.items():
        shutil.copy2(source, work / name)
    _make_programs(work, image)
    # A Python file that does not compile is its author's business: the guest will say so when it is imported.
    chroot.run_in(image.rootfs, ["sh", "-c", "python3 -m compileall -q /src >/dev/null 2>&1 || true"],
                  "compiling the checkout's Python files", {"/src": work / "src"})


def _make_programs(work: Path, image: Image) -> None:
    out = work / "bpf" / "progs"
    out.mkdir()
    for directory in _PROGRAMS:
        words = ["make", "--silent", "-C", f"/src/{directory}", "-f", "/src/vm/progs.mk", "OUT=/out"]
        binds = {"/src": work / "src", "/out": out}
        chroot.run_in(image.rootfs, words, f"compiling the programs of {directory}", binds)
