# SPDX-License-Identifier: GPL-2.0-or-later
"""A run in progress: the part that is the same for every engine."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any, Self

from ctl import policy
from ctl.errors import FAILED, CoschedError
from ctl.sim.native import Engine

__all__ = ["NEVER", "EngineRun", "ratio", "rule_of", "to_the_end"]

NEVER = 2**64 - 2
"""Later than any event, ns."""


class EngineRun:
    """A run in progress; a context manager, because the engine's memory is not Python's.

    A model's subclass prepares the run; its inputs for the engine must live as long as the object.
    """

    def __init__(self, engine: Engine, sim: Any) -> None:
        """`sim`: the return value of the engine's sim_new(). Raises CoschedError if that was nothing."""
        self.engine, self._sim = engine, sim
        if sim == engine.ffi.NULL:
            raise CoschedError("there is not enough memory for this simulation", FAILED)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.engine.lib.sim_free(self._sim)
        self._sim = None

    def advance(self, until_s: float | None = None, events: int = 2**62) -> bool:
        """Go on until that simulated time, or for so many events; true when all jobs have come and gone."""
        status = self._step(NEVER if until_s is None else round(until_s * 1e9), events)
        if status == self.engine.lib.SIM_BROKEN:
            raise self._broken(self.engine.ffi.string(self.engine.lib.sim_trouble(self._sim)).decode())
        return bool(status == self.engine.lib.SIM_DONE)

    def _step(self, until_ns: int, events: int) -> int:
        """Have the engine go on; enum sim_status."""
        return int(self.engine.lib.sim_run(self._sim, until_ns, events))

    def _broken(self, trouble: str) -> CoschedError:
        """The meaning of the engine's trouble."""
        return CoschedError(f"the simulator's engine found itself wrong: {trouble}", FAILED)

    def stats(self) -> Any:
        """struct sim_stats, as of now."""
        return self.engine.lib.sim_stats(self._sim)[0]

    def decisions(self, room: int = 1 << 14) -> Any:
        """The decisions of a checked engine since the last call: an array of struct sim_decision, and its length.

        Of engines that order queues.
        """
        log = self.engine.ffi.new("struct sim_decision[]", room)
        return log, self.engine.lib.sim_log(self._sim, log, room)


def rule_of(engine: Engine, name: str) -> int:
    """enum insert_rule of a policy's rule."""
    rules: Mapping[str, int] = engine.ffi.typeof("enum insert_rule").relements
    return rules["RULE_" + policy.find_policy(name).rule.upper().replace("-", "_")]


def to_the_end(
    run: EngineRun,
    stop: threading.Event | None,
    each: int,
    most: int = 0,
    given_up: Callable[[], object] = lambda: False,
) -> None:
    """Advance until all jobs have come and gone, or the run is given up; looks at `stop` after `each` events.

    Raises KeyboardInterrupt if it is set, and with `most` a CoschedError if it is not done after so many events.
    """
    while not run.advance(events=each) and not given_up():
        if stop is not None and stop.is_set():
            raise KeyboardInterrupt
        if most and run.stats().events > most:
            raise CoschedError(f"this load is more than the nodes bear: not done after {most:g} events", FAILED)


def ratio(above: float, below: float) -> float | None:
    """A share or a mean of what an engine counted; None where there was nothing."""
    return above / below if below else None
