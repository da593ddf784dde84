# SPDX-License-Identifier: GPL-2.0-or-later
"""A report's page in a browser: it asks for nothing elsewhere, a phone need not scroll sideways, dark is dark."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ctl.monitor.report_page import page
from tests.unit.monitor.browser import look
from tests.unit.monitor.test_report import agent, begin, end, event, resume, row, stop, told, wait

_USED = {"lattice-of-a-long-name": {"cpu_s": 1.0, "memory": 1 << 30, "swap": 0, "majflt": 0, "state": "free"}}


def _page() -> str:
    long = "lattice-of-a-long-name"
    figures = [row(10.0 * step, _USED, user=step > 60) for step in range(1, 100)]
    ends = [resume(700, long), end(900, long), event(800, "knobs", "knobs: share_l 0.5 -> 0.3")]
    why = "needs 1024 MiB, 800 are free; after " + "other, " * 10
    return page(
        [told(agent(1), wait(5, long, why), begin(20, "flow"), begin(50, long), stop(90, long), *figures, *ends)]
    )


@pytest.mark.parametrize("width", [320, 390, 1100])
def test_a_page_fits_any_width(tmp_path: Path, width: int) -> None:
    seen = look(_page(), tmp_path, width=width)
    assert seen.page["needed"] <= seen.page["width"]
    assert {path for path in seen.asked if path != "/favicon.ico"} == {"/look.html", "/page.html"}
    assert len(seen.page["charts"]) == 4  # two jobs, shares, pressure
    assert all(wide > 0.55 * seen.page["width"] and tall > 15 for wide, tall in seen.page["charts"])
    assert min(seen.page["sizes"]) >= 12  # pixels
    assert (seen.page["heads"] == "none") == (width < 640)
    for words in ("lattice-of-a-long-name", "needs 1024 MiB", "stopped", "share_l 0.5 -> 0.3"):
        assert words in seen.page["text"]


def _brightness(colour: str) -> float:
    """Relative luminance, 0 to 1, of "rgb(r, g, b)" (WCAG 2)."""
    parts = [int(part) / 255 for part in re.findall(r"\d+", colour)[:3]]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("dark", [False, True])
def test_light_and_dark_have_contrast(tmp_path: Path, dark: bool) -> None:
    seen = look(_page(), tmp_path, width=800, dark=dark)
    paper, ink = _brightness(seen.page["paper"]), _brightness(seen.page["ink"])
    assert (paper < ink) == dark
    assert (max(paper, ink) + 0.05) / (min(paper, ink) + 0.05) > 7


def test_an_empty_page_is_kind(tmp_path: Path) -> None:
    assert "A longer --since goes back further" in look(page([told()]), tmp_path, width=390).page["text"]
