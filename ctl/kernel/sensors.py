# SPDX-License-Identifier: GPL-2.0-or-later
"""The sensors: probes that tell the scheduler and the monitor of page faults, socket queues and user input.

The sensor of sockets runs as soon as it is loaded (ctl/kernel/sockets.py). bcc compiles the other two first
(ctl/kernel/probes.py). Sensors and scheduler share pinned maps; the first of the two makes the maps.
"""

from __future__ import annotations

from collections.abc import Collection

from ctl.errors import USAGE, CoschedError
from ctl.kernel.observations import Input, Observation, Sensed, Socket, read_observation
from ctl.kernel.pins import PINS
from ctl.kernel.probes import COMPILED, Probes
from ctl.kernel.sockets import SocketSensor

__all__ = ["SENSORS", "Sensors"]

SENSORS = ("faults", "sockets", "input")
_PER_THREAD = frozenset({"faults", "sockets"})  # sensors that keep something per thread
_DEAD_EVERY = 10  # looks; until then the record of a thread whose end was missed does no harm


class Sensors:
    """The three sensors, and the names of the running ones.

    >>> with Sensors() as sensors:  # doctest: +SKIP
    ...     sensors.start({"faults", "sockets"})
    ...     sensors.observations()
    """

    def __init__(self, *, form: str = "fentry", every_kind: bool = False) -> None:
        """Nothing is loaded before the first start.

        `form`: see SocketSensor; `every_kind`: attach the probes of all kinds of sockets at once.
        """
        self.active: frozenset[str] = frozenset()
        self._every_kind = every_kind
        self._sockets = SocketSensor(form)
        self._probes = Probes()
        self._looks = 0

    def start(self, which: Collection[str] = SENSORS) -> None:
        """Run these sensors too: "faults", "sockets", "input". The first start of faults and input compiles.

        Raises CoschedError if a sensor is unknown, or if the kernel lacks a needed function or field; then no sensor
        runs, except the sensor of sockets if it ran before.
        """
        if unknown := sorted(set(which) - set(SENSORS)):
            raise CoschedError(f"unknown sensor {unknown[0]}, allowed: {', '.join(SENSORS)}", USAGE)
        running = bool(self.active)
        try:
            if not running:
                PINS.mkdir(parents=True, exist_ok=True)
                self._sockets.open()
                self._clear(frozenset(SENSORS))
            self._switch(self.active | frozenset(which))
        except BaseException:
            if running:
                self._switch(self.active & {"sockets"})
            else:
                self.close()
            raise

    def stop(self, which: Collection[str] = SENSORS, *, unpin: bool = True) -> None:
        """Stop these sensors and clear their observations; with the last sensor remove the pins, too, if unpin.

        What is compiled and loaded stays, so the next start is quick.
        """
        if not self.active:
            return
        stopped = self.active & frozenset(which)
        self._switch(self.active - stopped)
        self._clear(stopped)
        if unpin and not self.active:
            self.unpin()

    def close(self) -> None:
        """Stop all sensors and free the compiled and loaded probes."""
        if self.active:
            self.stop()
        self._probes.close()
        self._sockets.close()

    def pin(self) -> None:
        """Pin the shared maps that are not pinned."""
        self._sockets.pin()

    def unpin(self) -> None:
        """Remove the shared maps' pins; a process that has a map open keeps the map."""
        self._sockets.unpin()
        (PINS / "input").unlink(missing_ok=True)
        if PINS.is_dir() and not any(PINS.iterdir()):
            PINS.rmdir()

    def count_everyone(self, wanted: bool) -> None:
        """Let the sockets of all tasks count, not only those of jobs (for classify=mes)."""
        self._sockets.everyone = wanted

    def attend(self) -> None:
        """Attach the probes of the kinds of sockets that jobs have now; call this when signal_fd() is readable."""
        if "sockets" in self.active:
            self._sockets.attend()

    def signal_fd(self) -> int:
        """A descriptor that is readable when a job has the first socket of a kind."""
        return self._sockets.signal_fd

    def look_again(self, unread_ms: int = 0, *, jobs: bool = True) -> None:
        """Have the kernel look again at jobs' sockets, at times at threads, for missed changes. Call this every second.

        Messages that a task has left unread for `unread_ms` of its CPU time no longer count; 0: all messages count.
        `jobs`: whether there are any now; without, fewer functions are probed.
        """
        if "sockets" in self.active:
            self._sockets.look_again(unread_ms, jobs=jobs, every_kind=self._every_kind)
        if self.active & _PER_THREAD:
            self._looks += 1
            if self._looks % _DEAD_EVERY == 0:
                self.look_for_dead()

    def look_for_dead(self) -> None:
        """Forget threads whose end was a lost event."""
        self._sockets.look_for_dead()

    def cpu_online(self, cpu: int) -> None:
        """Count faults on a CPU that came online: the kernel drops its perf events when it goes."""
        self._probes.cpu_online(cpu)

    def cpu_offline(self, cpu: int) -> None:
        """Forget the events of a CPU that went offline."""
        self._probes.cpu_offline(cpu)

    def observations(self) -> dict[int, Observation]:
        """The observations of each thread, by thread id."""
        return {tid: read_observation(raw) for tid, raw in self._sockets.observations()}

    def observation(self, tid: int) -> Observation | None:
        """The observations of a thread; None if there are none."""
        return self._sockets.observation(tid)

    def sockets(self) -> dict[int, Socket]:
        """The sockets known, by kernel address."""
        return self._sockets.sockets()

    def missed(self) -> int:
        """The number of lost events of sockets; the next look corrects the levels."""
        return self._sockets.missed()

    def sensed(self) -> Sensed:
        """The numbers of unobserved threads and sockets, and of the sockets of each kind that count."""
        return self._sockets.sensed()

    def input(self) -> Input:
        """When the user last did something."""
        self._need("input")
        return self._probes.input()

    def input_fd(self) -> int:
        """A descriptor that is readable when input came after a pause; then call take_input()."""
        self._need("input")
        return self._probes.input_fd()

    def take_input(self) -> None:
        """Read the event that made input_fd() readable."""
        self._probes.take_input()

    def __enter__(self) -> Sensors:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _need(self, sensor: str) -> None:
        if sensor not in self.active:
            raise CoschedError(f"the sensor {sensor!r} does not run: start it first")

    def _switch(self, wanted: frozenset[str]) -> None:
        """Attach and detach until exactly the wanted sensors run."""
        if "sockets" in wanted and "sockets" not in self.active:
            self._sockets.start(every_kind=self._every_kind)
        elif "sockets" in self.active and "sockets" not in wanted:
            self._sockets.stop()
        self._sockets.watch_threads(bool(wanted & _PER_THREAD))
        self._probes.switch(wanted & frozenset(COMPILED))
        self.active = wanted

    def _clear(self, stopped: frozenset[str]) -> None:
        """Clear the observations of these sensors in the shared maps."""
        if "sockets" in stopped:
            self._sockets.forget()
        if "input" in stopped:
            self._probes.forget_input()
        for tid, raw in list(self._sockets.observations()):
            if "faults" in stopped:
                raw.majflt = raw.swapin = raw.swap_addr = raw.flt_at = 0
                raw.flt = [0] * len(raw.flt)
            if "sockets" in stopped:
                raw.rcv = raw.snd = raw.socks = raw.arrived = raw.sent = raw.exited = 0
            # a record begins with what its thread had faulted before, whichever sensor makes it
            keep = raw.socks or (raw.majflt and "faults" in self.active)
            self._sockets.write(tid, raw if keep else None)
