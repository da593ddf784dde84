# SPDX-License-Identifier: GPL-2.0-or-later
"""The parts of a virtual machine, and the QEMU command line that makes it."""

from __future__ import annotations

import dataclasses
import datetime
import os
import re
from pathlib import Path

__all__ = ["CLUSTER", "EPOCH", "FEEDS", "HOST", "LOOPS", "NIC", "PORTS", "QMP", "Lockstep", "Machine", "Network",
           "command_line", "has_kvm"]

PORTS = ("control", "stdout", "stderr", "stdin", "out")  # virtio-serial ports 1 to 5: enum port in guest/guest.h
CLUSTER = "cluster"  # the port after them, on nodes of a cluster: see cluster.py
QMP = "qmp"  # no port: QEMU's own control socket
NIC = "net0"  # id of the network interface, for QMP

# In lock-step the plugin is between QEMU and the host (vm/lockstep/host.c): what we write goes to it, on sockets of
# their own; questions of the guest's and its frames go to it through sockets with both ends in QEMU.
HOST = "host"
FEEDS = {"control": "control-in", "stdin": "stdin-in"}
LOOPS = {CLUSTER: "cluster-out", NIC: "net-out"}
EPOCH = 1798761600  # Unix time at which the clocks of guests in lock-step begin: 2027-01-01, UTC

_ROUND_NS = 20_000  # guest time that several CPUs run side by side, until each sees what the others did
_SEND_NS = 1000  # guest time from a packet's being queued until the network card sends it, in lock-step

_KERNEL_OPTIONS = (
    "console=ttyS0", "quiet", "loglevel=5",
    "panic=-1", "oops=panic", "reboot=t",  # with -no-reboot a guest that dies ends QEMU at once
    "nokaslr", "mitigations=off", "random.trust_cpu=on", "audit=0",
    "tsc=reliable", "no_timer_check",  # the emulated counters are exact; checking them costs a tenth of a second
    "rcupdate.rcu_cpu_stall_timeout=120",  # the usual 21 s are for CPUs that are not emulated
    "8250.nr_uarts=1", "i8042.noaux", "i8042.nokbd",
    "cryptomgr.notests",  # self-tests that go on for a second after the first command has started
    "damon_stat.enabled=N",  # a sampling thread that would run beside whatever is measured
)
# Work of systemd for a new machine or for finding hardware, which takes an emulated CPU seconds.
_SYSTEMD_OPTIONS = (
    "COSCHED_INIT=systemd", "systemd.condition_needs_update=no", "systemd.firstboot=no", "systemd.show_status=no",
    *(f"systemd.mask={unit}" for unit in (
        "systemd-udev-trigger.service", "dev-hugepages.mount", "dev-mqueue.mount", "proc-sys-fs-binfmt_misc.automount",
        "systemd-binfmt.service", "systemd-random-seed.service", "modprobe@efi_pstore.service",
        "modprobe@drm.service", "modprobe@fuse.service", "sys-fs-fuse-connections.mount",
        "systemd-ask-password-console.path",
    )),
)


@dataclasses.dataclass(frozen=True)
class Network:
    """A wire that machines of this host share: a multicast group and port on its loopback device, GROUP:PORT."""

    group: str
    mac: str


@dataclasses.dataclass(frozen=True)
class Lockstep:
    """One of count guests in lock-step, numbered from 0. They share a file, which is empty before the first begins.

    quantum: us. clock: what the guest's clock shows, in ns since 1970, at the moment when it is switched on.
    """

    plugin: Path
    shared: Path
    number: int
    count: int
    quantum: int
    clock: int = EPOCH * 10**9
    seed: int = 1
    paced: bool = False  # while all idle, time passes no faster than the host's

    def plugin_words(self, fds: dict[str, int], mac: str, turns: list[str]) -> str:
        """Return the value of -plugin."""
        words = [str(self.plugin), f"shm={self.shared}", f"me={self.number}", f"n={self.count}",
                 f"quantum={self.quantum * 1000}", f"name=node{self.number + 1}", f"mac={mac}",
                 f"paced={int(self.paced)}", f"host={fds[HOST]}", f"wire={NIC}:{fds[LOOPS[NIC]]}",
                 f"ask={CLUSTER}:{fds[LOOPS[CLUSTER]]}", *(f"feed={name}:{fds[FEEDS[name]]}" for name in FEEDS),
                 *turns]
        return ",".join(word.replace(",", ",,") for word in words)


