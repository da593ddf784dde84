# SPDX-License-Identifier: GPL-2.0-or-later
"""A thousand nodes on one broker: is every event delivered, how late, and what does a node cost at rest?

    just test-load [--nodes 1000] [--jobs 10000] [--rate 1000] [--seconds 60] [--json FILE]

Each node is a real relay with a TLS connection of its own; all of them share one process, and so one CPU. Each job is
held by two nodes. Local users come and go so that `rate` events a second are sent, each for one job to one other node.
Delivery is measured from the cause on one node to the decision on the other. Afterwards one more node, in a process of
its own, holds ten jobs and does nothing for 30 s: its memory and CPU are what a relay costs at rest.

Exit status 1 if an event was lost or delivered twice, or a node at rest takes more than 60 MiB or 2 % of a CPU.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import gc
import json
import os
import random
import resource
import sys
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ctl.cluster.contract import Decision, Sizes
from ctl.cluster.link import Member
from ctl.cluster.relay import Relay
from tests.cluster.lab import MIB, Lab, lab

PRESENT = 2.0  # seconds that a local user stays
REST, JOBS_AT_REST = 30.0, 10  # seconds, jobs of the node at rest
MAX_RSS, MAX_CPU = 60.0, 2.0  # MiB, percent of a CPU
LEASE = 9.0
_TICK = os.sysconf("SC_CLK_TCK")


class Load:
    """What was caused and what arrived."""

    def __init__(self) -> None:
        self.caused: dict[tuple[str, str], float] = {}  # node, kind -> when
        self.expected: Counter[tuple[str, str, str]] = Counter()  # node, kind, job
        self.arrived: Counter[tuple[str, str, str]] = Counter()
        self.delays: list[float] = []
        self.running = False


class Node:
    """One of the thousand."""

    def __init__(self, load: Load, member: Member) -> None:
        self._load = load
        self._name = member.name
        self.jobs: list[str] = []
        self.relay = Relay(self, member, 1, LEASE)
        self.task: asyncio.Task[None] | None = None

    def apply(self, decision: Decision) -> None:
        """Nothing is frozen here."""

    def sizes(self, sizes: Sizes) -> None:
        """Nor any pool set."""

    def tell(self, kind: str, text: str, **details: Any) -> None:
        """An event that came, if it is another node's."""
        load = self._load
        if kind == "event" and details["node"] != self._name and load.running:
            key = (details["node"], details["event"], details["jid"])
            load.arrived[key] += 1
            load.delays.append(time.monotonic() - load.caused[key[:2]])

    def user(self, present: bool) -> None:
        """A local user comes or goes: an event for each job."""
        kind = "LOCAL_U" if present else "NO_LOCAL"
        self._load.caused[self._name, kind] = time.monotonic()
        self._load.expected.update((self._name, kind, jid) for jid in self.jobs)
        self.relay.local_user("keyboard" if present else "")


