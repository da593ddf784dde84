# SPDX-License-Identifier: GPL-2.0-or-later
"""The papers' claims, judged by what the simulator measured. results/ has the verdicts.

A row is a test, declared with its condition before its runs were made; a claim that fails is reported. If a parameter
that the paper leaves open decides, the row names the parameter.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ctl.sim.evidence import Evidence, Missing
from ctl.sim.experiment import runs as runs_of
from ctl.sim.native import load
from ctl.sim.pool import fetch
from ctl.sim.registry import MODELS, find_claims, find_experiment
from ctl.sim.store import Run, Store

__all__ = ["NO_RUNS", "Override", "Verdict", "judge", "markdown", "runs"]

Override = Mapping[str, Mapping[str, object]]
"""Parameters that a user changes, by model."""

REPRODUCED, NOT_REPRODUCED, NOT_CHECKABLE = "reproduced", "not reproduced", "not checkable here"
NO_RUNS = "no runs yet"


class Verdict(NamedTuple):
    """The finding."""

    id: str
    says: str
    verdict: str
    measured: str
    tolerance: str
    replications: int
    command: str


def runs(ids: Sequence[str], replications: int, override: Override) -> list[Run]:
    """All runs that these claims (or all) are judged on, each once."""
    wanted: list[Run] = []
    for name in dict.fromkeys(name for claim in find_claims(ids) for name in claim.experiments):
        experiment = find_experiment(name)
        points = runs_of(experiment, replications, override.get(experiment.model.name))
        wanted += (run for replication in zip(*points.values(), strict=True) for run in replication)
    return list({run.key: run for run in wanted}.values())


def judge(store: Store, ids: Sequence[str], replications: int, override: Override) -> list[Verdict]:
    """Judge them by the runs that are kept."""
    loaded: dict[str, Evidence | None] = {}
    options = "".join(f" --set {name}={value}" for of in override.values() for name, value in of.items())
    options = (f" --replications {replications}" if replications else "") + options
    verdicts = []
    for claim in find_claims(ids):
        command = f"ctl sim claims {claim.id} --make{options}"
        if claim.test is None:
            verdicts.append(Verdict(claim.id, claim.says, NOT_CHECKABLE, claim.holds_if, "", 0, ""))
            continue
        if not claim.experiments:  # arithmetic on the paper's own numbers
            holds, measured = claim.test()
            verdict = REPRODUCED if holds else NOT_REPRODUCED
            verdicts.append(Verdict(claim.id, claim.says, verdict, measured, claim.holds_if, 0, command))
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
    names = dict.fromkeys(model.engine for model in MODELS.values())
    engines = ", ".join(f"{name} {load(name).digest}" for name in names)
    counts = ", ".join(f"{n} {verdict}" for verdict, n in found.most_common())
    lines = [
        "# The papers' claims, in the simulator",
        "",
        f"Printed by `ctl sim claims --markdown` (engines: {engines}): {counts}.",
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
    name: str, store: Store, replications: int, override: Override, loaded: dict[str, Evidence | None]
) -> Evidence | None:
    if name not in loaded:
        try:
            experiment = find_experiment(name)
            loaded[name] = Evidence(
                experiment, lambda runs: fetch(runs, store), replications, override.get(experiment.model.name)
            )
        except Missing:
            loaded[name] = None
    return loaded[name]
