# SPDX-License-Identifier: GPL-2.0-or-later
"""/etc/cosched.conf: every knob read as it was written, every fault told, and what wins over what."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctl import policy
from ctl.errors import CoschedError
from ctl.policy import KNOBS, POLICIES, Knob, Value, config

FILE = Path("/etc/cosched.conf")


def values_of(knob: Knob) -> st.SearchStrategy[Value]:
    """All values that a knob may have."""
    if knob.kind == "choice":
        return st.sampled_from(knob.choices)
    if knob.kind == "integer":
        return st.integers(int(knob.low), int(knob.high))
    return st.floats(knob.low, knob.high)


KNOB_SETS = st.fixed_dictionaries({}, optional={name: values_of(knob) for name, knob in KNOBS.items() if name != "mno"})


def written(name: str | None, knobs: dict[str, Value]) -> str:
    """A file that sets this; JSON's words and numbers are TOML's, too."""
    head = f"policy = {json.dumps(name)}\n" if name else ""
    return head + "[knobs]\n" + "".join(f"{knob} = {json.dumps(value)}\n" for knob, value in knobs.items())


@given(st.none() | st.sampled_from(list(POLICIES)), KNOB_SETS)
def test_every_knob_comes_back_as_it_was_written(name: str | None, knobs: dict[str, Value]) -> None:
    found, faults = config.parse(written(name, knobs))
    assert found == config.Config(name, knobs)
    row = policy.find_policy(name or policy.DEFAULT_POLICY)
    assert faults == policy.contract_faults(row, {**row.loaded_with(), **knobs})


@given(st.text() | KNOB_SETS.map(lambda knobs: written("csm", knobs)[:-3]))
def test_no_text_is_too_wrong(text: str) -> None:
    _, faults = config.parse(text)
    assert all(fault and "\n" not in fault for fault in faults)


def test_words_of_toml_are_words_of_knobs() -> None:
    found, faults = config.parse("[knobs]\nmno = 4\nmnod = 5\nsensors = false\np = 1")
    assert (found.knobs, faults) == ({"mnol": 4, "mnod": 5, "sensors": "off", "p": 1.0}, [])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('policy = "nope"', ["'nope'", "csm-bounded"]),
        ("policy = 3", ["'3'", "csm-bounded"]),
        ("polcy = 3", ["'polcy'", "did you mean 'policy'"]),
        ("nothing = 3", ["'nothing'", "[knobs]"]),
        ("mno = 3", ["mno is a knob", "below [knobs]"]),
        ("knobs = 3", ["knobs is no table", "[knobs]"]),
        ("[knobs]\nnope = 3", ["'nope'", "quantum_ms"]),
        ("[knobs]\nmno = 65", ["mno", "'65'", "1 to 64 overtakes"]),
        ("[knobs]\nmno = 2.0", ["'2.0'", "whole number"]),
        ("[knobs]\nmno = [2]", ["'list'", "whole number"]),
        ("[knobs]\np = nan", ["'nan'", "0 to 1"]),
        ("[knobs]\nmno = 0x" + 5000 * "f", ["20000 bits", "1 to 64"]),
        ("[knobs]\nmno = " + 5000 * "9", ["it is not TOML", "4300 digits"]),
        ("[knobs]\nmno = " + 5000 * "[", ["it is not TOML"]),
        ("[knobs]\nsensors = 2000-01-01", ["'date'", "on or off"]),
        ('policy = "prio"\n[knobs]\ncontract = "class"', ["policy prio", "contract=queue"]),
        ('[knobs]\nmemory = "on"\nfit = "on"', ["memory=off or fit=off"]),
        ('policy = "csm"\n\nmno 4', ["it is not TOML", "line 3"]),
        ("[knobs]\nmno = 1\nmno = 2", ["it is not TOML", "line 3"]),
    ],
)
def test_a_fault_is_one_sentence(text: str, words: list[str]) -> None:
    _, faults = config.parse(text)
    assert len(faults) == 1, faults
    assert [word for word in words if word not in faults[0]] == []


def test_all_faults_are_told() -> None:
    text = 'policy = "prio"\np = 1\n[knobs]\ncontract = "class"\nclassify = "mes"\nmno = 0\nnope = 1'
    assert len(config.parse(text)[1]) == 5


def test_a_wrong_file_is_not_used_in_part(tmp_path: Path) -> None:
    path = tmp_path / "cosched.conf"
    path.write_text('policy = "rr"\n[knobs]\nmno = 0\np = 2')
    with pytest.raises(CoschedError, match=r"cosched\.conf: knob mno .*\(and 1 more\).*--no-config") as refused:
        config.load(path)
    assert refused.value.status == 2


def test_what_cannot_be_read_is_told(tmp_path: Path) -> None:
    assert config.load(tmp_path / "none") is None
    with pytest.raises(CoschedError, match="cannot be read"):
        config.load(tmp_path)
    (tmp_path / "latin").write_bytes(b"# one\n# caf\xe9\n")
    with pytest.raises(CoschedError, match=r"not UTF-8 .*line 2"):
        config.load(tmp_path / "latin")


@given(st.none() | st.sampled_from(list(POLICIES)), st.none() | st.sampled_from(list(POLICIES)), KNOB_SETS, KNOB_SETS)
def test_the_command_line_wins_over_the_file_and_the_file_over_the_defaults(
    named: str | None, in_file: str | None, given_knobs: dict[str, Value], knobs: dict[str, Value]
) -> None:
    row = policy.find_policy(named or in_file or policy.DEFAULT_POLICY)
    wanted: dict[str, tuple[Value, str]] = {name: (value, "default") for name, value in policy.defaults().items()}
    wanted |= {name: (value, f"policy {row.name}") for name, value in row.loaded_with().items()}
    wanted |= {name: (value, str(FILE)) for name, value in knobs.items()}
    wanted |= {name: (value, "command line") for name, value in given_knobs.items()}
    words = [f"{name}={value}" for name, value in given_knobs.items()]
    if policy.contract_faults(row, {name: value for name, (value, _) in wanted.items()}):
        with pytest.raises(CoschedError):
            config.choose(named, words, config.Config(in_file, knobs), FILE)
        return
    choice = config.choose(named, words, config.Config(in_file, knobs), FILE)
    assert choice.policy == row
    assert choice.policy_from == ("command line" if named else str(FILE) if in_file else "default")
    assert {name: (value, origin) for name, value, origin in choice.rows()} == wanted
    assert {**policy.defaults(), **choice.values} == {name: value for name, (value, _) in wanted.items()}
