# SPDX-License-Identifier: GPL-2.0-or-later
"""Policy `fit` on several nodes, whatever fails and in whatever order: world.py has the properties.

COSCHED_RUNS sets ten times the number of runs; `just test-all` has ten thousand.
"""

from __future__ import annotations

import os

import pytest

from tests.unit.together.world import failing

RUNS = int(os.environ.get("COSCHED_RUNS", "600")) // 10
LONG = 10_000


def check(runs: int) -> None:
    """So many runs, nine of ten with failures. COSCHED_SEED, COSCHED_SEED=7q: this one alone, q: without failures."""
    alone = os.environ.get("COSCHED_SEED", "")
    cases = [(seed, seed % 10 > 0) for seed in range(runs)]
    for seed, failures in [(int(alone.rstrip("q")), not alone.endswith("q"))] if alone else cases:
        found = failing(seed, failures)
        assert found is None, found


def test_whatever_fails() -> None:
    check(RUNS)


@pytest.mark.long
def test_ten_thousand_times() -> None:
    check(LONG)
