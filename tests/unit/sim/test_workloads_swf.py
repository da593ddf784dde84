# SPDX-License-Identifier: GPL-2.0-or-later
"""Job logs in the Standard Workload Format: reading, refusals, and writing without loss."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctl.errors import USAGE, CoschedError
from ctl.sim.workloads import swf

# made here, in the manner of the archive's logs
SMALL = """\
; Version: 2.2
;  Computer: A machine
;
; MaxProcs: 128
; MaxMemory: 65536 (estimated)
; AllowOveruse: No
; TimeZone: -25200
; Queue: 1 night
; Queue: 2 day
;  j|  s|
    1     0   0  3691  128   3436  6676   -1  3600  5904  1  2  2  2 -1 -1 -1 -1
    2   465   5  3362   32 489.50    -1   32    -1    -1  0  3  3 -1  1 -1  1 30

"""


def log(tmp_path: Path, text: str, name: str = "a.swf") -> Path:
    path = tmp_path / name
    path.write_text(text)
    return path


def test_a_log_is_read(tmp_path: Path) -> None:
    found = swf.read(log(tmp_path, SMALL))
    first, second = found.jobs
    assert first == swf.Job(
        1, 0, 0, 3691, 128, 3436, 6676, None, 3600, 5904, 1, 2, 2, 2, None, None, None, None
    )  # fmt: skip
    assert (second.cpu_s, second.used_memory_kb, second.status, second.preceding, second.think_s) == (
        489.5, None, 0, 1, 30,
    )  # fmt: skip
    assert found.skipped == ()


def test_a_header_says_what_it_says(tmp_path: Path) -> None:
    header = swf.read(log(tmp_path, SMALL)).header
    assert (header.count("MaxProcs"), header.count("MaxMemory"), header.count("TimeZone")) == (128, 65536, -25200)
    assert header.value("AllowOveruse") is False and header.count("AllowOveruse") is None
    assert header.value("Version") == "2.2" and header.value("MaxNodes") is None
    assert header.values("Queue") == ["1 night", "2 day"]
    assert header.lines == tuple(line for line in SMALL.splitlines() if line.startswith(";"))


@pytest.mark.parametrize("name", ["b.swf", "b.swf.gz"])
def test_nothing_is_lost_in_writing(name: str, tmp_path: Path) -> None:
    found = swf.read(log(tmp_path, SMALL))
    swf.write(tmp_path / name, found)
    assert swf.read(tmp_path / name) == found
    data = (tmp_path / name).read_bytes()
    assert data.startswith(b"\x1f\x8b") == name.endswith("gz")
    swf.write(tmp_path / name, swf.read(tmp_path / name))
    assert (tmp_path / name).read_bytes() == data


def test_gzip_is_known_by_what_it_is_and_a_strange_byte_passes(tmp_path: Path) -> None:
    path = tmp_path / "named-anyhow.swf"
    data = SMALL.encode().replace(b"A machine", b"An\xe9")
    path.write_bytes(gzip.compress(data))
    swf.write(tmp_path / "out.swf", swf.read(path))
    assert b"; Version: 2.2\n;  Computer: An\xe9\n" in (tmp_path / "out.swf").read_bytes()


_LINE = "1 0 0 5 2 5 10 2 9 9 1 1 1 1 1 1 -1 -1"


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("1 2 3", "it has 3 fields, a job has 18"),
        (_LINE + " 4", "it has 19 fields, a job has 18"),
        (_LINE.replace("1 0 0", "1 -1 0", 1), "field submit_s is missing"),
        (_LINE.replace("5 2", "5 2.5", 1), "field processors is '2.5', allowed is a whole number from 0 on, or -1"),
        (_LINE.replace("5 2", "five 2", 1), "field run_s is 'five', allowed is a number from 0 on, or -1"),
        (_LINE.replace("5 2", "nan 2", 1), "field run_s is 'nan'"),
        (_LINE.replace("5 2", "-3 2", 1), "field run_s is '-3'"),
        (_LINE.replace("5 2", "1_0 2", 1), "field run_s is '1_0'"),
        (_LINE.replace("5 2", "1e999 2", 1), "field run_s is '1e999'"),
        (_LINE.replace("5 2", "٣ 2", 1), "field run_s is '٣'"),
        (_LINE.replace("5 2", "9" * 5000 + " 2", 1), "field run_s is"),
    ],
)
def test_a_malformed_line_is_named_or_skipped_and_counted(line: str, says: str, tmp_path: Path) -> None:
    path = log(tmp_path, SMALL + line + "\n" + _LINE + "\n")
    with pytest.raises(CoschedError) as refused:
        swf.read(path)
    assert f"{path}:14: this is no job: {says}" in str(refused.value)
    assert refused.value.status == USAGE and "\n" not in str(refused.value)
    found = swf.read(path, skip_malformed=True)
    assert (len(found.jobs), len(found.skipped)) == (3, 1)
    assert says in found.skipped[0]


@pytest.mark.parametrize("data", [None, gzip.compress(b"x" * 1000)[:-9], b"\x1f\x8b\x08no gzip at all, alas"])
def test_what_cannot_be_read_is_one_sentence(data: bytes | None, tmp_path: Path) -> None:
    path = tmp_path / "torn.swf"
    if data is not None:
        path.write_bytes(data)
    with pytest.raises(CoschedError, match=r"torn\.swf cannot be read") as refused:
        swf.read(path)
    assert refused.value.status == USAGE


def test_what_would_not_be_read_again_is_not_written(tmp_path: Path) -> None:
    for header, job in (((), swf.Job(1, 0, run_s=-1)), (("no comment",), swf.Job(1, 0)), (("; a\n1",), swf.Job(1, 0))):
        with pytest.raises(ValueError):
            swf.write(tmp_path / "x.swf", swf.Log(swf.Header(header), (job,)))
    assert not (tmp_path / "x.swf").exists()


_whole = st.integers(0, 10**17)
_any = st.one_of(_whole, st.floats(0, 1e300, allow_subnormal=False))
_fields = {
    name: (_whole if name in swf._WHOLE else _any) if name in swf._NEEDED else
    st.none() | (_whole if name in swf._WHOLE else _any)
    for name in swf.Job._fields
}  # fmt: skip


@given(jobs=st.lists(st.builds(swf.Job, **_fields), max_size=5))
def test_any_job_that_is_written_is_read_again(jobs: list[swf.Job], tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("swf") / "any.swf"
    whole = swf.Log(swf.Header(("; Version: 2.2",)), tuple(jobs))
    swf.write(path, whole)
    again = swf.read(path)
    assert again == whole
    assert [[type(v) for v in job] for job in again.jobs] == [[type(v) for v in job] for job in jobs]
