# SPDX-License-Identifier: GPL-2.0-or-later
"""Module `fit` among the modules: one rule of memory at a time, and the contract that its policy is loaded with."""

from __future__ import annotations

import pytest

from ctl import policy
from ctl.errors import CoschedError
from ctl.policy.config import choose


@pytest.mark.parametrize(("name", "knob"), [("fit", "memory"), ("ccs", "fit"), ("poly", "fit")])
def test_two_rules_of_memory_are_refused(name: str, knob: str) -> None:
    with pytest.raises(CoschedError, match=r"Set_Memory and fit on.*fit=off") as refused:
        policy.check_contract(policy.find_policy(name), {knob: "on"})
    assert refused.value.status == 2
    policy.check_contract(policy.find_policy(name), {})


def test_a_policy_is_loaded_with_its_contract_unless_the_knob_is_set() -> None:
    contracts = {name: choose(name, (), None).values["contract"] for name in policy.POLICIES}
    assert contracts == {name: policy.contracts(row)[0] for name, row in policy.POLICIES.items()}
    assert contracts["fit"] == "class" and contracts["csm"] == "queue"
    assert choose("fit", ("contract=queue",), None).values["contract"] == "queue"


@pytest.mark.parametrize(("period", "refused"), [(2, True), (19, True), (20, False), (400, False)])
def test_periods_by_the_clock_are_not_too_short_for_the_agent(period: int, refused: bool) -> None:
    knobs: dict[str, policy.Value] = {"contract": "class", "contract_step": "on", "contract_period_ms": period}
    faults = policy.contract_faults(policy.find_policy("csm"), knobs)
    assert bool(faults) == refused
    assert all("contract_period_ms" in fault and "20 ms" in fault for fault in faults)
