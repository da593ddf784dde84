# SPDX-License-Identifier: GPL-2.0-or-later
"""The figures of `ctl netmon`, each declared once: its column, its key in JSON and CSV, its panel in a plot.

The groups stand in the order of a message's way: the MPI library, the sockets, the queue before the device, the device,
and on the other side the backlog of the CPU. The paper's names are in Monito's Table 2.

>>> BY_KEY["sockets.rcv_bytes"].head
'rcvB'
"""

from __future__ import annotations

from typing import Final, NamedTuple

__all__ = ["BY_KEY", "FIGURES", "GROUPS", "KINDS", "OF_OWNERS", "Figure"]


class Figure(NamedTuple):
    """One figure."""

    group: str
    name: str
    head: str  # of its column, at most 5 characters; empty: not in the lines for people
    counts: bool  # a count of the period, not a level at its end
    unit: str
    meaning: str
    loss: bool = False  # anything but 0 is a message lost, or sent again
    fixed: bool = False  # it does not change: no trend, no panel

    @property
    def key(self) -> str:
        """Its name among all: a column of CSV."""
        return f"{self.group}.{self.name}"


GROUPS: Final = ("mpi", "sockets", "qdisc", "device", "softnet")
KINDS: Final = ("node", "job", "task")
"""Of whom there are figures, the coarsest first."""
OF_OWNERS: Final = ("mpi", "sockets")
"""The groups that jobs and tasks have, too."""

FIGURES: Final = (
    Figure("mpi", "posted", "post", False, "receives", "posted, and waiting for their message"),
    Figure("mpi", "unexpected", "unexp", False, "messages", "arrived, and waiting for their receive"),
    Figure("sockets", "rcv_bytes", "rcvB", False, "bytes", "in receive queues of TCP and UDP"),
    Figure("sockets", "snd_bytes", "sndB", False, "bytes", "in send queues: not sent, or not acknowledged"),
    Figure("sockets", "snd_segments", "", False, "segments", "TCP: sent and not acknowledged"),
    Figure("sockets", "rcv_packets", "rcvP", False, "packets", "in receive queues of jobs, as the sensors count them"),
    Figure("sockets", "snd_packets", "sndP", False, "packets", "in send queues of jobs, as the sensors count them"),
    Figure("sockets", "rcv_fill", "fill%", False, "percent", "the fullest receive queue, of its SO_RCVBUF"),
    Figure("sockets", "retransmits", "retr", True, "segments", "TCP: sent again", True),
    Figure("sockets", "drops", "drop", True, "packets", "dropped at sockets", True),
    Figure("sockets", "count", "", False, "sockets", "TCP and UDP, without those that listen"),
    Figure("qdisc", "packets", "pkts", False, "packets", "in the device's qdisc"),
    Figure("qdisc", "bytes", "", False, "bytes", "in the device's qdisc"),
    Figure("qdisc", "drops", "drop", True, "packets", "dropped by the qdisc", True),
    Figure("device", "ring_bytes", "ring", False, "bytes", "in the rings for sending (byte queue limits)"),
    Figure("device", "tx_ring", "", False, "packets", "that the rings for sending hold", fixed=True),
    Figure("device", "rx_ring", "", False, "packets", "that the rings for receiving hold", fixed=True),
    Figure("device", "tx_packets", "tx", True, "packets", "sent"),
    Figure("device", "rx_packets", "rx", True, "packets", "received"),
    Figure("device", "tx_bytes", "", True, "bytes", "sent"),
    Figure("device", "rx_bytes", "", True, "bytes", "received"),
    Figure("device", "tx_drops", "txdr", True, "packets", "dropped on the way out", True),
    Figure(
        "device", "rx_drops", "rxdr", True, "packets", "dropped on the way in: no room in the ring, no memory", True
    ),
    Figure("device", "collisions", "", True, "packets", "collided"),
    Figure("softnet", "packets", "pkts", False, "packets", "in the backlogs of the CPUs"),
    Figure("softnet", "drops", "drop", True, "packets", "dropped, because a backlog was full", True),
    Figure("softnet", "squeezed", "", True, "times", "a softirq ran out of its time"),
)

BY_KEY: Final = {figure.key: figure for figure in FIGURES}
