# SPDX-License-Identifier: GPL-2.0-or-later
"""vm/run --icount --cpus N: the CPUs of a guest run side by side, each as fast as one alone."""

from __future__ import annotations

import json

import pytest

from tests.vm.test_vm import vm

_BURNS = """
import json, os, sys, time
def burnt(count):
    began = time.monotonic()
    children = []
    for cpu in range(count):
        if not (child := os.fork()):
            os.sched_setaffinity(0, {cpu % os.cpu_count()})
            for _ in range(1_500_000):
                pass
            os._exit(0)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)
    return time.monotonic() - began
print(json.dumps([burnt(int(count)) for count in sys.argv[1:]]))
"""


def _burnt(cpus: int, *counts: int) -> list[float]:
    """Seconds in which so many processes have all done the same work, each on a CPU of its own while there are some."""
    done = vm("--icount", "--cpus", str(cpus), "--", "python3", "-c", _BURNS, *map(str, counts))
    assert done.returncode == 0, done.stderr
    found: list[float] = json.loads(done.stdout)
    return found


def test_busy_cpus_are_as_fast_as_one() -> None:
    alone, two, four, eight = _burnt(4, 1, 2, 4, 8)
    assert two == pytest.approx(alone, rel=0.1)
    assert four == pytest.approx(alone, rel=0.1)
    assert eight == pytest.approx(2 * alone, rel=0.1)
