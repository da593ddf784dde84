# SPDX-License-Identifier: GPL-2.0-or-later
"""A report's story: what the events of a log say about jobs, stops, figures and losses."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctl.monitor.event_log import FIGURES, Found
from ctl.monitor.report import Job, Report, tell_of
from ctl.monitor.report_page import page

UNTIL = 1000.0


def event(at: float, kind: str, text: str = "", **details: Any) -> dict[str, Any]:
    return {"time": at, "kind": kind, "text": text, **details}


def begin(at: float, jid: str, user: str = "ann") -> dict[str, Any]:
    return event(at, "job", f"job {jid} began", jid=jid, action="begin", user=user)


def end(at: float, jid: str) -> dict[str, Any]:
    return event(at, "job", f"job {jid} ended after 1 s", jid=jid, action="end")


def wait(at: float, jid: str, why: str = "needs 100 MiB") -> dict[str, Any]:
    return event(at, "queue", f"job {jid} waits: {why}", jid=jid, action="wait", user="bob", why=why)


def stop(at: float, jid: str, why: str = "needs too much") -> dict[str, Any]:
    return event(at, "stop", f"job {jid} stopped: {why}", jid=jid, action="stop", why=why)


def resume(at: float, jid: str) -> dict[str, Any]:
    return event(at, "stop", f"job {jid} goes on", jid=jid, action="resume")


def agent(at: float) -> dict[str, Any]:
    return event(at, "agent", "policy fit loaded", action="begin")


def unload(at: float) -> dict[str, Any]:
    return event(at, "agent", "scheduler unloaded: by ctl")


def row(at: float, jobs: dict[str, Any] | None = None, **other: Any) -> dict[str, Any]:
    made = {"policy": "fit", "overloaded": False, "user": False, "set": 0.5, "achieved": 0.4, "lost": {}, "waits": []}
    stalled = {"cpu": int(at * 100_000), "memory": 0}
    return event(at, FIGURES, **{**made, "stalled": stalled, "jobs": jobs or {}, **other})


def told(*events: dict[str, Any], damaged: int = 0) -> Report:
    return tell_of(Found("node1", list(events), damaged), 0.0, UNTIL)


def one(*events: dict[str, Any]) -> Job:
    (job,) = told(*events).jobs
    return job


def test_a_job_that_waits_runs_is_stopped_and_ends() -> None:
    used = {"j": {"cpu_s": 12.5, "memory": 70, "swap": 30, "majflt": 1, "state": "free"}}
    less = {"j": {"cpu_s": 20.0, "memory": 50, "swap": 0, "majflt": 1, "state": "free"}}
    job = one(
        wait(10, "j"), begin(30, "j", "bob"), row(35, used), stop(40, "j"), resume(55, "j"), row(58, less), end(60, "j")
    )
    assert (job.user, job.why, job.waited(UNTIL), job.stopped(UNTIL)) == ("bob", "needs 100 MiB", 20.0, 15.0)
    assert (job.began, job.ended, job.end, job.cpu_s, job.most) == (30.0, 60.0, "ended", 20.0, 100)
    assert [(one.since, one.until, one.why) for one in job.stops] == [(40.0, 55.0, "needs too much")]


def test_a_name_used_again_is_another_job() -> None:
    assert [(job.began, job.ended) for job in told(begin(1, "j"), end(2, "j"), begin(3, "j")).jobs] == [
        (1, 2),
        (3, None),
    ]


def test_what_goes_on_is_counted_up_to_now() -> None:
    job = one(begin(900, "j"), stop(950, "j"))
    assert (job.ended, job.stopped(UNTIL)) == (None, 50.0)
    assert one(wait(990, "j")).waited(UNTIL) == 10.0


def test_a_job_that_gives_up_or_is_cancelled() -> None:
    assert (job := one(wait(10, "j"), row(15, waits=["j"]), row(25))).ended == 25 and job.end == "gave up"
    cancelled = one(wait(10, "j"), event(12, "queue", jid="j", action="cancel"))
    assert (cancelled.ended, cancelled.end) == (12, "cancelled while it waited")


def test_an_unload_ends_stops_and_a_kill_ends_them_when_it_was_last_heard_of() -> None:
    assert one(begin(1, "j"), stop(10, "j"), unload(20)).stops[0].until == 20
    killed = one(begin(1, "j"), stop(10, "j"), row(15), agent(100), begin(101, "j"))
    assert (killed.began, killed.ended, killed.stops[0].until) == (1, None, 15)


def test_a_job_that_the_next_agent_does_not_find() -> None:
    assert one(begin(1, "j"), agent(100)).end == "ended while no agent ran"


def test_a_bad_end_is_told() -> None:
    text = "job j: process 7 was killed by signal 9"
    assert one(begin(1, "j"), event(2, "task", text, jid="j", action="exit", status=9), end(3, "j")).end == (
        "was killed by signal 9"
    )


def test_figures_between_two_rows_and_none_over_a_gap() -> None:
    rows = told(row(10), row(20), row(500), row(510, user=True)).rows
    assert [one.joined for one in rows] == [False, True, False, True]
    assert rows[1].stalled["cpu"] == pytest.approx(0.1)
    assert rows[2].stalled == {}
    assert told(row(10), row(20), row(500), row(510, user=True)).part("user") == 0.5


def test_losses_count_in_this_span_and_from_zero_under_a_new_agent() -> None:
    lost = {"trace_lost": 40}
    assert told(row(10, lost=lost), row(20, lost={"trace_lost": 47})).lost == {"trace_lost": 7}
    assert told(row(10, lost=lost), agent(15), row(20, lost={"trace_lost": 3})).lost == {"trace_lost": 3}
    assert told(event(1, "lost", "2 events", lost=2)).lost == {"events not recorded": 2}


_NAMES = ("text", "jid", "action", "user", "status", "lost", "jobs", "waits", "stalled", "set", "achieved")
_KINDS = ("job", "stop", "queue", "agent", "task", FIGURES, "lost", "knobs")
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(("j", "cpu", "cpu_s")), inner, max_size=3)
    ),
    max_leaves=6,
)
_FIELDS = st.fixed_dictionaries(
    {"time": st.floats(0, UNTIL), "kind": st.sampled_from(_KINDS)},
    optional=dict.fromkeys(
        ("text", "jid", "action", "user", "status", "lost", "jobs", "waits", "stalled", "set", "achieved"), _JSON
    ),
)


@given(st.lists(_FIELDS, max_size=12))
def test_any_events_make_a_page(events: list[dict[str, Any]]) -> None:
    assert page([told(*events)]).endswith("</html>\n")


def test_what_a_log_says_is_text_and_no_markup() -> None:
    text = page([told(begin(1, "<script>j</script>", "<b>"), stop(2, "<script>j</script>", '"><img src=x>'), row(3))])
    assert "<script" not in text
    assert "<img" not in text


def test_a_page_names_nothing_elsewhere_and_an_empty_one_tells_the_way_out() -> None:
    text = page([told()])
    assert "--since" in text
    assert not [word for word in ("http:", "https:", "url(", "src=", "href=", "@import") if word in text]


def test_many_jobs_are_cut_and_the_cut_is_told() -> None:
    text = page([told(*(begin(number / 10, f"j{number}") for number in range(1000)))])
    assert "The newest 300 of 1000 jobs" in text
