# SPDX-License-Identifier: GPL-2.0-or-later
"""Where a job should run: the least loaded nodes that have memory for it (LoadShare I §2.1, II §3.3).

Each node tells the others its load with its facts (ctl/contract.py). A load index orders the nodes:

    cpu          L, runnable tasks and waiting jobs, in parts of the node's CPUs and speed
    mem          ML / RAM, what jobs need here in parts of the room for jobs
    cpu-mem-hp   L while memory has room, else as if the CPUs were full (Index_hp)
    cpu-mem-ht   L while memory has room, else L * ML / RAM (Index_ht)
    free         the largest free memory, for jobs of unknown need (the memory-centric policy of LoadShare II)

Nodes that differ have their index scaled by CPUs and speed (§2.2.3; the paper did not evaluate it). A job of known need
counts as there already (B-LS-2), and a node whose whole room is smaller is no candidate. The paper's thresholds CT are
left out: jobs are not refused here, they wait in the queue. ML stands for U in Index_ht, too: what jobs request beyond
what they need is not known. Among equals the node that asks comes
first: a job starts locally unless another node is better.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from ctl.contract import NodeFacts
from ctl.errors import USAGE, CoschedError, brief
from ctl.jobs.mib import needed, there

__all__ = ["POLICIES", "place"]

_FULL: Final = 1e6  # above every index of a node that has room


def _memory(facts: NodeFacts, need: int) -> float:
    """ML / RAM with this job."""
    return (sum(job.need for job in facts.jobs) + need) / max(1, facts.room)


def _cpu(facts: NodeFacts, _need: int, fastest: float) -> float:
    load = facts.load
    waiting = sum(not job.runs for job in facts.jobs)
    return (load.runnable + waiting) / (max(1, load.cpus) * (load.speed / fastest if load.speed and fastest else 1.0))


def _hp(facts: NodeFacts, need: int, fastest: float) -> float:
    return _cpu(facts, need, fastest) if _memory(facts, need) < 1 else _FULL


def _ht(facts: NodeFacts, need: int, fastest: float) -> float:
    index, memory = _cpu(facts, need, fastest), _memory(facts, need)
    return index if memory < 1 else index * memory


POLICIES: Final[Mapping[str, Callable[[NodeFacts, int, float], float]]] = {
    "cpu": _cpu,
    "mem": lambda facts, need, _fastest: _memory(facts, need),
    "cpu-mem-hp": _hp,
    "cpu-mem-ht": _ht,
    "free": lambda facts, need, _fastest: -float(facts.room - sum(job.need for job in facts.jobs) - need),
}


def place(nodes: Mapping[str, NodeFacts], here: str, count: int, need: int = 0, by: str = "") -> list[str]:
    """The names of `count` nodes, the best first; `here` asks. `need`: bytes on each node, 0: unknown.

    `by`: a policy; empty: cpu-mem-hp for a known need, else free. Raises CoschedError (status 2) if there are not so
    many nodes with such room.
    """
    by = by or ("cpu-mem-hp" if need else "free")
    if by not in POLICIES:
        raise CoschedError(f"there is no way {brief(by)} to place a job: choose {', '.join(POLICIES)}", USAGE)
    able = {name: facts for name, facts in nodes.items() if facts.room >= need}
    if not 0 < count <= len(able):
        raise CoschedError(_too_many(nodes, able, count, need), USAGE)
    fastest = max(facts.load.speed for facts in able.values())

    def order(name: str) -> tuple[float, float, bool, float, str]:
        index, memory = POLICIES[by](able[name], need, fastest), _memory(able[name], need)
        return (round(index, 2), round(memory, 2), name != here, able[name].load.faults_s, name)

    return sorted(able, key=order)[:count]


def _too_many(nodes: Mapping[str, NodeFacts], able: Mapping[str, NodeFacts], count: int, need: int) -> str:
    if count < 1:
        return f"a job cannot have {count} nodes: give 1 or more"
    if len(able) == len(nodes):
        return f"{count} nodes are wanted, and {len(nodes)} tell of themselves: give fewer, or load policy fit on more"
    most = max(facts.room for facts in nodes.values())
    return (
        f"{count} nodes with {needed(need)} MiB for jobs are wanted, and {len(able)} of {len(nodes)} have so much, "
        f"the largest {there(most)} MiB: give fewer nodes, or a smaller --memory"
    )
