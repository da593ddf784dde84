# SPDX-License-Identifier: GPL-2.0-or-later
"""The social contract for people: the value of "contract" in `ctl status --json`. Reads only."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ctl.contract import ON_HOLD
from ctl.kernel import sysinfo
from ctl.node.jobs import Job
from ctl.node.set_quantum import Quanta, mpl_bound, quanta, window_share
from ctl.node.social import SocialContract
from ctl.policy import MODULES, Settings

__all__ = ["contract_report"]


def contract_report(contract: SocialContract, settings: Settings, jobs: Iterable[Job]) -> dict[str, Any]:
    """The local user, the epoch, the quanta, the memory and the cluster of this node."""
    now = quanta(
        settings.number("quantum_ms"),
        contract.weight,
        settings.number("share_l"),
        on=settings.on("quantum"),
        local_user=contract.user.present,
    )
    windows = settings.windows(len(sysinfo.online_cpus()))
    return {
        "kind": settings.word("contract"),
        "modules": {module: settings.on(module) for module in MODULES},
        "local_user": {"present": contract.user.present, "why": contract.user.why, "since": contract.user_since},
        "epoch": {"ms": settings.knob("epoch_ms"), "number": contract.shares.epochs},
        "speed": contract.speed(),
        "weight": contract.weight,
        "quantum": {
            "local_ms": now.local,
            "parallel_ms": now.parallel,
            "slowed_ms": now.slowed,
            "windows": windows,
            "set_share": _set_share(contract, settings, now, windows),
            "achieved_share": contract.shares.parallel,
            "busy_cpus": contract.shares.busy,
        },
        "slots": contract.slots.report(),
        "periods": contract.steps.report(),
        "memory": _memory(contract, settings, list(jobs)),
        "cluster": _cluster(contract),
    }


def _cluster(contract: SocialContract) -> dict[str, Any] | None:
    if contract.peers is None:
        return None
    known = contract.peers.status()
    for job in known["jobs"]:
        if contract.on_hold.get(job["jid"]) is not None:
            job |= {"state": ON_HOLD, "why": contract.on_hold.why(job["jid"])}
    return known


def _set_share(contract: SocialContract, settings: Settings, now: Quanta, windows: bool) -> float:
    """What jobs have of a CPU beside busy local tasks; without windows and under contract=queue, one against one."""
    share_l = settings.number("share_l")
    if settings.word("contract") == "class":
        return share_l
    if not windows:
        return now.set_share
    return window_share(share_l, even=settings.on("quantum") and not contract.slows)


def _memory(contract: SocialContract, settings: Settings, jobs: list[Job]) -> dict[str, Any]:
    epoch = contract.epoch
    stopped = [{"jid": job.jid, "why": contract.state(job.jid)[1]} for job in jobs if contract.pools.stopped(job.jid)]
    return {
        "pool": contract.pool(),
        "used": epoch.used if epoch else None,
        "held": contract.memory.limited,
        "paged_s": epoch.paged_s if epoch else None,
        "mpl_max": mpl_bound(int(settings.number("mpl")), contract.weight),
        "mpl_now": len(jobs) - len(stopped),
        "stopped": stopped,
    }
