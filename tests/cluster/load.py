# SPDX-License-Identifier: GPL-2.0-or-later
"""A thousand nodes on one broker: is every event delivered, how late, and what does a node cost at rest?

    just test-load [--nodes 1000] [--jobs 10000] [--rate 1000] [--seconds 60] [--json FILE]

Each node is a real relay with a TLS connection of its own; half of them share a process, and so a CPU. Each job is
held by two nodes. Local users come and go so that `rate` events a second are sent, each for one job to one other node.
Delivery is measured from the cause on one node to the decision on the other. Afterwards another node, in a process of
its own, holds ten jobs and rests for 30 s: its memory and CPU are the cost of a relay at rest.

Exit status 1 if an event was lost or delivered twice, or a node at rest takes more than 60 MiB or 2 % of a CPU.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import itertools
import json
import multiprocessing
import os
import random
import resource
import sys
import time
from collections import Counter
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from ctl.cluster.link import Member
from ctl.percentile import percentile
from tests.cluster.lab import MIB, Lab, lab
from tests.cluster.load_part import LEASE, Events, Load, Node, Part, Report, quiet, serve

PARTS = 2
DRAIN = 60.0  # seconds in which the last event is to arrive: a slow host is late, but loses nothing
REST, JOBS_AT_REST = 30.0, 10  # seconds, jobs of the node at rest
MAX_RSS, MAX_CPU = 60.0, 2.0  # MiB, percent of a CPU
_TICK = os.sysconf("SC_CLK_TCK")


def distribute(nodes: int, jobs: int) -> list[tuple[str, ...]]:
    """Two holders for each job, and about as many jobs for each node."""
    held: list[list[str]] = [[] for _ in range(nodes)]
    places = [node for node in range(nodes) for _ in range(2 * jobs // nodes + 1)]
    random.shuffle(places)
    for number in range(jobs):
        first = places.pop()
        other = next(i for i in range(len(places) - 1, -1, -1) if places[i] != first)
        for node in (first, places.pop(other)):
            held[node].append(f"job{number}")
    return [tuple(each) for each in held]


def parts(cluster: Lab, nodes: int, jobs: int, rate: float, seconds: float) -> list[Part]:
    """All nodes, in as many processes as there are parts."""
    everybody = [(cluster.member(f"load{i}"), held) for i, held in enumerate(distribute(nodes, jobs))]
    bounds = [nodes * part // PARTS for part in range(PARTS + 1)]
    return [
        Part(tuple(everybody[first:end]), rate / PARTS, seconds)
        for first, end in itertools.pairwise(bounds)
    ]


async def all_say(pipes: list[Connection], word: str = "") -> list[Any]:
    """The messages of each part, as answers or on its own."""
    for pipe in pipes:
        if word:
            pipe.send(word)
    return [await asyncio.to_thread(pipe.recv) for pipe in pipes]


async def settle(cluster: Lab, jobs: int) -> None:
    """Wait until the store has all records, and the nodes have no more to say."""
    async with cluster.link(cluster.member("node1")) as link:
        while len(await link.keys("cosched_holds")) < 2 * jobs:
            await asyncio.sleep(0.5)
    await asyncio.sleep(2.5 * LEASE / 3)


async def measure(nodes: int, jobs: int, rate: float, seconds: float) -> dict[str, Any]:
    """All of it."""
    processes = multiprocessing.get_context("spawn")
    caused = processes.RawArray("d", 2 * nodes)
    async with lab(lease=LEASE) as cluster:
        began = time.monotonic()
        pipes = []
        for part in parts(cluster, nodes, jobs, rate, seconds):
            ours, theirs = processes.Pipe()
            processes.Process(target=serve, args=(part, theirs, caused), daemon=True).start()
            theirs.close()  # so that the end of a part is the end of its pipe, and not waited for
            pipes.append(ours)
        await all_say(pipes)
        await settle(cluster, jobs)
        settled = time.monotonic() - began
        print(f"{nodes} nodes, {jobs} jobs: settled after {settled:.0f} s", file=sys.stderr)
        broker = cluster.brokers["node1"][0].pid
        before, began = cpu_s(broker), time.monotonic()
        totals = await all_say(pipes, "drive")
        late = time.monotonic() + DRAIN
        while sum(sent - arrived for sent, arrived in totals) > 0 and time.monotonic() < late:
            await asyncio.sleep(0.5)
            totals = await all_say(pipes, "count")
        await asyncio.sleep(1)  # for what comes twice
        used = (cpu_s(broker) - before) / (time.monotonic() - began)
        reports: list[Report] = await all_say(pipes, "end")
        broker_fields = {"broker_cpu_percent": round(100 * used), "broker_rss_mib": round(rss_mib(broker))}
        resting = await at_rest(cluster)
    said = {"nodes": nodes, "jobs": jobs, **summed(reports, seconds)}
    return {**said, **broker_fields, "settled_s": round(settled), "at_rest": resting}


def summed(reports: list[Report], seconds: float) -> dict[str, Any]:
    """The observations of all parts together."""
    sent, arrived, drops = Events(), Events(), Counter[str]()
    for each in reports:
        sent.update(each.sent)
        arrived.update(each.arrived)
        drops.update(each.drops)
    return {
        "events": sent.total(),
        "events_per_s": round(sent.total() / seconds),
        "lost": (sent - arrived).total(),
        "twice": (arrived - sent).total(),
        **quantiles([delay for each in reports for delay in each.delays]),
        "dropped": {reason: count for reason, count in drops.items() if count},
        "nodes_cpu_percent": round(100 * sum(each.cpu for each in reports)),
    }


def quantiles(delays: list[float]) -> dict[str, float]:
    """Median, p99 and longest, in milliseconds."""
    shares = {"median": 0.5, "p99": 0.99, "longest": 1.0}
    return {f"{name}_ms": round(1000 * percentile(delays or [float("nan")], part), 1) for name, part in shares.items()}


def cpu_s(pid: int) -> float:
    """Seconds of CPU that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICK


def rss_mib(pid: int) -> float:
    """A process's resident memory."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / MIB


async def rest(member: Member) -> None:
    """Be a node at rest, until killed."""
    node = Node(Load(), member, tuple(f"rest{number}" for number in range(JOBS_AT_REST)))
    node.relay.describe(1000.0, 512 * MIB, 0.5)
    await node.relay.run()


async def at_rest(cluster: Lab) -> dict[str, float]:
    """The cost of a node at rest."""
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


def told(result: dict[str, Any]) -> str:
    """The result in a line."""
    resting = result["at_rest"]
    words = (
        f"{result['events']:,} events of {result['nodes']:,} nodes, {result['events_per_s']:,} a second",
        f"{result['lost']} lost, {result['twice']} delivered twice",
        f"from cause to decision p99 {result['p99_ms']:g} ms",
        f"a node at rest {resting['rss_mib']:g} of {MAX_RSS:g} MiB, {resting['cpu_percent']:g} of {MAX_CPU:g} % of CPU",
    )
    return f"load: {'; '.join(words)}"


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
    quiet()
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


if __name__ == "__main__":
    sys.exit(main())
