# SPDX-License-Identifier: GPL-2.0-or-later
"""Every policy and every knob, declared once.

A policy is a row: a name and an insert rule of bpf/insert_rq.h. A knob is a row: name, meaning, unit, range,
default. What a user writes is checked here and nowhere else, so a value that got past this module is a good
one. The tables of the README come from here too: `python -m ctl.policy --markdown`.

References are paragraphs of the papers (CSM, CCS, Monito) and ids of the readings taken where they are
ambiguous (B-...).
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ctl.errors import USAGE, CoschedError

__all__ = [
    "AGENT_FIELDS",
    "DEFAULT_POLICY",
    "KNOBS",
    "POLICIES",
    "Knob",
    "Policy",
    "Value",
    "check",
    "check_all",
    "check_live",
    "defaults",
    "find_knob",
    "find_policy",
    "markdown",
    "parse",
    "parse_assignments",
    "shown",
]

Value = int | float | str | None
"""A knob's value: an int, a number, or one of its words. None: `mno` where mnol and mnod differ."""

DEFAULT_POLICY = "csm"

AGENT_FIELDS = ("rule", "overloaded", "trace")
"""Fields of struct knobs that no knob sets: the policy's rule, the agent's verdict, a reader of decisions."""

_WAY_OUT = "`ctl policies` lists them all"
_INTEGER = re.compile(r"[+-]?[0-9]+", re.ASCII)
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", re.ASCII)


@dataclass(frozen=True)
class Policy:
    """One row of the policy table."""

    name: str
    rule: str  # insert rule, as in enum insert_rule
    meaning: str
    reference: str


@dataclass(frozen=True)
class Knob:
    """One row of the knob table; `fields` are what it sets in struct knobs, nothing for a knob of the loader."""

    name: str
    kind: str  # "integer", "number" or "choice"
    default: Value
    meaning: str
    reference: str
    unit: str = ""
    low: float = 0
    high: float = 0
    choices: tuple[str, ...] = ()
    fields: tuple[str, ...] = ()
    encoding: str = "integer"  # of the fields: "integer", "fixed" point, "ms" kept as ns, "enum", "flag"
    live: bool = True  # may change while the scheduler runs

    @property
    def range(self) -> str:
        """What is allowed, in words: "1 to 64 overtakes", "auto, on or off"."""
        if self.choices:
            return f"{', '.join(self.choices[:-1])} or {self.choices[-1]}"
        limits = f"{self.low:g} to {self.high:g}"
        return f"{limits} {self.unit}" if self.unit else limits


_POLICIES = (
    Policy("rr", "fifo", "every task goes to the tail of the ready queue", "CSM §4.1, §5.1"),
    Policy(
        "pred",
        "pred",
        "a parallel task overtakes tasks that communicate less, past and present (mes)",
        "CSM §4.2, §5.1",
    ),
    Policy("dyn", "dyn", "a parallel task with a received message goes to the top, else to the tail", "CSM §5.1"),
    Policy(
        "sdca",
        "sdca",
        "a parallel task overtakes tasks with fewer received messages",
        "Monito Alg. 2, B-MO-1",
    ),
    Policy(
        "dynamic",
        "dynamic",
        "a message puts its task on the CPU if that task used less CPU, by `share_ms`, than the running one",
        "Monito §5.3, B-MO-7",
    ),
    Policy(
        "csm",
        "csm",
        "by mes while memory fits; once it does not, received messages lead to the top, else fewer faults do",
        "CSM Alg. 1",
    ),
    Policy(
        "csm-bounded",
        "csm-bounded",
        "csm, but a received message leads up only past tasks overtaken fewer than mnol or mnod times",
        "B-CSM-5",
    ),
    Policy("csm-paper", "csm", "csm by its other name: Algorithm 1 as printed", "CSM Alg. 1, B-CSM-5"),
    Policy(
        "ccs",
        "ccs",
        "by messages now queued while memory fits, by page faults of the last second once it does not",
        "CCS Alg. 1, B-CCS-1, B-CCS-3",
    ),
)

