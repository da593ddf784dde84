# SPDX-License-Identifier: GPL-2.0-or-later
"""The command lines of vm/build and vm/run. They use argparse, because they also run before anything is installed."""

from __future__ import annotations

import argparse
import os
import re
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from vm import bpf, checkout, custom, emulator, image, initrd, patched, qemu, session
from vm.host import VmError, need_programs
from vm.lockstep import build as lockstep

__all__ = ["EXIT_STATUS", "add_options", "between", "build", "build_machine", "environment", "guarded", "run"]

EXIT_STATUS = ("Exit status: that of the command; 124: it did not end in time; 125: the guest died or ran out of "
               "memory; 2: wrong options.")

_PATCHED = "patched"
_MAX_CPUS = 64
_MIN_MEMORY, _MAX_MEMORY = 128, 1 << 20  # MB
_MAX_LATENCY = 10_000  # ms


def build(argv: list[str] | None = None) -> int:
    """Entry point of vm/build."""
    parser = argparse.ArgumentParser(prog="vm/build", description="Build the image, the BPF objects and the init.")
    default = image.Source.from_environment()
    parser.add_argument("--mirror", default=default.mirror, metavar="URL",
                        help="Debian mirror (COSCHED_MIRROR; %(default)s)")
    parser.add_argument("--snapshot", default=default.snapshot, metavar="DATE",
                        help="a day of snapshot.debian.org, e.g. 20261101T000000Z (COSCHED_SNAPSHOT)")
    parser.add_argument("--rebuild", action="store_true", help="build the image anew, even without changes")
    parser.add_argument("--patched-kernel", action="store_true",
                        help="build the kernel with the patches of kernel-patches/ instead, and print its file")
    options = parser.parse_args(argv)
    source = image.Source(options.mirror, options.snapshot)
    if options.patched_kernel:
        return guarded(lambda: _build_patched(source))
    return guarded(lambda: _build(source, options.rebuild))


def _build(source: image.Source, rebuild: bool) -> int:
    made = image.ensure(source, rebuild=rebuild)
    emulator.ensure(source)
    initrd.ensure(made, made.modules)
    bpf.ensure(made)
    print(made.path)
    return 0


def _build_patched(source: image.Source) -> int:
    print(patched.ensure(image.ensure(source), source))
    return 0


def run(argv: list[str] | None = None) -> int:
    """Entry point of vm/run."""
    options = _run_parser().parse_args(argv)
    return guarded(lambda: _run(options))


def _run_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="vm/run", description="Run a command as root in a fresh virtual machine, this checkout at /src.",
        epilog=EXIT_STATUS,
    )
    add_options(parser)
    return parser


def add_options(parser: argparse.ArgumentParser, cpus: int = 2, memory: int = 1024) -> None:
    """Add the options of vm/run, and the command; cpus and memory (MB) are the defaults."""
    add = parser.add_argument
    add("--cpus", type=between("CPUs", 1, _MAX_CPUS), default=cpus, metavar="N", help="default %(default)s")
    add("--memory", type=between("MB", _MIN_MEMORY, _MAX_MEMORY), default=memory, metavar="MB",
        help="default %(default)s")
    add("--swap", type=_swap, default=(0, 0.0), metavar="MB[:MS]",
        help="a swap device, beside the memory, each request taking MS milliseconds of guest time")
    add("--icount", action="store_true", help="guest time counts instructions: timings repeat within 1 %%")
    add("--one-thread", action="store_true",
        help="emulate all CPUs in one thread, in turns of up to 0.1 s; otherwise a kernel that patches itself often "
        "dies, rarely, on a busy host")
    add("--kernel", type=_kernel, metavar="PATH",
        help="another kernel: a bzImage or vmlinux, with lib/modules beside it; 'patched': what './just kernel' built")
    add("--timeout", type=_seconds, metavar="S", help="end the guest after S seconds, status 124")
    add("--out", type=Path, metavar="DIR", help="directory for the files that the command leaves in /out")
    add("--init", choices=("minimal", "systemd"), default="minimal", help="process 1 of the guest")
    add("--append", default="", metavar="ARGS", help="more kernel command line")
    add("--monitor", type=Path, metavar="SOCKET", help="QEMU's text monitor on a Unix socket, e.g. for sendkey")
    add("--tty", action="store_true", help="give the command this terminal")
    add("--timing", action="store_true", help="tell on stderr how long the boot took")
    add("--env", action="append", type=_variable, default=[], metavar="NAME=VALUE",
        help="set in the command's environment")
    add("command", nargs="+", metavar="CMD")


