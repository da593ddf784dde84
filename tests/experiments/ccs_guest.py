# SPDX-License-Identifier: GPL-2.0-or-later
"""The experiments of CCS on their first node: `python3 -m tests.experiments.ccs_guest CASES`, a file of JSON.

Measure each case and print a line of JSON; ccs_node.py has the measuring side, alike on all nodes. Before the clock
starts, all jobs of a run have been started and wait at their gates, and all nodes have the memory they should have.
Gates open for the first jobs, and for each next one as soon as one has ended. Jobs stay for the next run if that has
the same: starting them takes longer than a run. Slurm's jobs stand at gates as well, suspended as by an administrator,
which its gang scheduling respects; they are resumed as their gates open, and take turns from then on.
"""

from __future__ import annotations

import itertools
import json
import os
import selectors
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Protocol

from ctl.percentile import percentile
from ctl.policy import MODULES, POLICIES
from tests import slurm
from tests.experiments import ccs_plan as plan
from tests.experiments.ccs_jobs import Job, SlurmJob, together
from tests.experiments.ccs_plan import Case, Workload
from tests.experiments.ccs_users import Users, arguments

__all__ = ["DEMO", "SOURCES", "Node", "lap", "main", "report", "run"]

SOURCES: Final = Path(__file__).resolve().parents[1] / "progs"
DEMO: Final = Path(__file__).resolve().parents[2] / "ctl/demo/progs"
_ALONE_S: Final = 8.0  # a local user that is measured alone
_ROUNDS: Final = 30  # of comparing clocks
_BASE_KNOBS: Final = {
    **dict.fromkeys(MODULES, "policy"),
    "spin_ms": 2,
    "local_idle_s": plan.IDLE_S, "epoch_ms": plan.EPOCH_MS,
}
_SPEED: Final = 1000.0  # the knob's value for the fastest node


class Node:
    """The helper on one node."""

    def __init__(self, name: str, helper: str = "ccs_node") -> None:
        command = ["python3", "-m", f"tests.experiments.{helper}"]
        command = command if name == "node1" else ["ssh", name, *command]
        self.name = name
        self.events: list[dict[str, Any]] = []
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._process.stdin and self._process.stdout
        self._requests, self._answers = self._process.stdin, self._process.stdout
        self._buffer = b""
        self._results: list[Any] = []

    def fileno(self) -> int:
        """Readable when it says something."""
        return self._answers.fileno()

    def ask(self, op: str, **arguments: object) -> None:
        """Ask for an operation; take its result before the next request."""
        self._requests.write(json.dumps({"op": op, **arguments}).encode() + b"\n")
        self._requests.flush()

    def result(self) -> Any:
        """The result of the last request; events before the result are kept."""
        while not self._results:
            self.read()
        return self._results.pop()

    def call(self, op: str, **arguments: object) -> Any:
        """Ask, and wait for the result."""
        self.ask(op, **arguments)
        return self.result()

    def read(self) -> None:
        """Read its output."""
        piece = os.read(self.fileno(), 1 << 20)
        if not piece:
            raise SystemExit(f"the helper on {self.name} has ended")
        *lines, self._buffer = (self._buffer + piece).split(b"\n")
        for said in map(json.loads, lines):
            if "error" in said:
                raise SystemExit(f"{self.name}: {said['error']}")
            if "event" in said:
                self.events.append(said)
            else:
                self._results.append(said["result"])


