# SPDX-License-Identifier: GPL-2.0-or-later
"""The papers' claims, judged by what the simulator measured: spec.md C, rows CSM-*, class S.

A row is a test declared before its runs were made; it says what must hold, and it is told when it does not. Where a
parameter the paper leaves open decides, the row says which.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from ctl.errors import USAGE, CoschedError
from ctl.sim import claims_csm
from ctl.sim.evidence import Evidence, Missing
from ctl.sim.experiments import find_experiment
from ctl.sim.experiments import runs as runs_of
from ctl.sim.native import load
from ctl.sim.store import Run, Store

__all__ = ["CLAIMS", "NO_RUNS", "Claim", "Verdict", "judge", "markdown", "runs"]

REPRODUCED, NOT_REPRODUCED, NOT_CHECKABLE = "reproduced", "not reproduced", "not checkable here"
NO_RUNS = "no runs yet"


class Claim(NamedTuple):
    """One row: what it says, on which experiments it is judged, and how."""

    id: str
    says: str
    holds_if: str
    experiments: tuple[str, ...]
    test: Callable[..., tuple[bool, str]] | None  # of the experiments' Evidence; None: not checkable, see holds_if


class Verdict(NamedTuple):
    """What was found."""

    id: str
    says: str
    verdict: str
    measured: str
    tolerance: str
    replications: int
    command: str


CLAIMS: tuple[Claim, ...] = tuple(Claim(*row) for row in claims_csm.ROWS)


def _chosen(ids: Sequence[str]) -> list[Claim]:
    known = {claim.id: claim for claim in CLAIMS}
    for wanted in ids:
        if wanted not in known:
            raise CoschedError(f"there is no claim {wanted!r}: known are {CLAIMS[0].id} to {CLAIMS[-1].id}", USAGE)
    return [known[wanted] for wanted in ids] if ids else list(CLAIMS)


def runs(ids: Sequence[str], replications: int, override: Mapping[str, object]) -> list[Run]:
    """All runs that these claims (or all) are judged on, each once."""
    names = dict.fromkeys(name for claim in _chosen(ids) for name in claim.experiments)
    wanted = [
        run
        for name in names
        for replication in zip(*runs_of(find_experiment(name), replications, override).values(), strict=True)
        for run in replication
    ]
    return list({run.key: run for run in wanted}.values())


def judge(store: Store, ids: Sequence[str], replications: int, override: Mapping[str, object]) -> list[Verdict]:
    """Judge them by the runs that are kept."""
    loaded: dict[str, Evidence | None] = {}
    options = "".join(f" --set {name}={value}" for name, value in override.items())
    options = (f" --replications {replications}" if replications else "") + options
    verdicts = []
    for claim in _chosen(ids):
        command = f"ctl sim claims {claim.id} --make{options}"
        if claim.test is None:
            verdicts.append(Verdict(claim.id, claim.says, NOT_CHECKABLE, claim.holds_if, "", 0, ""))
            continue
        evidence = [
            e for name in claim.experiments if (e := _load(name, store, replications, override, loaded)) is not None
        ]
        common = set[int]().union(*(e.seeds for e in evidence)).intersection(*(e.seeds for e in evidence))
        if len(evidence) < len(claim.experiments) or len(common) < 2:
            verdicts.append(Verdict(claim.id, claim.says, NO_RUNS, "", claim.holds_if, 0, command))
            continue
        holds, measured = claim.test(*(e.only(common) for e in evidence))
        count = len(common)
        verdict = REPRODUCED if holds else NOT_REPRODUCED
        verdicts.append(Verdict(claim.id, claim.says, verdict, measured, claim.holds_if, count, command))
    return verdicts


def markdown(verdicts: Sequence[Verdict]) -> str:
    """Verdicts as a table in Markdown; the command that shows a row again is `ctl sim claims ID --make`."""
    found = Counter(v.verdict for v in verdicts)
    counts = ", ".join(f"{n} {verdict}" for verdict, n in found.most_common())
    lines = [
        "# CSM's claims",
        "",
        f"Printed by `ctl sim claims --markdown` (engine {load().digest}): {counts}.",
        "`ctl sim claims ID --make` shows a row again. A sign holds where the 95 % interval of the paired differences",
        "excludes zero. Numbers in a row go from the first point of the figure's axis to the last. What the readings",
        "taken decide: [docs/simulator.md](../docs/simulator.md).",
        "",
    ]
    lines += ["| claim | what it says | verdict | measured | holds if | replications |", "|---|---|---|---|---|---|"]
    for v in verdicts:
        verdict = v.verdict if v.verdict != REPRODUCED else f"**{v.verdict}**"
        cells = (v.id, v.says, verdict, v.measured, v.tolerance, str(v.replications or "–"))
        lines.append("| " + " | ".join(cell.replace("|", "\\|") or "–" for cell in cells) + " |")
    return "\n".join(lines)


def _load(
    name: str, store: Store, replications: int, override: Mapping[str, object], loaded: dict[str, Evidence | None]
) -> Evidence | None:
    if name not in loaded:
        try:
            loaded[name] = Evidence(name, store, replications, override)
        except Missing:
            loaded[name] = None
    return loaded[name]
