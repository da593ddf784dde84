#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Write docs/policies.md from the tables of ctl/policy; with --check only say whether the file is up to date."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from ctl.policy import values  # noqa: E402

PAGE = ROOT / "docs" / "policies.md"
HEAD = """# Policies and knobs

<!-- written by `just policies` from ctl/policy -->

A policy is a row of a table: a name, an insert rule of [bpf/insert_rq.h](../bpf/insert_rq.h), and modules of the social
contract. Policies and knobs can change while tasks run. A source is a section of a paper ([papers.md](papers.md)), the
id of a reading where the paper is ambiguous ([readings.md](readings.md)), or a section of [design.md](design.md).

"""


def main() -> int:
    """Write the page, or with --check compare it; returns the exit status."""
    new = HEAD + values.markdown()
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(new)
    elif PAGE.read_text() != new:
        print("docs/policies.md is not what ctl/policy says: run `just policies`", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