class Bench:
    """The nodes, and the programs compiled for them."""

    def __init__(self, names: Sequence[str]) -> None:
        began = [time.monotonic()]
        _compile(names[1:])
        began.append(lap("compiled", began))
        self.nodes = [Node(name) for name in names]
        self.loops_per_ms = int(run(str(plan.WORK / "local_user"), "calibrate"))
        self._jobs: list[Job] = []
        lap("calibrated", began)
        # What these jobs are, the seed of their order, and whether Slurm has them.
        self._wanted: tuple[tuple[str, float], int, bool] | None = None

    def all(self, op: str, *per_node: dict[str, Any], **arguments: object) -> list[Any]:
        """Make all nodes do an operation at once; `per_node`: the arguments of each."""
        for index, node in enumerate(self.nodes):
            node.ask(op, **arguments, **(per_node[index] if per_node else {}))
        return [node.result() for node in self.nodes]

    def ahead(self) -> list[float]:
        """How far the nodes' clocks are ahead of the first node's, seconds."""
        return [0.0, *map(self._ahead, self.nodes[1:])]

    def _ahead(self, node: Node) -> float:
        """The same for one of the others: by the quickest of some round trips."""
        trips: list[tuple[float, float]] = []
        for _ in range(_ROUNDS):
            began = time.monotonic()
            theirs = node.call("clock")
            ended = time.monotonic()
            trips.append((ended - began, theirs - (began + ended) / 2))
        return min(trips)[1]

    def prepare(self, workload: Workload, config: plan.Config) -> None:
        """Load the scheduler, and slow down the slower nodes."""
        own = [
            {"memory_mb": int(plan.ROOM_MB * room), "speed": _SPEED * weight}
            for room, weight in zip(workload.rooms, workload.weights, strict=True)
        ]
        share = {"share_l": POLICIES[config.policy].share_l} if config.policy else {}
        knobs = [{"knobs": _BASE_KNOBS | share | each | config.knobs} for each in own]
        self.all("policy", *knobs, name=config.policy)

    def _crew(self, workload: Workload, config: plan.Config, seed: int) -> list[Job]:
        """The workload's jobs at their gates, under this scheduler: those that are there, or others in their place."""
        laps = [time.monotonic()]
        if (workload.jobs, seed, config.gang) != self._wanted:
            self.dismiss()
            mix = plan.mix(workload, seed)
            if config.gang:
                self.prepare(workload, config)  # an agent would take up Slurm's jobs
                slurm.start(slurm.Settings(gang=True, slots=len(mix), cpus=1))
            self._wanted = workload.jobs, seed, config.gang
            for number, kernel in enumerate(mix, 1):
                started, hosts = SlurmJob if config.gang else Job, workload.hosts(number - 1)
                self._jobs.append(started(f"{number}-{kernel}", kernel, workload.size, hosts))
                if config.gang:  # while jobs take turns, srun waits for longer and longer times to start one
                    self._jobs[-1].wait_ready()
            for job in self._jobs:
                job.wait_ready()
            laps.append(lap("jobs", laps))
        self.prepare(workload, config)
        lap("scheduler", laps)
        return self._jobs

    def dismiss(self) -> None:
        """Have the jobs end that there are."""
        if self._jobs:
            self.all("unsettle")  # others need memory to start
        for job in self._jobs:
            self.all("kill", *({"pids": job.ranks.get(node.name, [])} for node in self.nodes))
            job.close()
        if self._wanted and self._wanted[2]:
            slurm.stop()
        self._jobs, self._wanted = [], None

    def measure(self, case: Case) -> dict[str, Any]:
        """Do one run."""
        workload, config = plan.EXPERIMENTS[case.experiment].workload(case.workload), plan.CONFIGS[case.config]
        laps = [time.monotonic()]
        jobs = self._crew(workload, config, case.seed)
        laps.append(lap(f"{case.workload}, {case.config}: jobs at their gates", laps))
        self.all("brake", *({"part": 1 - weight} for weight in workload.weights))
        self.all("push_out")
        for job in jobs:
            job.stir()
        sizes = [{"room_kb": int(plan.ROOM_MB * 1024 * room)} for room in workload.rooms]
        available = self.all("settle", *(size | {"page_cluster": workload.page_cluster} for size in sizes))
        laps.append(lap("the memory is as it should be", laps))
        if config.peer:
            ranks = ({"jobs": {job.jid: job.ranks.get(node.name, []) for job in jobs}} for node in self.nodes)
            self.all("peer", *ranks, name=config.peer)
        users = Users(self.nodes, workload, case.seed, self.loops_per_ms)
        found = self._watched(jobs, workload.mpl, users, case.limit_s)
        laps.append(lap("run", laps))
        if config.peer:
            self.all("no_peer")
        if config.gang or config.peer or not all(job.ended for job in jobs):
            self.dismiss()
        for job in jobs:
            job.again()
        self.all("brake", part=0)
        self.all("close_gates")
        took = [round(end - begin, 1) for begin, end in itertools.pairwise(laps)]
        named = dict(zip(("prepare", "settle", "run"), took, strict=True))
        return {**found, "available_kb": available, "took_s": named}

    def _watched(self, jobs: list[Job], mpl: int, users: Users, limit_s: float) -> dict[str, Any]:
        """From the opening of the first gates until the last job has ended, or it has taken too long."""
        ahead, clock = [self.ahead()], [time.monotonic()]
        paging = self.all("counters")
        self.all("sample", hz=plan.SAMPLES_HZ)
        users.begin()
        began = time.monotonic()
        self._run_jobs(jobs, mpl, users, began + limit_s)
        ended = time.monotonic()
        agents = self.all("agent")
        after = self.all("counters")
        local = users.end()
        samples = self.all("samples")
        ahead.append(self.ahead())
        clock.append(time.monotonic())
        drifts = [(then - off) / (clock[1] - clock[0]) for off, then in zip(*ahead, strict=True)]
        shifted = {
            node.name: [[ms - 1000 * (off + drift * (ms / 1000 - off - clock[0])), pid] for ms, pid in taken]
            for node, taken, off, drift in zip(self.nodes, samples, ahead[0], drifts, strict=True)
        }
        meets = together(shifted, {job.jid: job.ranks for job in jobs}, 1000 * began, 1000 * ended)
        return {
            "makespan_s": round(ended - began, 2),
            "jobs": [{**job.outcome(began), "together": meets[job.jid]} for job in jobs],
            "locals": [_summed(each) for each in local],
            "latency": _latencies([us for each in local for us in each["latency_us"]]),
            "nodes": [{name: new[name] - old[name] for name in old} for old, new in zip(paging, after, strict=True)],
            "agents": agents,
            "clock": {"ahead_s": ahead, "samples": [len(each) for each in samples]},
        }

    def _run_jobs(self, jobs: list[Job], mpl: int, users: Users, end: float) -> None:
        """Run `mpl` jobs at a time, until all have ended or until the time `end`."""
        waiting, running = list(jobs), list[Job]()
        with selectors.DefaultSelector() as selector:
            sources: list[Job | Node] = [*jobs, *self.nodes]
            for source in sources:
                selector.register(source, selectors.EVENT_READ)
            while (waiting or running) and time.monotonic() < end:
                while waiting and len(running) < mpl:
                    running.append(waiting.pop(0))
                    self.all("open_gate", name=running[-1].jid)
                    running[-1].open()
                for key, _ in selector.select(1):
                    key.fileobj.read()  # type: ignore[union-attr]
                for job in [each for each in running if each.ended]:
                    running.remove(job)
                    self.all("ended", name=job.jid)
                    selector.unregister(job)
                users.look()

    def alone(self, case: Case) -> dict[str, Any]:
        """The baselines: each kernel with all its ranks on the first node, and each local user, alone."""
        workload = plan.EXPERIMENTS[case.experiment].workload(case.workload)
        self.dismiss()
        self.prepare(workload, plan.CONFIGS["eevdf"])
        jobs: dict[str, Any] = {}
        for kernel in dict.fromkeys(plan.MIXES[workload.mix]):
            job = Job(f"alone-{kernel}", kernel, workload.size, hosts=("node1",))
            job.wait_ready()
            if not jobs:
                self.all("push_out")
                self.all("settle", room_kb=plan.ROOM_MB * 1024, page_cluster=workload.page_cluster)
            began = time.monotonic()
            self.all("open_gate", name=job.jid)
            job.open()
            while not job.ended:
                job.read()
            jobs[kernel] = job.outcome(began)
            self.nodes[0].call("kill", pids=job.ranks["node1"])
            job.close()
        users = {}
        for profile in plan.DISTRIBUTION if workload.users == "mix" else (workload.users,):
            argv = arguments(plan.Session(profile, _ALONE_S), workload.rooms[0], self.loops_per_ms, "node2")
            self.nodes[0].call("start_local", argv=argv)
            while not self.nodes[0].events:
                self.nodes[0].read()
            said = self.nodes[0].events.pop()["said"]
            users[profile] = {**_summed(said), "latency": _latencies(said["latency_us"])}
        self.all("unsettle")
        self.all("close_gates")
        return {"jobs": jobs, "locals": users}


