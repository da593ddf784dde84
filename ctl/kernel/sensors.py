# SPDX-License-Identifier: GPL-2.0-or-later
"""The sensors: bcc probes that tell the scheduler and the monitor of page faults, socket queues and user input.

The probes are in bpf/*.bcc.c, which describe their observations. This module compiles the probes once, attaches the
requested probes and reads their observations. Sensors and scheduler share three pinned maps; the first of the two makes
the maps.
"""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Collection, Iterator
from typing import Any

from ctl.errors import USAGE, CoschedError
from ctl.kernel.btf import vmlinux
from ctl.kernel.layout import HEADER
from ctl.kernel.libbpf import run_program
from ctl.kernel.observations import Input, Observation, Socket, read_observation, read_socket
from ctl.kernel.pins import PINS, map_id, pin, pinned_map_id
from ctl.kernel.unread import Unread

__all__ = ["SENSORS", "Sensors"]

SENSORS = ("faults", "sockets", "input")
_SHARED = ("obs", "socks", "input")  # maps pinned for the scheduler
_SOURCES = ("sensors", "faults", "sockets", "packets", "input")  # bpf/*.bcc.c, one program to bcc

_FIELDS = {
    "F_TASK_MAJ_FLT": "task_struct.maj_flt",
    "F_FAULT_ADDRESS": "vm_fault.real_address",
    "F_SK_FAMILY": "sock.__sk_common.skc_family",
    "F_SK_STATE": "sock.__sk_common.skc_state",
    "F_SK_TYPE": "sock.sk_type",
    "F_SK_PROTOCOL": "sock.sk_protocol",
    "F_SK_RCVQ": "sock.sk_receive_queue",
    "F_SK_RCVQ_LEN": "sock.sk_receive_queue.qlen",
    "F_SK_RCVQ_TAIL": "sock.sk_receive_queue.prev",
    "F_SK_WRITEQ_LEN": "sock.sk_write_queue.qlen",
    "F_SK_WMEM": "sock.sk_wmem_alloc",
    "F_UDP_READER_LEN": "udp_sock.reader_queue.qlen",
    "F_TCP_PACKETS_OUT": "tcp_sock.packets_out",
    "F_UNIX_PEER": "unix_sock.peer",
    "F_SK_SOCKET": "sock.sk_socket",
    "F_SOCKET_SK": "socket.sk",
    "F_SKB_SK": "sk_buff.sk",
    "F_SKB_TRUESIZE": "sk_buff.truesize",
    "F_TTY_DRIVER": "tty_struct.driver",
    "F_DRIVER_TYPE": "tty_driver.type",
    "F_DRIVER_SUBTYPE": "tty_driver.subtype",
}

_ENUMERATORS = {
    "TTY_PTY": ("tty_driver_type", "TTY_DRIVER_TYPE_PTY"),
    "PTY_MASTER": ("tty_driver_subtype", "PTY_TYPE_MASTER"),
}

_PER_THREAD = frozenset({"faults", "sockets"})  # sensors that keep something per thread
# The kernel function, the program at its entry, the program at its return.
_Probe = tuple[str, str | None, str | None]
_LIFE: tuple[_Probe, ...] = (  # of threads: for the sensors _PER_THREAD
    ("sched_autogroup_exit_task", "on_exit", None),
    ("exchange_tids", "on_exchange_tids", None),
)
_PROBES: dict[str, tuple[_Probe, ...]] = {
    "faults": (("do_swap_page", "on_swap_fault", None),),
    "sockets": (
        ("security_socket_post_create", "on_create", None),
        ("security_sock_graft", "on_received", None),
        ("__sock_release", "on_close", None),
        ("inet_sock_destruct", "on_destroy", None),
        ("unix_sock_destructor", "on_destroy", None),
        ("sock_def_readable", "on_readable", None),
        ("sock_def_wakeup", "on_change", None),
        ("release_sock", "on_change", None),
        ("tcp_cleanup_rbuf", "on_tcp_received", None),
        ("tcp_newly_delivered", "on_acked", None),
        ("skb_consume_udp", "on_received", None),
        ("ip_send_skb", "on_udp_sent4", None),
        ("ip6_send_skb", "on_udp_sent6", None),
        ("sock_wfree", "on_wfree", "on_return"),
        ("scm_recv_unix", "on_unix_received", None),
        ("unix_write_space", "on_unix_freed", None),
        ("skb_queue_purge_reason", "on_purge", "on_return"),
    ),
    "input": (
        ("input_event_dispose", "on_input", None),
        ("n_tty_receive_buf_common", "on_tty_input", None),
    ),
}
_MAJOR_FAULTS = (1, 6)  # linux/perf_event.h: PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS_MAJ
_RETURN_POP = 8  # x86-64: a call's return address has left the stack when its return is seen


