# SPDX-License-Identifier: GPL-2.0-or-later
"""The blocks of pages that tables go into, and tables of figures that are in none."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from docs.tables.table import ROOT, Table

__all__ = ["PAGES", "faults", "figure_tables", "renewed"]

PAGES: Final = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))

_BLOCK: Final = re.compile(r"(?<=<!-- table: )(?P<name>[\w-]+)(?P<open> -->\n)(?P<body>.*?)(?=<!-- end -->)", re.DOTALL)
_NUMBER: Final = r"[-+×±≤]?\s?\d[\d,.·]*"
_FIGURE: Final = re.compile(rf"{_NUMBER}(?:\s?(?:±|to|and|,|;|\(|/)\s?{_NUMBER}\)?)*(?:\s?[%\w°µ]+){{0,2}}")
_FIGURES: Final = 3  # cells with figures make a table of figures


def renewed(text: str, page: Path, tables: Mapping[str, Table]) -> str:
    """The page with its blocks as results have them; one that is no table's stays."""

    def block(found: re.Match[str]) -> str:
        name = found["name"]
        return f"{name}{found['open']}{tables[name].text(page)}" if name in tables else found[0]

    return _BLOCK.sub(block, text)


def figure_tables(text: str) -> Iterator[str]:
    """The first line of each table outside of blocks that has several figures: cells that are numbers, with a unit.

    The first column has what a row is about, and no figures.
    """
    for table in re.findall(r"(?:^\|.*\n?)+", _BLOCK.sub("", text), re.MULTILINE):
        cells = [cell.strip(" *`") for line in table.splitlines()[2:] for cell in line.split("|")[2:-1]]
        if sum(bool(_FIGURE.fullmatch(cell)) for cell in cells) >= _FIGURES:
            yield table.splitlines()[0]


def faults(texts: Mapping[Path, str], tables: Mapping[str, Table]) -> list[str]:
    """What is wrong with the blocks of pages, a sentence each."""
    found = []
    placed: list[str] = []
    for page, text in texts.items():
        name = page.relative_to(ROOT)
        names = [block["name"] for block in _BLOCK.finditer(text)]
        placed += names
        if len(names) != text.count("<!-- table: ") or len(names) != text.count("<!-- end -->"):
            found.append(f"{name} has a block that does not end, or begins twice")
        elif unknown := [one for one in names if one not in tables]:
            found.append(f"{name} has a block {unknown[0]}, which docs/tables does not declare")
        elif renewed(text, page, tables) != text:
            found.append(f"{name} differs from results/: run `just tables`")
    found += [f"the table {one} stands on no page" for one in tables if one not in placed]
    return found + [f"the table {one} stands twice" for one in tables if placed.count(one) > 1]
