# SPDX-License-Identifier: GPL-2.0-or-later
"""/etc/cosched.conf: policy and knobs at load, and where each value of a load comes from.

The file is TOML:

    policy = "csm"

    [knobs]
    mno = 4
    quantum_ms = 10

The command line wins over the file, the file over the policy's row, the row over the knobs' defaults. A file with a
fault is not used in part: whoever wrote it meant all of it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from ctl.errors import USAGE, CoschedError
from ctl.policy.knobs import KNOBS, Value, defaults
from ctl.policy.policies import DEFAULT_POLICY, POLICIES, Policy, check_contract, contract_faults, find_policy
from ctl.policy.values import check_all, parse_assignments, shown

__all__ = ["FILE", "Choice", "Config", "choose", "load", "parse", "read"]

FILE: Final = Path(os.environ.get("COSCHED_CONFIG", "/etc/cosched.conf"))

_POLICY, _KNOBS = "policy", "knobs"  # all that the file can have
_WAYS_OUT: Final = "`ctl config check` tells all that is wrong with the file, --no-config leaves the file out"


@dataclass(frozen=True)
class Config:
    """What a file sets."""

    policy: str | None = None
    knobs: Mapping[str, Value] = field(default_factory=dict)  # without `mno`: mnol and mnod


def parse(text: str) -> tuple[Config, list[str]]:
    """What a file sets, and all its faults, one sentence each; with a fault that which is right.

    >>> parse('policy = "csm"\\n[knobs]\\nmno = 4')
    (Config(policy='csm', knobs={'mnol': 4, 'mnod': 4}), [])
    >>> parse("[knobs]\\nmno = 65")[1]
    ["knob mno cannot be '65': allowed is a whole number, 1 to 64 overtakes; `ctl policies` lists them all"]
    """
    import tomllib  # now, because `ctl get` does not need it

    try:
        content = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # not only tomllib's own: int() refuses 5,000 digits
        last = f"at line {text.rstrip().count(chr(10)) + 1}"
        what = str(error).replace("at end of document", last)
        return Config(), [f"it is not TOML ({what}): write NAME = VALUE, words in double quotes"]
    faults = [_stray(name) for name in content if name not in (_POLICY, _KNOBS)]
    policy = _policy(content.get(_POLICY), faults)
    knobs = _knobs(content.get(_KNOBS, {}), faults)
    row = policy or POLICIES[DEFAULT_POLICY]  # has both contracts and no modules: what is wrong with it is so with all
    faults += contract_faults(row, {**row.loaded_with(), **knobs})
    return Config(policy.name if policy else None, knobs), faults


def _stray(name: str) -> str:
    """The sentence for a name at the top of the file that means nothing there."""
    if name in KNOBS:
        return f"{name} is a knob, and stands outside the table of knobs: write it below [{_KNOBS}]"
    import difflib

    near = difflib.get_close_matches(name, (_POLICY, _KNOBS), n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"the file has {_POLICY} = NAME and the table [{_KNOBS}]"
    return f"{name!r} means nothing: {hint}"


def _policy(name: object, faults: list[str]) -> Policy | None:
    if name is None:
        return None
    try:
        return find_policy(name if isinstance(name, str) else str(name))
    except CoschedError as error:
        faults.append(error.sentence)
        return None


def _knobs(table: object, faults: list[str]) -> dict[str, Value]:
    if not isinstance(table, dict):
        faults.append(f"{_KNOBS} is no table: write [{_KNOBS}] on a line of its own, and NAME = VALUE below")
        return {}
    values: dict[str, Value] = {}
    for name, value in table.items():
        try:
            values |= check_all({name: value})
        except CoschedError as error:
            faults.append(error.sentence)
    return values


def read(path: Path = FILE) -> tuple[Config, list[str]] | None:
    """As `parse`, of a file; None if there is no such file."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        return Config(), [f"it cannot be read ({error.strerror}): see its owner and mode"]
    try:
        return parse(content.decode())
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        return Config(), [f"it is not UTF-8 (at line {line}): save it in UTF-8"]


def load(path: Path = FILE) -> Config | None:
    """What the file sets; None if there is no file. Raises CoschedError (status 2) if anything is wrong with it."""
    found = read(path)
    if found is None:
        return None
    config, faults = found
    if faults:
        more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
        raise CoschedError(f"{path}: {faults[0]}{more}; {_WAYS_OUT}", USAGE)
    return config


@dataclass(frozen=True)
class Choice:
    """The settings of a load, checked, and where they come from: "command line", the file, "policy NAME", "default"."""

    policy: Policy
    policy_from: str
    values: Mapping[str, Value]  # what differs from the defaults, or was set to be them
    origins: Mapping[str, str]  # of these values

    def rows(self) -> list[tuple[str, Value, str]]:
        """(knob, value, where it comes from) of every knob, in the table's order."""
        every: dict[str, Any] = shown({**defaults(), **self.values})
        return [(name, value, self.origins.get(name, "default")) for name, value in every.items() if name != "mno"]


def choose(name: str | None, assignments: Iterable[str], config: Config | None, file: Path = FILE) -> Choice:
    """The settings by command line (policy and words "mno=4"), file, row and defaults. Raises CoschedError (status 2).

    >>> choice = choose("fit", ["mno=4"], Config("csm", {"mnod": 3, "p": 0.5}), Path("/etc/cosched.conf"))
    >>> [(knob, origin) for knob, _, origin in choice.rows() if knob in ("mnod", "p", "contract", "mpl")]
    [('mnod', 'command line'), ('p', '/etc/cosched.conf'), ('contract', 'policy fit'), ('mpl', 'default')]
    """
    config = config or Config()
    given = parse_assignments(assignments)
    if name is not None:
        row, policy_from = find_policy(name), "command line"
    elif config.policy is not None:
        row, policy_from = find_policy(config.policy), str(file)
    else:
        row, policy_from = find_policy(DEFAULT_POLICY), "default"
    layers = ((row.loaded_with(), f"policy {row.name}"), (config.knobs, str(file)), (given, "command line"))
    values: dict[str, Value] = {}
    origins: dict[str, str] = {}
    for layer, origin in layers:
        values |= layer
        origins |= dict.fromkeys(layer, origin)
    check_contract(row, values)
    return Choice(row, policy_from, values, origins)
