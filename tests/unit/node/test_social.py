# SPDX-License-Identifier: GPL-2.0-or-later
"""The social contract's arithmetic: W, quanta, the multiprogramming level, shares; and the verdict on a local user."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctl import policy
from ctl.kernel.observations import Input
from ctl.native import bpf_dir
from ctl.node import local_user
from ctl.node.set_quantum import MIN_QUANTUM_MS, Shares, mpl_bound, quanta, speed_weight, window_share
from ctl.policy.settings import BY_CLASS

NS = 1_000_000_000


@given(st.floats(0.001, 1e6), st.floats(0, 1e6))
def test_w_is_a_share_of_the_fastest(speed: float, fastest: float) -> None:
    assert 1 / 64 <= speed_weight(speed, fastest) <= 1
    assert speed_weight(fastest, speed) == 1 or fastest < 0.95 * speed
    assert speed_weight(0.96 * speed, speed) == 1, "as measurements of equal nodes differ"
    assert speed_weight(speed, 0) == 1, "alone"


def test_ccs_24_the_slow_node_of_c_15_runs_two() -> None:
    assert (mpl_bound(3, 1.0), mpl_bound(3, 0.7), mpl_bound(3, 0.01), mpl_bound(0, 0.7)) == (3, 2, 1, 0)


def test_ccs_25_a_round_of_all_jobs_takes_as_long_everywhere() -> None:
    rounds = [3 * weight * quanta(210, weight, 0.5, on=True, local_user=True).parallel for weight in (1, 0.7, 0.5)]
    assert rounds == pytest.approx([315] * 3, rel=1 / 1024)


def test_ccs_41_a_fifth_is_a_sixth() -> None:
    """CCS fig. 3 says 20 and 80 %, Alg. 2 gives 16.7 and 83.3 (B-CCS-16)."""
    assert quanta(20, 1, 0.2, on=True, local_user=True).set_share == pytest.approx(1 / 6, rel=1 / 512)


@given(st.integers(1, 1000), st.floats(1 / 64, 1), st.floats(0, 1), st.booleans(), st.booleans())
def test_quanta(quantum: int, weight: float, share_l: float, on: bool, user: bool) -> None:
    now = quanta(quantum, weight, share_l, on=on, local_user=user)
    if not on:
        assert (now.local, now.parallel, now.slowed) == (quantum, quantum, quantum)
        return
    fixed = 1 / 1024  # 1/W and L are counted in it
    assert now.local == pytest.approx(quantum / weight, rel=fixed), "a local task always has all of it"
    whole = max(MIN_QUANTUM_MS, quantum / weight * share_l)
    assert now.slowed == pytest.approx(whole, abs=quantum / weight * fixed, rel=fixed), "L counts once (B-CCS-14)"
    assert now.parallel == (now.slowed if user else now.local)


def test_shares_are_of_the_last_epoch() -> None:
    shares = Shares()
    shares.roll_over(0.0, 5 * NS, 50 * NS)
    assert (shares.epochs, shares.parallel, shares.busy) == (1, None, None)
    shares.roll_over(2.0, 6 * NS, 54 * NS)
    assert (shares.parallel, shares.busy) == (0.25, 2.0)
    shares.roll_over(3.0, 6 * NS, 54 * NS)
    assert (shares.parallel, shares.busy) == (None, 0.0), "no CPU time at all"


def seen(**times: float) -> Input:
    key, rel, tty = (int(times.get(name, 0) * NS) for name in ("key", "rel", "tty"))
    return Input(key, rel, tty, 0, 0, 0)


def test_present_at_the_first_input_gone_after_a_minute() -> None:
    """B-CCS-18."""
    at = [local_user.decide("auto", seen(key=10.0), 60, int(now * NS)).present for now in (10.0, 69.9, 70.0, 500.0)]
    assert at == [True, True, False, False]
    assert local_user.decide("auto", seen(key=10.0), 60, 20 * NS).until == 70.0


@pytest.mark.parametrize(("what", "word"), [("key", "keyboard"), ("rel", "mouse"), ("tty", "terminal")])
def test_the_latest_input_says_where_the_user_is(what: str, word: str) -> None:
    others = dict.fromkeys({"key", "rel", "tty"} - {what}, 5.0)
    now = local_user.decide("auto", seen(**{what: 6.0}, **others), 60, 7 * NS, tty=True)
    assert (now.present, now.why) == (True, word)


def test_a_terminal_counts_by_its_knob_only() -> None:
    assert local_user.decide("auto", seen(tty=6.0), 60, 7 * NS) == local_user.LocalUser()
    assert local_user.decide("auto", seen(tty=6.0, rel=5.0), 60, 7 * NS).why == "mouse"


def test_nobody_is_made_up() -> None:
    assert not local_user.decide("auto", seen(), 60, 5 * NS).present, "no input since boot, which was 5 s ago"
    switched_off = local_user.decide("auto", None, 60, 0, wanted=False)
    assert (switched_off.present, "sensors=off" in switched_off.why) == (False, True)


def test_who_cannot_be_seen_is_assumed() -> None:
    """A sensor that is wanted and does not observe, for it failed or is still compiled, has not seen that nobody is."""
    now = local_user.decide("auto", None, 60, 0, wanted=True)
    assert (now.present, now.until) == (True, None), "until the sensor tells"
    assert now.why.startswith("assumed") and "local_user=off" in now.why, "the way out is named"


def test_sessions_show_a_user_too() -> None:
    """Whatever is latest says where; what holds now holds when input is long ago, and where no sensor observes."""
    ssh, film = local_user.Signs(8 * NS, "ssh"), local_user.Signs(held="desktop")
    now = local_user.decide("auto", seen(key=6.0), 60, 9 * NS, signs=ssh)
    assert (now.present, now.why, now.until) == (True, "ssh", 68.0)
    assert not local_user.decide("auto", seen(), 60, 68 * NS, signs=ssh).present
    assert local_user.decide("auto", seen(key=9.0), 60, 9 * NS, signs=ssh).why == "keyboard"
    for sensed, wanted in ((seen(key=6.0), True), (None, True), (None, False)):
        assert local_user.decide("auto", sensed, 60, 500 * NS, wanted=wanted, signs=film).why == "desktop"


def test_the_knob_wins() -> None:
    assert local_user.decide("on", None, 60, 0).present
    assert not local_user.decide("off", seen(key=10.0), 60, 11 * NS).present


@pytest.mark.parametrize("module", policy.MODULES)
def test_a_module_is_on_by_its_knob_or_else_by_the_row(module: str) -> None:
    for row in policy.POLICIES.values():
        assert policy.is_on(row, module, {module: "policy"}) == policy.is_on(row, module, {}) == row.has(module)
        assert policy.is_on(row, module, {module: "on"})
        assert not policy.is_on(row, module, {module: "off"})


@pytest.mark.parametrize(
    ("name", "knobs", "cpus", "windows"),
    [
        ("csm", {}, 2, True),
        ("csm", {}, 1, False),
        ("ccs", {}, 2, True),
        ("csm", {"gang": "on"}, 1, True),
        ("csm", {"gang": "off"}, 8, False),
        ("csm", {"contract": "class"}, 8, False),
        ("prio", {"gang": "on"}, 8, False),
    ],
)
def test_time_is_divided_into_windows(name: str, knobs: dict[str, policy.Value], cpus: int, windows: bool) -> None:
    settings = policy.Settings(policy.find_policy(name), {**policy.defaults(), **knobs})
    assert settings.windows(cpus) == windows


def test_the_rules_by_class_are_the_kernels() -> None:
    rules = re.findall(r"\[RULE_(\w+)\]\s*= \{[^}]*\bR_BY_CLASS\b", (bpf_dir() / "insert_rq.h").read_text())
    assert tuple(rule.lower() for rule in rules) == BY_CLASS


@pytest.mark.parametrize(("share_l", "even", "part"), [(0.25, False, 0.25), (0.25, True, 0.5), (0.75, True, 0.75),
                                                       (0.0, False, 1 / 16), (1.0, False, 15 / 16)])  # fmt: skip
def test_the_part_of_jobs_in_windows(share_l: float, even: bool, part: float) -> None:
    assert window_share(share_l, even=even) == part


def test_the_modules_of_the_rows() -> None:
    """CCS §5.1: Zhang is Set_Quantum alone, Poly is Insert_RQ with Set_Memory. `fit` is ours."""
    have = {name: tuple(m for m in policy.MODULES if row.has(m)) for name, row in policy.POLICIES.items()}
    assert {name: modules for name, modules in have.items() if modules} == {
        "ccs": ("quantum", "memory", "events"),
        "poly": ("memory",),
        "zhang": ("quantum",),
        "explicit": ("slots",),
        "fit": ("events", "fit"),
    }
