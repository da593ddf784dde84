# SPDX-License-Identifier: GPL-2.0-or-later
"""Every policy and every knob, declared once: `policies` and `knobs` are the tables, `values` checks users' values.

References are sections of the papers (CSM, CCS, Monito; docs/papers.md) or of docs/design.md, and ids of readings
(B-...; docs/readings.md).
"""

from ctl.policy.knobs import AGENT_FIELDS, KNOBS, Knob, Value, defaults, find_knob
from ctl.policy.policies import (
    DEFAULT_POLICY,
    MODULES,
    POLICIES,
    Policy,
    check_contract,
    contract_faults,
    contracts,
    epochs,
    find_policy,
    is_on,
)
from ctl.policy.settings import Settings

__all__ = [
    "AGENT_FIELDS",
    "DEFAULT_POLICY",
    "KNOBS",
    "MODULES",
    "POLICIES",
    "Knob",
    "Policy",
    "Settings",
    "Value",
    "check_contract",
    "contract_faults",
    "contracts",
    "defaults",
    "epochs",
    "find_knob",
    "find_policy",
    "is_on",
]
