# SPDX-License-Identifier: GPL-2.0-or-later
"""The dashboard's pages: the queue of jobs, the nodes, the keys; and colours that nobody needs."""

from __future__ import annotations

import itertools
import re
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import example, given
from hypothesis import strategies as st

from ctl.cli.watch import top
from ctl.contract import View
from ctl.monitor import palette
from ctl.monitor.panels import PAGES, History, Page, frame
from ctl.monitor.text import ASCII, UNICODE, wrapped
from ctl.monitor.top import KEYS
from tests.examples import examples
from tests.unit.monitor.views import cluster, draw, fitted, job, jobs_queue, many, view

OVERVIEW, QUEUE, NODES = PAGES[:3]
SIZES = [(80, 24), (100, 30), (120, 40), (160, 50), (200, 60)]
MIB = 1 << 20


def busy() -> View:
    """Node1 of three under policy fit: a job that runs, one slowed, one stopped, one that has not begun."""
    why = "needs 174 MiB, 167 are free; after sweep, lattice; node3 has 200 MiB free"
    jobs = [
        job("flow-of-a-long-name", state="stopped", frozen=True, why=why),
        job("lattice", state="slowed", why="local user on node2 (keyboard)"),
        job("sweep", state="free", why=""),
    ]
    queue = jobs_queue(
        fitted("sweep", declared=0, estimated=40 * MIB),
        fitted("lattice", needs={"node1": 48 * MIB, "node2": 50 * MIB}),
        fitted("flow-of-a-long-name", "stopped", 174 * MIB, passed=3, why=why),
        fitted("late", "waits", 210 * MIB),
        room=263 * MIB,
        rooms={"node1": 263 * MIB, "node2": 400 * MIB},
        loads={"node2": {"cpus": 4, "speed": 5e3, "runnable": 0.25, "faults_s": 12.0}},
        turns=2,
    )
    known = cluster(holders={"lattice": ["node2", "node3"]})
    return view(policy="fit", rule="csm", jobs=jobs, queue=queue, cluster=known)


def screen(page: Page, width: int = 80, height: int = 24, shown: View | None = None) -> list[str]:
    """The lines of a page with the keys, without the blanks at their ends."""
    return [text.rstrip() for text in draw(shown or busy(), width, height, page=page, keys=KEYS)]


def table(lines: list[str], title: str) -> dict[str, list[str]]:
    """The rows below a title, by the first word of the first column: a row's words."""
    start = next(place for place, text in enumerate(lines) if title in text)
    rows = itertools.takewhile(bool, lines[start + 1 :])
    return {words[0]: words for words in map(str.split, rows) if words}


@pytest.mark.parametrize(("width", "height"), SIZES)
def test_the_queue_tells_order_need_and_why(width: int, height: int) -> None:
    lines = screen(QUEUE, width, height)
    text = " ".join(" ".join(lines).split())
    rows = table(lines, "# JOB")
    assert [rows[place][:3] for place in "1234"] == [
        ["1", "sweep", "runs"],
        ["2", "lattice", "runs"],
        ["3", "flow-of-a-long-name", "stopped"],
        ["4", "late", "waits"],
    ]
    head = next(line for line in lines if "# JOB" in line)
    cells = [head.index(name) + len(name) for name in ("NEED", "DECLARED", "ESTIMATE", "PASSED")]
    row = next(line for line in lines if "sweep" in line)
    assert [row[:cell].split()[-1] for cell in cells] == ["MiB", "–", "MiB", "0"]
    for wanted in (
        "96.0 of 263 MiB for 2 running jobs, 167 MiB free",
        "2 waiting jobs: first when the turn ends, in 12 s; 2 turns so far",
        "needs node1 48.0 MiB, node2 50.0 MiB",
        "needs 174 MiB, 167 are free; after sweep, lattice; node3 has 200 MiB free",
        "needs 210 MiB, 31 are free; after sweep",
        "A job runs if its need fits on all its nodes",
    ):
        assert wanted in text, wanted
    assert "…" not in text


