# SPDX-License-Identifier: GPL-2.0-or-later
"""Policy `fit` on two virtual machines: placement, and two MPI jobs that take turns on both nodes at once.

    vm/cluster 2 --icount --cpus 1 --memory 512 -- python3 -m tests.cluster.fit_together [--seconds 60] [--json FILE]

The jobs are on both nodes, and do not fit together. Nodes in lock-step have one clock; their agents' events `stop` tell
when a job was stopped and when it went on. Then, in the middle of turns, an agent is killed and started again; an agent
is stopped for longer than a lease; the broker is stopped, and the nodes decide alone until they hear each other again;
a node's clock is set 5 s ahead, and back; both agents are unloaded and loaded again; and a node is lost, with its
ranks. Each agent that ends, in any of these ways, leaves nothing frozen, limited or pinned.

Exit status 1 if a node saw another order of stops than the other, the p99 of their distance is above 100 ms, or a step
did not happen.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from ctl.percentile import percentile
from tests.cluster.agents import follow

NODES: Final = ("node1", "node2")
TURN_S: Final = 4
GOAL_MS: Final = 100.0
_SHARE: Final = 0.6  # of the room: what each job needs on each node
_CLOCK_S: Final = 5  # by which a clock is wrong
_WITHIN: Final = 90.0  # seconds for a step: longer than a lease and two turns, which grow on a busy host
_LOAD: Final = f"ctl load --policy fit --set turn_s={TURN_S} --set epoch_ms=500"
_LEFT: Final = """python3 -c 'import json
from ctl.kernel.cgroups import JobCgroups
from tests.kselftest.ktap import left_behind
print(json.dumps([[str(one) for one in JobCgroups().leftovers()], left_behind()]))'"""

Stop = tuple[float, str, str]  # Unix time, JID, stop or resume


def on(node: str, command: str) -> str:
    """The output of a command on a node."""
    return subprocess.run(["ssh", "-n", node, command], check=True, capture_output=True, text=True).stdout


def queue(node: str) -> dict[str, str]:
    """The state of each job, as this node sees it."""
    return {job["jid"]: job["state"] for job in json.loads(on(node, "ctl queue --json"))["jobs"]}


def frozen(node: str) -> list[str]:
    """The jobs that are frozen on this node."""
    lines = on(node, "grep -l 1 /sys/fs/cgroup/cosched/*/cgroup.freeze 2>/dev/null || true").splitlines()
    return [line.split("/")[-2] for line in lines]


def until(what: Callable[[], object], name: str, nodes: Sequence[str] = NODES) -> None:
    """Wait until it is so; `nodes`: which of them can be asked why not."""
    end = time.monotonic() + _WITHIN
    while not what():
        if time.monotonic() > end:
            raise SystemExit(f"not so: {name}; {[queue(node) for node in nodes]} {[frozen(node) for node in nodes]}")
        time.sleep(0.3)
    print(f"{name}: yes", flush=True)


@contextlib.contextmanager
def running(*commands: list[str]) -> Iterator[list[subprocess.Popen[str]]]:
    """These programs, until the block ends."""
    null, pipe = subprocess.DEVNULL, subprocess.PIPE
    processes = [subprocess.Popen(words, stdin=null, stdout=pipe, text=True) for words in commands]
    try:
        yield processes
    finally:
        for process in processes:
            process.terminate()


def job(jid: str, need: int) -> list[str]:
    """A job of a rank on each node."""
    hosts = ["mpiexec.mpich", "-hosts", ",".join(NODES), "-n", "2", "/root/hold", "1000"]
    return ["ctl", "run", "--job", jid, "--memory", f"{need >> 20}M", "--", *hosts]


def stops(lines: str) -> list[Stop]:
    """What a follower printed."""
    return [(float(when), jid, action) for when, jid, action in (line.split() for line in lines.splitlines())]


def apart(found: list[list[Stop]]) -> list[float]:
    """How far apart the nodes made each change, ms, in order of length. Raises SystemExit if they made others."""
    one, two = ([(jid, action) for _, jid, action in stops] for stops in found)
    jids = sorted({jid for jid, _ in one})
    for jid in jids:
        seen = [[action for of, action in order if of == jid] for order in (one, two)]
        if seen[0] != seen[1]:
            raise SystemExit(f"job {jid}: node1 {seen[0]}, node2 {seen[1]}")
    times = [[when for jid in jids for when, of, _ in stops if of == jid] for stops in found]
    return sorted(1000 * abs(here - there) for here, there in zip(*times, strict=True))


def take_turns(seconds: float) -> list[float]:
    """Let the jobs take turns; see apart()."""
    follower = "cd /src && exec python3 -m tests.cluster.fit_together --follow"
    with running(*(["ssh", "-n", node, follower] for node in NODES)) as followers:
        time.sleep(seconds)
    return apart([stops(process.stdout.read()) for process in followers if process.stdout])


def together(one: str, other: str) -> bool:
    """Whether both nodes see that this job runs, and have stopped the other."""
    return all(queue(node).get(one) == "runs" and frozen(node) == [other] for node in NODES)


def agree() -> bool:
    """Whether one of the jobs runs on both nodes, and the other is stopped on both."""
    return together("b", "a") or together("a", "b")


def hear() -> bool:
    """Whether the nodes hear each other."""
    return all(sorted(rooms(node)) == sorted(NODES) for node in NODES)


def known(need: int) -> bool:
    """Whether each node's agent knows what its jobs declared."""
    queues = [json.loads(on(node, "ctl queue --json"))["jobs"] for node in NODES]
    return all([job["declared"] for job in jobs] == [need, need] for jobs in queues)


