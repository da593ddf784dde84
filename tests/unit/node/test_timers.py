# SPDX-License-Identifier: GPL-2.0-or-later
"""What the agent does from time to time goes on, whatever one time runs into."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from unittest.mock import Mock

import pytest

from ctl import policy
from ctl.contract import JobQueue
from ctl.kernel.observations import Input
from ctl.node import sensing, social, steps
from ctl.node.explicit import Period, Slots
from ctl.node.sensing import NodeSensors
from ctl.node.social import SocialContract
from ctl.policy import Settings
from ctl.process import figures

_FAULT = OSError("no such cgroup")


async def _goes_on(begin: Callable[[], object], looks: Mock, times: int = 3) -> list[object]:
    """Begin, and wait for so many looks. Returns the errors that the event loop was told of."""
    errors: list[object] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: errors.append(context["exception"]))
    loop.call_soon(begin)
    async with asyncio.timeout(120):
        while looks.call_count < times:
            await asyncio.sleep(0.001)
    return errors


def _contract(seen: Callable[[], Input | None], cgroups: Mock, **knobs: policy.Value) -> SocialContract:
    settings = Settings(policy.find_policy("csm"), {**policy.defaults(), **knobs})
    return SocialContract(Mock(), cgroups, settings, list, seen, Mock(), Mock(spec=JobQueue))


def test_epochs() -> None:
    cgroups = Mock()
    cgroups.cpu_ns.side_effect = [_FAULT, (0, 0), (0, 0)]

    async def watched() -> list[object]:
        contract = _contract(lambda: None, cgroups, epoch_ms=10)
        errors = await _goes_on(contract._roll_over, cgroups.cpu_ns)
        contract.lift()
        return errors

    assert asyncio.run(watched()) == [_FAULT]


def test_looks_for_a_user(monkeypatch: pytest.MonkeyPatch) -> None:
    """The look that would find that the user has left fails; the next one finds it."""
    monkeypatch.setattr(social, "_LOOK_AGAIN", 0.01)
    now = time.monotonic_ns()
    seen = Mock(side_effect=[Input(now, 0, 0, 0, 0, 0), _FAULT, Input(now, 0, 0, 0, 0, 0)])

    async def watched() -> tuple[list[object], bool]:
        contract = _contract(seen, Mock(), local_idle_s=0.05)
        errors = await _goes_on(contract.look_for_user, seen)
        contract.lift()
        return errors, contract.user.present

    assert asyncio.run(watched()) == ([_FAULT], False)


def test_a_terminal_makes_a_user_by_its_knob_only() -> None:
    now = time.monotonic_ns()
    for knob in ("off", "on"):

        async def looked(knob: str = knob) -> bool:
            contract = _contract(lambda: Input(0, 0, now, 0, 0, 1), Mock(), local_user_tty=knob)
            contract.look_for_user()
            contract.lift()
            return contract.user.present

        assert asyncio.run(looked()) == (knob == "on")


def test_a_user_is_assumed_from_the_load_on_until_the_sensor_observes() -> None:
    """The kernel's quanta and windows (CCS Alg. 2, L) are those beside a user meanwhile, but with sensors=off."""
    seen = Mock(return_value=None)

    async def watched() -> list[tuple[bool, bool]]:
        contract = _contract(seen, Mock())
        verdicts = []
        for knob, observed in (("on", None), ("on", Input(0, 0, 0, 0, 0, 0)), ("on", None), ("off", None)):
            contract._settings.values = {**contract._settings.values, "sensors": knob}
            seen.return_value = observed
            contract.look_for_user()
            told = contract._scheduler.adjust.call_args.kwargs["local_user"]  # type: ignore[attr-defined]
            verdicts.append((contract.slows, bool(told)))
        contract.lift()
        return verdicts

    assert asyncio.run(watched()) == [(True, True), (False, False), (True, True), (False, False)]


def test_slots() -> None:
    cgroups = Mock()
    cgroups.set_all_frozen.side_effect = [_FAULT, None, None, None, None]

    async def watched() -> list[object]:
        slots = Slots(cgroups, Mock(), Mock())  # pytest gets no real-time priority
        errors = await _goes_on(lambda: slots.keep(Period(10, 10)), cgroups.set_all_frozen)
        slots.keep(None)
        return errors

    assert asyncio.run(watched()) == [_FAULT]


def test_periods_in_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """A refusal of the kernel ends them, and is told once."""
    begun, tell = Mock(side_effect=[None, None, _FAULT]), Mock()
    monkeypatch.setattr("ctl.kernel.ext_server.begin_period", begun)

    async def watched() -> tuple[list[object], object]:
        ours = steps.Steps(Mock(), tell)
        errors = await _goes_on(lambda: ours.keep(10), tell, times=1)
        return errors, ours.report()

    assert asyncio.run(watched()) == ([], None)
    assert begun.call_count == 3


def test_looks_at_sockets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sensing, "_LOOK_EVERY", 0.01)
    sensors = Mock()
    sensors.look_again.side_effect = [_FAULT, None, None]

    async def watched() -> list[object]:
        ours = NodeSensors(Mock(), Settings(policy.find_policy("csm"), policy.defaults()), Mock())
        ours._sensors, ours.state = sensors, "on"
        errors = await _goes_on(ours._look, sensors.look_again)
        ours._end()
        return errors

    assert asyncio.run(watched()) == [_FAULT]


def test_sensors_stop_after_a_look_under_way_and_no_look_follows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sensing, "_LOOK_EVERY", 0.001)
    sensors, goes_on = Mock(), threading.Event()
    sensors.look_again.side_effect = lambda _unread_ms, jobs: goes_on.wait()

    async def stopped() -> None:
        ours = NodeSensors(Mock(), Settings(policy.find_policy("csm"), policy.defaults()), Mock())
        ours._sensors, ours.state = sensors, "on"
        ours._look()
        stopping = asyncio.ensure_future(ours.stop())
        await asyncio.sleep(0.05)  # the loop runs on meanwhile
        early = sensors.stop.called
        goes_on.set()
        await stopping
        assert not early
        assert sensors.stop.called
        await asyncio.sleep(0.05)
        assert sensors.look_again.call_count == 1

    asyncio.run(stopped())


def test_rows_of_figures(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(figures, "BUSY_S", 0.01)
    take = Mock(side_effect=[_FAULT, _FAULT, _FAULT])

    async def watched() -> list[object]:
        recording = asyncio.create_task(figures.record(take, Mock(), lambda: True))
        errors = await _goes_on(lambda: None, take)
        recording.cancel()
        return errors

    assert asyncio.run(watched()) == []
    assert caplog.text.count("a row of figures is missing") >= 2
