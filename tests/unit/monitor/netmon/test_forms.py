# SPDX-License-Identifier: GPL-2.0-or-later
"""Lines for people; CSV and JSON, which can be read back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctl.errors import CoschedError
from ctl.monitor.netmon.clock import OwnReport
from ctl.monitor.netmon.figures import FIGURES, GROUPS, OF_OWNERS
from ctl.monitor.netmon.lines import Lines
from ctl.monitor.netmon.records import Csv, Json, read
from ctl.monitor.netmon.rows import NODE, Owner, Sample, Values

REPORT = OwnReport(0.1, 1.0, 10, 0.01, 0.001, 0.0, 0.0)


def values(owner: Owner, number: int | None = 0, **named: int | None) -> Values:
    """All figures of such an owner with one number, but those that are named: sockets_rcv_bytes."""
    keys = [figure.key for figure in FIGURES if owner == NODE or figure.group in OF_OWNERS]
    return {**dict.fromkeys(keys, number), **{key.replace("_", ".", 1): value for key, value in named.items()}}


def sample(*rows: tuple[Owner, Values], time: float = 1.5) -> Sample:
    return Sample(time, 0.1, dict(rows))


owners = st.one_of(
    st.just(NODE),
    st.builds(lambda jid: Owner("job", jid), st.from_regex(r"[A-Za-z0-9._:-]{1,64}", fullmatch=True)),
    st.builds(
        lambda comm, pid: Owner("task", comm, pid),
        st.text(max_size=15).filter(str.isprintable),
        st.integers(1, 1 << 22),
    ),
)
numbers = st.one_of(st.none(), st.integers(0, 1 << 64))
times = st.integers(0, 4_000_000_000).map(float)


@given(st.lists(st.dictionaries(owners, numbers, min_size=1, max_size=4), min_size=1, max_size=3), times, st.booleans())
def test_what_is_written_can_be_read_back(
    tmp_path_factory: pytest.TempPathFactory, looks: list[dict[Owner, int | None]], begin: float, as_csv: bool
) -> None:
    samples = [
        sample(*((owner, values(owner, number)) for owner, number in look.items()), time=begin + at)
        for at, look in enumerate(looks)
    ]
    form = Csv() if as_csv else Json()
    path = tmp_path_factory.mktemp("netmon") / "record"
    path.write_text("".join(form.sample(one) for one in samples) + form.end(REPORT), encoding="utf-8", newline="")
    for got, wanted in zip(read(path), samples, strict=True):
        assert (got.time, got.seconds) == (wanted.time, wanted.seconds)
        known = {o: {k: v for k, v in figures.items() if v is not None} for o, figures in wanted.rows.items()}
        assert {o: {k: v for k, v in figures.items() if v is not None} for o, figures in got.rows.items()} == known


def test_json_ends_with_the_report() -> None:
    assert json.loads(Json().end(REPORT))["report"]["cpu_share"] == 0.01


def test_what_is_no_record_is_refused(tmp_path: Path) -> None:
    for text in ("{", '{"time": 1, "seconds": 1, "rows": [{}]}', "time,kind\n1,node\n", "\0"):
        (tmp_path / "x").write_text(text)
        with pytest.raises(CoschedError, match="is no record of `ctl netmon`"):
            read(tmp_path / "x")
    with pytest.raises(CoschedError, match="cannot read"):
        read(tmp_path / "missing")


def test_figures_are_declared_once_and_fit() -> None:
    assert len({figure.key for figure in FIGURES}) == len(FIGURES)
    assert {figure.group for figure in FIGURES} == set(GROUPS)
    assert all(len(figure.head) <= 5 for figure in FIGURES)
    heads = [(figure.group, figure.head) for figure in FIGURES if figure.head]
    assert len(set(heads)) == len(heads)


def test_columns_stand_below_their_heads() -> None:
    text = Lines(named=False, colour=False).sample(sample((NODE, values(NODE, 7))))
    groups, heads, line = text.splitlines()
    assert len(groups) == len(heads) == len(line) <= 120
    for figure in FIGURES:
        if figure.head:
            assert figure.head in heads.split()
    assert set(line.split()) == {"7"}


def test_a_column_of_which_nothing_is_known_is_left_out() -> None:
    lines = Lines(named=False, colour=False)
    without = lines.sample(sample((NODE, values(NODE, 0, sockets_rcv_packets=None, device_ring_bytes=None))))
    assert "rcvP" not in without and "ring" not in without and "sndP" in without
    again = lines.sample(sample((NODE, values(NODE))))
    assert "rcvP" in again, "a new head, as a column came"


def test_the_head_comes_again() -> None:
    lines = Lines(named=False, colour=False)
    text = "".join(lines.sample(sample((NODE, values(NODE)))) for _ in range(45))
    assert text.count("rcvB") == 3


def test_jobs_and_tasks_have_lines_of_their_own_with_their_figures_only() -> None:
    job, task = Owner("job", "sim"), Owner("task", "mpirank", 4711)
    one = sample((task, values(task, 3)), (NODE, values(NODE, 5)), (job, values(job, 4)))
    *_, node, of_job, of_task = Lines(named=True, colour=False).sample(one).splitlines()
    assert node.startswith("node ") and of_job.startswith("sim ") and of_task.startswith("mpirank 4711 ")
    assert set(of_job.split()[1:]) == {"4"} and len(of_job) < len(node)


def test_losses_are_coloured_where_colours_are() -> None:
    one = sample((NODE, values(NODE, 0, sockets_drops=3)))
    assert "\x1b[33m    3\x1b[0m" in Lines(named=False, colour=True).sample(one)
    assert "\x1b" not in Lines(named=False, colour=False).sample(one)