def distribute(nodes: list[Node], jobs: int) -> None:
    """Two holders for each job, and about as many jobs for each node."""
    places = [node for node in nodes for _ in range(2 * jobs // len(nodes) + 1)]
    random.shuffle(places)
    for number in range(jobs):
        first = places.pop()
        other = next(i for i in range(len(places) - 1, -1, -1) if places[i] is not first)
        for node in (first, places.pop(other)):
            node.jobs.append(f"job{number}")


async def settle(load: Load, nodes: Iterable[Node], cluster: Lab) -> None:
    """Start all nodes, some at a time, and wait until they have no more to say."""
    for number, node in enumerate(nodes):
        for jid in node.jobs:
            node.relay.hold(jid, "alice")
        node.task = asyncio.create_task(node.relay.run())
        if number % 20 == 19:
            await asyncio.sleep(0.25)
    for node in nodes:
        while not node.relay.connected_to:
            await asyncio.sleep(0.1)
    async with cluster.link(cluster.member("node1")) as link:
        wanted = sum(len(node.jobs) for node in nodes)
        while len(await link.keys("cosched_holds")) < wanted:
            await asyncio.sleep(0.5)
    await asyncio.sleep(2.5 * LEASE / 3)


async def drive(load: Load, nodes: list[Node], rate: float, seconds: float) -> None:
    """Let users come and go, at an even pace."""
    load.running = True
    idle = list(nodes)
    random.shuffle(idle)
    began = time.monotonic()
    sent = 0.0
    leaving: list[tuple[float, Node]] = []
    while (now := time.monotonic()) - began < seconds:
        while leaving and leaving[0][0] <= now:
            node = leaving.pop(0)[1]
            node.user(False)
            sent += len(node.jobs)
            idle.insert(random.randrange(len(idle) // 2 + 1), node)
        while sent < (now - began) * rate and now - began < seconds - PRESENT:
            node = idle.pop()
            node.user(True)
            sent += len(node.jobs)
            leaving.append((now + PRESENT, node))
        await asyncio.sleep(0.002)
    for _, node in leaving:
        node.user(False)
    await asyncio.sleep(5)
    load.running = False


def cpu_s(pid: int) -> float:
    """Seconds of CPU that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICK


def rss_mib(pid: int) -> float:
    """A process's resident memory."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / MIB


async def rest(member: Member) -> None:
    """Be a node at rest, until killed."""
    node = Node(Load(), member)
    for number in range(JOBS_AT_REST):
        node.relay.hold(f"rest{number}", "alice")
    node.relay.describe(1000.0, 512 * MIB, 0.5)
    await node.relay.run()


async def at_rest(cluster: Lab) -> dict[str, float]:
    """What a node at rest costs."""
    member = cluster.member("resting")
    fields = json.dumps({**dataclasses.asdict(member), "seed": member.seed.hex()})
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.cluster.load", "--rest", stdin=asyncio.subprocess.PIPE
    )
    assert process.stdin is not None
    process.stdin.write(fields.encode())
    process.stdin.close()
    await asyncio.sleep(15)
    before, began = cpu_s(process.pid), time.monotonic()
    await asyncio.sleep(REST)
    used, took, memory = cpu_s(process.pid) - before, time.monotonic() - began, rss_mib(process.pid)
    process.terminate()
    await process.wait()
    return {"rss_mib": round(memory, 1), "cpu_percent": round(100 * used / took, 2)}


async def measure(nodes: int, jobs: int, rate: float, seconds: float) -> dict[str, Any]:
    """All of it."""
    load = Load()
    async with lab(lease=LEASE) as cluster:
        everybody = [Node(load, cluster.member(f"load{number}")) for number in range(nodes)]
        distribute(everybody, jobs)
        began = time.monotonic()
        await settle(load, everybody, cluster)
        settled = time.monotonic() - began
        print(f"{nodes} nodes, {jobs} jobs: settled after {settled:.0f} s", file=sys.stderr)
        gc.collect()
        gc.freeze()
        broker = cluster.brokers["node1"][0].pid
        before = [cpu_s(os.getpid()), cpu_s(broker)]
        await drive(load, everybody, rate, seconds + PRESENT / 2)  # at its end users only leave
        used = [cpu_s(os.getpid()) - before[0], cpu_s(broker) - before[1]]
        drops: Counter[str] = Counter()
        for node in everybody:
            drops.update(node.relay.drops.counts)
            drops.update({"overruns": node.relay.counts["overruns"]})
        result = {
            "nodes": nodes,
            "jobs": jobs,
            "events": sum(load.expected.values()),
            "events_per_s": round(sum(load.expected.values()) / seconds),
            "lost": sum((load.expected - load.arrived).values()),
            "twice": sum((load.arrived - load.expected).values()),
            **{f"{name}_ms": value for name, value in quantiles(load.delays).items()},
            "dropped": {reason: count for reason, count in drops.items() if count},
            "nodes_cpu_percent": round(100 * used[0] / (seconds + 5)),
            "broker_cpu_percent": round(100 * used[1] / (seconds + 5)),
            "broker_rss_mib": round(rss_mib(broker)),
            "settled_s": round(settled),
        }
        for node in everybody:
            assert node.task is not None
            node.task.cancel()
        await asyncio.gather(*(node.task for node in everybody if node.task), return_exceptions=True)
        return {**result, "at_rest": await at_rest(cluster)}


def quantiles(delays: list[float]) -> dict[str, float]:
    """Median, p99 and longest, in milliseconds."""
    ordered = sorted(delays) or [float("nan")]
    picks = {"median": len(ordered) // 2, "p99": int(len(ordered) * 0.99), "longest": len(ordered) - 1}
    return {name: round(1000 * ordered[index], 1) for name, index in picks.items()}


def main() -> int:
    """Measure, print, judge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--rate", type=float, default=1000)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--rest", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.rest:
        fields = json.load(sys.stdin)
        seed, servers = bytes.fromhex(fields.pop("seed")), tuple(fields.pop("servers"))
        asyncio.run(rest(Member(**fields, seed=seed, servers=servers)))
        return 0
    files = 2 * options.nodes + 200
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, max(files, resource.getrlimit(resource.RLIMIT_NOFILE)[1])))
    result = asyncio.run(measure(options.nodes, options.jobs, options.rate, options.seconds))
    if options.json:
        options.json.write_text(json.dumps(result, indent=1))
    for name, value in result.items():
        print(f"{name:20} {value}")
    print(told(result))
    resting = result["at_rest"]
    good = not result["lost"] and not result["twice"]
    return 0 if good and resting["rss_mib"] <= MAX_RSS and resting["cpu_percent"] <= MAX_CPU else 1


def told(result: dict[str, Any]) -> str:
    """The result in a line."""
    resting = result["at_rest"]
    return (
        f"load: {result['events']:,} events of {result['nodes']:,} nodes, {result['events_per_s']:,} a second: "
        f"{result['lost']} lost, {result['twice']} delivered twice; from cause to decision p99 {result['p99_ms']:g} ms; "
        f"a node at rest {resting['rss_mib']:g} of {MAX_RSS:g} MiB, {resting['cpu_percent']:g} of {MAX_CPU:g} % of a CPU"
    )


if __name__ == "__main__":
    sys.exit(main())
