# SPDX-License-Identifier: GPL-2.0-or-later
"""The kernel's deadline server for sched_ext: the part of each CPU that SCHED_EXT tasks have beside fair ones.

Fair tasks outrank SCHED_EXT ones. The server runs SCHED_EXT tasks for `runtime` in each `period` nevertheless, on each
CPU by itself (debugfs, sched/ext_server/cpuN). What was there before is kept in a file, so that it comes back even if
the agent is killed.
"""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

from ctl.errors import FAILED, CoschedError
from ctl.kernel import sysinfo

__all__ = ["KEPT", "SERVERS", "begin_period", "cpus", "reserve", "restore"]

SERVERS = Path("/sys/kernel/debug/sched/ext_server")
KEPT = Path("/run/cosched/ext_server.json")
"""cpuN -> [runtime, period] in ns, as they were before `reserve`."""

_LEAST = 0.01  # of a CPU: with nothing a job beside busy local tasks would call the kernel's watchdog
_NS_PER_MS = 1_000_000


def cpus() -> list[Path]:
    """The servers of all CPUs. Raises CoschedError if this kernel has none, or lets nobody at them."""
    found = sorted(SERVERS.glob("cpu*"))
    if not found:
        raise CoschedError(
            f"contract=class needs the deadline server of sched_ext, and {SERVERS} has none: mount debugfs and use "
            "Linux 7.2, or load with --set contract=queue",
            FAILED,
        )
    try:
        _read(found[0])
    except PermissionError:
        raise CoschedError(_refused(), FAILED) from None
    return found


def _refused() -> str:
    """Why root may not read the servers, and what to do."""
    level = sysinfo.lockdown()
    locked = level not in ("", "none")
    why = f"this kernel is locked down ({level}), as with Secure Boot, and" if locked else "the kernel"
    return (
        f"contract=class needs the deadline server of sched_ext, and {why} lets nobody at {SERVERS}: load with --set "
        "contract=queue, under which CPU limits of others do not hold"
    )


def _read(cpu: Path) -> tuple[int, int]:
    return int((cpu / "runtime").read_text()), int((cpu / "period").read_text())


def _steps(before: int, runtime: int, period: int) -> list[tuple[str, int]]:
    """The writes that lead to this runtime and period, from the period `before`; ns.

    The kernel wants the runtime below the period, and room for the part of a CPU, at each step. A runtime of 0 between
    would do, but the kernel's log would have it that the system may starve.
    """
    steps = [("runtime", runtime), ("period", period)]
    return steps if period < before else steps[::-1]


def _write(cpu: Path, runtime: int, period: int) -> None:
    """Set one CPU's server; ns."""
    for name, value in _steps(_read(cpu)[1], runtime, period):
        try:
            (cpu / name).write_text(str(value))
        except OSError as error:
            raise CoschedError(
                f"the kernel refuses {runtime / _NS_PER_MS:g} of {period / _NS_PER_MS:g} ms of {cpu.name} for jobs "
                f"({error.strerror}): a smaller share_l leaves more to deadline tasks",
                FAILED,
            ) from None


def reserve(share: float, period_ms: int) -> None:
    """Give SCHED_EXT tasks this share (0 to 1) of every CPU, in each period. Raises CoschedError if it cannot be."""
    period = period_ms * _NS_PER_MS
    runtime = round(max(share, _LEAST) * period)
    servers = cpus()
    if not KEPT.exists():
        KEPT.parent.mkdir(mode=0o755, exist_ok=True)
        KEPT.write_text(json.dumps({cpu.name: _read(cpu) for cpu in servers}))
    for cpu in servers:
        if _read(cpu) != (runtime, period):
            _write(cpu, runtime, period)


def begin_period() -> None:
    """Have the period of each CPU's server begin now. Raises OSError if the kernel refuses.

    The kernel stops a server and starts it anew when one of its values is written, also with the value that it had.
    """
    for runtime, value in [(cpu / "runtime", (cpu / "runtime").read_text()) for cpu in cpus()]:
        runtime.write_text(value)


def restore() -> list[str]:
    """Put back what `reserve` found; one sentence if there was something to put back."""
    try:
        kept: dict[str, tuple[int, int]] = json.loads(KEPT.read_text())
    except (FileNotFoundError, json.JSONDecodeError):
        return []
    for name, (runtime, period) in kept.items():
        with contextlib.suppress(FileNotFoundError):
            _write(SERVERS / name, runtime, period)
    KEPT.unlink(missing_ok=True)
    return [f"put the deadline server of sched_ext back on {len(kept)} CPUs"]
