# SPDX-License-Identifier: GPL-2.0-or-later
"""Model dcndc against what does not depend on the paper: theory, the same seed anywhere, cases counted by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from ctl.errors import USAGE, CoschedError
from ctl.sim import claims, plots, pool
from ctl.sim.dcndc.experiments import READINGS as OF_FIGURE
from ctl.sim.dcndc.experiments import TECHNIQUES
from ctl.sim.dcndc.model import MODEL, run
from ctl.sim.dcndc.simulation import Simulation, Task, metrics
from ctl.sim.experiment import runs as runs_of
from ctl.sim.native import CHECKED, PLAIN
from ctl.sim.registry import CLAIMS, find_experiment
from ctl.sim.store import Store

U = 10**9
READINGS: tuple[dict[str, object], ...] = (
    {}, {"receive": "async"}, {"wake": "bottom"}, {"displaced": "head"}, {"spin": 0.2}, {"share": 0.0}, {"mno": 0},
)  # fmt: skip


# --- theory ---


@pytest.mark.parametrize("load", [0.3, 0.6])
def test_mm1_first_come_first_served(load: float) -> None:
    values = MODEL.complete({"nst": 1_500_000, "pdt": 0, "mit": 0.9 / load, "slice": 1e9})
    assert run("rr", values, 1)["response_local"] == pytest.approx(0.9 / (1 - load), rel=0.01)


def test_mm1_processor_sharing() -> None:
    """Short slices share the processor: E[T | S] = S / (1 - rho), so the ratio of the sums is 1 / (1 - rho)."""
    result = run("rr", MODEL.complete({"nst": 300_000, "pdt": 0, "mit": 1.8, "slice": 0.02}), 3)
    assert result["slowdown_local"] == pytest.approx(1 / (1 - result["utilisation"]), rel=0.01)


def test_messages_that_have_all_come_cost_nothing() -> None:
    """With offset 0 nobody waits, so the policies that ask for messages alone serve as rr does."""
    values = MODEL.complete({"offset": 0, "nst": 2000})
    results = [run(name, values, 1) for name in ("rr", "implicit")]
    assert results[0]["blocks"] == results[1]["spins"] == 0
    assert results[0]["end"] == results[1]["end"]


# --- the same run everywhere ---


@pytest.mark.parametrize("name", MODEL.policies)
@pytest.mark.parametrize("given", READINGS)
def test_a_seed_is_a_run_and_the_checked_engine_finds_nothing_wrong(name: str, given: dict[str, object]) -> None:
    values = MODEL.complete({"nst": 1500, "mit": 1.0, **given})
    once, again, plain, checked = (run(name, values, 9, kind=kind) for kind in ("", "", PLAIN, CHECKED))
    assert once == again == plain == checked
    assert once["messages"] > 1000
    assert once["end"] != run(name, values, 10)["end"]


def test_a_pause_changes_nothing_and_policies_meet_the_same_tasks() -> None:
    values = MODEL.complete({"nst": 500})
    met = []
    for name in ("sdca", "implicit"):
        with Simulation(name, values, 4) as simulation:
            at = 0
            while not simulation.advance(until_s=at / 1e9):
                at += 7 * U
            assert metrics(simulation.stats()) == run(name, values, 4)
            met.append([(r.arrived, r.service, r.parallel) for r in simulation.records()][:400])
    assert met[0] == met[1]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"mm": 17}, "parameter mm cannot be 17: allowed is a whole number, 0 to 16 messages"),
        ({"pdt": 1.5}, "parameter pdt cannot be 1.5: allowed is a number, 0 to 1"),
        ({"mst": 0}, "parameter mst cannot be 0: allowed is a number, 0.001 to 1e+06 unit"),
        ({"spin": -1}, "parameter spin cannot be -1: allowed is a number, 0 to 1e+06 unit"),
        ({"wake": "head"}, "parameter wake cannot be 'head': allowed is top or bottom"),
        ({"shares": 1}, "no parameter 'shares': did you mean share"),
    ],
)
def test_what_a_parameter_may_not_be_is_refused(given: dict[str, object], says: str) -> None:
    with pytest.raises(CoschedError) as refused:
        MODEL.complete(given)
    assert says in str(refused.value) and refused.value.status == USAGE


# --- cases counted by hand: slice 1, spin 0.25, share 0.5, times in units ---

# D receives at 0.5 of its 1 of CPU, and its message comes at 1.75. L 0-1, D 1-1.5, and then:
_TWO = (Task(0, 3 * U), Task(U, U, parallel=True, offsets=(3 * U // 4,), points=(U // 2,)))
_HAND: tuple[tuple[str, dict[str, object], tuple[float, float], tuple[int, int, int]], ...] = (
    # D blocks, L from 1.5, the message puts D behind L, D 2.5-3, L 3-4
    ("rr", {}, (4, 3), (5, 1, 0)),
    # D has more messages than L: the CPU at once, L to the bottom; D 1.75-2.25, L 2.25-4 in two slices
    ("sdca", {}, (4, 2.25), (6, 1, 1)),
    # CPU times 0.5 + share < 1.25: likewise
    ("dynamic", {}, (4, 2.25), (6, 1, 1)),
    # CPU times 0.5 + share > 1.25: as rr
    ("dynamic", {"share": 0.8}, (4, 3), (5, 1, 0)),
    # D polls 1.5-1.75 and reads (a message is before what the CPU does at that time), slice over at 2; L 2-3, D, L
    ("implicit", {}, (4.25, 3.25), (5, 0, 0)),
    # D polls 1.5-1.6 and blocks; L 1.6-1.75, displaced; D 1.75-2.25, L
    ("implicit", {"spin": 0.1}, (4.1, 2.25), (6, 1, 1)),
    # D polls and blocks; its message leads to the bottom: L 1.6-2.6, D 2.6-3.1, L
    ("implicit", {"spin": 0.1, "wake": "bottom"}, (4.1, 3.1), (5, 1, 0)),
    # nobody waits: D 1-2, its message is read as it comes, L 2-4
    ("sdca", {"receive": "async"}, (4, 2), (4, 0, 0)),
)


@pytest.mark.parametrize(("name", "given", "ends", "counts"), _HAND)
def test_two_tasks_by_hand(
    name: str, given: dict[str, object], ends: tuple[float, float], counts: tuple[int, int, int]
) -> None:
    values = MODEL.complete({"mst": 1, "slice": 1, "spin": 0.25, "share": 0.5, **given})
    with Simulation(name, values, 1, _TWO, kind=CHECKED) as simulation:
        assert simulation.advance()
        assert tuple(r.ended / U for r in simulation.records()) == ends
        s = simulation.stats()
        assert (s.dispatches, s.blocks, s.preempts) == counts


_AB = tuple(Task(U // 10, U, parallel=True, offsets=(U // 10,), points=(U // 2,)) for _ in range(2))


@pytest.mark.parametrize(
    ("name", "ends", "at_dispatch", "at_arrival"),
    [
        # both messages come at 0.2 while L runs; at 1 A and B have one, A runs; at 2 B has, and runs
        ("rr", (5, 2, 3), (2, 3), (1, 2)),
        # A's message gives it the CPU; B's finds it next, which it stays: A has as many as B; A 0.2-1.2, B 1.2-2.2
        ("sdca", (5, 1.2, 2.2), (2, 2), (2, 2)),
    ],
)
def test_node_code_by_hand(
    name: str, ends: tuple[float, ...], at_dispatch: tuple[int, int], at_arrival: tuple[int, int]
) -> None:
    """Opportunities (B-MO-8) are those with messages at a dispatch, and arrivals of messages for who does not run."""
    with Simulation(
        name, MODEL.complete({"mst": 1, "slice": 1}), 1, (Task(0, 3 * U), *_AB), kind=CHECKED
    ) as simulation:
        assert simulation.advance()
        assert tuple(r.ended / U for r in simulation.records()) == ends
        s = simulation.stats()
        assert (s.taken_at_dispatch, s.at_dispatch) == at_dispatch
        assert (s.taken_at_arrival, s.at_arrival) == at_arrival
        assert metrics(s)["node_code"] == (at_dispatch[0] + at_arrival[0]) / (at_dispatch[1] + at_arrival[1])


# --- experiments and claims ---


def test_every_claim_of_monito_is_a_row_and_those_of_real_nodes_are_said_to_be() -> None:
    rows = {id_: claim for id_, claim in CLAIMS.items() if id_.startswith("MO-")}
    assert list(rows) == [f"MO-{n}" for n in range(1, 21)]
    assert {id_ for id_, claim in rows.items() if claim.test} == {"MO-12", "MO-15", "MO-17", "MO-18", "MO-20"}
    assert {id_ for id_, claim in rows.items() if claim.experiments} == {"MO-17", "MO-18"}


def test_arithmetic_is_judged_without_runs_and_the_others_are_not() -> None:
    verdicts = {v.id: v for v in claims.judge(Store(":memory:"), ["MO-1", "MO-12", "MO-15", "MO-18", "MO-20"], 0, {})}
    assert verdicts["MO-1"].verdict == claims.NOT_CHECKABLE
    assert verdicts["MO-18"].verdict == claims.NO_RUNS
    assert {verdicts[id_].verdict for id_ in ("MO-12", "MO-15", "MO-20")} == {claims.REPRODUCED}


def test_the_figure_is_the_papers_grid_and_its_readings_differ_from_it_as_they_say() -> None:
    figure = runs_of(find_experiment("dcndc-fig6"))
    assert len(figure) == 7 * 5 * len(TECHNIQUES)
    defaults = MODEL.complete({})
    for runs in figure.values():
        assert {name for name, value in runs[0].parameters.items() if value != defaults[name]} <= {"mit", "pdt"}
    for reading, instead in OF_FIGURE.items():
        if reading:
            other = next(iter(runs_of(find_experiment(f"dcndc-fig6-{reading}")).values()))[0].parameters
            assert {name: value for name, value in other.items() if value != defaults[name]} == {
                **instead, "mit": 1.0, "pdt": 0.1,
            }  # fmt: skip


def test_the_figure_is_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    figure, store = find_experiment("dcndc-fig6"), Store(":memory:")
    points = runs_of(figure, 2, {"nst": 30})
    pool.make([run for of in points.values() for run in of], store, workers=1)
    found = pool.fetch([run for of in points.values() for run in of], store)
    files = plots.draw(figure, {point: [found[run.key] for run in of] for point, of in points.items()}, tmp_path)
    assert [file.name for file in files] == ["dcndc-fig6.png", "dcndc-fig6.svg"]
    assert files[1].read_text().count("<!-- SDCA (") == 5  # legends: a panel for each pdt
