# SPDX-License-Identifier: GPL-2.0-or-later
"""Where `ctl` begins: `ctl run` goes its short way (ctl/cli/run.py), all else goes through click (ctl/cli/main.py)."""

from __future__ import annotations

import sys

__all__ = ["main"]


def main() -> int:
    """Run the command of this process's arguments; returns the exit status: 0 done, 1 failed, 2 wrong request."""
    words = sys.argv[1:]
    return _run(words) if words[:1] == ["run"] else _whole(words)


def _run(words: list[str]) -> int:
    from ctl.cli.endings import ended
    from ctl.cli.run import begin, read

    def run() -> int:
        known = read(words[1:])
        return _whole(words) if known is None else begin(**known)

    return ended(run)


def _whole(words: list[str]) -> int:
    from ctl.cli.main import main as whole

    return whole(words)
