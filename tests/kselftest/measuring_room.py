#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""The room for comparisons of schedulers (ctl/demo/room.py): equal for all, whatever programs idle beside them."""

from __future__ import annotations

import sys
from pathlib import Path

from ctl.demo.room import kb_of, push_out
from tests.kselftest import ktap
from tests.kselftest.node import spawned


def what_idles_goes_out() -> None:
    """Idle programs are pushed out to swap, though nearly all pages of files are mapped."""
    if not kb_of("/proc/meminfo", "SwapTotal"):
        raise ktap.Skip("needs swap: vm/run --swap 512")
    size_kb = 48 << 10
    holder = (sys.executable, "-c", f"import time; m = bytearray(b'x') * {size_kb << 10}; time.sleep(1000)")
    with spawned(*holder) as process:
        status = f"/proc/{process.pid}/status"
        ktap.until(lambda: (kb_of(status, "VmRSS") or 0) > size_kb, "it has its memory", 20)
        Path("/proc/sys/vm/drop_caches").write_text("1")  # what is left is mapped
        for _ in range(2):
            push_out()
        swapped = kb_of(status, "VmSwap") or 0
        ktap.note(f"{swapped} of {size_kb} KB are on swap")
        ktap.expect(swapped > 0.9 * size_kb, True, "nearly all of it is on swap")


if __name__ == "__main__":
    ktap.run(what_idles_goes_out)
