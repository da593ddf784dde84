# SPDX-License-Identifier: GPL-2.0-or-later
"""Limits of the jobs' memory are written when they change, and again later, should somebody have lifted them."""

from __future__ import annotations

import pytest

from ctl.kernel.cgroups import JobCgroups
from ctl.node import pools


class _Cgroups(JobCgroups):
    """Notes what is set; one job, which uses nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.set: list[tuple[object, ...]] = []

    def set_pool(self, sure: int, low: int, high: int | None) -> None:
        self.set.append(("all", sure, low, high))

    def protect(self, jid: str, sure: int, low: int) -> None:
        self.set.append((jid, sure, low))

    def set_frozen(self, jid: str, frozen: bool) -> None:
        pass

    def await_frozen(self, jid: str, timeout_s: float) -> bool:
        return True

    def memory(self, jid: str) -> tuple[int, int]:
        return 0, 0

    def pids(self, jid: str) -> list[int]:
        return []

    def said(self) -> list[tuple[object, ...]]:
        """What was set since this was asked."""
        found, self.set = self.set, []
        return found


def test_limits_are_written_when_they_change_and_again_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 64 bytes half may be out of the kernel's reach; lifted and set again is a change."""
    cgroups = _Cgroups()
    kept = pools.Pools(cgroups)
    kept.limit(["a"], 48, 64, False)
    assert cgroups.said() == [("all", 32, 48, None), ("a", 32, 48)]
    kept.limit(["a"], 48, 64, False)
    assert cgroups.said() == []
    kept.limit(["a", "b"], 48, 64, False)
    assert cgroups.said() == [("all", 32, 48, None), ("a", 32, 48), ("b", 32, 48)]

    kept.unlimit(["a"])
    assert cgroups.said() == [("all", 0, 0, None), ("a", 0, 0)]
    monkeypatch.setattr(pools, "_SAY_AGAIN", 0.0)
    for _ in range(2):
        kept.limit(["a"], 32 << 20, 64 << 20, True)
        assert cgroups.said() == [("all", 32 << 20, 32 << 20, 32 << 20), ("a", 32 << 20, 32 << 20)]


def test_protection_of_a_job_that_goes_on_comes_back_at_once() -> None:
    """A stopped one has none, and that is said once."""
    cgroups = _Cgroups()
    kept = pools.Pools(cgroups)
    kept.limit(["a"], 32, 64, False)
    kept.stop("a")
    cgroups.said()
    kept.limit(["a"], 32, 64, False)
    assert cgroups.said() == [("all", 32, 32, None), ("a", 0, 0)]
    kept.go_on("a")
    kept.limit(["a"], 32, 64, False)
    assert cgroups.said() == [("all", 32, 32, None), ("a", 32, 32)]
