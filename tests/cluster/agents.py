# SPDX-License-Identifier: GPL-2.0-or-later
"""How long from a user's coming at one agent to what another agent, on another virtual machine, makes of it.

    vm/cluster 2 --cpus 1 -- python3 -m tests.cluster.agents [--events 200] [--hog] [--policy ccs] [--json FILE]

Agents, broker and job are as they are in use; both nodes hold one job. The user comes and goes by the knob local_user;
each agent says when it knows, and the kernel's quantum is written in the same moment. Clocks are compared by UDP
packets before and after. `--hog` adds a local program that computes to each node.

Exit status 1 if an event did not arrive, or the p99 is above 50 ms.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ctl.node.protocol import Client
from tests.cluster.between import GOAL, compare_clocks, tell_time

_JOB = ("ctl", "run", "--job", "1", "--", "sleep", "100000")
_HOG = ("python3", "-c", "while True: pass")
_BOTH = 3.0  # seconds until each agent has heard that the other holds the job


def follow(kinds: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    """This node's agent's events of these kinds, for ever."""
    with Client() as agent:
        for event in agent.stream("follow"):
            if event.get("kind") in kinds:
                yield event


def peer() -> None:
    """Node2: print what its agent hears from node1, and when."""
    threading.Thread(target=tell_time, daemon=True).start()
    print(time.time() - time.monotonic(), flush=True)
    for event in follow(("event",)):
        if event["node"] == "node1":
            print(event["time"], event["event"], flush=True)


@contextlib.contextmanager
def background(*commands: tuple[str, ...]) -> Iterator[None]:
    """These programs on both nodes."""
    with contextlib.ExitStack() as stack:
        for command in commands:
            for where in ((), ("ssh", "-tt", "node2")):
                words = [*where, *(command if not where else [" ".join(_quoted(command))])]
                process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
                stack.callback(process.kill)
        yield


def _quoted(command: tuple[str, ...]) -> list[str]:
    return [f"'{word}'" for word in command]


def drive(events: int) -> list[tuple[float, str]]:
    """Node1: let the user come and go; when the request went out, and which event has to follow."""
    caused = []
    with Client() as agent:
        for number in range(events):
            present = number % 2 == 0
            caused.append((time.time(), "LOCAL_U" if present else "NO_LOCAL"))
            agent.call("set", knobs={"local_user": "on" if present else "off"})
            time.sleep(random.uniform(0.2, 0.4))
    time.sleep(2)
    return caused


def match(caused: list[tuple[float, str]], heard: list[tuple[float, str]]) -> list[float]:
    """Milliseconds from each cause to its event; causes that led to none are left out."""
    delays = []
    for (began, kind), (following, _) in zip(caused, [*caused[1:], (float("inf"), "")], strict=True):
        found = [when for when, what in heard if what == kind and began - 1e-3 <= when < following]
        delays += [1000 * (found[0] - began)] if found else []
    return delays


def measure(events: int, hog: bool) -> dict[str, Any]:
    remote = ["ssh", "node2", "cd /src && exec python3 -m tests.cluster.agents --peer"]
    with (
        background(_JOB, *([_HOG] if hog else [])),
        subprocess.Popen(remote, stdout=subprocess.PIPE, text=True) as other,
    ):
        assert other.stdout is not None
        wall = float(other.stdout.readline()) - (time.time() - time.monotonic())
        time.sleep(_BOTH)
        before = compare_clocks("node2")
        caused = drive(events)
        after = compare_clocks("node2")
        other.terminate()
        told = other.stdout.read()
    ahead = wall + (before[0] + after[0]) / 2
    heard = [(float(when) - ahead, what) for when, what in (line.split() for line in told.splitlines())]
    delays = sorted(match(caused, heard))
    return {
        "events": len(caused),
        "missing": len(caused) - len(delays),
        "median_ms": round(delays[len(delays) // 2], 2),
        "p99_ms": round(delays[int(0.99 * len(delays))], 2),
        "longest_ms": round(delays[-1], 2),
        "clock_error_ms": round(1000 * (max(before[1], after[1]) + abs(after[0] - before[0])), 2),
    }


def main() -> int:
    """Measure, print, judge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=200)
    parser.add_argument("--hog", action="store_true")
    parser.add_argument("--policy", default="ccs")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--peer", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.peer:
        peer()
        return 0
    for node in ("node1", "node2"):
        load = f"ctl load --policy {options.policy} --set sensors=off --set local_user=off"
        subprocess.run(["ssh", node, load], check=True)
    time.sleep(_BOTH)
    result = measure(options.events, options.hog) | {"hog": options.hog, "policy": options.policy}
    if options.json:
        options.json.write_text(json.dumps(result, indent=1))
    for name, value in result.items():
        print(f"{name:16} {value}")
    return 0 if not result["missing"] and result["p99_ms"] <= GOAL else 1


if __name__ == "__main__":
    sys.exit(main())
