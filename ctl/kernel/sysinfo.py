# SPDX-License-Identifier: GPL-2.0-or-later
"""The kernel's own figures in sysfs and procfs: sched_ext, memory, pressure, counters."""

from __future__ import annotations

import ctypes
import os
import re
from pathlib import Path
from typing import TypedDict

from ctl.kernel.kernfs import keyed, numbers, read

__all__ = [
    "Pressure",
    "clock_error",
    "enable_seq",
    "fault_probability",
    "has_sched_ext",
    "hotplug_seq",
    "loadavg",
    "major_faults",
    "meminfo",
    "memory",
    "online_cpus",
    "possible_cpus",
    "pressure",
    "process_cpu_ms",
    "scx_ops",
    "scx_state",
    "thread_cpu_ms",
    "vmstat",
]

_SCX = Path("/sys/kernel/sched_ext")
_LOCKDOWN = Path("/sys/kernel/security/lockdown")
_CPUS = Path("/sys/devices/system/cpu")
_PAGES = ("VmRSS", "VmSwap")
_TICK_MS = 1000 / os.sysconf("SC_CLK_TCK")
_UTIME, _STIME = 11, 12  # fields of stat behind the name
_MEMORY = re.compile(r"(\S+): +(\d+)( kB)?")

_STA_UNSYNC = 0x40  # linux/timex.h


class _Timex(ctypes.Structure):
    """The used part of struct timex."""

    _fields_ = (
        ("modes", ctypes.c_uint),
        *((name, ctypes.c_long) for name in ("offset", "freq", "maxerror", "esterror")),
        ("status", ctypes.c_int),
        ("rest", ctypes.c_char * 512),
    )


class Pressure(TypedDict):
    """One line of /proc/pressure/*: shares of the last 10, 60, 300 s in percent, and the total in µs."""

    avg10: float
    avg60: float
    avg300: float
    total: int


def clock_error() -> float | None:
    """How far the time of day may be off, ms, as the kernel has it from a time service; None if none keeps it."""
    clock = _Timex()
    if ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.byref(clock)) < 0 or clock.status & _STA_UNSYNC:
        return None
    return float(clock.maxerror) / 1000


def has_sched_ext() -> bool:
    """Whether this kernel was built with sched_ext."""
    return (_SCX / "state").exists()


def scx_state() -> str:
    """The kernel's word: "disabled", "enabling", "enabled", "disabling" or "bypassing"."""
    return (_SCX / "state").read_text().strip()


def scx_ops() -> str | None:
    """Name of the sched_ext scheduler that runs, None if there is none."""
    try:
        return (_SCX / "root" / "ops").read_text().strip()
    except OSError:  # ENOENT: none; ENODEV: it goes while we read
        return None


def enable_seq() -> int:
    """How many sched_ext schedulers were enabled since boot."""
    return int((_SCX / "enable_seq").read_text())


def hotplug_seq() -> int:
    """The CPU hotplug sequence number that ops.hotplug_seq is compared with."""
    return int((_SCX / "hotplug_seq").read_text())


def lockdown(file: Path = _LOCKDOWN) -> str:
    """How far the kernel is locked down against root: "none", "integrity" or "confidentiality"; empty if unknown."""
    try:
        return file.read_text().partition("[")[2].partition("]")[0]
    except OSError:  # no securityfs is mounted, or the kernel has none
        return ""


def _cpu_list(name: str) -> list[int]:
    """CPU ids out of a list such as "0-3,8"."""
    ids: list[int] = []
    for part in read(_CPUS / name).strip().split(","):
        first, _, last = part.partition("-")
        ids += range(int(first), int(last or first) + 1)
    return ids


def possible_cpus() -> int:
    """Number of possible CPU ids: the largest, plus one."""
    return max(_cpu_list("possible")) + 1


def online_cpus() -> list[int]:
    """Ids of the CPUs that are online."""
    return _cpu_list("online")


def meminfo() -> dict[str, int]:
    """/proc/meminfo in bytes; numbers without a unit (HugePages_Total) stay unchanged."""
    lines = _MEMORY.findall(read("/proc/meminfo"))
    return {name: int(number) * (1024 if unit else 1) for name, number, unit in lines}


def memory(*names: str) -> list[int]:
    """These lines of /proc/meminfo, in bytes; the numbers of all others are not made."""
    return [1024 * number for number in numbers("/proc/meminfo", *(f"{name}:" for name in names))]


def fault_probability(tid: int) -> int:
    """The per mille of a process's pages on swap, as in compare.bpf.h; 0 if the process is gone."""
    try:
        lines = read(f"/proc/{tid}/status").split("\n")  # not splitlines: a task's name may have U+2028 in it
    except OSError:
        return 0
    kb = {name: int(value.split()[0]) for name, _, value in (line.partition(":") for line in lines) if name in _PAGES}
    used = sum(kb.values())
    return 1000 * kb["VmSwap"] // used if used else 0


def process_cpu_ms(pid: int) -> float | None:
    """CPU time that all threads of a process have used so far, in ms; None if it is gone."""
    return _cpu_ms(f"/proc/{pid}/stat")


def thread_cpu_ms(tid: int) -> float | None:
    """CPU time that a thread has used so far, in ms; None if it is gone."""
    return _cpu_ms(f"/proc/{tid}/task/{tid}/stat")  # /proc/TID/stat is its process's


def _cpu_ms(stat: str) -> float | None:
    try:
        fields = read(stat).rpartition(")")[2].split()
    except OSError:
        return None
    return (int(fields[_UTIME]) + int(fields[_STIME])) * _TICK_MS


def major_faults() -> int:
    """Since boot."""
    return numbers("/proc/vmstat", "pgmajfault")[0]


def vmstat() -> dict[str, int]:
    """/proc/vmstat: counters since boot (pgmajfault, pswpin, workingset_refault_anon, ...) and states."""
    return keyed("/proc/vmstat")


def pressure(resource: str) -> dict[str, Pressure]:
    """PSI of "memory", "cpu" or "io": {"some": ..., "full": ...}; {} where the kernel keeps none."""
    try:
        lines = read(f"/proc/pressure/{resource}").splitlines()
    except OSError:  # EOPNOTSUPP: booted with psi=0
        return {}
    found: dict[str, Pressure] = {}
    for line in lines:
        kind, *pairs = line.split()
        values = dict(pair.split("=") for pair in pairs)
        found[kind] = {
            "avg10": float(values["avg10"]),
            "avg60": float(values["avg60"]),
            "avg300": float(values["avg300"]),
            "total": int(values["total"]),
        }
    return found


def runnable_tasks() -> int:
    """Tasks that run or could run now."""
    return int(read("/proc/loadavg").split()[3].partition("/")[0])


def loadavg() -> tuple[float, float, float]:
    """1, 5 and 15 minute load averages."""
    return os.getloadavg()
