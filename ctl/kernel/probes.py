# SPDX-License-Identifier: GPL-2.0-or-later
"""The sensors that bcc compiles: page faults and user input, bpf/*.bcc.c."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import sys
from pathlib import Path
from typing import Any, Final

from ctl.errors import CoschedError
from ctl.kernel.btf import vmlinux
from ctl.kernel.layout import HEADER
from ctl.kernel.observations import Input
from ctl.kernel.pins import PINS, map_id, pinned_map_id

__all__ = ["COMPILED", "Probes", "not_installed"]

COMPILED: Final = ("faults", "input")
_SOURCES: Final = ("sensors", "faults", "input")  # bpf/*.bcc.c, one program to bcc
_SHARED: Final = ("obs", "sensed")  # maps of sockets.bpf.o, by their pins
_FIELDS: Final = {
    "F_TASK_MAJ_FLT": "task_struct.maj_flt",
    "F_FAULT_ADDRESS": "vm_fault.real_address",
    "F_TTY_DRIVER": "tty_struct.driver",
    "F_DEV_KEYS": "input_dev.keybit",
    "F_DRIVER_TYPE": "tty_driver.type",
    "F_DRIVER_SUBTYPE": "tty_driver.subtype",
}
_ENUMERATORS: Final = {
    "TTY_PTY": ("tty_driver_type", "TTY_DRIVER_TYPE_PTY"),
    "PTY_MASTER": ("tty_driver_subtype", "PTY_TYPE_MASTER"),
}
_KPROBES: Final = {  # kernel function -> program
    "faults": {"do_swap_page": "on_swap_fault"},
    "input": {"input_event_dispose": "on_input", "n_tty_receive_buf_common": "on_tty_input"},
}
_MAJOR_FAULTS: Final = (1, 6)  # linux/perf_event.h: PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS_MAJ


def not_installed() -> str:
    """What compiling needs and this machine has not, and what to install; "" where all is there. Imports nothing."""
    needs = "the sensors of page faults and user input need"
    if sys.modules.get("bcc", True) is None or importlib.util.find_spec("bcc") is None:
        return f"{needs} bcc: install python3-bpfcc"
    headers = Path("/lib/modules", os.uname().release, "build"), Path("/sys/kernel/kheaders.tar.xz")
    if not any(path.exists() for path in headers):
        return f"{needs} the kernel's headers, and {headers[0]} is not there: install the linux-headers of this kernel"
    return ""


class Probes:
    """The probes that bcc compiled, once, and the names of the running sensors."""

    def __init__(self) -> None:
        """Nothing is compiled before the first switch()."""
        self.active: frozenset[str] = frozenset()
        self._bpf: Any = None

    def open(self) -> None:
        """Compile the probes on the pinned maps: 1 s, 8 s under TCG. Raises CoschedError."""
        if self._bpf is not None:
            ours = {name: map_id(self._bpf[name].get_fd()) for name in _SHARED}
            if any(pinned_map_id(PINS / name) not in (None, ours[name]) for name in _SHARED):
                self.close()
        if self._bpf is None:
            self._bpf = self._compile()
            self._bpf["input_signal"].open_ring_buffer(lambda _cpu, _data, _size: None)

    def _compile(self) -> Any:
        """Compile the probes against this kernel's field offsets."""
        try:
            from bcc import BPF
        except ImportError as error:
            raise CoschedError(not_installed() or f"bcc cannot be imported: {error}") from error
        flags = [f"-D{macro}={vmlinux().offset(path)}" for macro, path in _FIELDS.items()]
        flags += [f"-D{macro}={vmlinux().enum(enum)[name]}" for macro, (enum, name) in _ENUMERATORS.items()]
        flags += [f'-DPIN_DIR="{PINS}"', f"-I{HEADER.parent}", "-Wno-macro-redefined"]
        sources = [HEADER.parent / f"{name}.bcc.c" for name in _SOURCES]
        try:
            return BPF(text="".join(f'#line 1 "{path}"\n{path.read_text()}' for path in sources), cflags=flags)
        except Exception as error:
            raise CoschedError(not_installed() or f"bcc did not compile or load the sensors: {error}") from error

    def close(self) -> None:
        """Stop all sensors and free the compiled probes."""
        if self._bpf is not None:
            self._switch(frozenset())
        self._let_go()

    def _let_go(self) -> None:
        self.active = frozenset()
        if self._bpf is not None:
            self._bpf.cleanup()
            self._bpf = None

    def switch(self, wanted: frozenset[str]) -> None:
        """Attach and detach until exactly these run. Raises CoschedError naming the function that cannot be probed."""
        try:
            self._switch(wanted)
        except BaseException:
            self._let_go()
            raise

    def _switch(self, wanted: frozenset[str]) -> None:
        if wanted:
            self.open()
        for sensor in COMPILED:
            if sensor in self.active and sensor not in wanted:
                self._detach(_KPROBES[sensor])
            elif sensor in wanted and sensor not in self.active:
                self._attach(_KPROBES[sensor])
        self._switch_fault_event("faults" in wanted)
        self.active = wanted

    def _attach(self, kprobes: dict[str, str]) -> None:
        for function, program in kprobes.items():
            try:
                self._bpf.attach_kprobe(event=function, fn_name=program)
            except Exception as error:
                raise CoschedError(f"cannot probe {function}(): {error}: the sensors know Linux 7.2") from error

    def _detach(self, kprobes: dict[str, str]) -> None:
        """Detach the attached probes."""
        for function in kprobes:
            if b"p_" + function.encode() in self._bpf.kprobe_fds:
                self._bpf.detach_kprobe(event=function)

    # faults

    def cpu_online(self, cpu: int) -> None:
        """Count faults on a CPU that came online: the kernel drops its perf events when it goes."""
        if "faults" in self.active and cpu not in self._fault_cpus():
            self._open_fault_event(cpu)

    def cpu_offline(self, cpu: int) -> None:
        """Forget the events of a CPU that went offline."""
        events = self._fault_cpus() if "faults" in self.active else {}
        if cpu in events:
            os.close(events.pop(cpu))

    def _fault_cpus(self) -> dict[int, int]:
        """CPUs whose major faults are seen, with their event's file descriptor."""
        found: dict[int, int] = self._bpf.open_perf_events.get(_MAJOR_FAULTS, {})
        return found

    def _open_fault_event(self, cpu: int) -> None:
        """See the major faults on one CPU."""
        kind, config = _MAJOR_FAULTS
        others = self._fault_cpus()
        try:
            self._bpf.attach_perf_event(
                ev_type=kind, ev_config=config, fn_name="on_major_fault", sample_period=1, cpu=cpu
            )
        except Exception as error:
            raise CoschedError(f"cannot count major faults on CPU {cpu}: {error}") from error
        self._fault_cpus().update(others)

    def _switch_fault_event(self, wanted: bool) -> None:
        """See the major faults of every online CPU, or of none."""
        if wanted and "faults" not in self.active:
            from bcc.utils import get_online_cpus

            for cpu in get_online_cpus():
                self._open_fault_event(cpu)
        elif not wanted and self._bpf is not None and self._fault_cpus():
            self._bpf.detach_perf_event(*_MAJOR_FAULTS)

    # input

    def input(self) -> Input:
        """When the user last did something."""
        raw = self._bpf["input"][ctypes.c_int(0)]
        return Input(*(int(getattr(raw, name)) for name in Input._fields))

    def forget_input(self) -> None:
        """Clear the record of input."""
        if self._bpf is not None:
            self._bpf["input"][ctypes.c_int(0)] = self._bpf["input"].Leaf()

    def input_fd(self) -> int:
        """A descriptor that is readable when input came after a pause; then call take_input()."""
        return int(self._bpf["input_signal"].map_fd)

    def take_input(self) -> None:
        """Read the event that made input_fd() readable."""
        self._bpf.ring_buffer_consume()
