# SPDX-License-Identifier: GPL-2.0-or-later
"""The scheduler object: loading, reading, setting and unloading. The scheduler runs while a Scheduler is open.

The sections of the object's data are mapped into this process, so a knob is written and a counter read
without a system call. A failed load is explained in one sentence; all messages of libbpf and the verifier go to the
logger "ctl.libbpf".

    fields = knobs.encode(values, "csm")
    with Scheduler.load(path, fields, jobs_cgid=..., jobs_level=1, watchdog_ms=30000) as s:
        s.write_knobs(mnol=4, mnod=4)
        s.snapshot(0)["queue"]
"""

from __future__ import annotations

import contextlib
import ctypes
import platform
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypedDict

from ctl.errors import CoschedError
from ctl.kernel import layout, objects, sysinfo
from ctl.kernel.btf import vmlinux
from ctl.kernel.joins import Joins
from ctl.kernel.layout import STATS, constant, ffi
from ctl.kernel.libbpf import BpfLink, BpfMap, BpfObject, LibbpfError
from ctl.kernel.objects import OPS
from ctl.kernel.pins import PINS, remove_pins
from ctl.kernel.refusal import check_cpus, check_host, ended_at_once, explain
from ctl.kernel.trace import Decisions, task_json

__all__ = ["Exit", "Scheduler"]

_RULES, _STATS = constant("MAX_RULES"), len(STATS)
# programs that are attached beside it, and the field of struct knobs that wants them; the sensors must be on, too
_LISTENERS = {"on_arrival": "reinsert", "on_epoll": "spin_ns", "on_poll": "spin_ns", "on_select": "spin_ns"}
_GUARD = "on_setscheduler"  # attached under contract=class only
_UNLOAD_TIMEOUT = 10.0  # seconds
# membarrier(2): system call number by machine, and MEMBARRIER_CMD_GLOBAL
_MEMBARRIER = {"x86_64": 324, "aarch64": 283}
_MEMBARRIER_GLOBAL = 1


class Exit(TypedDict):
    """Why the scheduler ended (struct exit_record)."""

    kind: int
    kind_name: str  # enum scx_exit_kind without its prefix: "unreg", "error", "error-bpf", "error-stall"
    code: int
    restart: bool  # the kernel asks to load it again (a CPU came or went)
    reason: str
    msg: str
    dump: str


