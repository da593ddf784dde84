# SPDX-License-Identifier: GPL-2.0-or-later
"""The experiments `waiting` and `periods` on their first node; see waiting.py, periods.py.

    python3 waiting_guest.py LIBRARIES CONFIGS PLACES ROUNDS LIMIT

PLACES: how many of the places are measured; the ping-pong has ROUNDS, or as many as there are in LIMIT seconds.

Prints one line for each measurement and leaves all of them in /out/waiting.json.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_SOURCES = Path(__file__).resolve().parents[1]
_SECONDS = 3
_HOG = "/tmp/spin"
_OPENMPI = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_btl_tcp_if_include": "10.77.0.0/24",  # the nodes' other interface has the same address on all
}
_MPIEXEC = {
    ("mpich", "two nodes"): ["mpiexec.mpich", "-hosts", "node1,node2", "-ppn", "1", "-n", "2"],
    ("mpich", "one node"): ["mpiexec.mpich", "-n", "2"],
    ("openmpi", "two nodes"): ["mpiexec.openmpi", "--host", "node1:1,node2:1", "--map-by", "slot", "-n", "2"],
    ("openmpi", "one node"): ["mpiexec.openmpi", "--host", "node1:2", "--bind-to", "none", "-n", "2"],
}
_PLACES = (("two nodes", True), ("two nodes", False), ("one node", True))  # and whether a hog is there


def _run(*command: str) -> str:
    done = subprocess.run(
        command, check=False, capture_output=True, text=True, stdin=subprocess.DEVNULL, env=os.environ | _OPENMPI
    )
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)} ended with status {done.returncode}: {done.stderr[-2000:]}")
    return done.stdout


def _on_both(*command: str) -> None:
    _run(*command)
    _run("ssh", "node2", " ".join(command))


@contextlib.contextmanager
def _loaded(config: str) -> Iterator[None]:
    """Both nodes' schedulers: "eevdf", or a policy and its knobs as in csm+spin_ms=2."""
    policy, *knobs = config.split("+")
    if policy == "eevdf":
        yield
        return
    _on_both("ctl", "load", "--policy", policy, "--set", "events=off", *(w for knob in knobs for w in ("--set", knob)))
    try:
        yield
    finally:
        _on_both("ctl", "unload")


@contextlib.contextmanager
def _hogs(wanted: bool) -> Iterator[int]:
    """A busy local task on each node; yields this node's, 0 without."""
    if not wanted:
        yield 0
        return
    command = [_HOG, "compute", "600", "1000"]
    mine = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    other = subprocess.Popen(["ssh", "node2", *command], stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
    try:
        yield mine.pid
    finally:
        mine.kill()
        mine.wait()
        subprocess.run(["ssh", "node2", "pkill", "spin"], check=False)
        other.wait()


def _measure(library: str, config: str, place: str, hog: bool, *length: str) -> dict[str, Any]:
    with _hogs(hog) as pid:
        command = [*_MPIEXEC[library, place], f"/tmp/mpi_wait.{library}", *length, str(_SECONDS), str(pid)]
        if config != "eevdf":
            command = ["ctl", "run", "--job", "wait", "--", *command]
        said = _run(*command)
    measured = json.loads(said[said.index("{") :])
    return {"library": library, "config": config, "place": place, "hog": hog, **measured}


def main(argv: list[str]) -> int:
    """Measure every combination."""
    libraries, configs, places = argv[0].split(","), argv[1].split(","), _PLACES[: int(argv[2])]
    _run("gcc", "-O2", "-o", _HOG, str(_SOURCES / "kselftest/progs/spin.c"))
    for library in libraries:
        _run(f"mpicc.{library}", "-O2", "-o", f"/tmp/mpi_wait.{library}", str(_SOURCES / "progs/mpi_wait.c"))
        _run("scp", "-O", f"/tmp/mpi_wait.{library}", "node2:/tmp/")
    _run("scp", "-O", _HOG, "node2:/tmp/")
    found = []
    for config in configs:
        with _loaded(config):
            for library in libraries:
                for place, hog in places:
                    found.append(_measure(library, config, place, hog, *argv[3:5]))
                    print(json.dumps(found[-1]), flush=True)
    Path("/out").mkdir(exist_ok=True)
    Path("/out/waiting.json").write_text(json.dumps(found) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
