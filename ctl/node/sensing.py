# SPDX-License-Identifier: GPL-2.0-or-later
"""The agent's sensors: their state (on, starting, off, or failed with the reason), and a look every second.

The sensor of sockets runs as soon as it is loaded. Page faults and user input are compiled in a thread meanwhile, for
seconds; the state is "starting" until then. An agent that ends does not wait for this thread.

The agent's loop runs before all other tasks, so looks and probes are a thread's work: to attach the probes of a kind of
sockets takes a tenth of a second on a slow CPU, in which a local task would not run.
"""

from __future__ import annotations

import asyncio
import functools
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from ctl.errors import CoschedError
from ctl.kernel.prompt import stay_in_memory
from ctl.policy import Settings

if TYPE_CHECKING:
    from ctl.kernel.sensors import Sensors

__all__ = ["NodeSensors"]

_LOOK_EVERY: Final = 1.0  # seconds
_COMPILED: Final = ("faults", "input")


class NodeSensors:
    """Starts and stops the sensors without holding up the event loop."""

    def __init__(
        self, tell: Callable[..., None], settings: Settings, input_seen: Callable[[], None],
        jobs: Callable[[], bool] = lambda: True,
    ) -> None:
        """`tell(kind, text, **details)` is called at every change; `settings` has the knobs unread_ms and classify;
        `input_seen` is called when a user did something after a pause, and when the sensors came or went; `jobs` tells
        whether there are any."""
        self.state, self.reason = "off", ""
        self._tell, self._settings, self._input_seen, self._jobs = tell, settings, input_seen, jobs
        self._readers: set[int] = set()
        self._sensors: Sensors | None = None
        self._compiling: asyncio.Future[None] | None = None
        self._next_look: asyncio.TimerHandle | None = None
        self._aside: set[asyncio.Future[None]] = set()  # a thread's work under way
        self._began = 0.0

    async def start(self) -> None:
        """Observe sockets, and the rest once it is compiled. Raises CoschedError; the state is then `failed`."""
        if self.state in ("on", "starting"):
            return
        self._end()  # of a start that failed half-way
        self.state, self.reason = "starting", "page faults and user input: compiling"
        self._began = time.monotonic()

        def start() -> Sensors:
            from ctl.kernel.sensors import Sensors

            sensors = self._sensors or Sensors()
            sensors.start({"sockets"})
            return sensors

        loop = asyncio.get_running_loop()
        try:
            self._sensors = await loop.run_in_executor(None, start)
        except CoschedError as error:
            self.state, self.reason = "failed", str(error)
            raise
        self.settings_changed()
        self._read(self._sensors.signal_fd(), self._kind_counts)
        self._look_later()
        took = time.monotonic() - self._began
        self._tell("sensors", f"sockets observed after {took:.1f} s", action="sockets", seconds=took)
        self._compiling = loop.create_future()
        threading.Thread(target=self._compile, args=(self._sensors, loop, self._compiling), daemon=True).start()

    def _compile(self, sensors: Sensors, loop: asyncio.AbstractEventLoop, done: asyncio.Future[None]) -> None:
        """Start the sensors that must be compiled; in a thread of its own."""
        failed: Exception | None = None
        try:
            sensors.start(_COMPILED)
            stay_in_memory()  # the agent did so, or failed, when it started
        except Exception as error:
            failed = error
        if not loop.is_closed():
            loop.call_soon_threadsafe(self._compiled, done, failed)

    def _compiled(self, done: asyncio.Future[None], failed: Exception | None) -> None:
        self._compiling = None
        done.set_result(None)
        if self._sensors is None or self.state != "starting":
            return
        took = time.monotonic() - self._began
        if failed is not None:
            self.state, self.reason = "failed", f"sockets are observed, page faults and user input are not: {failed}"
            self._tell("sensors", f"sensors: {failed}", action="failed", seconds=took)
            return
        self.state, self.reason = "on", ""
        self._read(self._sensors.input_fd(), self._heard_input)
        self._input_seen()
        self._tell("sensors", f"sensors on after {took:.1f} s", action="on", seconds=took)

    async def stop(self) -> None:
        """Detach. The sensors' maps stay pinned: the scheduler has them open, and the next start must find them."""
        if self.state == "off":
            return
        if self._compiling is not None:
            await self._compiling
        self._end()
        await self._settled()
        if self._sensors is not None:
            stop = functools.partial(self._sensors.stop, unpin=False)
            await asyncio.get_running_loop().run_in_executor(None, stop)
        self._tell("sensors", "sensors off", action="off")
        self._input_seen()

    async def close(self) -> None:
        """Detach, and close all maps; a compilation under way ends with the process."""
        self._end()
        await self._settled()
        if self._sensors is not None and self._compiling is None:
            await asyncio.get_running_loop().run_in_executor(None, self._sensors.close)

    def settings_changed(self) -> None:
        """Let the sockets of all tasks count under classify=mes: there each task with messages is parallel."""
        if self._sensors is not None:
            self._sensors.count_everyone(self._settings.word("classify") == "mes")

    def cpu(self, number: int, *, online: bool) -> None:
        """Note that a CPU came or went."""
        if sensors := self.reading("faults"):
            (sensors.cpu_online if online else sensors.cpu_offline)(number)

    def reading(self, sensor: str = "sockets") -> Sensors | None:
        """The sensors, for reading; None while this one does not run."""
        return self._sensors if self._sensors is not None and sensor in self.active() else None

    def active(self) -> list[str]:
        """The names of the sensors that observe now."""
        return sorted(self._sensors.active) if self._sensors is not None and self.state != "off" else []

    def lost(self) -> dict[str, int]:
        """Statistics of lost observations, by name."""
        sensors = self.reading()
        if sensors is None:
            return {}
        seen = sensors.sensed()
        return {
            "threads_unobserved": seen.lost_threads,
            "sockets_unobserved": seen.lost_sockets,
            "socket_events_missed": sensors.missed(),
        }

    def _look_later(self) -> None:
        if self._next_look is not None:
            self._next_look.cancel()
        self._next_look = asyncio.get_running_loop().call_later(_LOOK_EVERY, self._look)

    def _look(self) -> None:
        assert self._sensors is not None
        unread_ms = int(self._settings.number("unread_ms"))

        def looked(done: asyncio.Future[None]) -> None:
            if self.state != "off":
                self._look_later()
            done.result()  # an error is logged, and does not end the looks

        look = functools.partial(self._sensors.look_again, jobs=self._jobs())
        self._put_aside(look, unread_ms).add_done_callback(looked)

    def _read(self, descriptor: int, heard: Callable[[Sensors, int], Any]) -> None:
        self._readers.add(descriptor)
        assert self._sensors is not None
        asyncio.get_running_loop().add_reader(descriptor, heard, self._sensors, descriptor)

    def _heard_input(self, sensors: Sensors, _descriptor: int) -> None:
        sensors.take_input()
        self._input_seen()

    def _kind_counts(self, sensors: Sensors, descriptor: int) -> None:
        """A job has the first socket of a kind: attach the probes of this kind, in a thread."""
        asyncio.get_running_loop().remove_reader(descriptor)

        def attended(_: object) -> None:
            if descriptor in self._readers:
                self._read(descriptor, self._kind_counts)

        self._put_aside(sensors.attend).add_done_callback(attended)

    def _put_aside(self, work: Callable[..., None], *arguments: object) -> asyncio.Future[None]:
        """Have a thread work, which waits its turn as other tasks do."""
        future = asyncio.get_running_loop().run_in_executor(None, work, *arguments)
        self._aside.add(future)
        future.add_done_callback(self._aside.discard)
        return future

    async def _settled(self) -> None:
        """Wait for the threads' work: after a stop it would attach probes anew."""
        await asyncio.gather(*self._aside, return_exceptions=True)

    def _end(self) -> None:
        """Stop reading and looking."""
        self.state, self.reason = "off", ""
        while self._readers:
            asyncio.get_running_loop().remove_reader(self._readers.pop())
        if self._next_look is not None:
            self._next_look.cancel()
            self._next_look = None
