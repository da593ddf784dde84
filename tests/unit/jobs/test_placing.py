# SPDX-License-Identifier: GPL-2.0-or-later
"""Placement: load indices of LoadShare, nodes that differ, nodes without room."""

from __future__ import annotations

import pytest

from ctl.contract import JobFacts, Load, NodeFacts
from ctl.errors import CoschedError
from ctl.jobs.launcher import hosts
from ctl.jobs.placing import place
from ctl.jobs.queue import Queue


def node(
    room: int, runnable: float = 0.0, *needs: int, cpus: int = 1, speed: float = 1.0, runs: bool = True
) -> NodeFacts:
    jobs = tuple(JobFacts(f"j{i}", need, runs=runs) for i, need in enumerate(needs))
    return NodeFacts(room, 30.0, jobs, Load(cpus, speed, runnable))


IDLE_SMALL, BUSY_LARGE, FULL = node(60), node(200, 3.0), node(100, 1.0, 90)
NODES = {"small": IDLE_SMALL, "large": BUSY_LARGE, "full": FULL}


@pytest.mark.parametrize(
    ("by", "order"),
    [
        ("cpu", ["small", "full", "large"]),
        ("mem", ["large", "small", "full"]),  # (0 + 40) / 200, 40 / 60, 130 / 100
        ("cpu-mem-hp", ["small", "large", "full"]),  # full has no memory: last
        ("cpu-mem-ht", ["small", "full", "large"]),  # 1.0 * 1.3 is below 3
        ("free", ["large", "small", "full"]),
        ("", ["small", "large", "full"]),  # of a known need: cpu-mem-hp
    ],
)
def test_indices(by: str, order: list[str]) -> None:
    """LoadShare I §2.1: policy CPU, MEM, Index_hp, Index_ht; LoadShare II: the most free memory."""
    assert place(NODES, "small", 3, 40, by) == order
    assert place(NODES, "small", 1, 40, by) == order[:1]


def test_short_memory_makes_a_node_busier() -> None:
    """Index_ht: 1.0 * 1.3 is above 1.2, by the CPU alone the node is first."""
    nodes = {"short": node(100, 1.0, 90), "other": node(100, 1.2)}
    assert place(nodes, "short", 2, 40, "cpu-mem-ht") == ["other", "short"]
    assert place(nodes, "short", 2, 40, "cpu") == ["short", "other"]


def test_an_unknown_need_goes_where_most_memory_is_free() -> None:
    assert place(NODES, "full", 2) == ["large", "small"]


def test_nodes_that_differ_are_compared_by_cpus_and_speed() -> None:
    nodes = {"slow": node(100, 1.0, speed=0.5), "fast": node(100, 1.5), "wide": node(100, 2.0, cpus=4)}
    assert place(nodes, "slow", 3, 10, "cpu") == ["wide", "fast", "slow"]


def test_jobs_that_wait_are_load() -> None:
    nodes = {"a": node(100, 0.0, 50, 60, runs=False), "b": node(100, 1.0, 50)}
    assert place(nodes, "a", 2, 1, "cpu") == ["b", "a"]


def test_of_equals_the_one_that_asks() -> None:
    nodes = {name: node(100) for name in "abc"}
    assert place(nodes, "b", 3, 1, "cpu") == ["b", "a", "c"]


def test_a_node_whose_room_is_smaller_is_none() -> None:
    assert place(NODES, "small", 1, 150) == ["large"]
    with pytest.raises(CoschedError, match=r"2 nodes with 1 MiB .* 1 of 3 have so much"):
        place(NODES, "small", 2, 150)


def test_what_cannot_be() -> None:
    with pytest.raises(CoschedError, match="4 nodes are wanted, and 3 tell of themselves"):
        place(NODES, "small", 4)
    with pytest.raises(CoschedError, match="no way 'best' to place a job: choose cpu, mem,"):
        place(NODES, "small", 1, 0, "best")
    with pytest.raises(CoschedError, match="cannot have 0 nodes"):
        place(NODES, "small", 0)


def test_a_queue_knows_the_nodes_that_it_heard() -> None:
    queue = Queue("here")
    queue.look(0, {"j": 30}, 100, 0, Load(1, 1.0, 1.0))
    assert queue.place(1, 0, "") == ["here"]
    queue.hear({"there": node(100)})
    assert queue.place(2, 10, "cpu") == ["there", "here"]


def test_launchers_find_the_hosts() -> None:
    found = hosts(["n1", "n2"], 3)
    with open(found["HYDRA_HOST_FILE"]) as hydra, open(found["PRTE_MCA_prte_default_hostfile"]) as prrte:
        assert (hydra.read(), prrte.read()) == ("n1:3\nn2:3\n", "n1 slots=3\nn2 slots=3\n")
