# SPDX-License-Identifier: GPL-2.0-or-later
"""One look at all queues, and what was counted since the look before."""

from __future__ import annotations

import contextlib
import time
from typing import Final, Self

from ctl.kernel.net_device import Counters, Device, QdiscQueue, Softnet, SoftnetQueue
from ctl.monitor.netmon.figures import BY_KEY, FIGURES, GROUPS, OF_OWNERS
from ctl.monitor.netmon.mpi import Ranks
from ctl.monitor.netmon.rows import NODE, Sample, Values
from ctl.monitor.netmon.sockets import SocketQueues

__all__ = ["PERIOD_S", "Sampler"]

PERIOD_S: Final = 0.1
"""The period, if none is given (B-MO-4)."""


class Sampler:
    """Looks at the queues of this node; a context manager."""

    def __init__(self, device: str, finest: str = "job", period_s: float = PERIOD_S) -> None:
        """Open everything; counts begin now. Raises CoschedError.

        `finest`: the finest of KINDS that is told of; `period_s`: how often samples will be taken.
        """
        with contextlib.ExitStack() as stack:
            self.device = stack.enter_context(Device(device))
            rx_ring, tx_ring = self.device.rings() or (None, None)
            self._fixed: Values = {"device.rx_ring": rx_ring, "device.tx_ring": tx_ring}
            self._softnet = stack.enter_context(Softnet())
            self._sockets = stack.enter_context(contextlib.closing(SocketQueues(finest)))
            self._ranks = stack.enter_context(contextlib.closing(Ranks(period_s, finest)))
            self._sockets.read()  # counts begin here
            self._last, self._at = self._counters(), time.monotonic()
            self._open = stack.pop_all()

    def sample(self) -> Sample:
        """The queues now, and the counts since the sample before. Raises CoschedError if the device is gone."""
        rows, now = self._sockets.read(), time.monotonic()
        self._ranks.add_to(rows)
        last, self._last = self._last, self._counters()
        seconds, self._at = now - self._at, now
        for key, value in self._last.items():
            rows[NODE][key] = value - (last[key] or 0) if BY_KEY[key].counts and value is not None else value
        unknown = {} if "sockets.rcv_packets" in rows[NODE] else _UNSENSED
        whole = {owner: _BLANK[owner.kind] | unknown | values for owner, values in rows.items()}
        return Sample(time.time(), seconds, whole)

    def _counters(self) -> Values:
        """The figures of the device and of softnet, counts since boot."""
        found = (*self.device.qdisc(), *self.device.counters(), *self._softnet.read(), self.device.ring_bytes())
        return dict(zip(_COUNTERS, found, strict=True)) | self._fixed

    def close(self) -> None:
        """Close everything."""
        self._open.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


_COUNTERS: Final = (
    *(f"qdisc.{name}" for name in QdiscQueue._fields),
    *(f"device.{name}" for name in Counters._fields),
    *(f"softnet.{name}" for name in SoftnetQueue._fields),
    "device.ring_bytes",
)
_BLANK: Final[dict[str, Values]] = {
    kind: {figure.key: None if figure.group == "mpi" else 0 for figure in FIGURES if figure.group in groups}
    for kind, groups in (("node", GROUPS), ("job", OF_OWNERS), ("task", OF_OWNERS))
}
"""All figures that such an owner has, in the order of FIGURES, where nothing was found."""
_UNSENSED: Final[Values] = {"sockets.rcv_packets": None, "sockets.snd_packets": None}
