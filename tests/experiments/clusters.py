# SPDX-License-Identifier: GPL-2.0-or-later
"""How experiments run their clusters: in lock-step, unless they are to run free."""

from __future__ import annotations

__all__ = ["lockstep"]


def lockstep(wanted: bool, seed: int) -> list[str]:
    """The options of vm/cluster for nodes in lock-step, all that is random in them drawn from this seed; or none."""
    return ["--icount", "--seed", str(seed)] if wanted else []
