# SPDX-License-Identifier: GPL-2.0-or-later
"""Run the examples in docstrings. Examples marked +SKIP need a kernel with a scheduler, or a virtual machine."""

from __future__ import annotations

import doctest
import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
_EXAMPLE = re.compile(r"^ *>>> ", re.MULTILINE)
ROOMS = ("ctl", "vm", "tests/reference", "tests/experiments", "tests/kselftest")


def _with_examples() -> list[str]:
    """The modules that have examples, by their dotted names."""
    paths = [path for room in ROOMS for path in sorted((ROOT / room).rglob("*.py"))]
    names = [path.relative_to(ROOT).with_suffix("") for path in paths if _EXAMPLE.search(path.read_text())]
    return [".".join(name.parts).removesuffix(".__init__") for name in names]


@pytest.mark.parametrize("name", _with_examples())
def test_the_examples_hold(name: str) -> None:
    module = importlib.import_module(name)
    assert any(test.examples for test in doctest.DocTestFinder().find(module)), "an example that no docstring has"
    assert doctest.testmod(module).failed == 0
