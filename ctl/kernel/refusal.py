# SPDX-License-Identifier: GPL-2.0-or-later
"""Why a scheduler cannot be loaded, in one sentence with the way out."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Sequence
from pathlib import Path

from ctl.errors import FAILED, USAGE, CoschedError
from ctl.kernel import sysinfo
from ctl.kernel.btf import of_file, vmlinux
from ctl.kernel.layout import constant
from ctl.kernel.libbpf import LibbpfError

__all__ = [
    "check_cpus",
    "check_functions",
    "check_host",
    "check_kernel",
    "check_lockdown",
    "check_object",
    "check_vacant",
    "ended_at_once",
    "explain",
]

_MISSING = re.compile(r"extern \(func ksym\) '([^']+)': (not found|func_proto \S+ incompatible)")
_REJECTED = re.compile(r"prog '([^']+)': BPF program load failed")
_LOG = re.compile(r"-- BEGIN PROG LOAD LOG --\n(.*?)-- END PROG LOAD LOG --", re.DOTALL)
_SUMMARY = re.compile(r"(processed \d+ insns|verification time|stack depth|max_states)")
_PINNED = re.compile(r"couldn't reuse pinned map at '([^']+)'")


def check_host(object_path: Path) -> None:
    """Raise CoschedError (status 2) if no scheduler can be loaded here and now."""
    if os.geteuid() != 0:
        raise CoschedError(f"loading a scheduler needs root, this is user {os.geteuid()}: use sudo", USAGE)
    check_kernel()
    check_lockdown()
    check_object(object_path)
    check_vacant()


def check_kernel() -> None:
    """Raise CoschedError (status 2) if this kernel has no sched_ext."""
    if not sysinfo.has_sched_ext():
        raise CoschedError(
            f"kernel {os.uname().release} has no sched_ext: boot one with CONFIG_SCHED_CLASS_EXT, "
            "as Debian's from 7.2 on",
            USAGE,
        )


def check_lockdown(level: str | None = None) -> None:
    """Raise CoschedError (status 2) if this kernel lets no BPF program read its memory; `level`: as of sysinfo."""
    if (sysinfo.lockdown() if level is None else level) == "confidentiality":
        raise CoschedError(
            "the kernel is locked down (confidentiality) and lets no BPF program read its memory, which the scheduler "
            "does: boot with lockdown=integrity, which is what Secure Boot asks for",
            USAGE,
        )


def check_object(object_path: Path) -> None:
    """Raise CoschedError if the scheduler is not there."""
    if not object_path.is_file():
        raise CoschedError(f"there is no scheduler object {object_path}: build it, or set COSCHED_BPF_DIR", FAILED)


def check_vacant() -> None:
    """Raise CoschedError (status 2) if a scheduler is loaded."""
    if sysinfo.scx_state() != "disabled":
        raise _occupied()


def check_cpus() -> int:
    """The number of possible CPUs. Raises CoschedError (status 2) if the scheduler is built for fewer."""
    cpus, most = sysinfo.possible_cpus(), constant("MAX_CPUS")
    if cpus > most:
        raise CoschedError(
            f"this machine may have {cpus} CPUs, the scheduler is built for {most}: raise MAX_CPUS in bpf/cosched.h to "
            "a power of two, and compile it again",
            USAGE,
        )
    return cpus


def check_functions(object_path: Path) -> int:
    """How many functions of the kernel an object calls. Raises CoschedError (status 2) if the kernel lacks any."""
    with of_file(object_path) as types:
        wanted = types.externs()
    kernel = vmlinux()
    missing = [name for name in wanted if not kernel.has_function(name)]
    if missing:
        raise _lacking("lacks", missing, object_path.name.removesuffix(".bpf.o"))
    return len(wanted)


def _lacking(how: str, functions: Sequence[str], what: str) -> CoschedError:
    plural = "functions" if len(functions) > 1 else "function"
    return CoschedError(
        f"kernel {os.uname().release} {how} the {plural} {', '.join(functions)} that the {what} calls (BTF): "
        "boot the kernel it was built for",
        USAGE,
    )


def _occupied() -> CoschedError:
    """Another scheduler runs."""
    name = sysinfo.scx_ops() or "unknown"
    return CoschedError(f"the sched_ext scheduler {name!r} is loaded, there can be one: unload it first", USAGE)


def ended_at_once(reason: str, msg: str) -> CoschedError:
    """The kernel accepted the scheduler and then ended it; the sentence is from its exit record."""
    return CoschedError(f"the kernel ended the scheduler at once: {': '.join(filter(None, (reason, msg)))}", FAILED)


def explain(error: LibbpfError) -> CoschedError:
    """The sentence for a failed load."""
    printed = error.printed
    if missing := _MISSING.search(printed):
        how = "lacks" if missing[2] == "not found" else "has another kind of"
        return _lacking(how, [missing[1]], "scheduler")
    if rejected := _REJECTED.search(printed):
        return CoschedError(f"the verifier rejects program {rejected[1]}: {_verdict(printed)}", FAILED)
    if pinned := _PINNED.search(printed):
        return CoschedError(f"{pinned[1]} was pinned by another version: remove it, then load again", FAILED)
    if error.errno == errno.EBUSY:
        return _occupied()
    lines = [line for line in printed.splitlines() if line.strip()]
    detail = f" ({lines[-1].removeprefix('libbpf: ')})" if lines else ""
    return CoschedError(f"cannot {error.what}: {error.strerror}{detail}", FAILED)


def _verdict(printed: str) -> str:
    """The verifier's verdict: the last line of its log, without the lines on its own effort."""
    log = _LOG.search(printed)
    lines = [line for line in (log[1] if log else printed).splitlines() if line.strip()]
    telling = [line for line in lines if not _SUMMARY.match(line)]
    return telling[-1].strip() if telling else "no reason given"
