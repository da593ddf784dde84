# SPDX-License-Identifier: GPL-2.0-or-later
"""What this machine has of what cosched needs: what works, what does not, and what to do.

The checks are those that `ctl load`, the agent and the relay make themselves; here all are made, one after another, and
nothing is changed. A check returns what works, in words; it raises CoschedError if something does not work that is
needed, and `Limited` if cosched works without it.
"""

from __future__ import annotations

import asyncio
import contextlib
import grp
import os
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Final, NamedTuple

from ctl import protocol
from ctl.errors import CoschedError
from ctl.kernel import cgroups, ext_server, refusal, slurm, sysinfo
from ctl.kernel.btf import vmlinux
from ctl.kernel.pins import PINS
from ctl.kernel.probes import not_installed
from ctl.kernel.sockets import object_path as sensor_path
from ctl.policy import config
from ctl.process import run_files
from ctl.process.daemon import object_path as scheduler_path

__all__ = ["CHECKS", "Finding", "Limited", "State", "examine", "is_well"]

_MIB: Final = 1 << 20
_OURS: Final = "cosched"  # the name of our scheduler in sched_ext


class State(StrEnum):
    """The state of a part."""

    OK = "ok"
    LIMITED = "limited"  # something does not work that not everybody needs
    FAILS = "fails"  # something does not work that is needed


class Finding(NamedTuple):
    """What a check found."""

    check: str
    state: State
    text: str  # what works; or what does not, and what to do


class Limited(CoschedError):
    """Something does not work that not everybody needs."""


def examine(checks: Mapping[str, Callable[[], str]] | None = None) -> list[Finding]:
    """Make the checks, by default all; in their order."""
    return [_examine(name, check) for name, check in (CHECKS if checks is None else checks).items()]


def _examine(name: str, check: Callable[[], str]) -> Finding:
    try:
        return Finding(name, State.OK, check())
    except Limited as error:
        return Finding(name, State.LIMITED, error.sentence)
    except CoschedError as error:
        return Finding(name, State.FAILS, error.sentence)
    except ModuleNotFoundError as error:
        return Finding(name, State.FAILS, f"Python's {error.name} is missing: install it")
    except PermissionError as error:
        return Finding(name, State.LIMITED, f"user {os.geteuid()} may not look at {error.filename}: use sudo")


# the kernel


def _kernel() -> str:
    refusal.check_kernel()
    refusal.check_lockdown()
    return f"Linux {os.uname().release} has sched_ext; {refusal.check_cpus()} CPUs at most"


def _btf() -> str:
    vmlinux()
    return "the kernel describes its types (BTF)"


def _functions() -> str:
    paths = scheduler_path(), sensor_path()
    for path in paths:
        refusal.check_object(path)
    calls = [refusal.check_functions(path) for path in paths]
    return f"the kernel has all functions that the scheduler ({calls[0]}) and the sensor of sockets ({calls[1]}) call"


def _other_scheduler() -> str:
    refusal.check_kernel()
    if sysinfo.scx_ops() == _OURS and run_files.lock_is_held():
        return "cosched is loaded"
    refusal.check_vacant()
    return "no sched_ext scheduler is loaded"


def _deadline_server() -> str:
    with contextlib.suppress(FileNotFoundError):
        os.stat(ext_server.SERVERS)  # only root may look
    try:
        return f"jobs can have a share of each of {len(ext_server.cpus())} CPUs under contract=class"
    except CoschedError as error:
        raise Limited(error.sentence) from None


# memory and cgroups


def _cgroups(root: Path = cgroups.ROOT) -> str:
    cgroups.check_hierarchy(root)
    there = cgroups.check_controllers(root)
    children = [path for path in root.iterdir() if path.is_dir()]
    if children and not any((path / "cgroup.freeze").exists() for path in children):
        raise CoschedError(f"cgroups of {root} cannot be frozen (cgroup.freeze): Linux 5.2 or newer is needed")
    if missing := [name for name in cgroups.WELCOME if name not in there]:
        raise Limited(
            f"{root} has no {' and no '.join(missing)} controller, so `ctl run` cannot keep a limit on the number of "
            "tasks: enable it there"
        )
    return f"version 2, with {', '.join(sorted(there))}"


def _swap() -> str:
    memory = sysinfo.meminfo()
    total, free = memory["SwapTotal"], memory["SwapFree"]
    if not total:
        raise CoschedError(
            "there is no swap, and a job that Set_Memory or fit stops keeps its memory without: add swap of the jobs' "
            "size (mkswap, swapon)"
        )
    return f"{total // _MIB} MiB, {free // _MIB} MiB free"


