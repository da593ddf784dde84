# SPDX-License-Identifier: GPL-2.0-or-later
"""The settings of a node: one policy, and a value for every knob."""

from __future__ import annotations

from collections.abc import Mapping

from ctl.policy.knobs import Value
from ctl.policy.policies import Policy, is_on

__all__ = ["BY_CLASS", "Settings"]

BY_CLASS = ("prio",)
"""Rules by which jobs always go first (R_BY_CLASS of bpf/insert_rq.h)."""


class Settings:
    """The policy and the knobs of one agent. Its parts share the object; only `change` writes it.

    >>> from ctl.policy import defaults, find_policy
    >>> settings = Settings(find_policy("ccs"), defaults())
    >>> settings.policy.rule, settings.number("share_l"), settings.word("flt"), settings.on("quantum")
    ('ccs', 0.5, 'rate', True)
    """

    def __init__(self, policy: Policy, values: Mapping[str, Value]) -> None:
        """`values`: a checked value for every knob."""
        self.policy = policy
        self.values = values

    def change(self, policy: Policy, values: Mapping[str, Value]) -> None:
        """Set another policy and other values, all at once."""
        self.policy, self.values = policy, values

    def knob(self, name: str) -> Value:
        """A knob's value, in the knob's unit."""
        return self.values[name]

    def number(self, name: str) -> float:
        """The value of a numeric knob, in the knob's unit."""
        value = self.values[name]
        assert isinstance(value, int | float), f"knob {name} is {value!r}, which is not a number"
        return value

    def word(self, name: str) -> str:
        """The value of a knob that is a choice of words."""
        value = self.values[name]
        assert isinstance(value, str), f"knob {name} is {value!r}, which is not a word"
        return value

    def windows(self, cpus: int) -> bool:
        """Whether a node of so many CPUs divides their time into windows (bpf/task.bpf.h: has_gangs())."""
        gang = self.word("gang")
        allowed = self.word("contract") == "queue" and self.policy.rule not in BY_CLASS
        return allowed and (gang == "on" or (gang == "auto" and cpus > 1))

    def on(self, module: str) -> bool:
        """Whether a module of the social contract (`MODULES`) is on."""
        return is_on(self.policy, module, self.values)
