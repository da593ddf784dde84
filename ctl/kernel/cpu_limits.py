# SPDX-License-Identifier: GPL-2.0-or-later
"""CPU limits and weights of cgroups: they are the fair class's, so a scheduler that takes all tasks voids them."""

from __future__ import annotations

import os
from pathlib import Path

from ctl.kernel.cgroups import PARENT, ROOT

__all__ = ["in_words", "voided"]

_SHOWN = 5  # limits that are named

_FREE = {"cpu.max": "max", "cpu.weight": "100", "cpu.idle": "0"}  # the first word where there is no limit


def voided(root: Path = ROOT, jobs: Path = PARENT) -> list[str]:
    """The limits outside the jobs' cgroups, as "/PATH cpu.max 20000 100000", sorted."""
    found = []
    for directory, children, files in os.walk(root):
        path = Path(directory)
        if path == jobs:
            children.clear()
            continue
        for name, free in _FREE.items():
            if name not in files:
                continue
            try:
                text = (path / name).read_text().strip()
            except OSError:  # the cgroup has just gone
                continue
            if text.split()[0] != free:
                found.append(f"/{path.relative_to(root)} {name} {text}")
    return sorted(found)


def in_words(limits: list[str]) -> str:
    """What contract=queue costs others, and the way out."""
    more = f" and {len(limits) - _SHOWN} more" if len(limits) > _SHOWN else ""
    return (
        f"these CPU limits do not hold meanwhile: {'; '.join(limits[:_SHOWN])}{more}. "
        "`ctl load --set contract=class` keeps them"
    )
