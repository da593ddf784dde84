# SPDX-License-Identifier: GPL-2.0-or-later
"""The layouts Python reads from cosched.h are those a C compiler gives the same header."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from ctl.kernel import layout
from ctl.kernel.layout import HEADER, ffi

STRUCTS = re.findall(r"^struct (\w+) \{", HEADER.read_text(), re.MULTILINE)


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> dict[str, int]:
    """Sizes, offsets and constants as the C compiler sees them."""
    asked = {f"sizeof(struct {name})" for name in STRUCTS}
    asked |= {f"__builtin_offsetof(struct {s}, {m})" for s in STRUCTS for m in layout.members(s)}
    asked |= {f"STAT_{stat.id}" for stat in layout.STATS}
    asked |= {f"RULE_{name.upper().replace('-', '_')}" for name in layout.RULES}
    asked |= set(re.findall(r"^#define (\w+)\s+\d+", HEADER.read_text(), re.MULTILINE))
    lines = "\n".join(f'printf("%lld {what}\\n", (long long)({what}));' for what in sorted(asked))
    directory: Path = tmp_path_factory.mktemp("layout")
    source = directory / "ask.c"
    source.write_text(f'#include <stdio.h>\n#include "{HEADER}"\nint main(void) {{\n{lines}\nreturn 0;\n}}\n')
    subprocess.run(["cc", "-o", directory / "ask", source], check=True)
    answer = subprocess.run([directory / "ask"], check=True, capture_output=True, text=True).stdout
    pairs = (line.split(" ", 1) for line in answer.splitlines())
    return {what: int(value) for value, what in pairs}


@pytest.mark.parametrize("name", STRUCTS)
def test_structs(name: str, compiled: dict[str, int]) -> None:
    assert ffi.sizeof(f"struct {name}") == compiled[f"sizeof(struct {name})"]
    for member in layout.members(name):
        offset = compiled[f"__builtin_offsetof(struct {name}, {member})"]
        assert ffi.offsetof(f"struct {name}", member) == offset, member


def test_constants(compiled: dict[str, int]) -> None:
    for name, value in compiled.items():
        if re.fullmatch(r"[A-Z_]+", name) and not name.startswith(("STAT_", "RULE_")):
            assert layout.constant(name) == value, name
    with pytest.raises(KeyError, match="MES_SHIFFT"):
        layout.constant("MES_SHIFFT")


def test_statistics_are_in_the_order_of_their_enum(compiled: dict[str, int]) -> None:
    assert [compiled[f"STAT_{stat.id}"] for stat in layout.STATS] == list(range(len(layout.STATS)))
    assert len(layout.STATS) == len(re.findall(r"^\tX\(", HEADER.read_text(), re.MULTILINE))
    assert all(stat.description for stat in layout.STATS)


def test_rules_and_causes(compiled: dict[str, int]) -> None:
    for name, value in layout.RULES.items():
        assert compiled[f"RULE_{name.upper().replace('-', '_')}"] == value
        assert layout.RULE_NAMES[value] == name
    papers = {"fifo", "pred", "dyn", "sdca", "dynamic", "csm", "csm-bounded", "ccs", "prio", "implicit", "csm-first"}
    assert set(layout.RULES) == papers | {"order"}
    assert set(layout.CAUSE_NAMES) == {"wake", "expire", "fork", "message", "credit", "resume", "window"}
