# SPDX-License-Identifier: GPL-2.0-or-later
"""Builds the plugin with the image's compiler, and asks QEMU whether it takes it."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from vm import chroot
from vm.host import VmError, cache_dir, content_key, locked, prune
from vm.image import Image

__all__ = ["check", "ensure"]

_SOURCES = Path(__file__).parent
_CFLAGS = ("-O2", "-std=gnu17", "-Wall", "-Wextra", "-Werror", "-fvisibility=hidden", "-shared", "-fPIC")
_READY = "lockstep: ready"  # what the plugin says to probe=1


def ensure(image: Image, directory: Path = _SOURCES) -> Path:
    """Return the plugin of a source directory, building it when it is not in the cache."""
    sources = sorted(path for path in directory.iterdir() if path.suffix in (".c", ".h"))
    key = content_key(image.key, *_CFLAGS, *(part for path in sources for part in (path.name, path.read_bytes())))
    entry = cache_dir() / f"lockstep-{key}"
    plugin = entry / "lockstep.so"
    if not plugin.exists():
        with locked(f"lockstep-{image.key}"):
            entry.mkdir(exist_ok=True)
            names = [f"/src/{path.name}" for path in sources if path.suffix == ".c"]
            chroot.run_in(image.rootfs, ["gcc", *_CFLAGS, "-o", "/mnt/new", *names], "compiling the lock-step plugin",
                          {"/src": directory, "/mnt": entry})
            (entry / "new").rename(plugin)
        prune("lockstep-*", entry)
    return plugin


def check(emulator: Sequence[str], plugin: Path) -> None:
    """Raise VmError, in one sentence, when this QEMU does not take the plugin: another interface, missing symbols.

    A QEMU that loads it has all symbols, and its interface's version is the plugin's.
    """
    done = subprocess.run([*emulator, "-machine", "none", "-display", "none", "-plugin", f"{plugin},probe=1"],
                          capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    if done.returncode != 0 or _READY not in done.stdout:
        said = " ".join((done.stderr or done.stdout or f"it ended with status {done.returncode}").split())
        raise VmError("this QEMU cannot keep guests in lock-step, which takes version 7 of its plugin interface and "
                      f"the symbols that Debian's QEMU 11.1 has: {said}; use the image's own, without COSCHED_QEMU")
