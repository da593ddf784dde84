# SPDX-License-Identifier: GPL-2.0-or-later
"""How long each file of tests took: `python -m tests.times FORM WORK SECONDS`, called by tests/all at its end.

WORK has the output of each part, and NAME.xml of a part that pytest ran. All go to results/tests.jsonl: the first line
has what holds for all, then a line for each file, the longest first. If `just test` took longer than its budget, a
closing line says so and names the five dearest files; the status stays 0, because a busy host is no fault of a test.
"""

from __future__ import annotations

import re
import sys
import xml.etree.ElementTree as ET
from collections import defaultdict
from pathlib import Path
from typing import Final

from ctl.demo import results
from vm import checkout

__all__ = ["files", "verdict"]

BUDGET_S: Final = 720  # of the quick form, on two cores, with the image built
_DEAREST: Final = 5
_RESULTS: Final = Path(__file__).resolve().parents[1] / "results/tests.jsonl"
_KSELFTEST = re.compile(r"^# (\w+): (\d+\.\d) s$", re.MULTILINE)


def files(work: Path) -> dict[str, float]:
    """Seconds by file of tests, the longest first. work: the directory of the parts' output."""
    spent: defaultdict[str, float] = defaultdict(float)
    for output in work.glob("kselftest-*[0-9]"):
        for name, seconds in _KSELFTEST.findall(output.read_text(errors="replace")):
            spent[f"kselftest/{name}"] += float(seconds)
    for report in work.glob("*.xml"):
        for case in ET.parse(report).iter("testcase"):
            module = case.get("classname", "").removeprefix("tests.").replace(".", "/")
            spent[module] += float(case.get("time", 0))
    return {name: round(seconds, 1) for name, seconds in sorted(spent.items(), key=lambda one: -one[1])}


def verdict(form: str, spent: dict[str, float], seconds: float) -> str:
    """The closing line about the budget; empty if there is nothing to say."""
    if form != "quick" or seconds <= BUDGET_S:
        return ""
    dearest = ", ".join(f"{name} {took:.0f} s" for name, took in list(spent.items())[:_DEAREST])
    return f"tests: OVER BUDGET, {seconds:.0f} s of {BUDGET_S}; the dearest files: {dearest}"


def main(form: str, work: Path, seconds: float) -> None:
    """Write results/tests.jsonl and print the closing line."""
    spent = files(work)
    head = {"command": f"tests/all {form}", "runs": 1, "seconds": seconds}
    commit = checkout.commit()
    results.write(_RESULTS, head, [{"commit": commit, "file": name, "seconds": took} for name, took in spent.items()])
    if told := verdict(form, spent, seconds):
        print(told)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), float(sys.argv[3]))
