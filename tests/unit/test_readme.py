# SPDX-License-Identifier: GPL-2.0-or-later
"""README.md says what the code says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from ctl import policy

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()


def test_policies_and_knobs_are_those_of_policy_py() -> None:
    checked = subprocess.run(
        [sys.executable, ROOT / "docs" / "readme.py", "--check"], capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0, checked.stderr
    for name in (*policy.POLICIES, *policy.KNOBS):
        assert f"| `{name}` |" in README


def test_every_file_the_readme_links_to_exists() -> None:
    links = re.findall(r"\]\(([^)#]+)", README) + re.findall(r'(?:src|href)="([^"#]+)"', README)
    assert "docs/dashboard.png" in links
    missing = [link for link in links if not link.startswith("http") and not (ROOT / link).exists()]
    assert missing == []


def test_every_recipe_the_readme_names_is_in_the_justfile() -> None:
    justfile = (ROOT / "Justfile").read_text()
    recipes = set(re.findall(r"^([a-z][a-z-]*)\b[^\n]*?:(?!=)", justfile, re.MULTILINE))
    named = set(re.findall(r"(?:`|\./)just ([a-z][a-z-]*)", README))
    assert {"demo", "test"} <= named
    assert named <= recipes
