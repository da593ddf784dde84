# SPDX-License-Identifier: GPL-2.0-or-later
"""Run the image's own programs on the host, so that no build depends on the host's compilers."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from vm.host import run

__all__ = ["AS_ROOT", "run_in"]

# The command prefix that makes a user root of a namespace of its own, in which the user's files belong to root; empty
# for root.
AS_ROOT = () if os.geteuid() == 0 else ("unshare", "--map-root-user", "--")


def run_in(rootfs: Path, argv: Sequence[str], what: str, binds: Mapping[str, Path] | None = None) -> bytes:
    """Run a program of rootfs with host directories bound to the given places, and return its standard output.

    Binds are guest directory to host directory; the guest directory must exist in rootfs. The command runs in a mount
    namespace of its own (and a user namespace when not root), so nothing stays mounted and no privilege is needed.
    """
    script = ["set -e", f"root={shlex.quote(str(rootfs))}", "mount --rbind /dev $root/dev",
              "mount --rbind /proc $root/proc"]  # the kernel's objtool asks for its own limits there
    for inside, outside in (binds or {}).items():
        script.append(f"mount --rbind {shlex.quote(str(outside))} $root{shlex.quote(inside)}")
    script.append(f"exec chroot $root {shlex.join(argv)}")
    return run([*AS_ROOT, "unshare", "--mount", "--", "env", "PATH=/usr/sbin:/usr/bin:/sbin:/bin",
                "sh", "-c", "; ".join(script)], what)
