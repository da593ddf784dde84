# SPDX-License-Identifier: GPL-2.0-or-later
"""The experiment `placement` on its first node: `python3 -m tests.experiments.placement_guest NODES CASES`, of JSON.

Measure each case and print a line of JSON; placement_node.py has the measuring side, alike on all nodes. All runs of a
cluster are made under the same loaded policy: configurations differ in who is asked for a job's node, and in what a job
tells its agent as it begins. A job comes at its time to its node, whose agent is asked then, by what it knows by then.
"""

from __future__ import annotations

import selectors
import sys
import time
from collections.abc import Sequence
from typing import Any, Final

from tests.experiments import ccs_plan
from tests.experiments import placement_plan as plan
from tests.experiments.ccs_guest import DEMO, SOURCES, Node, lap, report, run
from tests.experiments.ccs_plan import Case

__all__ = ["main"]

_QUIET_S: Final = 15.0  # before a run: the agents' means of load have forgotten the run before
_ROOM_FOR_CODE: Final = 512 << 10  # bytes of a job beside its working set


class Bench:
    """The nodes, with the policy loaded, and the program of the jobs."""

    def __init__(self, count: int) -> None:
        began = [time.monotonic()]
        names = [f"node{number}" for number in range(1, count + 1)]
        _compile(names)
        self._nodes = [Node(name, "placement_node") for name in names]
        self._by_name = dict(zip(names, self._nodes, strict=True))
        (self._disk,) = set(self._all("disk", latency_ms=plan.PAGE_MS, size_mb=plan.DISK_MB))
        began.append(lap("compiled, swap made", began))
        self._loops = int(run(str(plan.JOB), "calibrate"))
        self._all("policy", name=plan.POLICY, knobs=plan.KNOBS)
        lap("policy loaded", began)

    def _all(self, op: str, **arguments: object) -> list[Any]:
        """Make all nodes do an operation at once."""
        for node in self._nodes:
            node.ask(op, **arguments)
        return [node.result() for node in self._nodes]

    def _settle(self) -> dict[str, Any]:
        """Give all nodes the same room, with nothing running; what there is then."""
        self._all("push_out")
        available = self._all("settle", room_kb=plan.ROOM_MB * 1024)
        time.sleep(_QUIET_S)
        return {"available_kb": available, "rooms": self._all("room")}

    def alone(self, case: Case) -> dict[str, Any]:
        """Each program with a node for itself: its dedicated lifetime."""
        laps = [time.monotonic()]
        room = self._settle()
        laps.append(lap("alone: settled", laps))
        jobs: list[dict[str, Any]] = []
        for first in range(0, len(plan.PROGRAMS), len(self._nodes)):
            some = plan.PROGRAMS[first : first + len(self._nodes)]
            coming = [plan.Arrival(0.0, node, program) for node, program in enumerate(some)]
            jobs += self._run(coming, plan.CONFIGS["none"], case, f"{len(jobs)}")["jobs"]
        lap("run", laps)
        return {"jobs": {job["program"]: job for job in jobs}, **room}

    def measure(self, case: Case) -> dict[str, Any]:
        """Do one run."""
        laps = [time.monotonic()]
        room = self._settle()
        laps.append(lap(f"{case.config}: settled", laps))
        found = self._run(plan.arrivals(len(self._nodes), case.seed), plan.CONFIGS[case.config], case, case.config)
        lap("run", laps)
        return {**found, **room}

    def _run(self, coming: Sequence[plan.Arrival], config: plan.Config, case: Case, prefix: str) -> dict[str, Any]:
        """Have the jobs come, and wait until all have ended, or it has taken too long."""
        before, began = self._all("counters"), time.monotonic()
        jobs: dict[str, dict[str, Any]] = {}
        pids: dict[str, int] = {}
        waiting, end = list(coming), began + case.limit_s
        with selectors.DefaultSelector() as selector:
            for node in self._nodes:
                selector.register(node, selectors.EVENT_READ)
            while (waiting or any(job["ended_s"] is None for job in jobs.values())) and time.monotonic() < end:
                if waiting and time.monotonic() >= began + waiting[0].at_s:
                    job = self._begin(waiting.pop(0), config, f"{prefix}-{len(jobs)}", case.seed, began, pids)
                    jobs[job["jid"]] = job
                patience = began + waiting[0].at_s - time.monotonic() if waiting else 1.0
                for key, _ in selector.select(max(0.0, patience)):
                    key.fileobj.read()  # type: ignore[union-attr]
                self._note_ends(jobs, began)
        makespan = round(time.monotonic() - began, 3)
        self._end(jobs, pids)
        after = self._all("counters")
        paged = [{name: new[name] - old[name] for name in old} for old, new in zip(before, after, strict=True)]
        return {"makespan_s": makespan, "jobs": list(jobs.values()), "nodes": paged}

    def _begin(
        self, arrival: plan.Arrival, config: plan.Config, jid: str, seed: int, began: float, pids: dict[str, int]
    ) -> dict[str, Any]:
        """A job comes: ask its node's agent where it is to run, and begin it there."""
        home = self._nodes[arrival.node]
        need = int(plan.need_mb(arrival.program) * (1 << 20)) + _ROOM_FOR_CODE if config.known else 0
        asked = time.monotonic()
        name = home.call("place", need=need, by=config.by) if config.by else home.name
        placed = time.monotonic() - asked
        argv = plan.arguments(arrival.program, self._loops, self._disk, 1 + seed + len(pids))
        pids[jid] = self._by_name[name].call("begin", jid=jid, need=need, waits=config.waits, argv=argv)
        return {
            "jid": jid, "program": arrival.program, "home": home.name, "node": name, "placed_s": round(placed, 4),
            "due_s": round(arrival.at_s, 3), "came_s": round(asked - began, 3), "ended_s": None,
        }  # fmt: skip

    def _note_ends(self, jobs: dict[str, dict[str, Any]], began: float) -> None:
        for node in self._nodes:
            while node.events:
                said = node.events.pop(0)
                if said["said"] is None:
                    raise SystemExit(f"job {said['jid']} failed on {node.name}")
                jobs[said["jid"]] |= {"ended_s": round(time.monotonic() - began, 3), **said["said"]}

    def _end(self, jobs: dict[str, dict[str, Any]], pids: dict[str, int]) -> None:
        """End the jobs that have not ended by themselves."""
        for job in (job for job in jobs.values() if job["ended_s"] is None):
            node = self._by_name[job["node"]]
            node.call("kill", pids=[pids[job["jid"]]])
            while not any(event["jid"] == job["jid"] for event in node.events):
                node.read()
        for node in self._nodes:
            node.events.clear()


def _compile(names: Sequence[str]) -> None:
    """Build the programs, and bring them to all nodes."""
    ccs_plan.WORK.mkdir(exist_ok=True)
    sources = SOURCES / "profiled_job.c", DEMO / "hold_memory.c"
    for source in sources:
        run("gcc", "-O2", "-o", str(ccs_plan.WORK / source.stem), str(source))
    for name in names[1:]:
        run("scp", "-O", "-q", "-r", str(ccs_plan.WORK), f"{name}:{ccs_plan.WORK.parent}")


def main(argv: list[str]) -> int:
    """Measure all cases."""
    report(Bench(int(argv[0])), argv[1])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