@pytest.mark.parametrize(("width", "height"), SIZES)
def test_the_nodes_tell_rooms_loads_and_jobs(width: int, height: int) -> None:
    lines = screen(NODES, width, height)
    text = " ".join(" ".join(lines).split())
    nodes = table(lines, "NODE")
    assert nodes["node1"][1:8] == ["(here)", "1", "480", "MiB", "263", "MiB", "167"]
    assert nodes["node2"][1:] == ["1", "480", "MiB", "400", "MiB", "350", "MiB", "4", "0.25", "0.50", "5000", "12"]
    assert nodes["node3"][1:] == ["1", "480", "MiB", "–", "–", "–", "–", "0.50", "5000", "–"]
    for wanted in (
        "by node1:4222 3 nodes",
        "on node1, node2, node3; local user on node2 (keyboard)",
        "on node1; needs 174 MiB, 167 are free; after sweep, lattice; node3 has 200 MiB free",
    ):
        assert wanted in text, wanted
    assert "…" not in text


@pytest.mark.parametrize(("width", "height"), SIZES)
def test_nothing_of_the_overview_is_cut(width: int, height: int) -> None:
    shown = busy()
    shown["events"] = [{"time": 1.7e9, "text": "overloaded: Mem 1110 MiB > M 1064 MiB and 6 refaults/s"}]
    lines = screen(OVERVIEW, width, height, shown)
    text = " ".join(" ".join(lines).split())
    for wanted in ("room 263 MiB, 2 run 2 wait, first in 12 s", "flow-of-a-long-name 2", "> M 1064 MiB", "refaults/s"):
        assert wanted in text, wanted
    assert not [line for line in lines if "…" in line and not re.search(r"… \d+ more$", line)]


@pytest.mark.parametrize("height", range(24, 61))
def test_events_are_shown_whole(height: int) -> None:
    shown = busy()
    texts = [f"begin {place} {'word ' * (place % 13)}end" for place in range(50)]
    shown["events"] = [{"time": 1.7e9 + place, "text": text} for place, text in enumerate(texts)]
    text = "\n".join(screen(OVERVIEW, 80, height, shown))
    assert text.count("begin") == text.count("end\n") >= 1


def test_without_a_queue_or_a_cluster_the_pages_say_what_to_do() -> None:
    assert any("Policy csm keeps no queue of jobs: `ctl switch fit`" in text for text in screen(QUEUE, shown=view()))
    unloaded = view(policy=None, rule=None, cpus=[], jobs=[])
    assert any(text.startswith("No policy is loaded") for text in screen(QUEUE, shown=unloaded))
    assert any("This node works alone: `ctl cluster init`" in text for text in screen(NODES, shown=view()))
    lost = screen(NODES, shown=view(cluster=cluster("")))
    assert any("no broker: this node decides alone" in text for text in lost)
    empty = screen(QUEUE, shown=view(queue=jobs_queue(turn_left_s=None)))
    assert any("nobody waits" in text for text in empty) and any("No job: start" in text for text in empty)


def test_jobs_that_do_not_fit_are_counted() -> None:
    crowd = view(queue=jobs_queue(*(fitted(f"job{i}", "waits") for i in range(40)), turn_left_s=None))
    lines = screen(QUEUE, shown=crowd)
    shown = [text for text in lines if re.match(r" +\d+ job", text)]
    hidden = next(int(m[1]) for text in lines if (m := re.fullmatch(r"… (\d+) more", text)))
    assert len(shown) + hidden == 40 and len(shown) >= 7
    assert any("no turns: knob turn_s is 0" in text for text in lines)


def test_a_job_larger_than_the_room_is_told() -> None:
    large = view(queue=jobs_queue(fitted("large", need=70 * MIB), turns=1, turn_left_s=None))
    text = "\n".join(screen(QUEUE, shown=large))
    assert "70.0 of 60.0 MiB for 1 running job, more than there is" in text
    assert "nobody waits; 1 turn so far" in text


@pytest.mark.parametrize("page", PAGES, ids=[page.name for page in PAGES])
def test_the_last_line_has_the_pages_and_the_keys(page: Page) -> None:
    foot = draw(busy(), 80, 24, page=page, keys=KEYS)[-1]
    names = "".join(f" {place} {one.name} " for place, one in enumerate(PAGES, 1))
    assert foot == f"{names:<{80 - len(KEYS)}}{KEYS}"
    history = History()
    line = frame(busy(), history, 80, 24, page=page, keys=KEYS)[-1]
    here = [line.plain[span.start : span.end].strip() for span in line.spans if span.style == "reverse"]
    assert here == [f"{PAGES.index(page) + 1} {page.name}"]


