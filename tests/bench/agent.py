# SPDX-License-Identifier: GPL-2.0-or-later
"""The agent's CPU time beside jobs that sleep, in parts of one CPU; in a guest that counts instructions.

    vm/run --icount --cpus 1 -- python3 -m tests.bench.agent [CASE…]

Prints a JSON object per case: percent of a CPU that the agent and its writer of events use. `rest`: csm, an epoch
each second. `memory`: policy ccs in a cluster of this node alone, Set_Memory decides each 250 ms. `fit`: a look each
second, the node alone.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

__all__ = ["main"]

_CASES: Final = {
    "rest": ("csm", "epoch_ms=1000"),
    "fit": ("fit", "epoch_ms=250"),
    "memory": ("ccs", "epoch_ms=250"),
}
_JOBS, _TASKS = 3, 4
_STARTS_S, _SECONDS = 20, 40  # of guest time; sensors are compiled in the first
_SLEEPER: Final = "import socket, time; ends = [socket.socketpair() for _ in range(4)]; time.sleep(1000)"


def _cpu_ns() -> int:
    """CPU time of all threads of the agent and of its writer, which have one name."""
    agents = [path.parent for path in Path("/proc").glob("[0-9]*/comm") if path.read_text() == "cosched-agent\n"]
    return sum(int(path.read_text().split()[0]) for agent in agents for path in agent.glob("task/*/schedstat"))


@contextlib.contextmanager
def _loaded(policy: str, *knobs: str) -> Iterator[None]:
    """The policy is loaded, and there are jobs whose tasks sleep."""
    words = [word for knob in knobs for word in ("--set", knob)]
    subprocess.run(["ctl", "load", "--policy", policy, *words], check=True, stdout=subprocess.DEVNULL)
    tasks = []
    try:
        for number in range(_JOBS * _TASKS):
            command = ["ctl", "run", "--job", f"j{number % _JOBS}", "--", "python3", "-c", _SLEEPER]
            tasks.append(subprocess.Popen(command))
        time.sleep(_STARTS_S)
        yield
    finally:
        for task in tasks:
            task.kill()
            task.wait()
        subprocess.run(["ctl", "unload"], check=True, stdout=subprocess.DEVNULL)


def main() -> int:
    """Measure each case, and return the exit status."""
    parser = argparse.ArgumentParser(prog="agent")
    parser.add_argument("case", nargs="*", choices=[*_CASES, []], help="default: all")
    for case in parser.parse_args().case or _CASES:
        if case == "memory":  # the last that is measured: the node stays in its cluster
            subprocess.run(["ctl", "cluster", "init", "--address", "127.0.0.1"], check=True, stdout=subprocess.DEVNULL)
        with _loaded(*_CASES[case]):
            before, began = _cpu_ns(), time.monotonic_ns()
            time.sleep(_SECONDS)
            percent = (_cpu_ns() - before) / (time.monotonic_ns() - began) * 100
        print(json.dumps({"case": case, "percent": round(percent, 2)}), flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
