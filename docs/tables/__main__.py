# SPDX-License-Identifier: GPL-2.0-or-later
"""`just tables`: fill in the tables of README.md and docs/*.md from results/, and draw docs/gangs.png; with --check
only say what differs in the tables."""

from __future__ import annotations

import sys

from docs.tables import experiments, gangs, measurements, others, readme
from docs.tables.blocks import PAGES, faults, renewed

__all__ = ["TABLES", "main"]

TABLES = {one.name: one for page in (readme, measurements, gangs, experiments, others) for one in page.TABLES}


def main() -> int:
    """Write the pages, or with --check judge them; returns the exit status."""
    texts = {page: page.read_text() for page in PAGES}
    if "--check" not in sys.argv[1:]:
        texts = {page: renewed(text, page, TABLES) for page, text in texts.items()}
        for page, text in texts.items():
            page.write_text(text)
        gangs.draw()
    wrong = faults(texts, TABLES)
    sys.stderr.write("".join(f"{sentence}\n" for sentence in wrong))
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
