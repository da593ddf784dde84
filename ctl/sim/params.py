# SPDX-License-Identifier: GPL-2.0-or-later
"""A model: its parameters with name, unit, range, default and source, its policies, and its run.

A default without "default:" in its source is the paper's; the others are readings (docs/readings.md), named by their
ids, or chosen where the paper says nothing. Each model declares its own, in its folder; ctl/sim/registry.py has them
all.
"""

from __future__ import annotations

import difflib
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ctl.errors import USAGE, CoschedError

__all__ = ["Model", "Parameter", "Run", "Value", "assignments", "by_name"]

Value = int | float | str
"""A parameter's value: a whole number, a number, or a word."""


@dataclass(frozen=True)
class Parameter:
    """A parameter of a model."""

    name: str
    default: Value
    unit: str
    low: float
    high: float
    meaning: str
    source: str
    words: tuple[str, ...] = ()

    @property
    def range(self) -> str:
        """The allowed values, in words: "1 to 64 overtakes", "label or mes"."""
        if self.words:
            return " or ".join(self.words)
        return f"{self.low:g} to {self.high:g} {self.unit}".rstrip()

    def check(self, value: object) -> Value:
        """The value in the parameter's type; raises CoschedError (status 2) with name, range and unit."""
        if self.words:
            if value in self.words:
                return str(value)
            raise self._refuse(value)
        kind = int if isinstance(self.default, int) else float
        try:
            number = kind(value)  # type: ignore[call-overload, arg-type]
        except (TypeError, ValueError):
            raise self._refuse(value) from None
        if (isinstance(value, (bool, float)) and number != value) or isinstance(value, bool):
            raise self._refuse(value)
        if not self.low <= number <= self.high:
            raise self._refuse(value)
        return kind(number)

    def _refuse(self, value: object) -> CoschedError:
        kind = "" if self.words else "a whole number, " if isinstance(self.default, int) else "a number, "
        return CoschedError(f"parameter {self.name} cannot be {value!r}: allowed is {kind}{self.range}", USAGE)


Run = Callable[[str, Mapping[str, Value], int, threading.Event | None], dict[str, Any]]
"""A replication: policy, a complete set of values, seed, request to stop; returns the measurements."""


@dataclass(frozen=True)
class Model:
    """A model. `engine` is the folder of its C text in ctl/sim; `check` refuses values that do not go together."""

    name: str
    meaning: str
    policies: tuple[str, ...]
    parameters: Mapping[str, Parameter]
    run: Run
    engine: str
    check: Callable[[Mapping[str, Value]], None] = lambda _: None

    def complete(self, given: Mapping[str, object]) -> dict[str, Value]:
        """All parameters: those given, checked, and the defaults of the others."""
        for name in given:
            if name not in self.parameters:
                near = difflib.get_close_matches(name, self.parameters, n=1)
                hint = f"did you mean {near[0]}?" if near else f"`ctl sim models {self.name}` lists them"
                raise CoschedError(f"model {self.name} has no parameter {name!r}: {hint}", USAGE)
        values = {
            name: parameter.check(given.get(name, parameter.default)) for name, parameter in self.parameters.items()
        }
        self.check(values)
        return values


def by_name(*parameters: Parameter) -> Mapping[str, Parameter]:
    """A model's parameters by their names."""
    return {parameter.name: parameter for parameter in parameters}


def assignments(texts: Iterable[str]) -> dict[str, object]:
    """NAME=VALUE from the command line, as numbers where they are."""
    values: dict[str, object] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise CoschedError(f"{text!r} is no NAME=VALUE", USAGE)
        values[name.strip()] = value.strip()
    return values