class Sensors:
    """The compiled probes, and the names of the running probes.

    >>> with Sensors() as sensors:  # doctest: +SKIP
    ...     sensors.start({"faults", "sockets"})
    ...     sensors.observations()
    """

    def __init__(self) -> None:
        """Nothing is compiled before the first start."""
        self.active: frozenset[str] = frozenset()
        self._bpf: Any = None
        self._unread = Unread()

    def start(self, which: Collection[str] = SENSORS) -> None:
        """Run these sensors too: "faults", "sockets", "input". The first start compiles (1 s, 8 s under TCG).

        Raises CoschedError if a sensor is unknown, or if the kernel lacks a needed function or field; then no sensor
        runs.
        """
        if unknown := sorted(set(which) - set(SENSORS)):
            raise CoschedError(f"unknown sensor {unknown[0]}, allowed: {', '.join(SENSORS)}", USAGE)
        if not self.active:
            self._share_maps()
            self._clear(frozenset(SENSORS))
        try:
            self._switch(self.active | frozenset(which))
        except BaseException:
            self.close()
            raise

    def stop(self, which: Collection[str] = SENSORS, *, unpin: bool = True) -> None:
        """Stop these sensors and clear their observations; with the last sensor remove the pins, too, if unpin.

        The compiled probes stay, so the next start is quick.
        """
        if not self.active:
            return
        stopped = self.active & frozenset(which)
        self._switch(self.active - stopped)
        self._clear(stopped)
        if unpin and not self.active:
            self.unpin()

    def close(self) -> None:
        """Stop all sensors and free the compiled probes."""
        if self._bpf is not None:
            self._switch(frozenset())
            self._clear(frozenset(SENSORS))
            self.unpin()
            self._bpf.cleanup()
            self._bpf = None

    def pin(self) -> None:
        """Pin the shared maps that are not pinned."""
        PINS.mkdir(parents=True, exist_ok=True)
        for name in _SHARED:
            if not (PINS / name).exists():
                pin(self._table(name).get_fd(), PINS / name)

    def unpin(self) -> None:
        """Remove the shared maps' pins; a process that has a map open keeps the map."""
        for name in _SHARED:
            (PINS / name).unlink(missing_ok=True)
        if PINS.is_dir() and not any(PINS.iterdir()):
            PINS.rmdir()

    def sweep(self, unread_ms: int = 0) -> None:
        """Look again at every known thread and socket, for changes that probes have missed. Call this every second.

        A closed socket stays known until the second sweep after its end. Messages that a task has left unread for
        `unread_ms` of its CPU time no longer count; 0: all messages count.
        """
        if "sockets" in self.active:
            known = self.sockets()
            left = self._unread.left(known, unread_ms)
            self._sweep("on_sweep_socket", [(address, address in left) for address in known])
        if self.active & _PER_THREAD:
            tids = [int(tid.value) for tid in self._table("obs").keys()]  # noqa: SIM118 - not a dict
            self._sweep("on_sweep_thread", [(tid,) for tid in tids if not os.path.exists(f"/proc/{tid}")])

    def _sweep(self, program: str, arguments: list[tuple[int, ...]]) -> None:
        """Run a sweep program for each of these."""
        from bcc import BPF

        fd = self._bpf.load_func(program, BPF.RAW_TRACEPOINT).fd
        for one in arguments:
            run_program(fd, struct.pack(f"{len(one)}Q", *one), program)

    def cpu_online(self, cpu: int) -> None:
        """Count faults on a CPU that came online: the kernel drops its perf events when it goes."""
        if "faults" in self.active and cpu not in self._fault_cpus():
            self._open_fault_event(cpu)

    def cpu_offline(self, cpu: int) -> None:
        """Forget the events of a CPU that went offline."""
        events = self._fault_cpus()
        if cpu in events:
            os.close(events.pop(cpu))

    def observations(self) -> dict[int, Observation]:
        """The observations of each thread, by thread id."""
        return {int(tid.value): read_observation(raw) for tid, raw in self._items("obs")}

    def observation(self, tid: int) -> Observation | None:
        """The observations of a thread; None if there are none."""
        try:
            return read_observation(self._table("obs")[ctypes.c_uint32(tid)])
        except KeyError:
            return None

    def sockets(self) -> dict[int, Socket]:
        """The sockets known, by kernel address."""
        return {int(address.value): read_socket(raw) for address, raw in self._items("socks")}

    def calls(self) -> dict[int, int]:
        """Kernel calls under way whose return is watched, by stack address, and the socket of each."""
        return {int(stack.value): int(address.value) for stack, address in self._items("calls")}

    def input(self) -> Input:
        """When the user last did something."""
        raw = self._table("input")[ctypes.c_int(0)]
        return Input(*(int(getattr(raw, name)) for name in Input._fields))

    def input_fd(self) -> int:
        """A descriptor that is readable when input came after a pause; then call take_input()."""
        return int(self._table("input_signal").map_fd)

    def take_input(self) -> None:
        """Read what made input_fd() readable."""
        self._bpf.ring_buffer_consume()

    def __enter__(self) -> Sensors:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _table(self, name: str) -> Any:
        if self._bpf is None:
            raise CoschedError("no sensor runs: start one first")
        return self._bpf[name]

    def _items(self, name: str) -> Iterator[tuple[Any, Any]]:
        yield from self._table(name).items()

    def _share_maps(self) -> None:
        """Open the pinned maps: make and pin them, or take the scheduler's maps."""
        PINS.mkdir(parents=True, exist_ok=True)
        if self._bpf is not None:
            pinned = {name: pinned_map_id(PINS / name) for name in _SHARED}
            ours = {name: map_id(self._table(name).get_fd()) for name in _SHARED}
            if any(pinned[name] not in (None, ours[name]) for name in _SHARED):
                self._bpf.cleanup()
                self._bpf = None
        if self._bpf is None:
            self._bpf = self._compile()
            self._link_programs()
        self.pin()

    def _compile(self) -> Any:
        """Compile the probes against this kernel's field offsets."""
        try:
            from bcc import BPF
        except ImportError as error:
            raise CoschedError("the sensors need bcc: install python3-bpfcc") from error
        flags = [f"-D{macro}={vmlinux().offset(path)}" for macro, path in _FIELDS.items()]
        flags += [f"-D{macro}={vmlinux().enum(enum)[name]}" for macro, (enum, name) in _ENUMERATORS.items()]
        flags += [
            f'-DPIN_DIR="{PINS}"',
            f"-DRETURN_POP={_RETURN_POP}",
            f"-I{HEADER.parent}",
            "-Wno-macro-redefined",
        ]
        sources = [HEADER.parent / f"{name}.bcc.c" for name in _SOURCES]
        try:
            return BPF(text="".join(f'#line 1 "{path}"\n{path.read_text()}' for path in sources), cflags=flags)
        except Exception as error:
            raise CoschedError(f"bcc did not compile or load the sensors: {error}") from error

    def _link_programs(self) -> None:
        """Let the socket probes end with on_look."""
        from bcc import BPF

        ends = self._bpf.load_func("on_look", BPF.KPROBE)
        self._bpf["programs"][ctypes.c_int(0)] = ctypes.c_int(ends.fd)
        self._bpf["input_signal"].open_ring_buffer(lambda _cpu, _data, _size: None)

    def _switch(self, wanted: frozenset[str]) -> None:
        """Attach and detach until exactly the wanted sensors run."""
        for sensor in SENSORS:
            if sensor in self.active and sensor not in wanted:
                self._detach(_PROBES[sensor])
            elif sensor in wanted and sensor not in self.active:
                self._attach(_PROBES[sensor])
        if wanted & _PER_THREAD and not self.active & _PER_THREAD:
            self._attach(_LIFE)
        elif self.active & _PER_THREAD and not wanted & _PER_THREAD:
            self._detach(_LIFE)
        self._switch_fault_event("faults" in wanted)
        self.active = wanted

    def _attach(self, probes: tuple[_Probe, ...]) -> None:
        """Attach programs to kernel functions. Raises CoschedError naming the function that cannot be probed."""
        for function, entry, leave in probes:
            try:
                if entry:
                    self._bpf.attach_kprobe(event=function, fn_name=entry)
                if leave:
                    self._bpf.attach_kretprobe(event=function, fn_name=leave)
            except Exception as error:
                raise CoschedError(f"cannot probe {function}(): {error}: the sensors know Linux 7.2") from error

    def _detach(self, probes: tuple[_Probe, ...]) -> None:
        """Detach the attached probes; each takes the kernel a tenth of a second."""
        for function, _, _ in probes:
            if b"p_" + function.encode() in self._bpf.kprobe_fds:
                self._bpf.detach_kprobe(event=function)
            if b"r_" + function.encode() in self._bpf.kprobe_fds:
                self._bpf.detach_kretprobe(event=function)

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
        elif not wanted and self._fault_cpus():
            self._bpf.detach_perf_event(*_MAJOR_FAULTS)

    def _clear(self, stopped: frozenset[str]) -> None:
        """Take out of the shared maps what these sensors wrote."""
        if "sockets" in stopped:
            self._table("socks").clear()
        if "input" in stopped:
            self._table("input")[ctypes.c_int(0)] = self._table("input").Leaf()
        for tid, raw in list(self._items("obs")):
            if "faults" in stopped:
                raw.majflt = raw.swapin = raw.swap_addr = raw.flt_at = 0
                raw.flt = type(raw.flt)()
            if "sockets" in stopped:
                raw.rcv = raw.snd = raw.socks = raw.arrived = raw.exited = 0
            # a record begins with what its thread had faulted before, whichever sensor makes it
            if raw.socks or (raw.majflt and "faults" in self.active):
                self._table("obs")[tid] = raw
            else:
                self._table("obs").pop(tid, None)
