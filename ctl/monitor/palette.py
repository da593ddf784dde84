# SPDX-License-Identifier: GPL-2.0-or-later
"""The dashboard's colours: those of Okabe and Ito (https://jfly.uni-koeln.de/color/), which people with any colour
vision tell apart. A word, a number, a letter or a line beneath repeats each colour's meaning.
"""

from __future__ import annotations

from typing import Final

__all__ = ["HEAD", "LIMIT", "LOCAL", "MODES", "PARALLEL", "QUIET", "WARN"]

LOCAL: Final = "#009e73"
"""Bluish green: a local task, or all is well."""
PARALLEL: Final = "#56b4e9"
"""Sky blue: a parallel task, a job."""
WARN: Final = "#e69f00"
"""Orange: an overtaken task, a cause of slowness."""
LIMIT: Final = "bold #d55e00"
"""Vermilion: a value at its limit."""
MODES: Final = (PARALLEL, "#cc79a7", WARN)
"""Predictive, dynamic, CSM; the second is reddish purple."""
HEAD: Final = "bold underline"
QUIET: Final = "dim"