def agent(node: str) -> int:
    """The pid of a node's agent."""
    return int(json.loads(on(node, "ctl status --json"))["agent"]["pid"])


def rooms(node: str) -> dict[str, int]:
    """The nodes that a node hears, and itself."""
    return dict(json.loads(on(node, "ctl queue --json"))["rooms"])


def free(node: str) -> bool:
    """Whether no job is frozen or limited on this node, though the agent may be there."""
    return not json.loads(on(node, _LEFT))[0]


def clean(node: str) -> bool:
    """Whether no job is frozen or limited, no map is pinned, and the kernel is back on its own scheduler."""
    return not any(json.loads(on(node, _LEFT)))


def lose(node: str) -> None:
    """Power a node off in the middle of a turn; node1 goes on alone, and its jobs take turns."""
    subprocess.run(["/src/vm/node", "kill", node], check=True)
    alone = ("node1",)
    until(lambda: tuple(rooms("node1")) == alone, f"{node} is lost, and node1 decides alone", alone)
    for jid in ("a", "b"):
        until(partial(_stops, jid), f"{jid} is stopped on node1, and the other runs", alone)
    on("node1", "ctl cancel b; ctl cancel a")
    until(lambda: not queue("node1"), "cancelled, the jobs are gone", alone)
    on("node1", "ctl unload")
    until(lambda: clean("node1"), "unloaded, the agent leaves nothing", alone)


def _stops(jid: str) -> bool:
    return frozen("node1") == [jid]


def placed() -> None:
    """A job of two ranks finds the nodes that `ctl place` names; a busy node is the second choice."""
    until(lambda: len(json.loads(on("node1", "ctl queue --json"))["rooms"]) == len(NODES), "node1 knows node2's room")
    ran = on("node1", "ctl run --job p --memory 9M --nodes 2 -- mpiexec.mpich -n 2 hostname").split()
    until(lambda: sorted(ran) == list(NODES), f"a rank on each node: {ran}")
    with running(["python3", "-c", "while True: pass"]):
        until(lambda: json.loads(on("node1", "ctl place 2 --by cpu --json")) == ["node2", "node1"], "node1 is busy")
    until(lambda: not any(queue(node) for node in NODES), "the job is gone")


def measure(seconds: float) -> dict[str, Any]:
    """Two jobs in turns; then failures, one after the other."""
    room = min(json.loads(on(node, "ctl queue --json"))["room"] for node in NODES)
    need = int(room * _SHARE) >> 20 << 20
    with running(job("a", need)) as first:
        until(lambda: queue("node1") == {"a": "runs"} == queue("node2"), "a runs on both")
        with running(job("b", need)) as second:
            until(lambda: queue("node2").get("b") in ("waits", "stopped", "runs"), "node2 knows of b")
            until(lambda: together("b", "a"), "b has its turn, a is stopped on both")
            found = take_turns(seconds)
            on("node2", f"kill -9 {agent('node2')}")
            until(lambda: clean("node2"), "the agent of node2 is killed, and leaves nothing")
            on("node2", _LOAD)
            until(lambda: agree() and known(need), "loaded again, the nodes agree, and know what the jobs declared")
            stopped = agent("node2")
            on("node2", f"kill -STOP {stopped}")
            until(lambda: free("node2"), "the agent of node2 is stopped, and nothing is stopped or limited there")
            until(lambda: list(rooms("node1")) == ["node1"], "its lease ends, and node1 decides alone")
            on("node2", f"kill -CONT {stopped}")
            until(agree, "it goes on, and the nodes agree")
            on("node1", "pkill -STOP nats-server")
            until(lambda: all(len(rooms(node)) == 1 for node in NODES), "no broker, and each node decides alone")
            on("node1", "pkill -CONT nats-server")
            until(agree, "the broker is back, the nodes agree")
            on("node2", f"date -s '{_CLOCK_S} seconds'")
            until(lambda: together("a", "b"), f"the clock of node2 is {_CLOCK_S} s ahead: a has its turn")
            until(lambda: together("b", "a") and hear(), "and b, and the nodes hear each other")
            on("node2", f"date -s '{_CLOCK_S} seconds ago'")
            until(lambda: together("a", "b"), "the clock is set back: a has its turn")
            until(lambda: together("b", "a") and hear(), "and b, and the nodes hear each other")
            for node in NODES:
                on(node, "ctl unload")
            until(lambda: all(map(clean, NODES)), "unloaded, both agents leave nothing")
            for node in NODES:
                on(node, _LOAD)
            until(lambda: agree() and known(need), "loaded again, the nodes agree, and know what the jobs declared")
            ended = [process.poll() for process in (*first, *second)]
            lose("node2")
    return {
        "changes": len(found),
        "median_ms": round(percentile(found, 0.5), 2),
        "p99_ms": round(percentile(found, 0.99), 2),
        "worst_ms": round(found[-1], 2),
        "ended_early": [status for status in ended if status is not None],
    }


def main() -> int:
    """Measure, print, judge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--follow", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.follow:
        for event in follow(("stop",)):
            print(event["time"], event["jid"], event["action"], flush=True)
        return 0
    for node in NODES:
        on(node, "mpicc.mpich -O2 -o /root/hold /src/tests/progs/mpi_hold.c")
        on(node, _LOAD)
    placed()
    measured = measure(options.seconds)
    print(json.dumps(measured))
    if options.json:
        options.json.write_text(json.dumps(measured))
    return int(measured["p99_ms"] > GOAL_MS or measured["changes"] < 4)


if __name__ == "__main__":
    sys.exit(main())
