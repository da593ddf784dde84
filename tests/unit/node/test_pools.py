# SPDX-License-Identifier: GPL-2.0-or-later
"""Limits of the jobs' memory are written when they change, and again later, in case others lifted them."""

from __future__ import annotations

import pytest

from ctl.kernel import paging
from ctl.kernel.cgroup_memory import Memory
from ctl.kernel.cgroups import JobCgroups
from ctl.node import pools


class _Cgroups(JobCgroups):
    """Notes the settings; one job, of whose memory 1 MB cannot go out."""

    resident = 1 << 20
    writes_s = 0.01  # for which swap writes a portion
    swap_left = 1 << 40
    pinned = 0  # bytes of the job that a device holds

    def __init__(self) -> None:
        super().__init__()
        self.set: list[tuple[object, ...]] = []
        self.used = 0
        self.pushed: list[int] = []

    def set_pool(self, sure: int, low: int, high: int | None) -> None:
        self.set.append(("all", sure, low, high))

    def protect(self, jid: str, sure: int, low: int) -> None:
        self.set.append((jid, sure, low))

    def set_frozen(self, jid: str, frozen: bool) -> None:
        pass

    def await_frozen(self, jid: str, timeout_s: float) -> bool:
        return True

    def memory(self, jid: str) -> Memory:
        return Memory(self.resident, 0, 1 << 20, movable=self.resident - (1 << 20))

    def current(self, jid: str) -> int:
        return self.resident

    def swap_free(self, jid: str) -> int:
        return self.swap_left

    def pids(self, jid: str) -> list[int]:
        return [7]

    def pool_used(self) -> int:
        return self.used

    def push_out(self, jid: str, size: int) -> float:
        self.pushed.append(size)
        self.resident = max((1 << 20) + self.pinned, self.resident - size)
        return self.writes_s

    def said(self) -> list[tuple[object, ...]]:
        """The settings since the last call."""
        found, self.set = self.set, []
        return found


class _Process:
    """Bytes read back for the job, and free bytes."""

    def __init__(self) -> None:
        self.read: list[tuple[int, int]] = []
        self.free = 0


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
    """A stopped job has no protection, which is written once."""
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


@pytest.fixture
def process(monkeypatch: pytest.MonkeyPatch) -> _Process:
    """The only one there is, and the memory that is free for it."""
    process = _Process()
    in_swap = [paging.Portion([(at << 20, 4 << 20)], 4 << 20) for at in (0, 4, 8)]
    monkeypatch.setattr(paging, "portions", lambda _pid, _most, _seen: iter(in_swap))
    monkeypatch.setattr(paging, "will_need", lambda _pid, spans: process.read.extend(spans))
    monkeypatch.setattr("ctl.kernel.sysinfo.memory", lambda *_names: [process.free])
    return process


def _epochs(kept: pools.Pools, count: int) -> None:
    """So many of them, with time for the thread to do its part in each."""
    for _ in range(count):
        kept.keep()
        kept._pusher.submit(int).result()


def test_what_finds_no_room_at_first_is_read_back_as_room_comes(process: _Process) -> None:
    """Often the job that it changes places with is still on its way out."""
    kept = pools.Pools(_Cgroups())
    kept.stop("a")
    kept.go_on("a")
    _epochs(kept, 10)
    assert process.read == []
    process.free = 1 << 30
    _epochs(kept, 5)
    size = process.read[0][1]
    assert process.read == [(0, size), (size, size), (2 * size, size)], "all of it, and once"


def test_no_more_is_read_back_than_jobs_are_held_to(process: _Process) -> None:
    """More pages would push out pages that another job uses."""
    process.free = 1 << 30
    cgroups = _Cgroups()
    kept = pools.Pools(cgroups)
    kept.limit(["a"], 64 << 20, 256 << 20, True)
    cgroups.used = 63 << 20
    kept.stop("a")
    kept.go_on("a")
    _epochs(kept, 2)
    assert process.read == []
    kept.limit(["a"], 64 << 20, 256 << 20, False)
    _epochs(kept, 1)
    assert len(process.read) == 3


def test_reading_back_ends_when_the_job_is_stopped_and_after_a_while(process: _Process) -> None:
    """Pages that no task needs may lie in swap for ever."""
    kept = pools.Pools(_Cgroups())
    kept.stop("a")
    kept.go_on("a")
    kept.stop("a")
    process.free = 1 << 30
    _epochs(kept, 2)
    assert process.read == []
    process.free = 0
    kept.go_on("a")
    _epochs(kept, 40)
    process.free = 1 << 30
    _epochs(kept, 2)
    assert process.read == []


def test_a_stopped_job_goes_out_in_portions_but_for_what_is_locked() -> None:
    """A page that a local task waits for is behind one portion on the device."""
    cgroups = _Cgroups()
    cgroups.resident = (2 << 20) + 4096
    kept = pools.Pools(cgroups)
    kept.stop("a")
    kept._pusher.submit(int).result()
    assert cgroups.pushed == [256 << 10] * 4 + [4096]
    assert kept.stuck("a") == 0


def test_what_a_device_holds_is_known_after_the_first_stop() -> None:
    """Pinned pages look like others: bytes that went out are measured, not taken for those asked."""
    cgroups = _Cgroups()
    cgroups.resident, cgroups.pinned = 4 << 20, 2 << 20
    kept = pools.Pools(cgroups)
    kept.stop("a")
    kept._pusher.submit(int).result()
    assert (cgroups.resident, kept.stuck("a"), len(cgroups.pushed)) == (3 << 20, 2 << 20, 8)
    kept.forget("a")
    assert kept.stuck("a") == 0, "another job of this name"


def test_no_more_is_pushed_out_than_swap_can_take() -> None:
    cgroups = _Cgroups()
    cgroups.resident, cgroups.swap_left = 4 << 20, 0
    kept = pools.Pools(cgroups)
    kept.stop("a")
    kept._pusher.submit(int).result()
    assert (cgroups.pushed, kept.stuck("a")) == ([], 0), "it is known without a trial"


def test_portions_are_as_large_as_the_device_writes_soon() -> None:
    cgroups = _Cgroups()
    kept = pools.Pools(cgroups)
    for writes_s, portions in ((0.002, (256, 512, 1024)), (0.1, (2048, 1024, 512, 256, 256))):
        cgroups.writes_s, cgroups.pushed = writes_s, []
        cgroups.resident = (1 << 20) + (sum(portions) << 10)
        kept.stop("a")
        kept._pusher.submit(int).result()
        assert cgroups.pushed == [portion << 10 for portion in portions]


def test_the_limit_of_all_jobs_comes_down_step_by_step() -> None:
    """The kernel makes a job wait that is far above its limit."""
    cgroups = _Cgroups()
    kept = pools.Pools(cgroups)
    limits = []
    for used in (100, 84, 70):
        cgroups.used = used << 20
        kept.hold(64 << 20)
        limits.append(cgroups.said()[-1][-1])
    assert limits == [84 << 20, 68 << 20, 64 << 20]
