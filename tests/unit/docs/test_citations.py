# SPDX-License-Identifier: GPL-2.0-or-later
"""What the repository cites, the repository has: pages, headings of docs/design.md, readings, claims."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

from ctl import policy
from ctl.sim.registry import MODELS

ROOT = Path(__file__).resolve().parents[3]
DESIGN = "docs/design.md, "
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
_PAGE = re.compile(r"\b(?:docs|results)/[A-Za-z0-9_-]+\.md\b")
_READING = re.compile(r"\bB-[A-Z]+-[0-9]+\b")
_CLAIM = re.compile(r"(?<!B-)\b(?:CSM|CCS|MO|PP|LS)-[0-9]+\b")
_CLAIM_ROW = re.compile(r"^\| ([A-Z]+-[0-9]+) \|", re.MULTILINE)
_NO_CLAIM = "CSM-99"  # of a test of ids that do not exist


def _texts(*under: str) -> Iterator[tuple[str, str]]:
    """Name and text of each text file in git below these folders, without this test."""
    listed = subprocess.run(["git", "-C", ROOT, "ls-files", "-z", *under], capture_output=True, text=True, check=True)
    for name in listed.stdout.split("\0"):
        path = ROOT / name
        if not path.is_file() or path == Path(__file__).resolve():  # deleted, not committed yet
            continue
        data = path.read_bytes()
        if b"\0" not in data[:8192]:
            yield name, data.decode(errors="replace")


def _dangling(reference: str, headings: set[str]) -> list[str]:
    """The sections of docs/design.md that a knob or a policy cites and that the page does not have."""
    return [section for section in reference.split(DESIGN)[1:] if section.rstrip(", ") not in headings]


def test_no_page_is_cited_that_is_elsewhere() -> None:
    elsewhere = ("spec.md", "design §", "design.md §", "design section")
    assert [(name, word) for name, text in _texts() for word in elsewhere if word in text] == []


def test_no_parameter_of_the_simulator_cites_a_section_without_its_paper() -> None:
    alone = re.compile(r"(?<![\w.])[A-E]\.[1-9]\b")
    told = [(m.name, p.name, t) for m in MODELS.values() for p in m.parameters.values() for t in (p.meaning, p.source)]
    assert told
    assert [one for one in told if alone.search(one[2])] == []


def test_sections_of_the_design_are_headings() -> None:
    headings = set(_HEADING.findall((ROOT / "docs" / "design.md").read_text()))
    cited = [(row.name, row.reference) for row in policy.KNOBS.values()]
    cited += [(row.name, row.reference) for row in policy.POLICIES.values()]
    assert any(DESIGN in reference for _, reference in cited)
    assert [(name, wrong) for name, reference in cited for wrong in _dangling(reference, headings)] == []


def test_a_section_that_is_missing_is_told() -> None:
    assert _dangling(f"CSM §1, {DESIGN}Here, {DESIGN}There", {"Here"}) == ["There"]
    assert _dangling("CSM §1, B-CSM-1", set()) == []


def test_readings_stand_in_their_page() -> None:
    page = set(_READING.findall((ROOT / "docs" / "readings.md").read_text()))
    cited = [(name, one) for name, text in _texts() for one in _READING.findall(text)]
    assert cited
    assert [(name, one) for name, one in cited if one not in page] == []


def test_claims_stand_in_the_simulators_tables() -> None:
    rows = {row for _, text in _texts("results/*.md") for row in _CLAIM_ROW.findall(text)}
    cited = [(name, one) for name, text in _texts() for one in _CLAIM.findall(text) if one != _NO_CLAIM]
    assert cited
    assert [(name, one) for name, one in cited if one not in rows] == []


def test_pages_that_are_cited_exist() -> None:
    cited = {(name, page) for name, text in _texts() for page in _PAGE.findall(text)}
    assert cited
    assert sorted((name, page) for name, page in cited if not (ROOT / page).is_file()) == []
