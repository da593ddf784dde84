# SPDX-License-Identifier: GPL-2.0-or-later
"""How long from a cause on one virtual machine to the decision on another, through a real broker.

    vm/cluster 2 -- python3 -m tests.cluster.between [--events 500] [--hog] [--load POLICY] [--nice N] [--json FILE]

Each node runs a relay, as its agent does; both hold one job, and the broker is node1's. A local user comes and goes on
node1; node2 notes when its relay decides. The two clocks are compared by UDP packets before and after: the quickest of
many round trips bounds the error. `--hog` adds a program that computes to each node, with one CPU for all; `--load`
puts both under a policy; `--nice` changes the niceness of relays and broker.

Exit status 1 if an event did not arrive, or the p99 is above 50 ms.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ctl.cluster.membership import Files
from ctl.cluster.relay import Relay
from ctl.contract import Decision, State
from ctl.percentile import percentile
from tests.cluster.lab import until
from tests.cluster.local import NoQueue

GOAL = 50.0  # ms
PORT = 9099
JID = "1"
_ROUNDS = 300  # of comparing clocks
_HOG = "renice -n 0 $$ >/dev/null; exec python3 -c 'while True: pass'"  # as others are, whatever this program is


class Agent(NoQueue):
    """The calls to an agent, with their times."""

    def __init__(self) -> None:
        self.decided: list[tuple[float, State]] = []

    def apply(self, decision: Decision) -> None:
        self.decided.append((time.monotonic(), decision.state))

    def sizes(self, sizes: object) -> None:
        """Of no interest."""

    def tell(self, kind: str, text: str, **details: object) -> None:
        """Nor this."""


def relay_of(agent: Agent) -> Relay:
    relay = Relay.of_this_node(agent, Files())
    assert relay is not None, "this node is in no cluster"
    relay.hold(JID, "root")
    return relay


def tell_time(now: Callable[[], float] = time.monotonic) -> None:
    """Answer each packet with this node's time, for ever."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as clock:
        clock.bind(("", PORT))
        while True:
            _, sender = clock.recvfrom(64)
            clock.sendto(repr(now()).encode(), sender)


def compare_clocks(address: str, now: Callable[[], float] = time.monotonic) -> tuple[float, float]:
    """The other node's clock less ours, and half the quickest round trip; both in seconds."""
    best = (0.0, float("inf"))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as clock:
        clock.settimeout(1)
        clock.connect((address, PORT))
        for _ in range(_ROUNDS):
            began = now()
            clock.send(b"?")
            theirs, ended = float(clock.recv(64)), now()
            if (ended - began) / 2 < best[1]:
                best = theirs - (began + ended) / 2, (ended - began) / 2
    return best


async def peer() -> None:
    """Node2: print the time of every decision, until the input ends."""
    threading.Thread(target=tell_time, daemon=True).start()
    agent = Agent()
    relay = relay_of(agent)
    running = asyncio.create_task(relay.run())
    await until(lambda: relay.connected_to, 60)
    print("connected", flush=True)
    await asyncio.to_thread(sys.stdin.read)
    for when, state in agent.decided:
        print(when, state.value)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def drive(events: int) -> list[tuple[float, State]]:
    """Node1: let the user come and go; returns the times and the job's states."""
    relay = relay_of(Agent())
    running = asyncio.create_task(relay.run())
    await until(lambda: relay.connected_to, 60)
    await asyncio.sleep(5)  # each knows that the other holds the job
    caused = []
    for number in range(events):
        present = number % 2 == 0
        caused.append((time.monotonic(), State.SLOWED if present else State.FREE))
        relay.local_user("keyboard" if present else "")
        await asyncio.sleep(random.uniform(0.1, 0.3))
    await asyncio.sleep(2)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    return caused


def match(caused: list[tuple[float, State]], decided: list[tuple[float, State]], ahead: float) -> list[float]:
    """Milliseconds from each cause to its decision; causes that led to none are left out."""
    delays = []
    for (began, state), (following, _) in zip(caused, [*caused[1:], (float("inf"), State.FREE)], strict=True):
        found = [when - ahead - began for when, was in decided if was == state and began <= when - ahead + 1e-3]
        if found and found[0] < following - began:
            delays.append(1000 * found[0])
    return delays


def prepare(policy: str | None, nice: int) -> None:
    """Load a policy on both nodes, and set the niceness of this program and what it starts, and of the broker."""
    for node in ("node1", "node2") if policy else ():
        subprocess.run(["ssh", node, f"ctl load --policy {policy} --set sensors=off"], check=True)
    os.nice(nice)
    broker = subprocess.run(["pgrep", "-f", "cluster serve|nats-server"], capture_output=True, text=True, check=True)
    for pid in broker.stdout.split():
        os.setpriority(os.PRIO_PROCESS, int(pid), nice)


def measure(events: int, hog: bool, nice: int) -> dict[str, Any]:
    remote = ["ssh", "node2", f"cd /src && exec nice -n {nice} python3 -m tests.cluster.between --peer"]
    hogs = [["sh", "-c", _HOG], ["ssh", "-tt", "node2", _HOG]] if hog else []
    with subprocess.Popen(remote, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "connected\n"
        before = compare_clocks("node2")
        working = [subprocess.Popen(one, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) for one in hogs]
        try:
            caused = asyncio.run(drive(events))
        finally:
            for process in working:
                process.terminate()
        after = compare_clocks("node2")
        output, _ = other.communicate()
    decided = [(float(when), State(state)) for when, state in (line.split() for line in output.splitlines())]
    delays = sorted(match(caused, decided, (before[0] + after[0]) / 2))
    counted = {"events": len(caused), "missing": len(caused) - len(delays)}
    return {**counted, **figures(delays), **clock_error(before, after)}


def figures(delays: Sequence[float], prefix: str = "") -> dict[str, float]:
    """Summary of delays in order of length, ms."""
    return {
        f"{prefix}median_ms": round(statistics.median(delays), 2),
        f"{prefix}p99_ms": round(percentile(delays, 0.99), 2),
        f"{prefix}longest_ms": round(delays[-1], 2),
    }


def clock_error(before: tuple[float, float], after: tuple[float, float]) -> dict[str, float]:
    """How far off the delays may be: the clocks were compared before and after."""
    return {"clock_error_ms": round(1000 * (max(before[1], after[1]) + abs(after[0] - before[0])), 2)}


def judge(result: Mapping[str, Any], kept: Path | None) -> int:
    """Print, and keep if asked; the exit status: 1 if an event is missing, or the p99 is above the goal."""
    if kept:
        kept.write_text(json.dumps(result, indent=1))
    for name, value in result.items():
        print(f"{name:22} {value}")
    return 0 if not result["missing"] and result["p99_ms"] <= GOAL else 1


def main() -> int:
    """Measure, print, judge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=500)
    parser.add_argument("--hog", action="store_true")
    parser.add_argument("--load", metavar="POLICY")
    parser.add_argument("--nice", type=int, default=0)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--peer", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.peer:
        asyncio.run(peer())
        return 0
    prepare(options.load, options.nice)
    result = measure(options.events, options.hog, options.nice)
    return judge(result | {"hog": options.hog, "policy": options.load, "nice": options.nice}, options.json)


if __name__ == "__main__":
    sys.exit(main())
