# SPDX-License-Identifier: GPL-2.0-or-later
"""The mode that decided an insertion, as the kernel counts it: the table of rules in bpf/insert_rq.h, read.

>>> mode("csm", overloaded=False, received=False), mode("csm", overloaded=True, received=False)
('predictive', 'csm')
"""

from __future__ import annotations

import re
from typing import Final

from ctl.kernel import layout

__all__ = ["MODES", "mode"]

_ROW: Final = re.compile(r"\[RULE_(\w+)\]\s*=\s*\{[^}]*?\bMODES\((\w+), (\w+), (\w+)\)")
_NAMES: Final = {stat.id: stat.name.removeprefix("mode_") for stat in layout.STATS if stat.id.startswith("MODE_")}

MODES: Final = {
    row[0].lower().replace("_", "-"): tuple(_NAMES[f"MODE_{word}"] for word in row[1:])
    for row in _ROW.findall((layout.HEADER.parent / "insert_rq.h").read_text())
}
"""Rule to its modes while memory fits; if overloaded; and if overloaded with a received message."""


def mode(rule: str, *, overloaded: bool, received: bool) -> str | None:
    """The mode in which this rule places a task of a job; None for a rule without modes."""
    row = MODES.get(rule)
    return None if row is None else row[(1 + received) if overloaded else 0]
