# SPDX-License-Identifier: GPL-2.0-or-later
"""The text of a scrape, read by Prometheus' own parser; and the board that docs/grafana.json draws of it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from ctl.contract import Measured, State
from ctl.kernel.layout import STATS
from ctl.monitor.exporter import render

BOARD = Path(__file__).resolve().parents[3] / "docs/grafana.json"
UNITS = ("_bytes", "_seconds", "_ratio", "_total", "_seconds_total")
COUNTS = ("_tasks", "_cpus", "_readers", "_running", "_waiting")  # of things, which are their own unit
TRUTHS = ("overloaded", "_present", "_held", "_state", "_info")


def job(jid: str = "a", **changes: Any) -> dict[str, Any]:
    """A row of `jobs` as ctl/node/report.py makes it."""
    return {
        "jid": jid, "tasks": 3, "cpu_share": None, "cpu_s": 1.5, "majflt": 7, "majflt_s": None, "swapins": 5,
        "swapins_s": None, "overtakes_given": 11, "overtakes_suffered": 13, "memory": 1 << 20, "swap": 4096,
        "frozen": False, "state": "slowed", "why": "local user: SECRET", "user": "SECRET", "from": "ctl", "since": 1e9,
        **changes,
    }  # fmt: skip


def measured(**changes: Any) -> Measured:
    """A node's figures, with SECRET where no figure is."""
    counts = {stat.name: place for place, stat in enumerate(STATS, 100)}
    return {
        "status": {
            "policy": "ccs",
            "rule": "ccs",
            "overload": {"effective": True, "m": 1 << 30, "mem": None, "why": "SECRET"},
            "contract": {
                "kind": "queue",
                "local_user": {"present": False, "why": "SECRET"},
                "epoch": {"ms": 1000, "number": 9},
                "weight": 0.5,
                "quantum": {
                    "local_ms": 20.0,
                    "parallel_ms": 10.0,
                    "slowed_ms": 10.0,
                    "set_share": 0.33,
                    "achieved_share": None,
                    "busy_cpus": 1.5,
                },
                "memory": {"pool": 1 << 28, "used": None, "held": True},
            },
            "counters": {**counts, "threads_unobserved": 2, "sockets_unobserved": 0},
            "queue": None,
            "trace": {"readers": 1},
            "agent": {"since": 2e9, "pid": 1},
        },
        "jobs": [job("a"), job("b", state="free")],
        "rules": {"ccs": counts, "fifo": dict.fromkeys(counts, 0)},
        "queued": {0: 4, 1: 0},
        "paging": {"swapins": 8, "refaults": 6, "stalled": 1.25},
        **changes,  # type: ignore[typeddict-item]
    }


def samples(text: bytes) -> dict[tuple[str, ...], float]:
    """A sample's name and the values of its labels, and its value."""
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
    }


def test_each_metric_has_a_name_of_its_own() -> None:
    declared = re.findall(r"^# TYPE (\S+)", render(measured()).decode(), re.MULTILINE)
    assert len(declared) == len(set(declared)), sorted(name for name in declared if declared.count(name) > 1)


def test_every_statistic_has_its_declaration() -> None:
    families = {family.name: family for family in text_string_to_metric_families(render(measured()).decode())}
    for place, stat in enumerate(STATS, 100):
        family = families[f"cosched_{stat.name}"]
        assert (family.type, family.documentation) == ("counter", stat.description)
        assert [(s.name, s.labels, s.value) for s in family.samples] == [
            (f"cosched_{stat.name}_total", {"rule": "ccs"}, place)  # fifo has placed nobody
        ]


