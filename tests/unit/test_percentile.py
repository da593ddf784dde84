# SPDX-License-Identifier: GPL-2.0-or-later
"""The nearest-rank percentile."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctl.percentile import percentile


@pytest.mark.parametrize(
    ("share", "expected"), [(0.0, 1), (0.01, 1), (0.5, 50), (0.501, 51), (0.99, 99), (0.991, 100), (1.0, 100)]
)
def test_percentile_is_the_nearest_rank(share: float, expected: int) -> None:
    assert percentile(list(range(100, 0, -1)), share) == expected


def test_percentile_of_nothing_is_an_error() -> None:
    with pytest.raises(ValueError, match="no samples"):
        percentile([], 0.5)


@given(st.lists(st.floats(0, 1e9), min_size=1), st.floats(0, 1))
def test_percentile_is_the_smallest_sample_that_covers_the_share(samples: list[float], share: float) -> None:
    found = percentile(samples, share)
    assert found in samples
    assert sum(sample <= found for sample in samples) >= share * len(samples) - 1e-6
    assert sum(sample < found for sample in samples) <= share * len(samples)
