# SPDX-License-Identifier: GPL-2.0-or-later
"""A slow disk in the guest's own time, for swap: a null_blk device, whose requests end by a timer."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path
from typing import Final

__all__ = ["Disk"]

_PAGE: Final = 4096


class Disk:
    """The device of swap."""

    def __init__(self, depth: int, latency_ms: float = 2, mb: int = 256, filled: bool = False) -> None:
        """`depth`: requests that it serves at once, each in `latency_ms`. What is written to it takes memory.

        filled: it takes that memory now, not as pages come, which matters where the memory in use is counted.
        """
        subprocess.run("swapoff -a; modprobe null_blk nr_devices=0", shell=True, check=True)
        subprocess.run("mount -t configfs none /sys/kernel/config", shell=True, check=False, stderr=subprocess.DEVNULL)
        settings = Path("/sys/kernel/config/nullb/nullb7")
        settings.mkdir()
        latency = {"irqmode": 2, "completion_nsec": round(latency_ms * 1_000_000)}
        queue = {"submit_queues": 1, "hw_queue_depth": depth}
        for name, value in ({"size": mb, "blocksize": _PAGE, "memory_backed": 1} | latency | queue).items():
            (settings / name).write_text(str(value))
        before = set(Path("/sys/block").iterdir())
        (settings / "power").write_text("1")
        (self.path,) = set(Path("/sys/block").iterdir()) - before
        self.device = f"/dev/{self.path.name}"
        fill = f"dd if=/dev/zero of={self.device} bs=1M count={mb} oflag=direct status=none;" if filled else ""
        command = f"udevadm settle; {fill} mkswap {self.device} >/dev/null && swapon {self.device}"
        subprocess.run(command, shell=True, check=True)

    def settle(self) -> None:
        """Wait until it serves nothing."""
        while any(int(number) for number in (self.path / "inflight").read_text().split()):
            time.sleep(0.002)
