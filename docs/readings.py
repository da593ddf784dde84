#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Fill the column "acts in" of docs/readings.md with the files that cite each reading.

With --check write nothing and print each fault: an id that is cited and has no row, a row that no file cites, a column
that is out of date.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "readings.md"
_ID = re.compile(r"\bB-(?:CSM|CCS|MO|PP|LS)-[0-9]+\b")
_ROW = re.compile(r"^\| (B-[A-Z]+-[0-9]+) \|")


def cited() -> dict[str, set[str]]:
    """The files that cite each id: code and pages, but no results, tests only where nothing else does."""
    found: dict[str, set[str]] = defaultdict(set)
    listed = subprocess.run(["git", "-C", ROOT, "ls-files"], capture_output=True, text=True, check=True).stdout
    for name in listed.splitlines():
        path = ROOT / name
        if name.startswith("results/") or path == PAGE or path.suffix not in (".py", ".c", ".h", ".md"):
            continue
        for one in set(_ID.findall(path.read_text())) if path.exists() else ():  # deleted, not committed yet
            found[one].add(name)
    return {one: {n for n in names if not n.startswith("tests/")} or names for one, names in found.items()}


def renewed(text: str, where: dict[str, set[str]]) -> str:
    """The page with its last column as the code has it."""
    lines = []
    for line in text.splitlines():
        row = _ROW.match(line)
        if row is None:
            lines.append(line)
            continue
        head = line.rstrip().removesuffix("|").rpartition("|")[0].rstrip()  # an empty last column counts, too
        lines.append(f"{head} | {', '.join(sorted(where.get(row[1], set())))} |")
    return "\n".join(lines) + "\n"


def faults(text: str, where: dict[str, set[str]]) -> list[str]:
    """The faults of the page, a sentence each."""
    rows = {row[1] for line in text.splitlines() if (row := _ROW.match(line))}
    wrong = [f"{one} is cited in {min(where[one])} and has no row" for one in sorted(where.keys() - rows)]
    wrong += [f"{one} has a row, and no file cites it" for one in sorted(rows - where.keys())]
    for line in text.splitlines():
        if (row := _ROW.match(line)) and row[1] in where and line.count(" | ") != 3:
            wrong.append(f"{row[1]} has not the four columns of the page's head")
    if renewed(text, where) != text:
        wrong.append("the last column is out of date: run `just readings`")
    return wrong


def main() -> int:
    """Write the page, or with --check judge it; returns the exit status."""
    text, where = PAGE.read_text(), cited()
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(renewed(text, where))
        return 0
    wrong = faults(text, where)
    sys.stderr.write("".join(f"docs/readings.md: {sentence}\n" for sentence in wrong))
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