class Scheduler:
    """A loaded scheduler; a context manager that unloads it. Methods may be called from any thread.

    When the kernel has ended it, it can still be asked; when unload() has, only for stats and the exit record.
    """

    def __init__(self, opened: BpfObject) -> None:
        """Take over an object that is configured and loaded but not attached yet; see load()."""
        self._object = opened
        self._lock = threading.RLock()  # the snapshot's answer and the knob sets have one writer
        self._link: BpfLink | None = None
        self._listeners: dict[str, BpfLink] = {}
        self._guard: BpfLink | None = None
        self._ended: Exit | None = None
        self._changed = 0.0
        self._knobs: Any = self._section(".data.knobs", "struct knob_sets", writable=True)
        self._exit: Any = self._section(".bss.exit", "struct exit_record")
        self._snap: Any = self._section(".bss.snap", "struct snapshot")
        self._stats = memoryview(self._map(".bss.stats").mmap(writable=False)).cast("Q")
        self._cpus = sysinfo.possible_cpus()

    @classmethod
    def load(
        cls,
        object_path: Path,
        knobs: dict[str, int],
        *,
        jobs_cgid: int,
        jobs_level: int,
        watchdog_ms: int,
        key_shift: int = 32,
        partial: bool = False,
    ) -> Scheduler:
        """Load and attach; returns when the kernel runs it. knobs: struct fields (ctl.kernel.knobs.encode).

        partial: only tasks of class SCHED_EXT are its own, and tasks of jobs may not leave that class (contract=class).

        Raises CoschedError: no root, no sched_ext, another scheduler loaded, missing kfunc, rejected, no
        object.
        """
        check_host(object_path)
        opened: BpfObject | None = None
        scheduler: Scheduler | None = None
        shared = PINS.is_dir()  # by sensors that run already, and will go on if this fails
        try:
            constants = objects.Constants(jobs_cgid, jobs_level, check_cpus(), key_shift, watchdog_ms, partial)
            opened = objects.loaded(object_path, constants, knobs)
            scheduler = cls(opened)
            scheduler._link = opened.maps[OPS].attach_struct_ops()
            scheduler._attach_listeners()
            if partial:
                scheduler._guard = opened.programs[_GUARD].attach()
            # attaching succeeds even if the kernel throws the scheduler out at once: it says so through ops.exit
            if ended := scheduler.exit_record():
                raise ended_at_once(ended["reason"], ended["msg"])
        except LibbpfError as error:
            ended = _undo(scheduler, opened, shared)
            raise (ended_at_once(ended["reason"], ended["msg"]) if ended else explain(error)) from None
        except BaseException:
            _undo(scheduler, opened, shared)
            raise
        return scheduler

    @contextlib.contextmanager
    def _loaded(self) -> Iterator[BpfObject]:
        """The object, which stays loaded meanwhile: its pointers are freed by unload()."""
        with self._lock:
            if self._object.pointer is None:
                raise CoschedError("the scheduler has been unloaded: `ctl load` loads it again")
            yield self._object

    def _map(self, name: str) -> BpfMap:
        return self._object.maps[name]

    def _section(self, name: str, struct: str, *, writable: bool = False) -> Any:
        """A data section of the object as a pointer to this struct."""
        memory = self._map(name).mmap(writable=writable)
        return ffi.from_buffer(f"{struct} *", memory)  # holds the memory

    def write_knobs(self, **fields: int) -> None:
        """Change several fields of struct knobs at once: a decision sees all changes or none."""
        with self._loaded():
            sets = self._knobs
            if time.monotonic() - self._changed < 1:
                _let_decisions_end()  # a decision that began before the last change may still read the other set
            active = sets.active & 1
            sets.set[1 - active] = sets.set[active]
            for name, value in fields.items():
                setattr(sets.set[1 - active], name, value)
            sets.active = 1 - active
            self._changed = time.monotonic()
            self._attach_listeners()

    def adjust(self, **fields: int) -> None:
        """Change fields that each stand alone, at once: write_knobs() may wait for decisions under way to end."""
        with self._loaded():
            for name, value in fields.items():
                setattr(self._knobs.set[self._knobs.active & 1], name, value)

    def read_knobs(self) -> dict[str, int]:
        """The fields of struct knobs in use now."""
        with self._loaded():
            active = self._knobs.set[self._knobs.active & 1]
            return {name: int(getattr(active, name)) for name in layout.members("knobs")}

    def _attach_listeners(self) -> None:
        """Listen to arriving messages and to polling only while a rule needs them, because each message and poll then
        costs time."""
        knobs = self._knobs.set[self._knobs.active & 1]
        wanted = {name for name, knob in _LISTENERS.items() if getattr(knobs, knob) and knobs.sensors}
        for name in wanted - self._listeners.keys():
            try:
                self._listeners[name] = self._object.programs[name].attach()
            except LibbpfError as error:
                raise explain(error) from None
        for name in self._listeners.keys() - wanted:
            self._listeners.pop(name).destroy()

    def stats(self) -> dict[str, int]:
        """Statistics by name, summed over CPUs and rules."""
        return self._sums(slice(0, _RULES))

    def stats_by_rule(self) -> dict[str, dict[str, int]]:
        """Rule name to statistics by name, summed over CPUs."""
        return {name: self._sums(slice(rule, rule + 1)) for name, rule in layout.RULES.items()}

    def _sums(self, rules: slice) -> dict[str, int]:
        """Statistics by name, of these rules: u64 stats[cpu][rule][stat]."""
        rows = [
            self._stats[(cpu * _RULES + rule) * _STATS : (cpu * _RULES + rule + 1) * _STATS]
            for cpu in range(self._cpus)
            for rule in range(_RULES)[rules]
        ]
        return {stat.name: sum(column) for stat, column in zip(STATS, zip(*rows, strict=True), strict=True)}

    def queue_length(self, cpu: int) -> int:
        """The number of tasks in a CPU's ready queue now."""
        with self._loaded() as opened:
            return int(self._look_at(opened, cpu).nr_queued)

    def _look_at(self, opened: BpfObject, cpu: int) -> Any:
        if opened.programs["snapshot"].run(cpu.to_bytes(4, "little") + bytes(4)) < 0:
            raise CoschedError(f"there is no CPU {cpu}: this machine has 0 to {self._cpus - 1}")
        return self._snap

    def snapshot(self, cpu: int) -> dict[str, Any]:
        """One CPU's ready queue now: {"cpu", "queued", "expired", "queue": [T...], "running": T|None, "truncated"}."""
        with self._loaded() as opened:
            snap = self._look_at(opened, cpu)
            return {
                "cpu": cpu,
                "queued": snap.nr_queued,
                "expired": snap.nr_expired,
                "queue": [task_json(snap.queue[i]) for i in range(snap.nr)],
                "running": task_json(snap.curr) if snap.running else None,
                "truncated": snap.nr < snap.nr_queued,
            }

    def jobs(self) -> dict[int, dict[str, int]]:
        """cgroup id to {"overtakes_given", "overtakes_suffered"}."""
        with self._loaded() as opened:
            items = list(opened.maps["jobs"].items())
        found = {}
        for key, value in items:
            job: Any = ffi.from_buffer("struct job_stat *", value)
            found[int.from_bytes(key, "little")] = {n: getattr(job, n) for n in layout.members("job_stat")}
        return found

    def forget_job(self, cgid: int) -> None:
        """Drop a removed job's counters and state."""
        with self._loaded() as opened:
            opened.maps["jobs"].delete(cgid.to_bytes(8, "little"))
            opened.maps["job_states"].delete(cgid.to_bytes(8, "little"))
            opened.maps["job_places"].delete(cgid.to_bytes(8, "little"))

    def slow_job(self, cgid: int, slowed: bool) -> None:
        """Set State(T) of a job's tasks to LOCAL, or to NULL (CCS §3.2)."""
        key = cgid.to_bytes(8, "little")
        with self._loaded() as opened:
            if slowed:
                opened.maps["job_states"].update(key, constant("JOB_SLOWED").to_bytes(4, "little"))
            else:
                opened.maps["job_states"].delete(key)

    def place_jobs(self, cgids: Sequence[int]) -> None:
        """Rule order: the jobs in the order of their queue, the first first."""
        last = constant("PLACES") - 1
        with self._loaded() as opened:
            for place, cgid in enumerate(cgids):
                key = cgid.to_bytes(8, "little")
                opened.maps["job_places"].update(key, min(place, last).to_bytes(4, "little"))

    def running(self) -> bool:
        """Whether the kernel still runs this scheduler."""
        return self._link is not None and self.exit_record() is None

    def exit_record(self) -> Exit | None:
        """Why it ended; None while it runs."""
        if self._ended is None and self._exit is not None and self._exit.recorded:
            self._ended = _read_exit(self._exit)
        return self._ended

    def decisions(self) -> Decisions:
        """A consumer of the decision records; set the field `trace` to 1 to get any. One at a time."""
        with self._loaded() as opened:
            return Decisions(opened.maps["decisions"].fd)

    def joins(self) -> Joins:
        """A consumer of the announcements about jobs of Slurm. Only one consumer at a time."""
        with self._loaded() as opened:
            return Joins(opened.maps["joins"].fd)

    def unload(self, *, keep_pins: bool = False) -> Exit | None:
        """Detach, wait until the kernel has unloaded the scheduler, remove the pins; returns the exit record.

        keep_pins: keep the maps for the next scheduler while the sensors go on. May be repeated.
        """
        with self._lock:
            while self._listeners:
                self._listeners.popitem()[1].destroy()
            if self._guard:
                self._guard.destroy()
                self._guard = None
            if self._link:
                self._link.destroy()
                self._link = None
                self._wait_gone()
            self.exit_record()
            # the mapped sections end with their last reference
            self._knobs = self._exit = self._snap = None
            self._object.close()
        if not keep_pins:
            remove_pins()
        return self._ended

    def _wait_gone(self) -> None:
        """Wait until the kernel has called our exit and runs another scheduler, or none."""
        deadline = time.monotonic() + _UNLOAD_TIMEOUT
        while sysinfo.scx_ops() == OPS and sysinfo.scx_state() != "disabled":
            if time.monotonic() > deadline:
                raise CoschedError(
                    f"the kernel still says {sysinfo.scx_state()!r} {_UNLOAD_TIMEOUT:g} s after its "
                    "scheduler was detached: see dmesg"
                )
            time.sleep(0.005)

    def __enter__(self) -> Scheduler:
        return self

    def __exit__(self, *_: object) -> None:
        self.unload()


