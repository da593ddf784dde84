# SPDX-License-Identifier: GPL-2.0-or-later
"""Plots of records: what they show, and that they are pictures."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest

from ctl.errors import CoschedError
from ctl.monitor.netmon.figures import BY_KEY
from ctl.monitor.netmon.plot import _values, draw, panels
from ctl.monitor.netmon.records import Csv, Json
from ctl.monitor.netmon.rows import NODE, Owner, Sample
from tests.unit.monitor.netmon.test_forms import REPORT, values

JOB = Owner("job", "sim<1>")
SAMPLES = [
    Sample(
        100.0 + at,
        0.5,
        {
            NODE: values(NODE, 0, sockets_rcv_bytes=1000 * at, sockets_drops=at, device_ring_bytes=None),
            JOB: values(JOB, 0, sockets_rcv_bytes=900 * at),
        },
    )
    for at in range(20)
]


@pytest.mark.parametrize("suffix", [".csv", ".json"])
def test_a_record_becomes_two_pictures(tmp_path: Path, suffix: str) -> None:
    form = Csv() if suffix == ".csv" else Json()
    record = (tmp_path / "run").with_suffix(suffix)
    record.write_text("".join(map(form.sample, SAMPLES)) + form.end(REPORT))
    assert draw(record) == [tmp_path / "run.png", tmp_path / "run.svg"]
    assert (tmp_path / "run.png").read_bytes().startswith(b"\x89PNG")
    text = (tmp_path / "run.svg").read_text()
    assert text.count('id="axes_') == 2 and len(re.findall(r"<!-- rcv_bytes -->", text)) == 1
    assert "sim&lt;1&gt;: rcv_bytes" in text and "device.ring_bytes" in text
    draw(record)
    assert (tmp_path / "run.svg").read_text() == text, "the same record, the same picture"


def test_only_what_happened_has_a_panel() -> None:
    assert {key: [figure.name for figure in figures] for key, figures in panels(SAMPLES).items()} == {
        ("sockets", "bytes"): ["rcv_bytes"],
        ("sockets", "packets/s"): ["drops"],
    }


def test_counts_are_by_the_second_and_the_unknown_is_no_0() -> None:
    assert _values(SAMPLES[:3], NODE, BY_KEY["sockets.drops"]) == [0, 2, 4]
    assert _values(SAMPLES[:3], JOB, BY_KEY["sockets.rcv_bytes"]) == [0, 900, 1800]
    assert all(math.isnan(value) for value in _values(SAMPLES, NODE, BY_KEY["device.ring_bytes"]))


def test_a_record_without_samples_is_refused(tmp_path: Path) -> None:
    record = tmp_path / "empty.json"
    record.write_text(Json().end(REPORT))
    with pytest.raises(CoschedError, match="has no samples"):
        draw(record)
