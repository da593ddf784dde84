# SPDX-License-Identifier: GPL-2.0-or-later
"""Explicit coscheduling on two virtual machines: how late slots are on each, and how far apart on both.

    vm/cluster 2 --alone -- python3 -m tests.cluster.in_step [--seconds 20] [--run 90] [--stop 10] [--hog] [--json FILE]

On each node a task of a job asks for the time without pause; gaps are its stops, as a rank would feel them. Virtual
machines have no time service, so node2's clock is set by node1's first, and both are compared by UDP packets before and
after: the quickest of many round trips bounds the error. `--hog` adds a local program that computes to each node, with
one CPU for all.

Exit status 1 if a tenth of the stops or more were missed on either node, or half of them were further apart on the two
nodes than a stop is long.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ctl.percentile import percentile
from tests.cluster.between import compare_clocks, tell_time

_NS = 1_000_000_000
_LEAST = 2_000_000  # ns: a shorter gap was an interrupt, or the emulator
_HOG = "while True: pass"

Gap = tuple[int, int]  # ns since 1970, by the node's own clock


def witness(seconds: float) -> None:
    """Print when this process could not look at the clock."""
    end, gaps, last = time.monotonic() + seconds, [], time.time_ns()
    while time.monotonic() < end:
        now = time.time_ns()
        if now - last > _LEAST:
            gaps.append((last, now))
        last = now
    print(json.dumps(gaps))


def _this(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "tests.cluster.in_step", *arguments]


def observe(seconds: float, run_ms: int, stop_ms: int, hog: bool) -> dict[str, Any]:
    """Load explicit, run the witness as a job; returns its gaps, and the agent's figures on slots."""
    settings = ["sensors=off", f"slot_run_ms={run_ms}", f"slot_stop_ms={stop_ms}"]
    subprocess.run(["ctl", "load", "--policy", "explicit", *(f"--set={setting}" for setting in settings)],
                   check=True, stdout=subprocess.DEVNULL)
    # slots last as long as the job, and beside the witness `ctl status` would wait for its turns
    others = [subprocess.Popen(["ctl", "run", "--job", "w", "--", "sleep", "1000"])]
    if hog:
        others.append(subprocess.Popen([sys.executable, "-c", _HOG]))
    try:
        job = subprocess.run(["ctl", "run", "--job", "w", "--", *_this("--witness", str(seconds))],
                             check=True, stdout=subprocess.PIPE, text=True)
        gaps = json.loads(job.stdout)
        status = json.loads(subprocess.run(["ctl", "status", "--json"], check=True, capture_output=True).stdout)
    finally:
        for process in others:
            process.kill()
        subprocess.run(["ctl", "unload"], check=True, stdout=subprocess.DEVNULL)
    return {"gaps": gaps, "slots": status["contract"]["slots"]}


def peer() -> None:
    """Node2: tell the time, and do what each line of the input says."""
    threading.Thread(target=tell_time, args=(time.time,), daemon=True).start()
    print("ready", flush=True)
    for line in sys.stdin:
        word, *values = line.split()
        if word == "ahead":
            time.clock_settime(time.CLOCK_REALTIME, time.time() - float(values[0]))
            print("set", flush=True)
        else:
            found = observe(float(values[0]), int(values[1]), int(values[2]), values[3] == "True")
            print(json.dumps(found), flush=True)


def stops(gaps: Sequence[Gap], run_ms: int, stop_ms: int) -> Iterator[tuple[int, Gap | None]]:
    """Every stop due between the first and the last gap: when it is due, and the gap that its middle falls into."""
    run, whole = run_ms * 1_000_000, (run_ms + stop_ms) * 1_000_000
    for period in range(gaps[0][0] // whole + 1, gaps[-1][1] // whole):
        due = period * whole + run
        middle = due + (whole - run) // 2
        yield due, next((gap for gap in gaps if gap[0] <= middle < gap[1]), None)


def summary(values: Sequence[float]) -> dict[str, float]:
    """ms."""
    ordered = sorted(values)
    return {
        "median": round(statistics.median(ordered) / 1e6, 2),
        "p99": round(percentile(ordered, 0.99) / 1e6, 2),
        "longest": round(ordered[-1] / 1e6, 2),
    }


def judge(nodes: Sequence[dict[str, Any]], ahead_s: float, run_ms: int, stop_ms: int) -> dict[str, Any]:
    """Lateness of each edge on each node, and the distance between the nodes; node2's clock is `ahead_s` ahead."""
    result: dict[str, Any] = {}
    found = [dict(stops(node["gaps"], run_ms, stop_ms)) for node in nodes]
    for number, (node, of) in enumerate(zip(nodes, found, strict=True), 1):
        met = {due: gap for due, gap in of.items() if gap}
        result[f"node{number}"] = {
            "stops": len(of),
            "missed": len(of) - len(met),
            "stop_late_ms": summary([gap[0] - due for due, gap in met.items()]),
            "go_late_ms": summary([gap[1] - due - stop_ms * 1_000_000 for due, gap in met.items()]),
            "agent": node["slots"],
        }
    both = [(one, two) for due, one in found[0].items() if one and (two := found[1].get(due))]
    for word, edge in (("stop", 0), ("go", 1)):
        result[f"{word}_apart_ms"] = summary([abs(two[edge] - one[edge] - ahead_s * _NS) for one, two in both])
    result["stops_on_both"] = len(both)
    return result


def measure(seconds: float, run_ms: int, stop_ms: int, hog: bool) -> dict[str, Any]:
    remote = ["ssh", "node2", "cd /src && exec python3 -m tests.cluster.in_step --peer"]
    with subprocess.Popen(remote, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdin is not None and other.stdout is not None
        assert other.stdout.readline() == "ready\n"
        print("ahead", compare_clocks("node2", time.time)[0], file=other.stdin, flush=True)
        assert other.stdout.readline() == "set\n"
        before = compare_clocks("node2", time.time)
        print("go", seconds, run_ms, stop_ms, hog, file=other.stdin, flush=True)
        here = observe(seconds, run_ms, stop_ms, hog)
        there = json.loads(other.stdout.readline())
        after = compare_clocks("node2", time.time)
        other.stdin.close()
    result = judge([here, there], (before[0] + after[0]) / 2, run_ms, stop_ms)
    error = max(before[1], after[1]) + abs(after[0] - before[0]) / 2
    return result | {"clock_ahead_ms": round(before[0] * 1e3, 2), "clock_error_ms": round(error * 1e3, 2)}


def main() -> int:
    """Measure, print, judge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--run", type=int, default=90, help="slot_run_ms")
    parser.add_argument("--stop", type=int, default=10, help="slot_stop_ms")
    parser.add_argument("--hog", action="store_true")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--peer", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--witness", type=float, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.peer:
        peer()
        return 0
    if options.witness:
        witness(options.witness)
        return 0
    os.chdir(Path(__file__).resolve().parents[2])
    result = measure(options.seconds, options.run, options.stop, options.hog)
    if options.json:
        options.json.write_text(json.dumps(result, indent=1))
    for name, value in result.items():
        print(f"{name:16} {value}")
    missed = max(result[node]["missed"] / max(1, result[node]["stops"]) for node in ("node1", "node2"))
    apart = max(result["stop_apart_ms"]["median"], result["go_apart_ms"]["median"])
    return 0 if missed < 0.1 and apart < options.stop and result["stops_on_both"] else 1


if __name__ == "__main__":
    sys.exit(main())