def test_the_figures() -> None:
    found = samples(render(measured()))
    assert found["cosched_scheduler_info", "queue", "ccs", "ccs"] == 1
    assert found["cosched_overloaded",] == 1 and found["cosched_share_set_ratio",] == 0.33
    assert found["cosched_quantum_seconds", "parallel"] == 0.01
    assert (found["cosched_queued_tasks", "0"], found["cosched_queued_tasks", "1"]) == (4, 0)
    assert found["cosched_sensors_lost_total", "threads_unobserved"] == 2
    assert {key[0].removeprefix("cosched_job_"): value for key, value in found.items() if key[1:] == ("a",)} == {
        "start_time_seconds": 1e9,
        "tasks": 3,
        "cpu_seconds_total": 1.5,
        "major_faults_total": 7,
        "swapped_in_pages_total": 5,
        "memory_bytes": 1 << 20,
        "swap_bytes": 4096,
        "overtakes_given_total": 11,
        "overtakes_suffered_total": 13,
    }
    states = {key[1:]: value for key, value in found.items() if key[0] == "cosched_job_state"}
    several = (*State, "on_hold")
    assert states == {(jid, state): state == now for jid, now in (("a", "slowed"), ("b", "free")) for state in several}
    for unknown in ("memory_needed_bytes", "share_achieved_ratio", "jobs_memory_used_bytes", "jobs_room_bytes"):
        assert (f"cosched_{unknown}",) not in found, "an unknown value is no 0"


def test_the_queue_of_jobs() -> None:
    now = measured()
    waits = [("b", "SECRET"), ("c", "SECRET")]
    now["status"]["queue"] = {"room": 77, "turn_left_s": None, "runs": ["a"], "waits": waits}
    text = render(now)
    found = samples(text)
    assert [found[f"cosched_jobs_{name}",] for name in ("room_bytes", "running", "waiting")] == [77, 1, 2]
    assert b"SECRET" not in text


def test_nothing_but_figures() -> None:
    """What jobs run, whose they are, and why, is for those who may ask the agent."""
    assert b"SECRET" not in render(measured())


def test_names_follow_the_conventions() -> None:
    for family in text_string_to_metric_families(render(measured()).decode()):
        for sample in family.samples:
            assert sample.name.startswith("cosched_") and re.fullmatch("[a-z_]+", sample.name)
            assert sample.name.endswith(UNITS + COUNTS + TRUTHS), sample.name
            assert sample.name.endswith("_total") == (family.type == "counter"), sample.name
            assert not {"job", "instance"} & sample.labels.keys(), "Prometheus gives these, and renames ours"
        assert family.documentation


@given(st.text(max_size=20), st.integers(0, 2**64 - 1), st.floats(0, 1) | st.none())
def test_any_values(jid: str, count: int, share: float | None) -> None:
    now = measured(jobs=[job(jid, majflt=count)])
    now["status"]["contract"]["quantum"]["achieved_share"] = share
    found = samples(render(now))
    assert found["cosched_job_major_faults_total", jid] == float(count)
    assert found.get(("cosched_share_achieved_ratio",)) == share


def _expressions(part: Any) -> list[str]:
    """All expressions of a board."""
    if isinstance(part, dict):
        own = [part["expr"]] if "expr" in part else []
        return own + [one for value in part.values() for one in _expressions(value)]
    return [one for value in part for one in _expressions(value)] if isinstance(part, list) else []


def test_the_board_shows_metrics_that_there_are() -> None:
    now = measured()
    now["status"]["queue"] = {"room": 1, "turn_left_s": None, "runs": [], "waits": []}
    now["status"]["overload"]["mem"] = now["status"]["contract"]["memory"]["used"] = 1
    now["status"]["contract"]["quantum"]["achieved_share"] = 0.5
    there = {name for name, *_ in samples(render(now))}
    board = json.loads(BOARD.read_text())
    named = {name for expression in _expressions(board) for name in re.findall(r"cosched_\w+", expression)}
    assert len(named) > 15 and named <= there
    panels = [panel["title"] for panel in board["panels"]]
    assert len(panels) == len(set(panels)) and all(_expressions(panel) for panel in board["panels"])


def test_the_board_names_labels_that_there_are() -> None:
    labels = {
        label
        for family in text_string_to_metric_families(render(measured()).decode())
        for sample in family.samples
        for label in sample.labels
    }
    shown = set(re.findall(r"\{\{(\w+)\}\}", BOARD.read_text()))
    assert shown <= labels | {"instance"}


@pytest.mark.parametrize("expression", _expressions(json.loads(BOARD.read_text())))
def test_the_board_takes_rates_of_counters_and_of_nothing_else(expression: str) -> None:
    rates = re.findall(r"rate\((cosched_\w+)", expression)
    counters = re.findall(r"cosched_\w+_total", expression)
    assert rates == counters
