# SPDX-License-Identifier: GPL-2.0-or-later
"""A node of the experiment `monito`: the helper of ccs_node.py, with compilers as local tasks."""

from __future__ import annotations

import functools
import os
import signal
import subprocess
import threading
import time
from typing import Final

from tests.experiments import ccs_node
from tests.experiments.ccs_plan import WORK

__all__ = ["Helper"]

_SOURCE: Final = WORK / "local.c"
_FUNCTION: Final = """\
int f{n}(int *a, int n)
{{
	int s = {n};
	for (int i = 0; i < n; i++) {{
		switch (a[i] & 7) {{
		case 0: s += a[i] * {n}; break;
		case 1: s ^= a[(i + {n}) % n]; break;
		case 2: a[i] = s >> 3; break;
		default: s = s * 31 + a[i];
		}}
	}}
	return s;
}}
"""


class Helper(ccs_node.Helper):
    """The operations; each public method is one."""

    def __init__(self) -> None:
        super().__init__()
        self._load: list[subprocess.Popen[bytes]] = []

    def prepare(self, functions: int) -> float:
        """Write the file that local tasks compile, of so many functions; returns what it takes undisturbed, s."""
        _SOURCE.write_text("".join(_FUNCTION.format(n=n) for n in range(functions)))
        self.compile()  # the compiler is in memory from now on
        return self.compile()

    def compile(self) -> float:
        """Compile the file once, as a local task; seconds."""
        command = _compiler()
        began = time.monotonic()
        subprocess.run(command, check=True)
        return time.monotonic() - began

    def start_compile(self) -> None:
        """Compile it once; an event tells the seconds when that has ended."""
        threading.Thread(target=lambda: self.say({"event": "compiled", "seconds": self.compile()})).start()

    def load(self, count: int) -> None:
        """Have so many local tasks compile without end."""
        for process in self._load:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        loop = ["sh", "-c", 'while :; do "$@"; done', "load", *_compiler()]
        self._load = [subprocess.Popen(loop, start_new_session=True) for _ in range(count)]


@functools.cache
def _compiler() -> list[str]:
    """The compiler proper: one process."""
    found = subprocess.run(["gcc", "-print-prog-name=cc1"], check=True, capture_output=True, text=True).stdout.strip()
    return [found, "-quiet", "-O2", str(_SOURCE), "-o", "/dev/null"]


if __name__ == "__main__":
    raise SystemExit(ccs_node.serve(Helper()))
