# SPDX-License-Identifier: GPL-2.0-or-later
"""Knob values as people write them (ctl/policy/knobs.py) to and from the fields of struct knobs."""

from __future__ import annotations

from collections.abc import Mapping

from ctl.kernel import layout
from ctl.policy import KNOBS, Knob, Value, epochs, find_policy, is_on
from ctl.policy.values import shown

__all__ = ["decode", "encode"]

_NS_PER_MS = 1_000_000
_ONE = 1 << layout.constant("MES_SHIFT")
_FLAGS = {"off": 0, "on": 1}
_ENUMS = {
    "overload": layout.OVERLOAD,
    "classify": layout.CLASSIFY,
    "flt": layout.FLT,
    "c_mes": layout.C_MES,
    "gang": layout.GANG,
}


def _words(knob: Knob) -> Mapping[str, int]:
    """The kernel side's values for the words of a choice."""
    return _ENUMS[knob.name] if knob.encoding == "enum" else _FLAGS


def _to_field(knob: Knob, value: Value) -> int:
    """A value in the kernel side's form."""
    if isinstance(value, str):
        return _words(knob)[value]
    assert value is not None, f"knob {knob.name} has no value"
    if knob.encoding == "fixed":
        return round(value * _ONE)
    return int(value) * (_NS_PER_MS if knob.encoding == "ms" else 1)


def _from_field(knob: Knob, field: int) -> Value:
    """A value in the form that people write."""
    if knob.choices:
        return next(word for word, value in _words(knob).items() if value == field)
    if knob.encoding == "fixed":
        # three decimals identify a number of 10 fraction bits
        return round(field / _ONE, 3)
    return field // _NS_PER_MS if knob.encoding == "ms" else field


def encode(values: Mapping[str, Value], policy: str | None = None) -> dict[str, int]:
    """Fields of struct knobs for these (checked) knob values; with those that a policy decides if one is named.

    Knobs that are not fields (watchdog_ms) are left out.

    >>> encode({"mno": 2, "p": 0.3, "quantum_ms": 20})
    {'mnol': 2, 'mnod': 2, 'p': 307, 'quantum_ns': 20000000}
    """
    fields = {}
    if policy is not None:
        row = find_policy(policy)
        fields = {
            "rule": layout.RULES[row.rule],
            "set_quantum": int(is_on(row, "quantum", values)),
            "epochs": layout.EPOCHS[epochs(row, values)],
        }
    for name, value in values.items():
        for field in KNOBS[name].fields:
            fields[field] = _to_field(KNOBS[name], value)
    return fields


def decode(fields: Mapping[str, int]) -> dict[str, Value]:
    """Knob values from the fields of struct knobs; `mno` is None where mnol and mnod differ."""
    return shown(
        {
            knob.name: _from_field(knob, fields[knob.fields[0]])
            for knob in KNOBS.values()
            if len(knob.fields) == 1 and knob.fields[0] in fields
        }
    )
