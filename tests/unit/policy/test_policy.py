# SPDX-License-Identifier: GPL-2.0-or-later
"""Policies and knobs: accepted values, refusals with their sentences, and the kernel's fields."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctl import policy
from ctl.errors import USAGE, CoschedError
from ctl.kernel import knobs, layout
from ctl.policy import values as knob_values

LIVE = [knob for knob in policy.KNOBS.values() if knob.live]


def refused(name: str, text: str) -> str:
    """The sentence that refuses a value."""
    with pytest.raises(CoschedError) as caught:
        knob_values.parse(name, text)
    assert caught.value.status == USAGE
    return str(caught.value)


def test_every_policy_has_a_rule_of_the_kernel_side() -> None:
    assert {row.rule for row in policy.POLICIES.values()} == set(layout.RULES)


def test_every_field_is_set_by_a_knob_or_by_the_agent() -> None:
    by_knobs = {field for knob in policy.KNOBS.values() for field in knob.fields}
    assert by_knobs | set(policy.AGENT_FIELDS) == set(layout.members("knobs")) - {"pad"}
    assert not by_knobs & set(policy.AGENT_FIELDS)


def test_choices_are_the_kernel_sides_words() -> None:
    assert set(policy.KNOBS["overload"].choices) == set(layout.OVERLOAD)
    assert set(policy.KNOBS["classify"].choices) == set(layout.CLASSIFY)


def test_contracts() -> None:
    ranges = {name: (knob.low, knob.high, knob.default) for name, knob in policy.KNOBS.items()}
    for name in ("mno", "mnol", "mnod"):
        assert ranges[name] == (1, 64, 2)
    assert ranges["p"] == (0, 1, 0.3)
    assert ranges["share_l"] == (0, 1, 0.5)
    assert ranges["quantum_ms"] == (1, 1000, 20)
    assert ranges["walk_max"] == (1, 1024, 11)
    assert ranges["watchdog_ms"] == (1000, 30000, 30000)


@pytest.mark.parametrize("knob", policy.KNOBS.values(), ids=lambda knob: knob.name)
def test_defaults_are_allowed(knob: policy.Knob) -> None:
    assert knob_values.parse(knob.name, str(knob.default)) == knob.default


@pytest.mark.parametrize("knob", policy.KNOBS.values(), ids=lambda knob: knob.name)
def test_limits_are_allowed_and_what_is_beyond_is_refused_with_them(knob: policy.Knob) -> None:
    if knob.choices:
        for word in knob.choices:
            assert knob_values.parse(knob.name, word) == word
        beyond = ["", "maybe", "ON", "1"]
    else:
        for limit in (knob.low, knob.high):
            assert knob_values.parse(knob.name, f"{limit:g}") == limit
        beyond = [f"{knob.low - 1:g}", f"{knob.high + 1:g}", "", "x", "nan", "1e400", "0x2", "1_0", "٣"]
    for text in beyond:
        sentence = refused(knob.name, text)
        assert knob.name in sentence and knob.range in sentence and repr(text) in sentence
        assert knob.unit in sentence and "ctl policies" in sentence


def test_whole_numbers_are_whole() -> None:
    assert "whole number" in refused("mno", "2.0")
    assert "whole number" in refused("mno", "9" * 5000)


def test_unknown_names_are_refused_with_those_there_are() -> None:
    assert "mno" in refused("mnq", "1")
    with pytest.raises(CoschedError, match="csm-bounded") as caught:
        policy.find_policy("cfs")
    assert caught.value.status == USAGE


@pytest.mark.parametrize("assignment", ["mno", "", "=", "=3", "mno=", "mno==2", "mno = 2 3"])
def test_assignments_that_set_nothing_are_refused(assignment: str) -> None:
    with pytest.raises(CoschedError) as caught:
        knob_values.parse_assignments([assignment])
    assert caught.value.status == USAGE


def test_mno_sets_both_and_a_later_one_wins() -> None:
    assert knob_values.parse_assignments(["mno=3"]) == {"mnol": 3, "mnod": 3}
    assert knob_values.parse_assignments(["mno=3", "mnol=4"]) == {"mnol": 4, "mnod": 3}
    assert knob_values.parse_assignments(["mnol=4", "mno=3"]) == {"mnol": 3, "mnod": 3}


def test_values_from_json() -> None:
    assert knob_values.check_all({"credit": False, "p": 0.5, "mnol": 7}) == {"credit": "off", "p": 0.5, "mnol": 7}
    wrong: list[object] = [None, [], {}, "7.5", 7.5, True, math.nan]
    for value in wrong:
        with pytest.raises(CoschedError):
            knob_values.check("mnol", value)


def test_a_knob_of_the_loader_cannot_change_live() -> None:
    knob_values.check_live({"mno": 2})
    with pytest.raises(CoschedError, match="watchdog_ms is fixed"):
        knob_values.check_live({"mno": 2, "watchdog_ms": 5000})


def test_defaults_as_the_kernel_gets_them() -> None:
    fields = knobs.encode(policy.defaults(), policy.DEFAULT_POLICY)
    told = {"overloaded", "trace", "local_user", "slowed_jobs", "stretch", "pad"}
    assert set(fields) == set(layout.members("knobs")) - told
    assert fields["rule"] == layout.constant("RULE_CSM")
    assert (fields["mnol"], fields["mnod"], fields["quantum_ns"], fields["credit"]) == (2, 2, 20_000_000, 1)
    assert fields["p"] == round(0.3 * (1 << layout.constant("MES_SHIFT")))
    assert fields["overload"] == layout.constant("OVERLOAD_AUTO")


@given(st.data())
def test_what_is_set_is_what_is_read(data: st.DataObject) -> None:
    values: dict[str, policy.Value] = {}
    for knob in LIVE:
        if knob.name == "mno" or not knob.fields:  # the agent keeps those without a field
            continue
        if knob.choices:
            values[knob.name] = data.draw(st.sampled_from(knob.choices))
        elif knob.kind == "integer":
            values[knob.name] = data.draw(st.integers(int(knob.low), int(knob.high)))
        else:
            values[knob.name] = data.draw(st.integers(0, 100)) / 100
    read = knobs.decode(knobs.encode(knob_values.check_all(values)))
    both = read.pop("mno")
    assert read == values
    assert both == (values["mnol"] if values["mnol"] == values["mnod"] else None)


def test_the_tables_name_everything() -> None:
    text = knob_values.markdown()
    for name in [*policy.POLICIES, *policy.KNOBS]:
        assert text.count(f"| `{name}` |") >= 1
    assert len({line.count("|") for line in text.splitlines() if line.startswith("| `")}) <= 2
