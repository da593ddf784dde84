#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Writes the parts of README.md that come from elsewhere: the policies and knobs of ctl/policy.py.

`docs/readme.py` updates the file, `docs/readme.py --check` only says whether it is in sync (exit status 1 if not).
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from ctl import knob_values  # noqa: E402

_BEGIN = "<!-- policies and knobs: written by `just readme` from ctl/policy.py -->\n"
_END = "<!-- end of policies and knobs -->\n"


def updated(text: str) -> str:
    """Return the README's text with its generated block as ctl/policy.py has it now; the marks must be there."""
    block = _BEGIN + "\n" + knob_values.markdown() + "\n" + _END
    new, count = re.subn(re.escape(_BEGIN) + ".*?" + re.escape(_END), lambda _: block, text, flags=re.DOTALL)
    if count != 1:
        raise SystemExit(
            f"README.md has {count} blocks for policies and knobs: it needs one, between {_BEGIN!r} and {_END!r}"
        )
    return new


def main() -> int:
    """Update README.md, or with --check compare it."""
    readme = ROOT / "README.md"
    text = readme.read_text()
    new = updated(text)
    if "--check" in sys.argv[1:]:
        if new != text:
            print("README.md is not what ctl/policy.py says: run `just readme`", file=sys.stderr)
        return int(new != text)
    if new != text:
        readme.write_text(new)
    return 0


if __name__ == "__main__":
    sys.exit(main())
