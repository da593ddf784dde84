# SPDX-License-Identifier: GPL-2.0-or-later
"""Charts as inline SVG: shapes that stretch to any width, without text, so that letters keep their size on a phone.

Colours are classes of the page's style sheet. No chart tells by colour alone: states differ in height, lines in dashes.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Final

__all__ = ["WIDE", "bars", "lines"]

WIDE: Final = 1000.0
"""Units from the left edge to the right one."""
_BAR: Final = 20.0
_TALL: Final = 100.0
_HEIGHTS: Final = {"wait": (8.5, 3.0), "run": (1.0, 18.0), "stop": (11.0, 8.0)}  # top and height of each state
_NARROWEST: Final = 3.0  # a shorter state is still seen

Span = tuple[float, float, str, str]
"""From, to (0 to 1), the state, and words about it."""
Curve = tuple[str, Sequence[Sequence[tuple[float, float]]]]
"""The class of a line, and its pieces: points of (x, y), 0 to 1."""


def bars(spans: Sequence[Span], label: str) -> str:
    """One job's time: a thin line where it waits, a bar where it runs, the lower half where it is stopped."""
    shapes = []
    for start, end, state, words in spans:
        top, height = _HEIGHTS[state]
        x, width = start * WIDE, max(_NARROWEST, (end - start) * WIDE)
        x = min(x, WIDE - width)
        shapes.append(
            f'<rect class="{state}" x="{x:.1f}" y="{top:g}" width="{width:.1f}" height="{height:g}">'
            f"<title>{escape(words)}</title></rect>"
        )
    return _svg("bars", _BAR, label, shapes)


def lines(curves: Sequence[Curve], bands: Sequence[tuple[float, float]], label: str) -> str:
    """Curves over time, and bands behind them."""
    shapes = [
        f'<rect class="band" x="{start * WIDE:.1f}" y="0" width="{(end - start) * WIDE:.1f}" height="{_TALL:g}"/>'
        for start, end in bands
    ]
    shapes += [f'<path class="grid" d="M0 {y:g}H{WIDE:g}"/>' for y in (0.5, _TALL / 2, _TALL - 0.5)]
    for kind, pieces in curves:
        for piece in pieces:
            points = " ".join(f"{x * WIDE:.1f},{(1 - y) * (_TALL - 2) + 1:.1f}" for x, y in piece)
            if len(piece) == 1:  # a point is a line without length, with round ends
                points += " " + points
            shapes.append(f'<polyline class="{kind}" points="{points}"/>')
    return _svg("lines", _TALL, label, shapes)


def _svg(kind: str, tall: float, label: str, shapes: Sequence[str]) -> str:
    size = f'viewBox="0 0 {WIDE:g} {tall:g}" preserveAspectRatio="none"'
    return f'<svg class="{kind}" {size} role="img" aria-label="{escape(label)}">{"".join(shapes)}</svg>'
