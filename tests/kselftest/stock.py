# SPDX-License-Identifier: GPL-2.0-or-later
"""Loaded scheduler objects that the quick form's tests, and the agents that they fork, attach in place of loading one.

To load the scheduler takes an emulated CPU four seconds, most of it in the kernel's verifier, and the tests load it two
hundred times. So the runner loads it once for each contract, and its forks inherit the descriptors. Who borrows an
object finds it as if it were loaded anew: data sections, maps and ring buffers are as they were after the load, and the
shared maps are pinned again. A test whose constants are others (struct config), or beside which sensors run on other
maps, loads an object of its own, and so do all in the full form and all of test `lifecycle`.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ctl.kernel import objects
from ctl.kernel.cgroups import JobCgroups
from ctl.kernel.layout import ffi
from ctl.kernel.libbpf import BpfObject
from ctl.kernel.objects import Constants
from ctl.kernel.pins import PINS, map_id, pin, pinned_map_id, remove_pins
from ctl.kernel.refusal import check_cpus
from ctl.kernel.ringbuf import RingBuffer
from ctl.policy import defaults
from ctl.process.daemon import object_path

__all__ = ["anew", "descriptors", "fill", "share"]

_SHARED: Final = ("obs", "socks", "sensed")  # with the sensors, by pins
_HASHES: Final = ("jobs", "job_states", "job_places", "jobs_here", "obs")
_RINGS: Final = ("decisions", "joins")
_KEY_SHIFT: Final = 32  # the default of Scheduler.load()

_load = objects.loaded


@dataclass(frozen=True)
class _Held:
    opened: BpfObject
    sections: dict[str, bytes]  # as they were after the load
    descriptors: frozenset[int]


_stock: dict[Constants, _Held] = {}


class _Borrowed(BpfObject):
    """An object that stays loaded when the borrower closes it."""

    def __init__(self, held: _Held) -> None:
        opened = held.opened
        self._lib, self.path, self.pointer = opened._lib, opened.path, opened.pointer
        self.maps, self.programs = opened.maps, opened.programs

    def close(self) -> None:
        self.pointer = None


def fill() -> None:
    """Have an object for each contract, loaded on this machine as it is now, and lend them from now on."""
    groups = JobCgroups()
    groups.prepare()
    JobCgroups.dissolve = JobCgroups.remove_empty  # type: ignore[assignment,method-assign]  # its cgid is constant
    watchdog_ms = int(defaults()["watchdog_ms"] or 0)
    wanted = [
        Constants(groups.cgid, groups.level, check_cpus(), _KEY_SHIFT, watchdog_ms, partial)
        for partial in (False, True)
    ]
    if list(_stock) != wanted:
        for held in _stock.values():
            held.opened.close()
        _stock.clear()
        for constants in wanted:  # the second finds the first one's shared maps by their pins
            _stock[constants] = _loaded(constants)
        remove_pins()
    objects.loaded = _lend


def share() -> None:
    """Pin the shared maps, emptied, where nobody has pinned any, so that sensors started now run on them."""
    if objects.loaded is _lend and not PINS.is_dir():
        held = next(iter(_stock.values()))
        _renew(held)
        _pin(held)


def anew() -> None:
    """Load an object each time, in this process and those that it forks."""
    objects.loaded = _load


def descriptors() -> frozenset[int]:
    """The descriptors of the objects: who closes all others can still borrow."""
    return frozenset().union(*(held.descriptors for held in _stock.values()))


def _loaded(constants: Constants) -> _Held:
    before = _open_descriptors()
    opened = _load(object_path(), constants, {})
    sections = {name: _read(opened, name) for name in opened.maps if name.startswith((".data", ".bss"))}
    return _Held(opened, sections, _open_descriptors() - before)


def _open_descriptors() -> frozenset[int]:
    return frozenset(map(int, os.listdir("/proc/self/fd")))


def _read(opened: BpfObject, name: str) -> bytes:
    with opened.maps[name].mmap(writable=False) as memory:
        return memory[:]


def _lend(path: Path, constants: Constants, knobs: dict[str, int]) -> BpfObject:
    """As objects.loaded()."""
    held = _stock.get(constants)
    if held is None or path != object_path() or _others_pinned(held.opened):
        return _load(path, constants, knobs)
    _renew(held)
    _pin(held)
    opened = _Borrowed(held)
    sets = ffi.from_buffer("struct knob_sets *", opened.maps[".data.knobs"].mmap(writable=True))
    objects.set_knobs(sets, knobs)
    return opened


def _pin(held: _Held) -> None:
    PINS.mkdir(parents=True, exist_ok=True)
    for name in _SHARED:
        if name in held.opened.maps and not (PINS / name).exists():
            pin(held.opened.maps[name].fd, PINS / name)


def _others_pinned(opened: BpfObject) -> bool:
    """Whether sensors run on maps of their own."""
    there = {name: pinned_map_id(PINS / name) for name in _SHARED if name in opened.maps}
    return any(number not in (None, map_id(opened.maps[name].fd)) for name, number in there.items())


def _renew(held: _Held) -> None:
    """All as it was after the load, but for what sensors that run have observed."""
    for name, content in held.sections.items():
        with held.opened.maps[name].mmap(writable=True) as memory:
            memory[:] = content
    for name in _HASHES:
        if name in _SHARED and (PINS / name).exists():
            continue
        for key in list(held.opened.maps[name].keys()):
            held.opened.maps[name].delete(key)
    for name in _RINGS:
        ring = RingBuffer(held.opened.maps[name].fd, lambda _: None, 1)
        while ring.consume():
            pass
        ring.close()
