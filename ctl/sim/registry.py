# SPDX-License-Identifier: GPL-2.0-or-later
"""All there is: the models, the papers' experiments, the papers' claims. A model's folder has the model's own
experiments and claims.

>>> find_model("csm").complete({"mfreq_ms": 20})["mfreq_ms"]
20.0
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from ctl.errors import USAGE, CoschedError
from ctl.sim.ccs import claims as ccs_claims
from ctl.sim.ccs import experiments as ccs_experiments
from ctl.sim.ccs import model as ccs_model
from ctl.sim.claim import Claim
from ctl.sim.csm import claims as csm_claims
from ctl.sim.csm import experiments as csm_experiments
from ctl.sim.csm import model as csm_model
from ctl.sim.dcndc import claims as dcndc_claims
from ctl.sim.dcndc import experiments as dcndc_experiments
from ctl.sim.dcndc import model as dcndc_model
from ctl.sim.experiment import Experiment
from ctl.sim.loadshare import claims as loadshare_claims
from ctl.sim.loadshare import experiments as loadshare_experiments
from ctl.sim.loadshare import model as loadshare_model
from ctl.sim.params import Model
from ctl.sim.parpar import claims as parpar_claims
from ctl.sim.parpar import experiments as parpar_experiments
from ctl.sim.parpar import model as parpar_model

__all__ = ["CLAIMS", "EXPERIMENTS", "MODELS", "find_claims", "find_experiment", "find_model", "from_toml"]

_T = TypeVar("_T")

MODELS: Mapping[str, Model] = {
    model.name: model
    for model in (
        csm_model.MODEL,
        ccs_model.MODEL,
        dcndc_model.MODEL,
        loadshare_model.KNOWN,
        loadshare_model.UNKNOWN,
        parpar_model.MODEL,
    )
}
EXPERIMENTS: Mapping[str, Experiment] = {
    experiment.name: experiment
    for experiment in (
        *csm_experiments.EXPERIMENTS,
        *ccs_experiments.EXPERIMENTS,
        *dcndc_experiments.EXPERIMENTS,
        *loadshare_experiments.EXPERIMENTS,
        *parpar_experiments.EXPERIMENTS,
    )
}
CLAIMS: Mapping[str, Claim] = {
    claim.id: claim
    for claim in (
        *csm_claims.CLAIMS,
        *ccs_claims.CLAIMS,
        *dcndc_claims.CLAIMS,
        *loadshare_claims.CLAIMS,
        *parpar_claims.CLAIMS,
    )
}


def _find(kind: str, name: str, known: Mapping[str, _T]) -> _T:
    """The entry of this name; CoschedError (status 2) if there is none."""
    if name not in known:
        raise CoschedError(f"there is no {kind} {name!r}: known are {', '.join(known)}", USAGE)
    return known[name]


def find_model(name: str) -> Model:
    """The model of that name; CoschedError (status 2) if there is none."""
    return _find("model", name, MODELS)


def find_experiment(name: str) -> Experiment:
    """The experiment of that name; CoschedError (status 2) if there is none."""
    return _find("experiment", name, EXPERIMENTS)


def find_claims(ids: Sequence[str]) -> list[Claim]:
    """The claims of these ids, or all claims; CoschedError (status 2) for an unknown id."""
    return [_find("claim", wanted, CLAIMS) for wanted in ids] if ids else list(CLAIMS.values())


def from_toml(path: Path) -> dict[str, dict[str, object]]:
    """The tables of a TOML file, each named as a model."""
    try:
        read = tomllib.loads(path.read_text())
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise CoschedError(f"{path} cannot be read: {error}", USAGE) from None
    if set(read) - set(MODELS) or not all(isinstance(of, dict) for of in read.values()):
        raise CoschedError(f"{path} may only hold tables named as models: {', '.join(MODELS)}", USAGE)
    return read
