# SPDX-License-Identifier: GPL-2.0-or-later
"""The delay from a user's coming at one agent to the reaction of another agent, on another virtual machine.

    vm/cluster 2 --cpus 1 -- python3 -m tests.cluster.agents [--events 100] [--hog] [--policy ccs]
        [--contract class] [--json FILE]
    vm/cluster 2 --cpus 1 --icount -- python3 -m tests.cluster.agents --one-clock ...

Agents, sensors, broker and job are as they are in use; both nodes hold one job. Keys are pressed on node1, farther
apart than a user stays; each agent says when it knows, and the kernel's quantum is written in the same moment. Clocks
are compared by UDP packets before and after; those of nodes in lock-step show the same. `--hog` adds a local program
that computes to each node.

Exit status 1 if an event did not arrive, or the p99 is above 50 ms.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ctl.protocol import Client
from tests.cluster.between import clock_error, compare_clocks, figures, judge, tell_time
from tests.kselftest.sensor_input import keyboard, press

_JOB = ("ctl", "run", "--job", "1", "--", "sleep", "100000")
_HOG = ("python3", "-c", "while True: pass")
_IDLE = 1.0  # seconds without a key until the user is gone
_KEY_A = 30
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
        if (event["node"], event["event"]) == ("node1", "LOCAL_U"):
            print(event["time"], flush=True)


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


def drive(events: int) -> tuple[list[float], list[float]]:
    """Node1: let the user come and go; when a key was pressed, and when the agent here knew."""
    pressed: list[float] = []
    known: list[float] = []
    threading.Thread(target=lambda: known.extend(event["time"] for event in _users(2 * events)), daemon=True).start()
    for _ in range(events):
        time.sleep(_IDLE + random.uniform(0.5, 1.0))
        pressed.append(time.time())
        press(keyboard(), _KEY_A)
    time.sleep(_IDLE + 2)
    return pressed, known


def _users(count: int) -> Iterator[dict[str, Any]]:
    return itertools.islice(follow(("local_user",)), count)


def delays(causes: list[float], effects: list[float]) -> list[float]:
    """Milliseconds from each cause to the first effect before the next cause, in order of length; none is left out."""
    found = []
    for began, following in zip(causes, [*causes[1:], float("inf")], strict=True):
        found += [1000 * (when - began) for when in effects if began - 1e-3 <= when < following][:1]
    return sorted(found)


def measure(events: int, hog: bool, one_clock: bool) -> dict[str, Any]:
    remote = ["ssh", "node2", "cd /src && exec python3 -m tests.cluster.agents --peer"]
    with (
        background(_JOB, *([_HOG] if hog else [])),
        subprocess.Popen(remote, stdout=subprocess.PIPE, text=True) as other,
    ):
        assert other.stdout is not None
        wall = float(other.stdout.readline()) - (time.time() - time.monotonic())
        time.sleep(_BOTH)
        before = (-wall, 0.0) if one_clock else compare_clocks("node2")
        pressed, known = drive(events)
        after = (-wall, 0.0) if one_clock else compare_clocks("node2")
        other.terminate()
        told = other.stdout.read()
    ahead = wall + (before[0] + after[0]) / 2
    whole = delays(pressed, [float(when) - ahead for when in told.split()])
    here = delays(pressed, known)
    return {
        "events": len(pressed),
        "missing": len(pressed) - len(whole),
        **figures(here, "known_here_"),
        **figures(whole),
        **clock_error(before, after),
    }


def main() -> int:
    """Measure, print, judge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=100)
    parser.add_argument("--hog", action="store_true")
    parser.add_argument("--policy", default="ccs")
    parser.add_argument("--contract", default="queue", choices=("queue", "class"))
    parser.add_argument("--one-clock", action="store_true", help="the nodes are in lock-step: their clocks are equal")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--peer", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.peer:
        peer()
        return 0
    for node in ("node1", "node2"):
        knobs = f"--set local_idle_s={_IDLE:g} --set contract={options.contract}"
        subprocess.run(["ssh", node, f"ctl load --wait --policy {options.policy} {knobs}"], check=True)
    time.sleep(_BOTH)
    measured = measure(options.events, options.hog, options.one_clock)
    told = {name: getattr(options, name) for name in ("hog", "policy", "contract")}
    return judge(measured | told, options.json)


if __name__ == "__main__":
    sys.exit(main())
