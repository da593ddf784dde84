# SPDX-License-Identifier: GPL-2.0-or-later
"""`just sim`: a tour that takes a minute and ends in a plot.

The tour runs small replications of CSM Fig. 8 and 9 (rr, pred and csm over the message frequency at mem_load 1) and
keeps them in a file of their own. For figures worth quoting, run `ctl sim experiment`.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from ctl.cli.main import main

__all__ = ["tour"]

_OUT = Path("build/sim/tour")
_SMALL = ("--replications", "3", "--set", "jobs=1500", "--store", str(_OUT / "results.sqlite"))


def _show(*arguments: str) -> None:
    """Run a command of `ctl sim` and print it as a user would type it."""
    sys.stdout.write(f"\n$ ctl sim {' '.join(arguments)}\n")
    sys.stdout.flush()
    if main(["sim", *arguments]):
        raise SystemExit(1)


def tour() -> None:
    """Run it."""
    began = time.monotonic()
    _show("run", "csm", "--policy", "csm")
    _show("experiment", "csm-fig4-free-1s", "--replications", "1", "--store", _SMALL[-1], "--output", str(_OUT))
    _show("experiment", "csm-fig8", *_SMALL, "--output", str(_OUT))
    _show("experiment", "csm-fig9", *_SMALL, "--output", str(_OUT))
    _show("claims", "CSM-23", "CSM-24", "CSM-25", "CSM-26", *_SMALL)
    took = time.monotonic() - began
    sys.stdout.write(f"\n{took:.0f} s. Three small replications prove nothing: leave out the options for full runs.\n")
    sys.stdout.write(f"The plots: {_OUT / 'csm-fig8.png'}, {_OUT / 'csm-fig9.png'}, {_OUT / 'csm-fig4-free-1s.png'}\n")


if __name__ == "__main__":
    tour()
