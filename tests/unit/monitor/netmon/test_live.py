# SPDX-License-Identifier: GPL-2.0-or-later
"""The live view: what fits on a screen, and a terminal that comes back."""

from __future__ import annotations

import os
import signal
from collections import deque

import pytest

from ctl.monitor.netmon.figures import BY_KEY, FIGURES
from ctl.monitor.netmon.live import Trends, frame
from ctl.monitor.netmon.rows import NODE, Owner, Values
from ctl.monitor.palette import WARN
from ctl.monitor.text import ASCII, UNICODE
from tests.unit.monitor.netmon.test_forms import values
from tests.unit.monitor.test_top_terminal import REPOSITORY, Terminal

CHILD = f"""
import sys
sys.path.insert(0, {str(REPOSITORY)!r})
from ctl.cli.main import main
sys.exit(main(["netmon", "lo", "-d", "20ms"]))
"""


def trends(**busy: list[int | None]) -> Trends:
    """All figures at 0, but those that are named: sockets_rcv_bytes."""
    found: Trends = {figure.key: deque([0, 0, 0]) for figure in FIGURES}
    return found | {key.replace("_", ".", 1): deque(numbers) for key, numbers in busy.items()}


def rows(jobs: int) -> dict[Owner, Values]:
    return {owner: values(owner, 1) for owner in (NODE, *(Owner("job", f"j{number}") for number in range(jobs)))}


@pytest.mark.parametrize("width", [20, 80, 200])
@pytest.mark.parametrize("height", [3, 10, 24, 60])
@pytest.mark.parametrize("jobs", [0, 2, 50])
def test_a_frame_is_no_larger_than_the_screen(width: int, height: int, jobs: int) -> None:
    for glyphs in (UNICODE, ASCII):
        lines = frame("netmon lo", trends(sockets_rcv_bytes=[1, 2, 3]), rows(jobs), width, height, glyphs)
        assert len(lines) <= height
        assert all(text.cell_len <= width for text in lines)
        assert any("rcv_bytes" in text.plain for text in lines)


def test_figures_that_were_always_0_make_room_first() -> None:
    busy = trends(softnet_drops=[0, 5, 0], device_tx_packets=[9, 9, 9])
    shown = [text.plain for text in frame("netmon lo", busy, rows(0), 80, 10, UNICODE)]
    assert len(shown) == 4 and "softnet drops" in shown[3] and "device tx_packets" in shown[2]
    all_of_them = frame("netmon lo", busy, rows(0), 80, 60, UNICODE)
    assert len(all_of_them) == 2 + sum(not figure.fixed for figure in FIGURES)


def test_a_line_has_the_newest_value_the_peak_and_the_trend() -> None:
    (told,) = (
        text
        for text in frame("netmon lo", trends(sockets_drops=[0, 40, 7]), rows(0), 60, 30, UNICODE)
        if text.plain.startswith("sockets drops")
    )
    assert told.plain.split() == ["sockets", "drops", "7", "40", "▇▂"]
    assert WARN in str(told.spans[0].style)


def test_what_nobody_tells_is_left_out() -> None:
    unknown = trends(mpi_posted=[None, None], mpi_unexpected=[None, None])
    assert not any("mpi" in text.plain for text in frame("netmon lo", unknown, rows(0), 80, 60, UNICODE))
    assert "mpi.posted" in BY_KEY


@pytest.mark.parametrize("end", [b"q", b"\x03", signal.SIGTERM], ids=["q", "ctrl-c", "sigterm"])
def test_it_ends_with_its_report_and_gives_the_terminal_back(end: bytes | signal.Signals) -> None:
    terminal = Terminal(100, 30, CHILD)
    terminal.until(r"netmon lo[^\n]*q quit[^\n]*\n[^\n]*node +now +peak[^\n]*\n[^\n]*rcv_bytes[^\n]*\n[^\n]*snd_bytes")
    terminal.resize(60, 10)
    terminal.until("netmon lo.*q quit")
    if isinstance(end, bytes):
        os.write(terminal.main, end)
    else:
        os.kill(terminal.pid, end)
    assert terminal.ended("extra execution") == 0