def _pressure() -> str:
    if not sysinfo.pressure("memory"):
        raise CoschedError("the kernel does not tell pressure on memory (PSI): boot it with psi=1")
    return "the kernel tells pressure on memory (PSI)"


# this program and its parts


def _compiler() -> str:
    """bcc imports in a second, so it is only looked for."""
    if sentence := not_installed():
        raise Limited(f"{sentence}; until then a local user is assumed")
    return "bcc and the kernel's headers are there, for page faults and user input"


def _configuration() -> str:
    settings = config.load()
    return f"there is no {config.FILE}" if settings is None else f"nothing is wrong with {config.FILE}"


def _permissions() -> str:
    try:
        group = grp.getgrnam(_OURS).gr_gid
    except KeyError:
        raise Limited(f"there is no group {_OURS}, so only root can start jobs: groupadd --system {_OURS}") from None
    if os.geteuid() == 0:
        return f"root may do everything; members of group {_OURS} may start jobs"
    if group in (os.getegid(), *os.getgroups()):
        return f"user {os.geteuid()} is a member of group {_OURS} and may start jobs; root loads"
    raise CoschedError(f"user {os.geteuid()} is neither root nor a member of group {_OURS}: usermod -aG {_OURS} USER")


def _agent() -> str:
    if not run_files.lock_is_held():
        return "no agent runs"
    with protocol.Client() as agent:
        agent.call("ping")
    return f"an agent answers at {protocol.SOCKET}"


def _leftovers(parent: Path = cgroups.PARENT, pins: Path = PINS, server: Path = ext_server.KEPT) -> str:
    if run_files.lock_is_held():
        return "an agent runs, and undoes its changes when it ends"
    if sentence := run_files.left_behind():
        raise CoschedError(sentence)
    left = [str(leftover) for leftover in cgroups.JobCgroups(parent).leftovers()]
    with contextlib.suppress(FileNotFoundError):
        left += [f"{pins / name} is pinned" for name in sorted(os.listdir(pins))]
    if server.exists():
        left.append(f"the deadline server is as an agent set it ({server})")
    if left:
        raise CoschedError(f"an agent was killed and left this: {'; '.join(left)}; the next `ctl load` undoes it")
    return "no agent left anything"


# other programs


def _clock() -> str:
    error = sysinfo.clock_error()
    if error is None:
        raise Limited(
            "no time service keeps the clock: slots are not in step with other nodes, which drop this node's messages "
            "if it is a minute off; install chrony"
        )
    return f"a time service keeps it, within {error:.1f} ms"


def _cluster() -> str:
    from ctl.cluster.place import is_member

    if not is_member():
        return "this node is in no cluster"
    from ctl.cluster.link import Link
    from ctl.cluster.membership import Files

    files = Files()
    if files.read("broker") is not None:
        _broker()
    member = files.member()
    if member is None:
        return "this node is in no cluster"

    async def reach() -> str:
        link = Link(member, lambda: None)
        await link.connect(member.servers)
        server = link.server
        await link.close()
        return server

    return f"this node is {member.name}, and the broker at {asyncio.run(reach())} takes it"


def _broker() -> None:
    """Raise CoschedError if this node's own broker does not run."""
    from ctl.cluster.broker import PROGRAM
    from ctl.process import broker

    if not Path(PROGRAM).exists():
        raise CoschedError(f"this node's broker needs {PROGRAM}: install nats-server")
    if not broker.running():
        raise CoschedError("this node's broker does not run: `systemctl start cosched-broker`, or `ctl cluster serve`")


CHECKS: Final[Mapping[str, Callable[[], str]]] = {
    "kernel": _kernel,
    "BTF": _btf,
    "functions": _functions,
    "other scheduler": _other_scheduler,
    "deadline server": _deadline_server,
    "cgroups": _cgroups,
    "swap": _swap,
    "pressure": _pressure,
    "sensors": _compiler,
    "configuration": _configuration,
    "permissions": _permissions,
    "agent": _agent,
    "leftovers": _leftovers,
    "clock": _clock,
    "cluster": _cluster,
    "Slurm": slurm.check,
}
"""What is checked, in this order."""


def is_well(findings: Iterable[Finding]) -> bool:
    """Whether all that is needed is there."""
    return all(finding.state is not State.FAILS for finding in findings)
