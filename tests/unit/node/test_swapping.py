# SPDX-License-Identifier: GPL-2.0-or-later
"""When pages that come back count as swapping: where the kernel takes others away for them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ctl.kernel import swap, sysinfo
from ctl.node import swapping
from ctl.node.swapping import Swapping


@pytest.fixture
def counters(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, int]]:
    """The kernel's counters, for changes by the test; reads took 0.2 ms each."""
    found = dict.fromkeys(("workingset_refault_anon", "pswpin", "pgsteal_kswapd", "pgsteal_direct"), 1000)
    monkeypatch.setattr(sysinfo, "vmstat", lambda: dict(found))
    monkeypatch.setattr(swap, "read_s", lambda: found["pswpin"] * 2e-4)
    monkeypatch.setattr(swapping, "read_ahead", lambda: 1)
    yield found


def test_the_first_look_knows_nothing(counters: dict[str, int]) -> None:
    assert Swapping().look(1.0) == (0.0, 0.0)


def test_rates_where_the_kernel_takes_pages(counters: dict[str, int]) -> None:
    seen = Swapping()
    seen.look(1.0)
    counters.update(pswpin=1500, pgsteal_direct=1400, workingset_refault_anon=1100)
    assert seen.look(1.5) == pytest.approx((1000.0, 0.2))
    counters.update(workingset_refault_anon=1300, pgsteal_kswapd=1400)
    assert seen.look(2.5) == pytest.approx((200.0, 0.02))


def test_fast_devices_do_not_make_pages_free(counters: dict[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(swap, "read_s", lambda: 0.0)
    seen = Swapping()
    seen.look(1.0)
    counters.update(workingset_refault_anon=9000, pgsteal_direct=9000)
    assert seen.look(2.0) == pytest.approx((8000.0, 0.8))


def test_pages_that_come_back_into_free_memory_are_not_swapping(counters: dict[str, int]) -> None:
    seen = Swapping()
    seen.look(1.0)
    counters.update(pswpin=9000, workingset_refault_anon=9000, pgsteal_kswapd=1003)
    assert seen.look(2.0) == (8000.0, 0.0)


def test_where_reads_take_an_unknown_time_all_of_it_counts(
    counters: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(swap, "read_s", lambda: None)
    seen = Swapping()
    seen.look(1.0)
    counters.update(pswpin=1100, pgsteal_kswapd=1100)
    assert seen.look(2.0) == (100.0, 1.0)
