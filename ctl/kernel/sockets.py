# SPDX-License-Identifier: GPL-2.0-or-later
"""The sensor of sockets: bpf/sockets.bpf.o, loaded through libbpf; its source describes the probes.

A probe costs all of the node's programs that call the function. At first only the functions are probed through which
sockets come and go. The functions by which a task receives are probed while there are jobs: a job may have been given a
socket that it did not make. The functions through which packets of a kind of socket pass are probed once a job has a
socket of that kind: `signal_fd` is then readable, and attend() attaches the probes.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from ctl.errors import FAILED, CoschedError
from ctl.kernel.cgroups import JobCgroups
from ctl.kernel.layout import constant, ffi
from ctl.kernel.libbpf import BpfLink, BpfMap, BpfObject, LibbpfError
from ctl.kernel.observations import Observation, Sensed, Socket, read_observation, read_socket
from ctl.kernel.pins import PINS, map_id, pin, pinned_map_id
from ctl.kernel.ringbuf import RingBuffer

__all__ = ["FORMS", "KINDS", "SocketSensor", "object_path"]

FORMS: Final = ("fentry", "kprobe")
KINDS: Final = tuple(constant(f"SOCK_{name}") for name in ("TCP", "UDP", "UNIX", "UNIX_DGRAM"))
_SHARED: Final = ("obs", "socks", "sensed")
_LIFE: Final = ("on_exit", "on_exchange_tids")
_SOCKETS: Final = ("on_create", "on_graft", "on_close")
_RECEIVED: Final = ("on_tcp_received", "on_udp_received", "on_unix_received")
_PACKETS: Final = ("on_readable", "on_wakeup")
_OF_KIND: Final = dict(
    zip(
        KINDS,
        (
            ("on_tcp_sent", "on_acked", "on_shutdown", "on_tcp_disconnected"),
            ("on_udp_sent", "on_udp6_sent", "on_wfree"),
            ("on_spliced",),
            ("on_dgram_sent", "on_dgram_freed", "on_disconnected"),
        ),
        strict=True,
    )
)
_IDLE_LOOKS: Final = 10  # second looks without a socket of a kind after which the probes of this kind are removed
_LISTED: Final = 8 + ffi.sizeof("struct sock_obs")  # struct listed of sockets.bpf.c


def object_path() -> Path:
    """The compiled sensor: $COSCHED_BPF_DIR/sockets.bpf.o."""
    return Path(os.environ.get("COSCHED_BPF_DIR", "/usr/lib/cosched")) / "sockets.bpf.o"


class SocketSensor:
    """The loaded object. Methods may be called from any thread.

    It also keeps the threads' records and sees threads end, so it is loaded for the sensor of page faults, too.
    """

    def __init__(self, form: str = "fentry") -> None:
        """Nothing is loaded before open(); `form`: one of FORMS, how functions are probed where there is a choice."""
        self._form = form
        self._lock = threading.RLock()
        self._object: BpfObject | None = None
        self._links: dict[str, BpfLink] = {}
        self._idle = dict.fromkeys(KINDS, 0)
        self._sensing: Any = None
        self._signal: RingBuffer | None = None
        self.attended: frozenset[int] = frozenset()

    # the object

    def open(self) -> bool:
        """Load the object on the pinned maps; returns whether it was not loaded. Raises CoschedError."""
        with self._lock:
            if self._object is not None:
                pinned = {name: pinned_map_id(PINS / name) for name in _SHARED}
                if all(pinned[name] in (None, map_id(self._map(name).fd)) for name in _SHARED):
                    self.pin()
                    return False
                self.close()
            try:
                self._load()
            except LibbpfError as error:
                self.close()
                said = [line for line in error.printed.splitlines() if line.strip()]
                detail = f" ({said[-1]})" if said else ""
                raise CoschedError(f"the sensor of sockets cannot be loaded: {error}{detail}", FAILED) from None
            return True

    def _load(self) -> None:
        path = object_path()
        if not path.is_file():
            raise CoschedError(f"there is no sensor object {path}: build it, or set COSCHED_BPF_DIR", FAILED)
        groups = JobCgroups()
        groups.prepare()
        self._object = opened = BpfObject(path, PINS)
        config: Any = ffi.cast("struct config *", ctypes.addressof(opened.maps[".rodata.config"].initial_value()))
        config.jobs_cgid, config.jobs_level = groups.cgid, groups.level
        kprobes: Any = ffi.cast("unsigned int *", ctypes.addressof(opened.maps[".rodata.kprobes"].initial_value()))
        kprobes[0] = self._form == "kprobe"
        for name, program in opened.programs.items():
            program.want(self._is_loaded(name))
        opened.load()
        self._sensing = ffi.from_buffer("struct sensing *", opened.maps[".data.sensing"].mmap(writable=True))
        self._signal = RingBuffer(opened.maps["kind_signal"].fd, lambda _: None, 4)

    def _is_loaded(self, program: str) -> bool:
        return not any(program.endswith(f"_{form}") for form in FORMS if form != self._form)

    def close(self) -> None:
        """Detach all programs, and free the object."""
        with self._lock:
            self._detach(list(self._links))
            self.attended = frozenset()
            self._sensing = None
            if self._signal is not None:
                self._signal.close()
                self._signal = None
            if self._object is not None:
                self._object.close()
                self._object = None

    def pin(self) -> None:
        """Pin the shared maps that are not pinned."""
        PINS.mkdir(parents=True, exist_ok=True)
        for name in _SHARED:
            if not (PINS / name).exists():
                pin(self._map(name).fd, PINS / name)

    def unpin(self) -> None:
        """Remove the pins; a process that has a map open keeps it."""
        for name in _SHARED:
            (PINS / name).unlink(missing_ok=True)

    def _map(self, name: str) -> BpfMap:
        if self._object is None:
            raise CoschedError("no sensor runs: start one first")
        return self._object.maps[name]

    # probes

    def watch_threads(self, wanted: bool) -> None:
        """See threads end, or not."""
        with self._lock:
            if wanted:
                self._attach(_LIFE)
            else:
                self._detach(_LIFE)

    def start(self, *, every_kind: bool = False) -> None:
        """Observe sockets of jobs from now on; `every_kind`: attach the probes of all kinds at once."""
        with self._lock:
            kprobes = ("on_free",) if self._form == "kprobe" else ()
            self._attach((*kprobes, *_SOCKETS))
            if every_kind or self.everyone:
                self._attach(_RECEIVED)
            if every_kind:
                self._attend(frozenset(KINDS))

    def stop(self) -> None:
        """Observe no sockets any more."""
        with self._lock:
            self._detach([name for name in self._links if name not in _LIFE])
            self.attended = frozenset()

    @property
    def signal_fd(self) -> int:
        """A descriptor that is readable when a job has the first socket of a kind; then call attend()."""
        assert self._signal is not None
        return self._signal.epoll_fd

    def attend(self) -> None:
        """Attach the probes of the kinds of sockets that count now, and look at the sockets."""
        with self._lock:
            assert self._signal is not None
            self._signal.consume()
            self._attend(self.attended | self._counting())

    def _counting(self) -> frozenset[int]:
        """The kinds of which sockets count now."""
        kinds = self.sensed().kinds
        return frozenset(kind for kind in KINDS if kinds[kind] > 0)

    def _attend(self, kinds: frozenset[int]) -> None:
        if kinds == self.attended:
            return
        self._attach(_RECEIVED)
        for kind in sorted(kinds - self.attended):
            self._attach(_PACKETS + _OF_KIND[kind])
        for kind in sorted(self.attended - kinds):
            self._detach(_OF_KIND[kind])
        if not kinds:
            self._detach(_PACKETS)
        self.attended = kinds
        self._over("look_again", "socks")  # messages that came before the probes

    def look_again(self, unread_ms: int, *, jobs: bool = True, every_kind: bool = False) -> None:
        """Have the kernel look at the sockets that count: correct levels, and note unread messages.

        `jobs`: whether there are any now.
        """
        with self._lock:
            counting = self._counting()
            for kind in KINDS:
                self._idle[kind] = 0 if kind in counting else self._idle[kind] + 1
            if not every_kind:
                self._attend(counting | {kind for kind in self.attended if self._idle[kind] < _IDLE_LOOKS})
                if jobs or self.everyone or self.attended:
                    self._attach(_RECEIVED)
                else:
                    self._detach(_RECEIVED)
            self._sensing.unread_ms = unread_ms
            if counting:
                self._over("look_again", "socks")

    def look_for_dead(self) -> None:
        """Forget threads whose end was not seen."""
        self._over("look_for_dead", "obs")

    def _over(self, program: str, over: str) -> bytes:
        with self._lock:
            fd = self._map(over).fd
            assert self._object is not None
            return self._object.programs[program].over(fd)

    def _attach(self, names: tuple[str, ...]) -> None:
        assert self._object is not None
        for name in names:
            if name not in self._links:
                programs = self._object.programs
                program = programs.get(f"{name}_{self._form}") or programs[name]
                try:
                    self._links[name] = program.attach()
                except LibbpfError as error:
                    raise CoschedError(f"cannot probe for sockets: {error}: the sensors know Linux 7.2") from None

    def _detach(self, names: list[str] | tuple[str, ...]) -> None:
        for name in names:
            if name in self._links:
                self._links.pop(name).destroy()

    # observations

    @property
    def everyone(self) -> bool:
        """Whether the sockets of all tasks count, not those of jobs alone (classify=mes)."""
        return bool(self._sensing is not None and self._sensing.everyone)

    @everyone.setter
    def everyone(self, wanted: bool) -> None:
        with self._lock:
            if self._sensing is not None:
                self._sensing.everyone = wanted
                if wanted and _SOCKETS[0] in self._links:
                    self._attach(_RECEIVED)

    def sensed(self) -> Sensed:
        """The numbers of unobserved threads and sockets, and of the sockets of each kind that count."""
        value: Any = ffi.from_buffer("struct sensed *", self._map("sensed").lookup(bytes(4)) or b"")
        return Sensed(value.lost_threads, value.lost_sockets, tuple(value.kinds))

    def missed(self) -> int:
        """The number of lost events: the program was busy on that CPU with another event."""
        with self._lock:
            if self._object is None:
                return 0
            loaded = [program.fd for name, program in self._object.programs.items() if self._is_loaded(name)]
            texts = [Path(f"/proc/self/fdinfo/{fd}").read_text() for fd in loaded]
        return sum(int(text.split("recursion_misses:")[1].split()[0]) for text in texts)

    def sockets(self) -> dict[int, Socket]:
        """The sockets known, by kernel address."""
        raw = self._over("list", "socks")
        found = {}
        for at in range(0, len(raw), _LISTED):
            one: Any = ffi.from_buffer("struct sock_obs *", raw[at + 8 : at + _LISTED])
            found[int.from_bytes(raw[at : at + 8], "little")] = read_socket(one)
        return found

    def observations(self) -> Iterator[tuple[int, Any]]:
        """Thread ids and their struct obs."""
        for key, value in self._map("obs").items():
            yield int.from_bytes(key, "little"), ffi.from_buffer("struct obs *", bytearray(value))

    def observation(self, tid: int) -> Observation | None:
        """The observations of a thread; None if there are none."""
        value = self._map("obs").lookup(tid.to_bytes(4, "little"))
        return None if value is None else read_observation(ffi.from_buffer("struct obs *", value))

    def write(self, tid: int, raw: Any) -> None:
        """Set a thread's record, a struct obs *; None takes it out."""
        key = tid.to_bytes(4, "little")
        if raw is None:
            self._map("obs").delete(key)
        else:
            self._map("obs").update(key, bytes(ffi.buffer(raw)))

    def forget(self) -> None:
        """Forget all sockets."""
        self._over("forget", "socks")
        empty = bytes(ffi.sizeof("struct sensed"))
        self._map("sensed").update(bytes(4), empty)

