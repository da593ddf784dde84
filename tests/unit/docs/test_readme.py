# SPDX-License-Identifier: GPL-2.0-or-later
"""README.md says what the code says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from ctl import policy

ROOT = Path(__file__).resolve().parents[3]
README = (ROOT / "README.md").read_text()


PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]

# Unreadable sentences of earlier texts. A word of each is cut in two, so that this file has none of them.
RIDDLES = (
    "that they need wait no " "longer it does not",
    "is above half of the node's memory is only " "spared",
    "since the third, whom a " "message",
    "it was not sure that what " "idled",
    "what it has to tell other nodes is " "awaited",
    "A job that has them " "not",
    "one that is stopped is to " "be so",
    "who has them open " "keeps them",
    "does not make the old key worthless, " "for that",
    "That mean favours " "who",
)


def test_the_readme_is_short() -> None:
    assert len(README.split()) <= 1200


def test_policies_and_knobs_are_those_of_the_tables() -> None:
    command = [sys.executable, str(ROOT / "docs" / "policies.py"), "--check"]
    checked = subprocess.run(command, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stderr
    page = (ROOT / "docs" / "policies.md").read_text()
    for name in (*policy.POLICIES, *policy.KNOBS):
        assert f"| `{name}` |" in page


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_file_that_a_page_links_to_exists(page: Path) -> None:
    text = page.read_text()
    links = re.findall(r"\]\(([^)#]+)", text) + re.findall(r'(?:src|href)="([^"#]+)"', text)
    missing = [link for link in links if not link.startswith("http") and not (page.parent / link).exists()]
    assert missing == []


def test_the_readme_leads_to_every_page() -> None:
    for page in PAGES[1:]:
        name = page.relative_to(ROOT).as_posix()
        assert name in README or page.name.startswith("simulator-"), f"no link to {name}"
    assert "docs/dashboard.png" in README


def test_no_riddle_is_told() -> None:
    files = [path for room in ("docs", "ctl", "bpf", "vm", "results") for path in (ROOT / room).rglob("*.*")]
    for path in [ROOT / "README.md", *files]:
        if path.suffix in (".md", ".py", ".h", ".c"):
            text = " ".join(path.read_text().split())
            assert not [riddle for riddle in RIDDLES if riddle in text], path


def test_every_recipe_the_readme_names_is_in_the_justfile() -> None:
    justfile = (ROOT / "Justfile").read_text()
    recipes = set(re.findall(r"^([a-z][a-z-]*)\b[^\n]*?:(?!=)", justfile, re.MULTILINE))
    named = set(re.findall(r"(?:`|\./)just ([a-z][a-z-]*)", README))
    assert {"demo", "test"} <= named
    assert named <= recipes
