# SPDX-License-Identifier: GPL-2.0-or-later
"""Whatever stands in the title of a slurmstepd, the name of a cgroup, the environment of a job: read, or left out."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import example, given
from hypothesis import strategies as st

from ctl.errors import CoschedError
from ctl.kernel import slurm
from ctl.kernel.jid import check_jid
from ctl.kernel.slurm_request import request_of
from tests.unit.fuzz.cases import fuzzed

_TITLES = st.builds(
    lambda begin, inside, end: begin + inside + end,
    st.sampled_from([b"slurmstepd: [", b"slurmstepd:[", b"", b"\0"]),
    st.binary(max_size=30) | st.integers(0, 400).map(lambda n: b"9" * n),
    st.sampled_from([b".batch]", b".", b"]", b""]),
)
_PARTS = st.sampled_from(
    ["slurmstepd.scope", "n1_slurmstepd.scope", "job_1", "step_0", "user", "task_0", "..", ".", "", "a/b", "\n"]
)
_NAMES = st.sampled_from(
    ["MEM_PER_NODE", "MEM_PER_CPU", "CPUS_ON_NODE", "TASKS_PER_NODE", "NODEID", "JOB_NAME", "JOB_ID", ""]
)
_VALUES = (
    st.sampled_from(["1", "0", "-1", "4(x3),2", "4(x9999999999)", "(x", "1" * 400, "٣", "\x1b[2J", "a" * 400, "="])
    | st.text(max_size=12)
)


@given(_TITLES | st.binary(max_size=64))
@example(b"slurmstepd: [" + b"9" * 300 + b".0]")
@fuzzed
def test_titles(title: bytes) -> None:
    found = slurm.jid_in(title)
    if found is not None:
        check_jid(found)
        assert f"[{found}.".encode() in title


@given(st.lists(_PARTS | st.text(max_size=8), max_size=8).map(lambda parts: "/" + "/".join(parts)))
@example("/../slurmstepd.scope/job_1/step_0/user")
@example("//slurmstepd.scope/job_1/step_0/user")
@fuzzed
def test_places(cgroup: str) -> None:
    found = slurm.place(cgroup)
    if found is not None:
        assert str(found).startswith("/sys/fs/cgroup/")
        assert ".." not in found.parts
        assert found.parent.name.endswith("slurmstepd.scope")


@given(st.lists(st.tuples(_NAMES, _VALUES), max_size=8))
@fuzzed
def test_environments(pairs: list[tuple[str, str]]) -> None:
    text = "\0".join(["SLURM_JOB_ID=7", *(f"SLURM_{name}={value}" for name, value in pairs)])
    with tempfile.TemporaryDirectory() as place:
        (Path(place) / "1").mkdir()
        (Path(place) / "1" / "environ").write_bytes(text.encode(errors="surrogateescape"))
        try:
            found = request_of("7", [1], Path(place))
        except CoschedError as error:
            raise AssertionError("a job's environment is a wish, and no reason for an error") from error
    if found is not None:
        assert 0 <= found.memory < 1 << 62
        assert 0 <= found.tasks <= 1 << 16
        assert found.name.isprintable() and len(found.name) <= 256
