# SPDX-License-Identifier: GPL-2.0-or-later
"""The scheduler's object file: opened, given its constants and first knobs, and loaded into the kernel.

    constants = Constants(jobs_cgid=..., jobs_level=1, nr_cpus=2, key_shift=32, watchdog_ms=30000, partial=False)
    opened = loaded(path, constants, knobs.encode(values, "csm"))
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from ctl.errors import CoschedError
from ctl.kernel import layout, sysinfo
from ctl.kernel.btf import Btf, vmlinux
from ctl.kernel.layout import STATS, constant, ffi
from ctl.kernel.libbpf import BpfObject
from ctl.kernel.pins import PINS

__all__ = ["OPS", "Constants", "loaded", "set_knobs"]

OPS: Final = "cosched"
"""The struct_ops map; sched_ext shows the same name."""

_EXIT_DUMP: Final = 32768  # bytes; as large as exit_record.dump


@dataclass(frozen=True)
class Constants:
    """What cannot change once the object is loaded."""

    jobs_cgid: int
    jobs_level: int
    nr_cpus: int
    key_shift: int
    watchdog_ms: int
    partial: bool
    hotplug_seq: int = field(default_factory=sysinfo.hotplug_seq)  # the kernel refuses the object after a hotplug


def loaded(path: Path, constants: Constants, knobs: dict[str, int]) -> BpfObject:
    """Load the object with these constants and these first knobs (struct fields), its shared maps pinned.

    Raises CoschedError if it was not made from the same cosched.h, and LibbpfError.
    """
    opened = BpfObject(path, PINS)
    try:
        _check_layout(opened)
        _configure(opened, constants)
        _set_ops(opened, constants)
        set_knobs(_initial(opened, ".data.knobs", "struct knob_sets"), knobs)
        opened.load()
    except BaseException:
        opened.close()
        raise
    return opened


def set_knobs(sets: Any, knobs: dict[str, int]) -> None:
    """Set fields of the knob set in use, of an object whose scheduler does not run."""
    for name, value in knobs.items():
        setattr(sets.set[sets.active & 1], name, value)


def _check_layout(opened: BpfObject) -> None:
    """The object and this program must have been made from the same cosched.h."""
    sizes = {
        ".data.knobs": ffi.sizeof("struct knob_sets"),
        ".bss.exit": ffi.sizeof("struct exit_record"),
        ".bss.snap": ffi.sizeof("struct snapshot"),
        ".rodata.config": ffi.sizeof("struct config"),
        ".bss.stats": 8 * constant("MAX_CPUS") * constant("MAX_RULES") * len(STATS),
    }
    for name, size in sizes.items():
        there = opened.maps[name].value_size if name in opened.maps else 0
        if there != size:
            raise CoschedError(
                f"{opened.path} has {there} bytes of {name}, {layout.HEADER} says {size}: compile it again"
            )


def _configure(opened: BpfObject, constants: Constants) -> None:
    config: Any = _initial(opened, ".rodata.config", "struct config")
    config.jobs_cgid, config.jobs_level = constants.jobs_cgid, constants.jobs_level
    config.nr_cpus, config.key_shift = constants.nr_cpus, constants.key_shift
    config.watchdog_ms, config.partial = constants.watchdog_ms, constants.partial


def _initial(opened: BpfObject, name: str, struct: str) -> Any:
    """A section of an object that is not loaded yet."""
    return ffi.cast(f"{struct} *", ctypes.addressof(opened.maps[name].initial_value()))


def _set_ops(opened: BpfObject, constants: Constants) -> None:
    """Set the plain fields of struct sched_ext_ops; where they are, the object's own BTF says."""
    value = memoryview(opened.maps[OPS].initial_value()).cast("B")
    places = Btf(opened.btf).members("sched_ext_ops")
    fields = {
        "hotplug_seq": constants.hotplug_seq,
        "timeout_ms": constants.watchdog_ms,
        "exit_dump_len": _EXIT_DUMP,
    }
    if not constants.partial:  # a callback that is not there costs nothing
        fields["running"] = 0
    else:
        fields["flags"] = vmlinux().enum("scx_ops_flags")["SCX_OPS_SWITCH_PARTIAL"]
    for name, number in fields.items():
        at, size = places[name]
        value[at : at + size] = number.to_bytes(size, "little")
