# SPDX-License-Identifier: GPL-2.0-or-later
"""What the tables of policies and knobs cite of docs/design.md is a heading or a bold paragraph there."""

from __future__ import annotations

import re
from pathlib import Path

from ctl import policy

_DOCS = Path(__file__).resolve().parents[3] / "docs"
_TITLE = re.compile(r"^(?:#+ (?P<heading>.+)|- \*\*(?P<paragraph>[^*]+)\*\*.*)$", re.MULTILINE)


def test_citations_of_the_design_open() -> None:
    found = _TITLE.finditer((_DOCS / "design.md").read_text())
    titles = {(match["heading"] or match["paragraph"]).rstrip(".") for match in found}
    sources = [knob.reference for knob in policy.KNOBS.values()] + [row.reference for row in policy.POLICIES.values()]
    cited = {title for source in sources for title in re.findall(r"docs/design\.md: (.+?)(?:;|$)", source)}
    assert cited and cited <= titles, cited - titles
