# SPDX-License-Identifier: GPL-2.0-or-later
"""The scheduler, jobs and programs of in-guest tests; context managers undo each change."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from ctl import policy
from ctl.kernel import knobs, trace
from ctl.kernel.cgroups import JobCgroups
from ctl.kernel.scheduler import Scheduler
from ctl.kernel.sensors import Sensors
from ctl.kernel.sysinfo import meminfo
from tests.kselftest import stock
from tests.reference.records import PUT_BACK, from_json
from tests.reference.replay import mismatch

__all__ = [
    "ENDLESS",
    "OBJECT",
    "Recorder",
    "cpu_s",
    "disabled",
    "in_job",
    "insertions",
    "job",
    "load_sensor",
    "loaded",
    "mismatches",
    "online",
    "room",
    "sensing",
    "spawned",
    "state",
]

_SENSORS = Sensors(every_kind=True)  # loaded once in a test file; "faults" compiles, which takes ten seconds
_AT_ONCE = 64  # decisions read before they count: a test that waits for a few decisions ends its recording soon
ENDLESS = "3600"  # seconds a load program runs: past the end of the test, which kills it
_HOLD = """
import mmap, sys, time
MAP_LOCKED = 0x2000
held = mmap.mmap(-1, int(sys.argv[1]), mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_LOCKED)
print(flush=True)
time.sleep(1e6)
"""
OBJECT = Path(os.environ.get("COSCHED_BPF_DIR", "/usr/lib/cosched")) / "cosched.bpf.o"


def state() -> str:
    """The kernel's state of sched_ext: "enabled", "disabled"..."""
    return Path("/sys/kernel/sched_ext/state").read_text().strip()


def disabled() -> bool:
    """Whether the kernel is back on its own scheduler."""
    return state() == "disabled"


@contextmanager
def loaded(
    name: str = "csm",
    *,
    watchdog_ms: int = 30000,
    key_shift: int = 32,
    observe: tuple[str, ...] = (),
    **values: Any,
) -> Iterator[Scheduler]:
    """The scheduler with this policy and these knobs; the named sensors observe: "sockets", "faults". Without gangs,
    where not asked for: insert_RQ's order and bounds are those of a queue that has no windows."""
    groups = JobCgroups()
    groups.prepare()
    wanted = {**policy.defaults(), "gang": "off", "sensors": "on" if observe else "off", **values}
    if "mno" in values:
        wanted = {key: value for key, value in wanted.items() if key not in ("mnol", "mnod")}
    with ExitStack() as stack:
        if observe:
            stack.enter_context(sensing(*observe))
            _SENSORS.count_everyone(wanted["classify"] == "mes")
        yield stack.enter_context(_load(groups, wanted, name, watchdog_ms, key_shift))


def load_sensor() -> None:
    """Load the sensor of sockets on the stock's maps, for the test files that are forked from this process."""
    stock.share()
    _SENSORS._sockets.open()
    _SENSORS.unpin()


@contextmanager
def sensing(*which: str) -> Iterator[Sensors]:
    """These sensors, with their maps shared with the scheduler pinned. They run on until the test file ends."""
    stock.share()
    _SENSORS.start(which)
    _SENSORS.pin()
    try:
        yield _SENSORS
    finally:
        _SENSORS.unpin()


def _load(groups: JobCgroups, wanted: dict[str, Any], name: str, watchdog_ms: int, key_shift: int) -> Scheduler:
    return Scheduler.load(
        OBJECT,
        knobs.encode(wanted, name),
        jobs_cgid=groups.cgid,
        jobs_level=groups.level,
        watchdog_ms=watchdog_ms,
        key_shift=key_shift,
    )


def mismatches(decisions: list[dict[str, Any]]) -> list[str]:
    """The decisions that differ from the reference, in words. Truncated records are left out."""
    whole = [one for one in decisions if not one.get("truncated") and one["cause"] != PUT_BACK]
    return [wrong for decision in whole if (wrong := mismatch(from_json(decision)))]