def lap(what: str, laps: Sequence[float]) -> float:
    """Report a stage, and the time since the last stage; returns now."""
    now = time.monotonic()
    print(f"{what}: {now - laps[-1]:.1f} s", file=sys.stderr, flush=True)
    return now


def _summed(local: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in local.items() if name != "latency_us"}


def _latencies(us: list[int]) -> dict[str, float]:
    """Of system calls, ms; without any user none."""
    if not us:
        return {}
    at = {"p50": percentile(us, 0.5), "p99": percentile(us, 0.99), "max": max(us)}
    return {**{name: value / 1000 for name, value in at.items()}, "count": len(us)}


def _compile(others: Sequence[str]) -> None:
    """Build all programs, and bring them to the other nodes; one connection serves all that follows."""
    plan.WORK.mkdir(exist_ok=True)
    config = Path("/root/.ssh/config")
    config.parent.mkdir(mode=0o700, exist_ok=True)
    config.write_text("Host node*\n  ControlMaster auto\n  ControlPath /run/ssh-%C\n  ControlPersist yes\n")
    for kernel in plan.KERNELS:
        run("mpicc.mpich", "-O2", "-o", str(plan.WORK / kernel), str(SOURCES / f"nas/{kernel}.c"))
    programs = [SOURCES / f"{name}.c" for name in ("local_user", "run_samples", "brake")]
    for source in (*programs, DEMO / "hold_memory.c"):
        run("gcc", "-O2", "-o", str(plan.WORK / source.stem), str(source))
    for node in others:
        run("scp", "-O", "-q", "-r", str(plan.WORK), f"{node}:{plan.WORK.parent}")


def run(*command: str) -> str:
    """Run a program and return its output. Raises SystemExit with its errors if it fails."""
    done = subprocess.run(command, check=False, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)} ended with status {done.returncode}: {done.stderr[-2000:]}")
    return done.stdout


class _Measures(Protocol):
    """What measures cases."""

    def alone(self, case: Case) -> dict[str, Any]: ...
    def measure(self, case: Case) -> dict[str, Any]: ...


def report(bench: _Measures, cases: str) -> None:
    """Measure the cases, a list in JSON, and print a line of JSON for each."""
    for case in [Case(**each) for each in json.loads(cases)]:
        measured = bench.alone(case) if case.config == "alone" else bench.measure(case)
        named = {name: getattr(case, name) for name in case.__dataclass_fields__}
        print(json.dumps({**named, "commit": os.environ.get("COSCHED_COMMIT", "unknown"), **measured}), flush=True)


def main(argv: list[str]) -> int:
    """Measure all cases."""
    experiment = plan.EXPERIMENTS[json.loads(argv[0])[0]["experiment"]]
    report(Bench(experiment.nodes), argv[0])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
