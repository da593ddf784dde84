# SPDX-License-Identifier: GPL-2.0-or-later
"""The part of an agent that nodes without a queue of jobs leave out."""

from __future__ import annotations

from collections.abc import Mapping

from ctl.contract import NodeFacts

__all__ = ["NoQueue"]


class NoQueue:
    """An agent whose policy has no queue of jobs."""

    def facts(self, others: Mapping[str, NodeFacts]) -> None:
        """Nothing is made of it."""

    def arrived(self, arrivals: Mapping[str, int]) -> None:
        """Nothing is made of it."""
