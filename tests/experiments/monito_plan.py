# SPDX-License-Identifier: GPL-2.0-or-later
"""The experiment `monito`: the modes of Monito §5.2, its programs, and what was scaled down from its laboratory.

A mode is a way of receiving (tests/progs/fragments.c) and a scheduler. One measurement is a `Case`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from ctl.policy import MODULES

__all__ = ["MODES", "OURS", "PERIOD_MS", "PROGRAMS", "QUEUES", "SCALES", "Case", "Mode", "Program", "cases", "knobs"]


@dataclass(frozen=True, slots=True)
class Mode:
    """A way of receiving and a scheduler; policy None: the kernel's own."""

    reads: int  # in how many steps a message is read; 0: the library's own way, by polling
    spin: bool  # spin for sp before blocking
    policy: str | None = None


MODES: Final[Mapping[str, Mode]] = {
    "PVM": Mode(2, False),
    "SPIN": Mode(2, True),
    "MXI": Mode(1, False),
    "MXISPIN": Mode(1, True),
    "PRIO": Mode(2, False, "prio"),
    "PRIOSPIN": Mode(2, True, "prio"),
    "EXPLICIT": Mode(2, False, "explicit"),
}
"""Those of Monito §5.2, those under the kernel's own scheduler first."""

OURS: Final[Mapping[str, Mode]] = {"MPI": Mode(0, False), "MPI, implicit": Mode(0, False, "implicit")}
"""Not the paper's: the library's own receive, which polls, and spin-block by the scheduler."""


def knobs(policy: str | None) -> dict[str, Any]:
    """Of a policy. The slots are the paper's, and only ranks that poll need sensors, to be seen waiting."""
    if policy is None:
        return {}
    sensors = "on" if policy == "implicit" else "off"
    return {**dict.fromkeys(MODULES, "policy"), "sensors": sensors, "slot_run_ms": 90, "slot_stop_ms": 10}


@dataclass(frozen=True, slots=True)
class Program:
    """A distributed program: its source in tests/progs; KB of a rank, rounds, and what scales a round's CPU time."""

    source: str
    kb: int
    rounds: int
    work: int


PROGRAMS: Final = {
    "sintree": Program("sintree.c", 1, 2500, 1),
    "mg": Program("nas/mg.c", 256, 300, 8),
    "is": Program("nas/is.c", 128, 600, 1),
}

QUEUES: Final = Program("sintree.c", 2048, 20, 1)
"""sintree where its queues are looked at: messages of 2 MB, as in Monito F. 3."""
PERIOD_MS: Final = 20
"""Of `ctl netmon`."""


class Case(NamedTuple):
    """One measurement, by its kind.

    time: how long a program takes beside `load` compilers on each node; local: how long a compiler takes beside a
    program; queues: what `ctl netmon` sees of sintree with large messages beside `load` compilers.
    """

    kind: str
    program: str
    mode: str
    load: int


def cases() -> list[Case]:
    """All, in the order in which they are made: what the paper says most of comes first."""
    found = [*_of("sintree", (0, 1)), *(Case("queues", "sintree", "PVM", load) for load in (0, 3))]
    found += [*_of("mg", (0, 1)), *_of("is", (0, 1)), *_of("sintree", (0, 1), OURS)]
    return found + [Case("time", "sintree", mode, load) for mode in MODES for load in (2, 3)]


def _of(program: str, loads: tuple[int, ...], modes: Iterable[str] = MODES) -> Iterator[Case]:
    for mode in modes:
        yield Case("local", program, mode, 1)
        yield from (Case("time", program, mode, load) for load in loads)


SCALES: Final = (
    ("nodes", "4 PCs, Pentium II of 350 MHz", "virtual machines of 1 emulated CPU, 500 million instructions a second"),
    ("network", "Fast Ethernet, 100 Mbit/s", "virtio; a packet takes up to 0.1 ms"),
    ("ranks", "M = 4, one on a node", "one on each node"),
    ("sintree", "N = 30,000 and 70,000 iterations", f"{PROGRAMS['sintree'].rounds:,} iterations, messages of 1 KB"),
    ("is, mg", "NAS, class A", "kernels with their communication, tests/progs/nas/, a second or two each"),
    ("PVM's receive", "head and body of a message in two reads; blocks", "the same over MPI: tests/progs/fragments.c"),
    ("PVM's scheduler", "Linux 2.2's", "EEVDF"),
    ("local load", "compiling applications", "cc1 -O2 of a generated file, over and over"),
    (
        "Netmon",
        "sp = 100 µs, mt = 200 s",
        f"`ctl netmon` each {PERIOD_MS} ms, while sintree runs with messages of 2 MB",
    ),
    ("queues", "DontRoute: sockets of PVM's daemons", "sockets of the ranks; MPI has no daemons on a message's way"),
)
