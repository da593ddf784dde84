# SPDX-License-Identifier: GPL-2.0-or-later
"""How many examples a property is tried with: a fifth of them in the quick form (COSCHED_QUICK=1, by `just test`)."""

from __future__ import annotations

import os
from typing import Final

from hypothesis import HealthCheck, settings

__all__ = ["examples", "load_profile"]

_USUAL: Final = 100
_LEAST: Final = 20
_QUICK: Final = os.environ.get("COSCHED_QUICK") == "1"


def examples(count: int) -> settings:
    """So many, in the full form.

    >>> examples(50).max_examples in (20, 50)
    True
    """
    return settings(max_examples=max(_LEAST, count // 5) if _QUICK else count)


def load_profile() -> None:
    """What holds for all properties. How long one example takes says more about the host than about the code."""
    slow = [HealthCheck.too_slow]
    settings.register_profile("cosched", examples(_USUAL), deadline=None, suppress_health_check=slow)
    settings.load_profile("cosched")