_KNOBS = (
    Knob(
        "mno",
        "integer",
        2,
        "how often a task may be overtaken before it is protected; sets `mnol` and `mnod`",
        "CCS §4.1, B-MO-1",
        unit="overtakes",
        low=1,
        high=64,
        fields=("mnol", "mnod"),
    ),
    Knob(
        "mnol",
        "integer",
        2,
        "the same, for local tasks only",
        "CSM §4.1, CSM-35",
        unit="overtakes",
        low=1,
        high=64,
        fields=("mnol",),
    ),
    Knob(
        "mnod",
        "integer",
        2,
        "the same, for tasks of parallel jobs only",
        "CSM §5.2, CSM-22",
        unit="overtakes",
        low=1,
        high=64,
        fields=("mnod",),
    ),
    Knob(
        "p",
        "number",
        0.3,
        "weight of the past in mes := p·mes + (1-p)·COM",
        "CSM eq. 2, CSM-38",
        high=1,
        fields=("p",),
        encoding="fixed",
    ),
    Knob(
        "share_l",
        "number",
        0.5,
        "L, the part of CPU and memory that is kept for parallel jobs while a local user is present",
        "CCS §3.2, §5.1",
        high=1,
        fields=("share_l",),
        encoding="fixed",
    ),
    Knob(
        "quantum_ms",
        "integer",
        20,
        "time slice of a task of nice 0",
        "CCS §3.1, eq. 3",
        unit="ms",
        low=1,
        high=1000,
        fields=("quantum_ns",),
        encoding="ms",
    ),
    Knob(
        "credit",
        "choice",
        "on",
        "a local task that slept more than it ran goes ahead and preempts; off: to the tail, as printed",
        "CCS §4.4, B-CCS-31",
        choices=("on", "off"),
        fields=("credit",),
        encoding="flag",
    ),
    Knob(
        "credit_max_ms",
        "integer",
        40,
        "the most sleep that counts as credit",
        "B-CCS-31",
        unit="ms",
        high=1000,
        fields=("credit_max_ns",),
        encoding="ms",
    ),
    Knob(
        "walk_max",
        "integer",
        11,
        "tasks that one insertion may walk past; where this ends a walk it is counted",
        "design §4",
        unit="tasks",
        low=1,
        high=1024,
        fields=("walk_max",),
    ),
    Knob(
        "top_ms",
        "integer",
        50,
        "how long tasks led to the top, or ahead on credit, may keep the others waiting",
        "B-CSM-5",
        unit="ms",
        low=1,
        high=10000,
        fields=("top_ms",),
    ),
    Knob(
        "unread_ms",
        "integer",
        1000,
        "CPU time a task may use without touching a socket before the messages in it no longer count; 0: never",
        "B-CSM-6, B-CCS-4",
        unit="ms",
        low=0,
        high=60000,
        fields=("unread_ms",),
    ),
    Knob(
        "spin_ms",
        "integer",
        2,
        "CPU time a parallel task may poll for a message before it is taken to wait: to the tail, at once; 0: never",
        "Monito §2.2, design §4",
        unit="ms",
        low=0,
        high=1000,
        fields=("spin_ns",),
        encoding="ms",
    ),
    Knob(
        "overload",
        "choice",
        "auto",
        "does memory not fit (Mem > M)? auto: decided from the memory's state",
        "CSM eq. 4, CCS §3.2",
        choices=("auto", "on", "off"),
        fields=("overload",),
        encoding="enum",
    ),
    Knob(
        "flt",
        "choice",
        "rate",
        "FLT of a task: its major faults of the last second, or the per mille of its process's pages on swap",
        "CCS §3.2; CSM eq. 3, B-CSM-1",
        choices=("rate", "probability"),
        fields=("flt",),
        encoding="enum",
    ),
    Knob(
        "classify",
        "choice",
        "cgroup",
        "which tasks are parallel: those in job cgroups, or those whose mes is not zero",
        "CSM §3.1, B-CSM-7",
        choices=("cgroup", "mes"),
        fields=("classify",),
        encoding="enum",
    ),
    Knob(
        "sensors",
        "choice",
        "on",
        "observe page faults, socket queues and user input; off: every rule sees none",
        "CCS §4.4",
        choices=("on", "off"),
        fields=("sensors",),
        encoding="flag",
    ),
    Knob(
        "reinsert",
        "choice",
        "on",
        "a message for a task that is already queued inserts it anew",
        "Monito Alg. 2",
        choices=("on", "off"),
        fields=("reinsert",),
        encoding="flag",
    ),
    Knob(
        "share_ms",
        "integer",
        100,
        "policy `dynamic`: how much less CPU time the receiver must have used",
        "Monito §5.3, B-MO-7",
        unit="ms",
        high=60000,
        fields=("share_ns",),
        encoding="ms",
    ),
    Knob(
        "watchdog_ms",
        "integer",
        30000,
        "a runnable task that waits longer ends the scheduler; fixed when it is loaded",
        "design §2",
        unit="ms",
        low=1000,
        high=30000,
        live=False,
    ),
)

