# SPDX-License-Identifier: GPL-2.0-or-later
"""The place of a node's membership. A file of its own, because asking for the place needs no client of the broker."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["DIRECTORY", "is_member"]

DIRECTORY = Path(os.environ.get("COSCHED_CLUSTER_DIR", "/etc/cosched/cluster"))


def is_member(directory: Path = DIRECTORY) -> bool:
    """Whether this node has joined a cluster."""
    return (directory / "member.json").exists()
