# SPDX-License-Identifier: GPL-2.0-or-later
"""The agent's sensors: their state (on, off, or failed with the reason), and a sweep every second while they are on."""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from ctl.errors import CoschedError
from ctl.kernel.prompt import stay_in_memory
from ctl.policy import Settings

if TYPE_CHECKING:
    from ctl.kernel.sensors import Sensors

__all__ = ["NodeSensors"]

_SWEEP_EVERY: Final = 1.0  # seconds


class NodeSensors:
    """Starts and stops the sensors without holding up the event loop: compiling takes seconds, detaching one."""

    def __init__(
        self, tell: Callable[..., None], settings: Settings, input_seen: Callable[[], None]
    ) -> None:
        """`tell(kind, text, **details)` is called at every change; `settings` has the knob unread_ms;
        `input_seen` is called when a user did something after a pause, and when the sensors came or went."""
        self.state, self.reason = "off", ""
        self._tell, self._settings, self._input_seen = tell, settings, input_seen
        self._input_fd = -1
        self._sensors: Sensors | None = None
        self._next_sweep: asyncio.TimerHandle | None = None

    async def start(self) -> None:
        """Compile and attach, if they are not on. Raises CoschedError; the state is then `failed`, with the reason."""
        if self.state == "on":
            return
        self.state, self.reason = "starting", ""
        began = time.monotonic()

        def start() -> Sensors:
            from ctl.kernel.sensors import Sensors  # bcc takes a second to import

            sensors = self._sensors or Sensors()
            sensors.start()
            stay_in_memory()  # the agent did so, or failed, when it started
            return sensors

        try:
            self._sensors = await asyncio.get_running_loop().run_in_executor(None, start)
        except CoschedError as error:
            self.state, self.reason = "failed", str(error)
            raise
        self.state = "on"
        self._sweep_later()
        self._input_fd = self._sensors.input_fd()
        asyncio.get_running_loop().add_reader(self._input_fd, self._heard_input, self._sensors)
        self._input_seen()
        took = time.monotonic() - began
        self._tell("sensors", f"sensors on after {took:.1f} s", action="on", seconds=took)

    async def stop(self) -> None:
        """Detach. The sensors' maps stay pinned: the scheduler has them open, and the next start must find them."""
        if self.state == "off":
            return
        self._end_sweeps()
        self.state, self.reason = "off", ""
        if self._sensors is not None:
            stop = functools.partial(self._sensors.stop, unpin=False)
            await asyncio.get_running_loop().run_in_executor(None, stop)
        self._tell("sensors", "sensors off", action="off")
        self._input_seen()

    async def close(self) -> None:
        """Detach, and close all maps."""
        self._end_sweeps()
        self.state = "off"
        if self._sensors is not None:
            await asyncio.get_running_loop().run_in_executor(None, self._sensors.close)

    def cpu(self, number: int, *, online: bool) -> None:
        """Note that a CPU came or went."""
        if sensors := self.reading():
            (sensors.cpu_online if online else sensors.cpu_offline)(number)

    def reading(self) -> Sensors | None:
        """The sensors, for reading; None while they are off."""
        return self._sensors if self.state == "on" else None

    def _sweep_later(self) -> None:
        self._next_sweep = asyncio.get_running_loop().call_later(_SWEEP_EVERY, self._sweep)

    def _sweep(self) -> None:
        assert self._sensors is not None
        try:
            self._sensors.sweep(int(self._settings.number("unread_ms")))
        finally:  # an error is logged, and does not end the sweeps
            self._sweep_later()

    def _heard_input(self, sensors: Sensors) -> None:
        sensors.take_input()
        self._input_seen()

    def _end_sweeps(self) -> None:
        if self._input_fd >= 0:
            asyncio.get_running_loop().remove_reader(self._input_fd)
            self._input_fd = -1
        if self._next_sweep is not None:
            self._next_sweep.cancel()
            self._next_sweep = None