@dataclasses.dataclass(frozen=True)
class Machine:
    """One virtual machine: sizes in MB, latency in ms.

    abreast: the plugin of vm/lockstep, which has several CPUs run side by side in instruction-counted time.
    """

    emulator: tuple[str, ...]
    vmlinux: Path
    initrd: Path
    disks: tuple[Path, ...]
    cpus: int = 2
    memory: int = 1024
    swap: int = 0
    swap_latency: float = 0
    icount: bool = False
    one_thread: bool = False
    init: str = "minimal"
    append: str = ""
    monitor: Path | None = None
    network: Network | None = None
    lockstep: Lockstep | None = None
    abreast: Path | None = None
    extra: tuple[str, ...] = ()

    @property
    def pmem(self) -> bool:
        """Whether the disks are memory to the guest.

        A block device answers at a time that the host decides. If guest time counts instructions, an idle guest's clock
        jumps ahead meanwhile, by seconds to minutes. Reading memory only takes instructions.
        """
        return self.icount


def has_kvm() -> bool:
    """Tell whether guests can run on the CPU itself.

    /dev/kvm alone proves nothing: where the CPU lacks vmx and svm, QEMU opens it and the guest never starts.
    """
    try:
        flags = re.search(r"^flags\s*:(.*)$", Path("/proc/cpuinfo").read_text(), re.M)
        if flags is None or not {"vmx", "svm"} & set(flags.group(1).split()):
            return False
        os.close(os.open("/dev/kvm", os.O_RDWR | os.O_CLOEXEC))
    except OSError:
        return False
    return True


# The kernel and libc copy with `rep movsb` where a CPU says that it is fast. Where instructions are counted, an
# emulated CPU moves a byte a step, each of them an instruction: without these flags copying a page takes an eighth.
_EMULATED = "max,-erms,-fsrm"


def _processor(machine: Machine) -> list[str]:
    if machine.icount:
        # One instruction is 2^1 ns of guest time, and idle time passes at once.
        seed = machine.lockstep.seed if machine.lockstep else 1
        return ["-accel", "tcg,thread=single", "-icount", "shift=1,sleep=off", "-cpu", _EMULATED, "-seed", str(seed)]
    if has_kvm():
        return ["-accel", "kvm", "-cpu", "host"]
    # Page tables of four levels in place of five: an emulated CPU walks them at each miss of its TLB.
    return ["-accel", f"tcg,thread={'single' if machine.one_thread else 'multi'}", "-cpu", f"{_EMULATED},-la57"]


def _pmem_mb(machine: Machine) -> int:
    return sum(disk.stat().st_size >> 20 for disk in machine.disks) if machine.pmem else 0


def _memory(machine: Machine) -> str:
    """Return the memory of the emulated machine: the guest's own, its swap device, page tables for pmem."""
    own = machine.memory + machine.swap + machine.swap // 50 + _pmem_mb(machine) // 48
    return f"{own}M,maxmem={own + _pmem_mb(machine) + 4096}M" if machine.pmem else f"{own}M"


def _kernel_command_line(machine: Machine) -> str:
    words = list(_KERNEL_OPTIONS)
    if machine.icount or not has_kvm():
        # Spares the kernel timing its delay loop; delays use the time stamp counter, 1 GHz under icount.
        words.append("lpj=4000000" if machine.icount else "lpj=10000000")
    if machine.pmem:
        # Room for memory devices makes the kernel set bounce buffers aside that nothing here needs.
        words += ["COSCHED_DISKS=pmem", "swiotlb=noforce"]
    if machine.network is not None:
        words.append("net.ifnames=0")  # eth0, whoever finds it
    if machine.init == "systemd":
        words += _SYSTEMD_OPTIONS
    return " ".join([*words, *machine.append.split()])


