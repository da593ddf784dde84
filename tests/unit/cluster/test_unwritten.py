# SPDX-License-Identifier: GPL-2.0-or-later
"""A bucket that takes no records: people are told once, after a new leader would have been chosen; it is made anew."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from ctl.cluster import broker
from ctl.cluster.broker import Broker
from ctl.cluster.unwritten import PATIENCE, Unwritten


def test_told_once_after_patience_and_once_when_it_is_over() -> None:
    tell = Mock()
    buckets = Unwritten(tell)
    buckets.failed("holds", "nats: timeout", 100.0)
    buckets.failed("holds", "nats: timeout", 100.0 + PATIENCE - 0.1)
    assert not tell.called and not buckets.status() and not buckets.written("holds", 100.0 + PATIENCE)
    buckets.failed("holds", "sealed", 200.0)
    buckets.failed("jobs", "sealed", 203.0)
    for later in (0.0, 1.0):
        buckets.failed("holds", "sealed", 200.0 + PATIENCE + later)
    assert buckets.status() == {"holds": "sealed"}
    (text,) = (call.args[0] for call in tell.call_args_list)
    assert text.startswith("the broker answers, but holds has taken no record of this node for 30 s (sealed)")
    assert "systemctl restart cosched-broker" in text
    assert not buckets.written("jobs", 232.0) and buckets.written("holds", 232.0)
    assert tell.call_args.args[0] == "holds takes this node's records again, after 32 s" and not buckets.status()


def test_a_connections_end_is_not_told() -> None:
    tell = Mock()
    buckets = Unwritten(tell)
    buckets.failed("holds", "nats: timeout", 100.0)
    buckets.forget()
    buckets.failed("holds", "nats: timeout", 100.0 + PATIENCE)
    assert not tell.called


@pytest.fixture
def keeper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Broker:
    monkeypatch.setattr(broker, "read_member", Mock())
    monkeypatch.setattr(broker, "Kept", Mock())
    return Broker({"keeper": {}}, tmp_path, tmp_path)


@pytest.mark.parametrize(
    ("found", "why"),
    [
        ({"config": {"sealed": True}}, "was sealed"),
        ({"config": {"sealed": False}}, ""),  # one broker: there is no word of a leader
        ({"config": {}, "cluster": {"leader": "node1"}}, ""),
        ({"config": {}, "cluster": {"name": "cosched"}}, "had no leader for 60 s"),
    ],
)
def test_a_bucket_is_made_anew_if_it_is_sealed_or_stays_without_a_leader(
    keeper: Broker, found: dict[str, Any], why: str
) -> None:
    first = keeper._takes_none("KV_jobs", found, 100.0)
    assert first == ("was sealed" if "sealed" in why else "")
    keeper._takes_none("KV_jobs", found, 159.9)
    assert keeper._takes_none("KV_jobs", found, 165.1) == why


def test_a_bucket_that_has_a_leader_in_between_is_left_alone(keeper: Broker) -> None:
    without: dict[str, Any] = {"config": {}, "cluster": {}}
    assert not keeper._takes_none("KV_jobs", without, 100.0)
    assert not keeper._takes_none("KV_jobs", {"config": {}, "cluster": {"leader": "node2"}}, 150.0)
    assert not keeper._takes_none("KV_jobs", without, 166.0)
