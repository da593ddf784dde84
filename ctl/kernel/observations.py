# SPDX-License-Identifier: GPL-2.0-or-later
"""The sensors' observations as records: of threads, of sockets, of user input. bpf/cosched.h has the structs."""

from __future__ import annotations

from typing import Any, NamedTuple

from ctl.kernel.layout import constant

__all__ = ["Input", "Observation", "Sensed", "Socket", "read_observation", "read_socket"]


class Observation(NamedTuple):
    """The observations of a thread: struct obs."""

    rcv: int  # packets queued to be received
    snd: int  # packets queued to be sent
    socks: int  # sockets charged to it
    exited: bool  # the thread is gone, a socket still names it
    arrived: int  # packets ever queued for it
    sent: int  # packets that it ever queued
    majflt: int  # major faults ever, swap-ins included
    swapin: int  # of these, served from swap
    flt_at: int  # newest bucket of the fault window
    flt: tuple[int, ...]

    def faults_last_second(self, now_ns: int) -> int:
        """FLT at a time of CLOCK_MONOTONIC, as obs_flt() in observe.h counts it."""
        size = len(self.flt)
        age = max(0, (now_ns >> constant("FLT_SHIFT")) - self.flt_at)
        return sum(self.flt[(self.flt_at - i) % size] for i in range(size - age)) if age < size else 0


class Socket(NamedTuple):
    """The observations of a socket: struct sock_obs."""

    tid: int  # thread that it is charged to; 0: no thread
    tgid: int
    proto: int  # enum sock_proto
    rcv: int
    snd: int
    closed: bool  # closed, not yet destroyed
    changes: int = 0  # part of the level above, so far; wraps


class Sensed(NamedTuple):
    """The counters of the sensors: struct sensed."""

    lost_threads: int  # not observed: the map of threads is full
    lost_sockets: int  # not observed: no memory
    kinds: tuple[int, ...]  # sockets that count now, by enum sock_proto


class Input(NamedTuple):
    """User input: struct input_obs. Times are ns of CLOCK_MONOTONIC, 0: never."""

    key_ns: int
    rel_ns: int
    tty_ns: int
    keys: int
    rels: int
    ttys: int


def read_observation(raw: Any) -> Observation:
    """A struct obs *."""
    return Observation(
        raw.rcv,
        raw.snd,
        raw.socks,
        bool(raw.exited),
        raw.arrived,
        raw.sent,
        raw.majflt,
        raw.swapin,
        raw.flt_at,
        tuple(raw.flt),
    )


def read_socket(raw: Any) -> Socket:
    """A struct sock_obs *: the charge is one word."""
    bits, level_bits = constant("SOCK_TID_BITS"), constant("SOCK_LEVEL_BITS")
    charge, level = int(raw.charge), (1 << level_bits) - 1
    if charge == (1 << 64) - 1:
        return Socket(0, raw.tgid, raw.proto, 0, 0, True, raw.changes)
    rcv, snd = (charge >> bits) & level, charge >> (bits + level_bits)
    return Socket(charge & ((1 << bits) - 1), raw.tgid, raw.proto, rcv, snd, False, raw.changes)