POLICIES: Mapping[str, Policy] = {policy.name: policy for policy in _POLICIES}
KNOBS: Mapping[str, Knob] = {knob.name: knob for knob in _KNOBS}


def find_policy(name: str) -> Policy:
    """The policy of this name. Raises CoschedError (status 2) that names those there are."""
    policy = POLICIES.get(name)
    if policy is None:
        raise CoschedError(f"no policy is called {name!r}: choose one of {', '.join(POLICIES)}", USAGE)
    return policy


def find_knob(name: str) -> Knob:
    """The knob of this name. Raises CoschedError (status 2) that names those there are."""
    knob = KNOBS.get(name)
    if knob is None:
        raise CoschedError(f"no knob is called {name!r}: choose one of {', '.join(KNOBS)}", USAGE)
    return knob


def parse(name: str, text: str) -> Value:
    """The value that this text gives a knob. Raises CoschedError (status 2) with the allowed range.

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
    # 20 digits are beyond every range, and int() refuses thousands of them in words of its own
    if len(text) > 20 or not pattern.fullmatch(text):
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
    """The value if a knob may have it, as when it comes from JSON. Raises CoschedError (status 2)."""
    if isinstance(value, bool):
        return parse(name, "on" if value else "off")
    if not isinstance(value, int | float | str):
        return parse(name, "null" if value is None else type(value).__name__)
    return parse(name, repr(value) if isinstance(value, float) else str(value))


def check_all(values: Mapping[str, object]) -> dict[str, Value]:
    """All values checked, and `mno` replaced by the two knobs it sets; a later one wins over an earlier one.

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
    """Values from words like "mno=4". Raises CoschedError (status 2) for the first that is wrong.

    >>> parse_assignments(["mno=4", "overload=on"])
    {'mnol': 4, 'mnod': 4, 'overload': 'on'}
    """
    values: dict[str, Value] = {}
    for assignment in assignments:
        name, sign, text = assignment.partition("=")
        if not sign:
            raise CoschedError(f"{assignment!r} sets nothing: write KNOB=VALUE, as in mno=2; {_WAY_OUT}", USAGE)
        values |= check_all({name.strip(): text})
    return values


def check_live(values: Mapping[str, object]) -> None:
    """Raise CoschedError (status 2) if one of these knobs is fixed while the scheduler runs."""
    for name in values:
        if name in KNOBS and not KNOBS[name].live:
            raise CoschedError(
                f"knob {name} is fixed while loaded: `ctl unload`, then `ctl load --set {name}=VALUE`",
                USAGE,
            )


def defaults() -> dict[str, Value]:
    """Every knob but `mno` at its default."""
    return {knob.name: knob.default for knob in KNOBS.values() if knob.name != "mno"}


def shown(values: Mapping[str, Value]) -> dict[str, Value]:
    """The values in the table's order, with `mno`: the value of mnol and mnod, None where they differ."""
    local, distributed = values.get("mnol"), values.get("mnod")
    known = {**values, "mno": local if local == distributed else None}
    return {name: known[name] for name in KNOBS if name in known}


def markdown() -> str:
    """Both tables as the README has them."""
    lines = ["| policy | insert rule | order of the ready queue | source |", "|---|---|---|---|"]
    lines += [f"| `{p.name}` | `{p.rule}` | {p.meaning} | {p.reference} |" for p in POLICIES.values()]
    lines += ["", "| knob | allowed | default | meaning | source |", "|---|---|---|---|---|"]
    lines += [f"| `{k.name}` | {k.range} | {k.default} | {k.meaning} | {k.reference} |" for k in KNOBS.values()]
    return "\n".join(lines) + "\n"


def _main(arguments: list[str]) -> int:
    """Print the tables; anything but --markdown is wrong."""
    if arguments != ["--markdown"]:
        print("usage: python -m ctl.policy --markdown", file=sys.stderr)
        return USAGE
    sys.stdout.write(markdown())
    return 0


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1:]))
