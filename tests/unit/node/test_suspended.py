# SPDX-License-Identifier: GPL-2.0-or-later
"""Jobs whose owner has stopped their processes, as looks find them."""

from __future__ import annotations

import pytest

from ctl.node import suspended
from ctl.node.set_memory import Job
from ctl.node.suspended import Suspended


def test_two_looks_find_a_job_stopped_and_one_finds_that_it_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    stopped = {1}
    monkeypatch.setattr(suspended, "all_stopped", lambda pids: bool(pids) and set(pids) <= stopped)
    jobs = [Job("a", 0, 0, 0.0, pids=frozenset({1})), Job("b", 0, 0, 0.0, pids=frozenset({2}))]
    looks = Suspended()
    found = []
    for steady, now in ((0.0, {1}), (0.1, {1}), (0.6, {1, 2}), (0.7, {2}), (1.2, {2})):
        stopped = now
        looks.look(jobs, steady)
        found.append(sorted(looks.jids))
    assert found == [[], [], ["a"], [], ["b"]]