def cpu_s(pid: int) -> float:
    """CPU time of a process, children apart."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def job(jid: str) -> Iterator[Path]:
    """A job's cgroup; its remaining processes are killed in the end."""
    groups = JobCgroups()
    groups.prepare()
    path = groups.create(jid)
    try:
        yield path
    finally:
        if path.exists():
            groups.kill(jid)
            end = time.monotonic() + 20
            while not groups.remove(jid) and time.monotonic() < end:
                time.sleep(0.05)


@contextmanager
def room(size: int) -> Iterator[int]:
    """Hold memory until no more than `size` bytes are available, until the block ends; gives what is."""
    available = meminfo()["MemAvailable"]
    with spawned(sys.executable, "-c", _HOLD, str(max(available - size, 1 << 20))) as holder:
        assert holder.stdout and holder.stdout.readline(), "no memory could be held"
        yield meminfo()["MemAvailable"]


@contextmanager
def in_job(jid: str) -> Iterator[Path]:
    """This process in a job, with its new children; back where it was in the end."""
    with job(jid) as path:
        before = Path("/proc/self/cgroup").read_text().strip().rpartition(":")[2]
        (path / "cgroup.procs").write_text("0")
        try:
            yield path
        finally:
            (Path("/sys/fs/cgroup") / before.lstrip("/") / "cgroup.procs").write_text("0")


@contextmanager
def spawned(*command: str, cgroup: Path | None = None, cpu: int | None = None) -> Iterator[subprocess.Popen[str]]:
    """A program, in a job and on one CPU if requested; killed in the end with its children."""

    def enter() -> None:
        if cgroup:
            (cgroup / "cgroup.procs").write_text("0")
        if cpu is not None:
            os.sched_setaffinity(0, {cpu})

    process = subprocess.Popen(
        command,
        preexec_fn=enter,  # noqa: PLW1509 - enter() only makes system calls
        start_new_session=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@contextmanager
def online(cpu: int, up: bool) -> Iterator[None]:
    """This CPU on or off line; the other way in the end."""
    switch = Path(f"/sys/devices/system/cpu/cpu{cpu}/online")
    switch.write_text("1" if up else "0")
    try:
        yield
    finally:
        switch.write_text("0" if up else "1")


def insertions(scheduler: Scheduler, seconds: float) -> int:
    """The number of insertions in this time, 0.3 s after the last change of settings."""
    time.sleep(0.3)
    before = scheduler.stats()["insertions"]
    time.sleep(seconds)
    return scheduler.stats()["insertions"] - before


class Recorder:
    """Collects the decisions of a scheduler while it is open.

    >>> with Recorder(scheduler) as recorder:  # doctest: +SKIP
    ...     time.sleep(1)
    >>> recorder.decisions  # doctest: +SKIP
    """

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._read)
        self._raw: list[bytes] = []
        self.lost = 0

    def _read(self) -> None:
        with self._scheduler.decisions() as decisions:
            while True:
                last = self._stop.is_set()
                taken = decisions.read(_AT_ONCE)
                self._raw += taken
                self.lost = decisions.lost
                if len(taken) == _AT_ONCE:
                    continue
                if last:
                    return
                time.sleep(0.05)

    def __enter__(self) -> Recorder:
        self._scheduler.write_knobs(trace=1)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._scheduler.write_knobs(trace=0)
        self._stop.set()
        self._thread.join()

    @property
    def count(self) -> int:
        """The number of recorded decisions so far."""
        return len(self._raw)

    @property
    def decisions(self) -> list[dict[str, Any]]:
        """The recorded decisions, oldest first."""
        return [trace.decode(record) for record in self._raw]

    def first(self, count: int) -> list[dict[str, Any]]:
        """The first so many recorded decisions."""
        return [trace.decode(record) for record in self._raw[:count]]
