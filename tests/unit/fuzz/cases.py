# SPDX-License-Identifier: GPL-2.0-or-later
"""What a fuzzer of ours sends: any JSON, records with a wrong field, deep nests, long numbers, bytes.

A test makes 300 cases; with COSCHED_FUZZ=N in the environment it makes N: `just test-all` has 10,000.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

__all__ = ["fuzzed", "json_values", "lines", "records"]

_CASES = int(os.environ.get("COSCHED_FUZZ", "300"))

fuzzed: Callable[[Any], Any] = settings(
    max_examples=_CASES, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)

_scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([0, -1, 2**62, 2**63, 2**64, 10**400])
    | st.floats()
    | st.text(max_size=20)
    | st.sampled_from(["", "\x00", "\ud800", "\u202e", "a" * 300, "node1", "*", ">", "sim.1", "../x"])
)
json_values = st.recursive(
    _scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)

_nests = st.builds(
    lambda depth, closed, inside: b"[" * depth + inside + b"]" * (depth if closed else 0),
    st.integers(1, 3000),
    st.booleans(),
    st.sampled_from([b"", b"1", b'"x"', b"{}"]),
)
_numbers = st.builds(lambda digits: b"9" * digits, st.integers(1, 9000))


def _encoded(value: object) -> bytes:
    return json.dumps(value).encode()


def _with_fields(valid: Mapping[str, Any]) -> st.SearchStrategy[bytes]:
    """A valid record of which some fields are anything, or gone, or more than there should be."""
    names = st.sampled_from(sorted(valid)) | st.text(max_size=8)
    raw = json_values.map(_encoded) | _nests | _numbers

    def joined(changed: dict[str, bytes], gone: set[str]) -> bytes:
        fields = {name: _encoded(value) for name, value in valid.items() if name not in gone} | changed
        return b"{" + b",".join(_encoded(name) + b":" + value for name, value in fields.items()) + b"}"

    changes = st.dictionaries(names, raw, max_size=3)
    return st.builds(joined, changes, st.sets(st.sampled_from(sorted(valid)), max_size=2))


def records(valid: bytes) -> st.SearchStrategy[bytes]:
    """Records like a valid one, and anything else."""
    return _with_fields(json.loads(valid)) | json_values.map(_encoded) | _nests | st.binary(max_size=200)


def lines(*valid: bytes) -> st.SearchStrategy[bytes]:
    """Lines to a server, whole or not: requests like the valid ones, and anything else."""
    whole = st.one_of(*map(records, valid)).map(lambda data: data.replace(b"\n", b" ") + b"\n")
    return whole | st.binary(max_size=200) | st.integers(0, 70_000).map(lambda size: b"x" * size)
