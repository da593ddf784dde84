# SPDX-License-Identifier: GPL-2.0-or-later
"""Values of knobs: read, checked and shown; and the tables of docs/policies.md.

Only this module checks values from users and programs, against the rows of ctl/policy/knobs.py. All other code trusts
them. `python -m ctl.policy.values --markdown` prints the tables.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from ctl.errors import USAGE, CoschedError
from ctl.policy import KNOBS, MODULES, POLICIES, Knob, Policy, Value, contracts, find_knob

__all__ = ["check", "check_all", "check_live", "markdown", "modules", "parse", "parse_assignments", "shown"]

_WAY_OUT = "`ctl policies` lists them all"
_INTEGER = re.compile(r"[+-]?[0-9]+", re.ASCII)
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", re.ASCII)


def parse(name: str, text: str) -> Value:
    """A knob's value from text. Raises CoschedError (status 2) with the allowed range.

    >>> parse("p", "0.25"), parse("mno", "4"), parse("overload", "on")
    (0.25, 4, 'on')
    """
    knob = find_knob(name)
    text = text.strip()
    if knob.kind == "choice":
        if text not in knob.choices:
            raise _refusal(knob, text)
        return text
    pattern, number = (_INTEGER, int) if knob.kind == "integer" else (_NUMBER, float)
    # 20 digits are beyond every range, and int() refuses thousands of digits with a message of its own
    if (knob.kind == "integer" and len(text) > 20) or not pattern.fullmatch(text):
        raise _refusal(knob, text)
    value = number(text)
    if not knob.low <= value <= knob.high:
        raise _refusal(knob, text)
    return value


def _refusal(knob: Knob, text: str) -> CoschedError:
    """The sentence for a value that is not allowed."""
    got = text if len(text) <= 40 else text[:37] + "..."
    kind = "a whole number, " if knob.kind == "integer" else ""
    return CoschedError(f"knob {knob.name} cannot be {got!r}: allowed is {kind}{knob.range}; {_WAY_OUT}", USAGE)


def check(name: str, value: object) -> Value:
    """The value, for example from JSON, if it is allowed for the knob. Raises CoschedError (status 2)."""
    if isinstance(value, bool):
        return parse(name, "on" if value else "off")
    if not isinstance(value, int | float | str):
        return parse(name, "null" if value is None else type(value).__name__)
    if isinstance(value, int) and value.bit_length() > 64:  # beyond every range, and str() refuses 5,000 digits
        return parse(name, f"a number of {value.bit_length()} bits")
    return parse(name, repr(value) if isinstance(value, float) else str(value))


def check_all(values: Mapping[str, object]) -> dict[str, Value]:
    """All values, checked; `mno` is replaced by the two knobs that it sets. A later value replaces an earlier value.

    >>> check_all({"mno": 4, "mnol": 2})
    {'mnol': 2, 'mnod': 4}
    """
    checked: dict[str, Value] = {}
    for name, raw in values.items():
        value = check(name, raw)
        for target in KNOBS["mno"].fields if name == "mno" else (name,):
            checked[target] = value
    return checked


def parse_assignments(assignments: Iterable[str]) -> dict[str, Value]:
    """Values from words like "mno=4". Raises CoschedError (status 2) for the first wrong word.

    >>> parse_assignments(["mno=4", "overload=on"])
    {'mnol': 4, 'mnod': 4, 'overload': 'on'}
    """
    values: dict[str, Value] = {}
    for assignment in assignments:
        name, sign, text = assignment.partition("=")
        if not sign:
            raise CoschedError(f"{assignment!r} is not an assignment: write KNOB=VALUE, as in mno=2; {_WAY_OUT}", USAGE)
        values |= check_all({name.strip(): text})
    return values


def check_live(values: Mapping[str, object]) -> None:
    """Raise CoschedError (status 2) if any of these knobs is fixed while the scheduler runs."""
    for name in values:
        if name in KNOBS and not KNOBS[name].live:
            raise CoschedError(
                f"knob {name} is fixed while loaded: `ctl unload`, then `ctl load --set {name}=VALUE`",
                USAGE,
            )


def shown(values: Mapping[str, Value]) -> dict[str, Value]:
    """The values in the table's order, with `mno`: the value of mnol and mnod, None if they differ."""
    local, distributed = values.get("mnol"), values.get("mnod")
    known = {**values, "mno": local if local == distributed else None}
    return {name: known[name] for name in KNOBS if name in known}


def modules(policy: Policy) -> str:
    """The modules of the social contract that a policy has on, in words.

    >>> modules(POLICIES["ccs"]), modules(POLICIES["rr"])
    ('quantum, memory, events', '')
    """
    return ", ".join(module for module in MODULES if policy.has(module))


def markdown() -> str:
    """Both tables of docs/policies.md."""
    heads = "policy", "insert rule", "order of the ready queue", "modules", "contracts", "L", "source"
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    lines += [
        f"| `{p.name}` | `{p.rule}` | {p.meaning} | {modules(p) or '–'} | {', '.join(contracts(p))} | "
        f"{p.share_l:g} | {p.reference} |"
        for p in POLICIES.values()
    ]
    lines += ["", "| knob | allowed | default | meaning | source |", "|---|---|---|---|---|"]
    lines += [f"| `{k.name}` | {k.range} | {k.default} | {k.meaning} | {k.reference} |" for k in KNOBS.values()]
    return "\n".join(lines) + "\n"