def between(unit: str, low: int, high: int) -> Callable[[str], int]:
    """Return argparse's type for whole numbers in a range."""
    def convert(text: str) -> int:
        if not text.isdecimal() or not low <= int(text) <= high:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from {low} to {high} ({unit})")
        return int(text)
    return convert


def _swap(text: str) -> tuple[int, float]:
    match = re.fullmatch(r"(\d{1,7})(?::(\d{1,5}(?:\.\d{1,3})?))?", text)
    size, latency = (int(match.group(1)), float(match.group(2) or 0)) if match else (0, 0.0)
    if not 1 <= size <= _MAX_MEMORY or latency > _MAX_LATENCY:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not MB or MB:MS with 1 to {_MAX_MEMORY} MB of swap and 0 to {_MAX_LATENCY} ms for a request")
    return size, latency


def _seconds(text: str) -> float:
    if not re.fullmatch(r"\d+(\.\d*)?", text) or float(text) <= 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive number of seconds")
    return float(text)


def _kernel(text: str) -> Path:
    """Return the kernel's file, and for 'patched', whose place depends on the image, a path of that name."""
    if text == _PATCHED:
        return Path(text)
    if not os.access(text, os.R_OK) or not Path(text).is_file():
        raise argparse.ArgumentTypeError(f"{text!r} is not a file that can be read")
    return Path(text)


def _variable(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return name, value


def environment(extra: list[tuple[str, str]]) -> dict[str, str]:
    """Return the environment of commands in guests."""
    return {
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "USER": "root",
        "SHELL": "/bin/bash", "LANG": "C.UTF-8", "TERM": os.environ.get("TERM", "dumb"), "PYTHONPATH": "/src",
        "COSCHED_BPF_DIR": "/usr/lib/cosched", "COSCHED_COMMIT": checkout.commit(), **dict(extra),
    }


def build_machine(options: argparse.Namespace) -> qemu.Machine:
    """Return the machine the options ask for, with everything it boots built."""
    need_programs(["mke2fs", "git", "setpriv"])
    made = image.ensure()
    disks: list[Path | None] = [made.disk, checkout.ensure(made)]
    vmlinux = made.kernel.vmlinux
    modules: Path | None = made.modules
    if options.kernel is not None:
        own = custom.load(patched.find(made) if options.kernel == Path(_PATCHED) else options.kernel)
        vmlinux, modules = own.vmlinux, own.modules
        disks.append(custom.modules_disk(own, made))
    swap, latency = options.swap
    program = tuple(emulator.ensure())
    abreast = None
    if options.icount and options.cpus > 1:
        abreast = lockstep.ensure(made)
        lockstep.check(program, abreast)
    return qemu.Machine(
        emulator=program, vmlinux=vmlinux, initrd=initrd.ensure(made, modules, pmem=options.icount),
        disks=tuple(disk for disk in disks if disk is not None), cpus=options.cpus, memory=options.memory, swap=swap,
        swap_latency=latency, icount=options.icount, one_thread=options.one_thread, init=options.init,
        append=options.append, monitor=options.monitor, abreast=abreast,
    )


def _run(options: argparse.Namespace) -> int:
    command = session.Command(tuple(options.command), environment(options.env), options.tty, options.out)
    one = session.Session(build_machine(options), command, options.timeout)
    try:
        return one.run()
    finally:
        if options.timing:
            print(f"vm/run: first command after {one.wall:.2f} s, at guest uptime {one.uptime:.2f} s", file=sys.stderr)


def _report(sentence: str, detail: str = "") -> None:
    if detail:
        print("\n".join(f"| {line}" for line in detail.splitlines()), file=sys.stderr)
    print(f"vm: {sentence}", file=sys.stderr)


def guarded(work: Callable[[], int]) -> int:
    """Run work and turn what can go wrong into a sentence and an exit status."""
    def terminated(number: int, _frame: object) -> None:
        raise SystemExit(128 + number)
    signal.signal(signal.SIGTERM, terminated)
    signal.signal(signal.SIGHUP, terminated)
    try:
        return work()
    except VmError as err:
        _report(str(err), err.detail)
        return session.TIMED_OUT if isinstance(err, session.TimedOutError) else session.BROKEN
    except BrokenPipeError:
        return 128 + signal.SIGPIPE
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
