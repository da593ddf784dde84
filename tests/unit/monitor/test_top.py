# SPDX-License-Identifier: GPL-2.0-or-later
"""The dashboard: frames of every size and content keep to their width."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from ctl.contract import Cpu, Job, View
from ctl.monitor.palette import LIMIT, QUIET, WARN
from ctl.monitor.panels import History, frame
from ctl.monitor.pen import MODE_WINDOW_S
from ctl.monitor.text import ASCII, UNICODE, duration, fit, level, number, of, share_bar, size, spark
from tests.examples import examples
from tests.unit.monitor.views import cluster, draw, fitted, job, jobs_queue, many, queue_of, task, view

SIZES = [(80, 24), (120, 40), (200, 60), (40, 12), (20, 5), (1, 1)]


@pytest.mark.parametrize(("width", "height"), SIZES)
@pytest.mark.parametrize(
    "shown",
    [
        view(),
        view([], [], rules={}, events=[]),
        view(policy=None, rule=None, cpus=[], jobs=[], rules={}, events=[]),
        view(many(64, 9)),
        view(many(512, 3)),
        view(many(1, 5000)),
        view(many(4, 128)),
        view(jobs=[job(f"job{i}") for i in range(40)]),
        view(events=[{"time": 1.7e9 + i, "text": "x" * 500} for i in range(50)]),
    ],
    ids=["usual", "empty", "unloaded", "64cpus", "512cpus", "5000queued", "4x128", "40jobs", "50events"],
)
def test_every_size_is_kept(shown: View, width: int, height: int) -> None:
    draw(shown, width, height, note="paused", keys="q quit")


def test_80x24_shows_everything_the_issue_asks_for() -> None:
    text = "\n".join(draw(view()))
    for wanted in (
        "csm", "MNOL 2 MNOD 3", "L 0.5", "Q 20 ms", "612 of 480 MiB",
        "OVERLOADED", "auto: swap-ins 210/s for 3 s",
        "140 of 512 MiB", "swap-ins 210/s", "predictive 10 %", "dynamic 30 %", "CSM 60 %", "CPU 0 · 2 queued",
        "large", "small", "50 %", "12.5", "31", "7", "200 MiB", "30.0 MiB", "231", "45.6", "overload began",
        "stalled 34 % (all tasks 12 %)",
    ):  # fmt: skip
        assert wanted in text, wanted


def test_a_local_user_and_what_it_means_for_jobs_are_shown() -> None:
    jobs = [job("a", state="slowed"), job("b", frozen=True, state="stopped"), job("c", state="free")]
    jobs.append(job("d", frozen=True, state="on_hold"))
    assert "user at" not in draw(view())[0]
    assert "L 0.5 · user at keyboard" in draw(view(local_user="keyboard"))[0]
    assert "local user" in draw(view(local_user="knob local_user is on"))[0]
    wide = draw(view(jobs=jobs), 120, 40)
    states = {text.split()[0]: text.split()[-1] for text in wide if text.split()[:1] in (["a"], ["b"], ["c"], ["d"])}
    assert states == {"a": "slowed", "b": "stopped", "c": "runs", "d": "hold"}


def test_the_queue_of_jobs_is_told_under_fit() -> None:
    assert not any("room" in text for text in draw(view()))
    waits = fitted("b", "waits", why="needs 48 MiB, 31 are free")
    wanted = "queue    room 60.0 MiB, 1 run  1 wait, first in 12 s  b: needs 48 MiB, 31 are free"
    assert wanted in "\n".join(draw(view(queue=jobs_queue(fitted("a"), waits)), 100, 30))
    more = jobs_queue(fitted("a"), waits, fitted("c", "stopped"))
    assert "2 wait, first in 12 s" in "\n".join(draw(view(queue=more)))
    on_hold = jobs_queue(fitted("a"), fitted("c", "on_hold"), turn_left_s=None)
    assert "1 run " in "\n".join(draw(view(queue=on_hold))) and "wait" not in "\n".join(draw(view(queue=on_hold)))
    alone = jobs_queue(fitted("a"), turn_left_s=None)
    assert "room 60.0 MiB, 1 run  " in "\n".join(draw(view(queue=alone)))


def test_a_queue_is_listed_head_first_with_class_de_mes_and_flt() -> None:
    lines = draw(
        view([queue_of(3, [task(1, "vi", None, 2), task(2, "mpi", "big", 1, mes=2.25, flt=17)], task(9, "hog"))])
    )
    start = next(i for i, text in enumerate(lines) if text.startswith("CPU 3"))
    assert lines[start].split()[-6:] == ["queued", "de", "mes", "COM", "rec", "FLT"]
    assert lines[start + 1].split()[:3] == ["run", "large", "hog"]
    assert lines[start + 2].split() == ["1", "local", "vi", "1", "2/2", "0", "0", "0", "0"]
    assert lines[start + 3].split() == ["2", "big", "mpi", "2", "1/3", "2.25", "0", "0", "17"]


def test_what_does_not_fit_is_counted() -> None:
    lines = draw(view(many(1, 5000)))
    positions = [int(m[1]) for text in lines if (m := re.match(r" *(\d+) (?:j|local) ", text))]
    hidden = next(int(m[1]) for text in lines if (m := re.search(r"… (\d+) more$", text.rstrip())))
    assert positions == list(range(1, len(positions) + 1))
    assert len(positions) + hidden == 5000


def test_many_cpus_are_strips_and_hidden_ones_are_counted() -> None:
    lines = draw(view(many(64, 9)))
    strips = [m for text in lines for m in re.findall(r"(\d+) >. +9 ([lpLP]+)", text)]
    rest = next(re.search(r"… (\d+) more CPUs with (\d+) queued", t) for t in lines if "more CPUs" in t)
    assert rest
    assert len(strips) + int(rest[1]) == 64
    assert int(rest[2]) == 9 * int(rest[1])
    assert {letters for _, letters in strips} == {"lpLplplpL"}  # de 0,1,2 at MNOL 2, MNOD 3
    wide = draw(view(many(64, 9)), 200, 60)
    assert sum(text.count(" queued") for text in wide) == 0
    assert len([m for text in wide for m in re.findall(r"\d+ >", text)]) == 64


def test_limits_are_told_by_colour_and_by_number() -> None:
    shown = view([queue_of(0, [task(1, "a", None, 0), task(2, "b", None, 1), task(3, "c", None, 2)])])
    history = History()
    history.add(shown)
    styles = {}
    for text in frame(shown, history, 80, 24):
        for found in re.finditer(r"[012]/2", text.plain):
            styles[found[0]] = str(text.get_style_at_offset(Console(), found.start()))
    assert styles == {"0/2": QUIET, "1/2": WARN, "2/2": LIMIT}


def test_hostile_and_odd_values_move_nothing() -> None:
    nan, inf = float("nan"), float("inf")
    evil = "\x1b[2J\r\n\tname"
    shown = view(
        [
            queue_of(
                0,
                [
                    task(1, evil, evil, 99, mes=nan),
                    task(2, "日本語の名前です", "ジョブ", -1, mes=inf, flt=10**12),
                ],
            )
        ],
        [job(evil, cpu_share=nan, majflt_s=None, memory=2**70, swap=-1), job("", cpu_share=None, tasks=0)],
        node=evil,
        policy=evil,
        rule=evil,
        knobs={"mno": None, "p": "strange", "mnol": evil},
        overload={"mode": evil, "verdict": False, "why": evil},
        memory=dict.fromkeys(("mem", "swapins_s", "psi_some", "psi_full"), None)
        | {"m": 0, "swap_total": 0, "swap_used": 0},
        rules={evil: {"insertions_s": nan, "overtakes_s": -inf}},
        events=[{"time": 0.0, "text": evil}],
        modes={"predictive": 0, "dynamic": 0, "csm": 0},
    )
    for width, height in SIZES:
        for glyphs in (UNICODE, ASCII):
            lines = draw(shown, width, height, glyphs=glyphs, note=evil, keys="q quit")
            assert all(c.isprintable() for text in lines for c in text)
            assert glyphs is UNICODE or all(text.isascii() for text in lines)


_NUMBER = st.one_of(st.none(), st.floats(), st.integers(-1, 2**64))
_COUNT = st.integers(0, 10**9)
_TASK = st.builds(
    lambda tid, comm, jid, de, mes, flt: task(tid, comm, jid, de, mes=mes, flt=flt),
    _COUNT, st.text(max_size=16), st.one_of(st.none(), st.text(max_size=64)), _COUNT, st.floats(), _COUNT,
)  # fmt: skip
_CPUS = st.lists(
    st.builds(
        lambda tasks, running, more: queue_of(0, tasks, running, len(tasks) + more),
        st.lists(_TASK, max_size=12), st.one_of(st.none(), _TASK), _COUNT,
    ),
    max_size=20,
)  # fmt: skip
_JOBS = st.lists(st.builds(lambda jid, cpu: job(jid, cpu_share=cpu), st.text(max_size=64), _NUMBER), max_size=9)


@examples(150)
@given(
    _CPUS,
    _JOBS,
    st.integers(1, 250),
    st.one_of(st.none(), st.integers(1, 80)),
    st.sampled_from([UNICODE, ASCII]),
)
def test_any_view_at_any_size(cpus: list[Cpu], jobs: list[Job], width: int, height: int | None, glyphs: Any) -> None:
    for i, cpu in enumerate(cpus):
        cpu["cpu"] = i
    draw(view(cpus, jobs), width, height, glyphs=glyphs)


def test_lines_stay_in_place_while_queues_grow_and_shrink() -> None:
    history = History()
    draw(view([queue_of(0, [task(i) for i in range(6)])]), history=history)
    places = []
    for length in (6, 0, 3, 5, 1):
        lines = draw(view([queue_of(0, [task(i) for i in range(length)])]), history=history)
        places.append(next(i for i, text in enumerate(lines) if text.startswith("JOB")))
    assert len(set(places)) == 1


def test_modes_are_the_share_of_the_last_seconds() -> None:
    history = History()
    start = view()
    for second in range(30):
        shown = view(
            time=start["time"] + second,
            modes={"predictive": 1000, "dynamic": 10 * second, "csm": 30 * second},
        )
        lines = draw(shown, history=history)
    mode = next(text for text in lines if text.startswith("mode"))
    assert "predictive 0 %" in mode
    assert "dynamic 25 %" in mode
    assert "CSM 75 %" in mode
    assert f"last {MODE_WINDOW_S:.0f} s" in mode
    fresh = draw(view(time=start["time"] + 31, modes={"predictive": 5, "dynamic": 0, "csm": 0}), history=history)
    assert any("predictive 100 %" in text and "since load" in text for text in fresh)


@pytest.mark.parametrize(
    ("value", "shown"),
    [(None, "–"), (0, "0"), (0.254, "0.25"), (9.996, "10.0"), (12.34, "12.3"), (999.6, "1000"),
     (9999.6, "10.0k"), (12345, "12.3k"), (4.5e6, "4.5M"), (-3, "-3"), (float("nan"), "–"), (1e30, ">999P")],
)  # fmt: skip
def test_numbers(value: float | None, shown: str) -> None:
    assert number(value) == shown


def test_units() -> None:
    assert [size(v) for v in (0, 1023, 1024, 200 << 20, 1503238553, 3 << 42)] == [
        "0 B", "1023 B", "1 KiB", "200 MiB", "1.40 GiB", "12.0 TiB",
    ]  # fmt: skip
    assert of(140 << 20, 512 << 20) == "140 of 512 MiB"
    assert of(1 << 20, 2 << 30) == "1.00 MiB of 2.00 GiB"
    assert [duration(s) for s in (5, 192, 7500, 100000)] == ["5 s", "3 min 12 s", "2 h 05 min", "1 d 3 h"]
    assert fit("abcdef", 4) == "abc…"
    assert fit("日本語", 4) == "日 …"
    assert spark([0, 1, 8], 5, UNICODE) == "   ▁▇"
    assert level(1.5, 1.0, 12, UNICODE).plain == "━━━━━━━━┃███"
    assert share_bar([(1, ""), (1, ""), (2, "")], 8, UNICODE).plain == "██▒▒░░░░"


# Not a terminal


def test_cluster_and_held_jobs_are_shown_where_there_are_any() -> None:
    assert not any(text.startswith(("cluster", "held")) for text in draw(view()))
    slowed = job("small", state="slowed", why="local user on node2 (keyboard)")
    shown = draw(view(jobs=[job("large", state="free", why=""), slowed], cluster=cluster(holders={"small": ["node2"]})))
    assert next(text for text in shown if text.startswith("cluster")).split(maxsplit=1)[1].rstrip() == (
        "by node1:4222  node1  node2 (1 of our jobs)"
    )
    assert next(text for text in shown if text.startswith("held")).split(maxsplit=1)[1].rstrip() == (
        "small slowed: local user on node2 (keyboard)"
    )
    on_hold = draw(view(jobs=[job("small", state="on_hold", why="on hold by eve since 2026-11-30 09:00:00")]))
    held = next(text for text in on_hold if text.startswith("held"))
    assert held.split(maxsplit=1)[1].rstrip() == "small on hold by eve since 2026-11-30 09:00:00"


def test_lost_broker_is_told() -> None:
    shown = draw(view(cluster=cluster("")))
    assert any("no broker: this node decides alone" in text for text in shown)