def test_help_names_every_page() -> None:
    told = CliRunner().invoke(top, ["--help"]).output
    assert ", ".join(page.name for page in PAGES[:-1]) + f" or {PAGES[-1].name}" in " ".join(told.split())
    keys = ", ".join(str(place) for place, _ in enumerate(PAGES, 1))
    assert f"Keys {keys} and tab" in " ".join(told.split())


_SIZE = st.integers(0, 2**50)
_QUEUED = st.builds(
    lambda jid, state, need, own, why: fitted(jid, state, need, declared=own, estimated=own, why=why),
    st.text(max_size=64), st.sampled_from(["runs", "waits", "stopped"]), _SIZE, st.none() | _SIZE, st.text(max_size=99),
)  # fmt: skip


@examples(100)
@given(
    st.lists(_QUEUED, max_size=9),
    st.lists(st.text(max_size=30), max_size=5),
    st.integers(1, 250),
    st.one_of(st.none(), st.integers(1, 80)),
    st.sampled_from(PAGES),
    st.sampled_from([UNICODE, ASCII]),
)
def test_any_queue_and_nodes_at_any_size(
    queued: list[Any], nodes: list[str], width: int, height: int | None, page: Page, glyphs: Any
) -> None:
    known = view(many(2, 5), [job(one["jid"]) for one in queued], queue=jobs_queue(*queued))
    known["cluster"] = cluster(holders={one["jid"]: nodes for one in queued})
    draw(known, width, height, page=page, glyphs=glyphs, keys=KEYS, note="paused" if len(nodes) % 2 else "")


@example("\U0001f3fb", 2)  # a mark that only changes the character before it
@given(st.text(max_size=200), st.integers(2, 40))  # the widest character has two cells
def test_wrapped_lines_keep_all_words(text: str, width: int) -> None:
    lines = wrapped(text, width)
    assert "".join("".join(lines).split()) == "".join("".join(c if c.isprintable() else "?" for c in text).split())


# Colours


def _linear(part: float) -> float:
    return part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4


# Machado, Oliveira, Fernandes 2009, https://doi.org/10.1109/TVCG.2009.113: severity 1, in linear light
_SIGHT = {
    "all": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "no red": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "no green": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
    "no blue": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.303900)),
}


def _lab(style: str, sight: str) -> tuple[float, float, float]:
    """A style's colour as seen, in CIE L*a*b* (D65)."""
    code = style.split("#")[1]
    light = [_linear(int(code[i : i + 2], 16) / 255) for i in (0, 2, 4)]
    red, green, blue = (sum(m * v for m, v in zip(row, light, strict=True)) for row in _SIGHT[sight])
    xyz = (
        (0.4124 * red + 0.3576 * green + 0.1805 * blue) / 0.9505,
        0.2126 * red + 0.7152 * green + 0.0722 * blue,
        (0.0193 * red + 0.1192 * green + 0.9505 * blue) / 1.089,
    )
    x, y, z = (t ** (1 / 3) if t > 0.008856 else 7.787 * t + 16 / 116 for t in (max(0.0, value) for value in xyz))
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


@pytest.mark.parametrize("sight", _SIGHT)
def test_people_of_any_colour_vision_tell_the_colours_apart(sight: str) -> None:
    """Two colours differ by at least 15 (CIE 1976); 2.3 is just seen."""
    for some in ((palette.LOCAL, palette.PARALLEL, palette.WARN, palette.LIMIT), palette.MODES):
        for one, other in itertools.combinations(some, 2):
            gap = sum((a - b) ** 2 for a, b in zip(_lab(one, sight), _lab(other, sight), strict=True)) ** 0.5
            assert gap >= 15, f"{one} and {other} differ by {gap:.0f}"


def test_no_style_has_a_colour_of_the_terminals_own() -> None:
    """Red and green of a terminal are what its theme says."""
    styles: set[str] = set()
    for page in PAGES:
        history = History()
        history.add(busy())
        for line in frame(busy(), history, 120, 40, page=page, keys=KEYS):
            styles |= {word for span in line.spans for word in str(span.style).split()}
    assert styles <= {"bold", "dim", "reverse", "underline", "none"} | {
        word
        for style in (palette.LOCAL, palette.PARALLEL, palette.WARN, palette.LIMIT, *palette.MODES)
        for word in style.split()
    }