def _undo(scheduler: Scheduler | None, opened: BpfObject | None, shared: bool) -> Exit | None:
    """Take back what a failed load did; pins that were there before stay."""
    ended = scheduler.unload(keep_pins=True) if scheduler else None
    if opened:
        opened.close()
    if not shared:
        remove_pins()
    return ended


def _let_decisions_end() -> None:
    """Wait until every decision that is under way now has ended: a grace period of the kernel's RCU."""
    number = _MEMBARRIER.get(platform.machine())
    libc = ctypes.CDLL(None, use_errno=True)
    if number is not None and libc.syscall(number, _MEMBARRIER_GLOBAL, 0, 0) == 0:
        return
    time.sleep(0.05)  # refused with nohz_full CPUs; a decision takes less than a millisecond


def _read_exit(record: Any) -> Exit:
    """A struct exit_record in words."""
    kinds = {value: name for name, value in vmlinux().enum("scx_exit_kind").items()}
    restart = vmlinux().enum("scx_exit_code").get("SCX_ECODE_ACT_RESTART", 0)
    return {
        "kind": record.kind,
        "kind_name": kinds.get(record.kind, "unknown").removeprefix("SCX_EXIT_").lower().replace("_", "-"),
        "code": record.code,
        "restart": bool(record.code & restart),
        "reason": layout.text(record.reason),
        "msg": layout.text(record.msg),
        "dump": layout.text(record.dump),
    }