def _disks(machine: Machine) -> list[str]:
    """Return the disks, each under a layer that takes the writes and is gone with the guest."""
    words = []
    for number, disk in enumerate(machine.disks):
        name, path = f"disk{number}", str(disk).replace(",", ",,")
        if machine.pmem:
            file = f"mem-path={path},size={disk.stat().st_size},share=off,readonly=on,rom=off"
            words += ["-object", f"memory-backend-file,id={name},{file}", "-device", f"virtio-pmem-pci,memdev={name}"]
        else:
            words += ["-drive", f"if=none,id={name},file={path},format=raw,snapshot=on,cache=unsafe",
                      "-device", f"virtio-blk-pci,drive={name}"]
    return words


def _ports(fds: dict[str, int]) -> list[str]:
    words = ["-device", "virtio-serial-pci,max_ports=8"]
    for number, name in enumerate((*PORTS, CLUSTER), 1):
        words += [] if name not in fds else [
            "-chardev", f"socket,id={name},fd={fds[name]}",
            "-device", f"virtserialport,chardev={name},nr={number},name={name}",
        ]
    return words


def _lockstep(machine: Machine, fds: dict[str, int]) -> list[str]:
    """Return what makes a guest depend on nothing but its inputs; vm/lockstep/lockstep.c says why."""
    turns = [f"round={_ROUND_NS}"] if machine.cpus > 1 else []
    if machine.lockstep is None or machine.network is None:
        return ["-plugin", ",".join([str(machine.abreast).replace(",", ",,"), *turns])] if machine.abreast else []
    return ["-plugin", machine.lockstep.plugin_words(fds, machine.network.mac, turns),
            "-rtc", f"base={datetime.datetime.fromtimestamp(EPOCH, datetime.UTC):%Y-%m-%dT%H:%M:%S},clock=vm",
            "-global", "virtio-serial-pci.ioeventfd=off",
            "-netdev", f"socket,id={NIC},fd={fds[NIC]}",
            "-device", f"virtio-net-pci,netdev={NIC},mac={machine.network.mac},romfile=,ioeventfd=off,"
            f"tx=timer,x-txtimer={_SEND_NS}"]


def _network(machine: Machine) -> list[str]:
    if machine.network is None or machine.lockstep is not None:
        return []
    return ["-netdev", f"socket,id={NIC},mcast={machine.network.group},localaddr=127.0.0.1",
            "-device", f"virtio-net-pci,netdev={NIC},mac={machine.network.mac},romfile="]  # no ROM: nothing boots by it


def command_line(machine: Machine, fds: dict[str, int], console: Path) -> list[str]:
    """Return the QEMU command for a machine whose ports are the given sockets and whose console goes to a file.

    fds: a file descriptor for each of PORTS, and where wanted for CLUSTER and QMP; in lock-step for HOST, and for those
    of FEEDS and LOOPS.
    """
    words = [
        *machine.emulator, "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
        "-machine", "q35,vmport=off,hpet=off,sata=off,smbus=off,usb=off,i8042=on", *_processor(machine),
        "-smp", str(machine.cpus), "-m", _memory(machine),
        "-kernel", str(machine.vmlinux), "-initrd", str(machine.initrd), "-append", _kernel_command_line(machine),
        *_disks(machine), *_ports(fds), *_network(machine), *_lockstep(machine, fds), "-device", "virtio-keyboard-pci",
        "-chardev", f"file,id=console,path={str(console).replace(',', ',,')}", "-serial", "chardev:console",
    ]
    if machine.monitor is not None:
        words += ["-monitor", f"unix:{str(machine.monitor).replace(',', ',,')},server=on,wait=off"]
    if QMP in fds:
        words += ["-chardev", f"socket,id={QMP},fd={fds[QMP]}", "-qmp", f"chardev:{QMP}"]
    return [*words, *machine.extra]
