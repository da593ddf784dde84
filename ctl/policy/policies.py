# SPDX-License-Identifier: GPL-2.0-or-later
"""The policies. Each is a row: a name, an insert rule of bpf/insert_rq.h, and the modules that are on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ctl.errors import USAGE, CoschedError, brief
from ctl.policy.knobs import Value

__all__ = [
    "DEFAULT_POLICY",
    "MODULES",
    "POLICIES",
    "Policy",
    "check_contract",
    "contract_faults",
    "contracts",
    "epochs",
    "find_policy",
    "is_on",
]

DEFAULT_POLICY = "csm"

MODULES = ("quantum", "memory", "events", "slots", "fit")
"""The modules: the parts of CCS beside Insert_RQ (CCS §4, F. 2), the slots of Monito's explicit coscheduling, and the
admission of jobs by memory. Each is a knob and a column of the policy table."""

_LEAST_STEP_MS = 20  # of contract_period_ms with contract_step: beginning a period takes the agent up to a millisecond


@dataclass(frozen=True)
class Policy:
    """One row of the policy table."""

    name: str
    rule: str  # insert rule, as in enum insert_rule
    meaning: str
    reference: str
    quantum: bool = False  # Set_Quantum
    memory: bool = False  # Set_Memory
    events: bool = False  # Sending_Events and Receiving_Events
    slots: bool = False  # stops of all jobs by the clock
    fit: bool = False  # only jobs run whose memory fits together
    contract: str = "queue"  # the contract it is loaded with, unless the knob is set
    share_l: float = 0.5  # L, the same

    def loaded_with(self) -> dict[str, Value]:
        """Knobs whose value at load is the row's, unless they are set."""
        return {"contract": self.contract, "share_l": self.share_l}

    def has(self, module: str) -> bool:
        """Whether this row switches a module of MODULES on."""
        return bool(getattr(self, module))


_POLICIES = (
    Policy("rr", "fifo", "every task goes to the tail of the ready queue", "CSM §4.1, §5.1"),
    Policy(
        "pred",
        "pred",
        "a parallel task overtakes tasks that communicate less, past and present (mes)",
        "CSM §4.2, §5.1",
    ),
    Policy("dyn", "dyn", "a parallel task with a received message goes to the top, else to the tail", "CSM §5.1"),
    Policy(
        "sdca",
        "sdca",
        "a parallel task overtakes tasks with fewer received messages",
        "Monito Alg. 2, B-MO-1",
    ),
    Policy(
        "dynamic",
        "dynamic",
        "a message puts its task on the CPU if this task used less CPU, by `share_ms`, than the running task",
        "Monito §5.3, B-MO-7",
    ),
    Policy(
        "csm",
        "csm",
        "by mes while memory fits; under overload, received messages lead to the top, else fewer faults lead up",
        "CSM Alg. 1",
    ),
    Policy(
        "csm-bounded",
        "csm-bounded",
        "as csm, but a received message leads up only past tasks overtaken fewer than mnol or mnod times",
        "B-CSM-5",
    ),
    Policy(
        "csm-first",
        "csm-first",
        "as csm, but under overload by faults first; messages decide between tasks with equal faults",
        "B-CSM-6",
    ),
    Policy("csm-paper", "csm", "csm by another name: Algorithm 1 as printed", "CSM Alg. 1, B-CSM-5"),
    Policy(
        "ccs",
        "ccs",
        "by messages now queued while memory fits, by page faults of the last second under overload",
        "CCS Alg. 1 to 3, §4.3, B-CCS-1, B-CCS-3",
        quantum=True,
        memory=True,
        events=True,
    ),
    Policy(
        "fit",
        "order",
        "jobs stand in one order on all nodes; only those run whose memory fits beside the local tasks, the others "
        "wait, stopped or not yet begun; of those that run, tasks of the first job go first",
        "ParPar §3.2, docs/design.md, Jobs that fit",
        events=True,
        fit=True,
        contract="class",
        share_l=0.25,  # by measurement: results/fit.md
    ),
    Policy("poly", "ccs", "as ccs, without Set_Quantum and events", "CCS §5.1", memory=True),
    Policy("zhang", "fifo", "as rr, with Set_Quantum", "CCS §5.1", quantum=True),
    Policy(
        "implicit",
        "implicit",
        "spin-block from outside the MPI library: a rank that polls in vain for `spin_ms` gives up the CPU, and runs "
        "at once when a message comes; a message for a ready rank does not move the rank",
        "Monito §2.2, §5.2 SPIN, B-MO-10",
    ),
    Policy(
        "explicit",
        "prio",
        "as prio; also, all jobs are stopped for `slot_stop_ms` after each `slot_run_ms`, at the same time on all "
        "nodes whose clocks agree",
        "Monito §2.1, §5.2",
        slots=True,
    ),
    Policy(
        "prio",
        "prio",
        "tasks of jobs go ahead of all local tasks, whatever these suffered; for measurements, because a local task "
        "has only one turn in `starve_ms`",
        "Monito §5.2, B-MO-14",
    ),
)

POLICIES: Mapping[str, Policy] = {policy.name: policy for policy in _POLICIES}


def find_policy(name: str) -> Policy:
    """The policy of this name. Raises CoschedError (status 2), which lists all names."""
    policy = POLICIES.get(name)
    if policy is None:
        raise CoschedError(f"no policy is called {brief(name)}: choose one of {', '.join(POLICIES)}", USAGE)
    return policy


def contracts(policy: Policy) -> tuple[str, ...]:
    """The contracts under which a policy has a meaning, the one it is loaded with first: rule `prio` orders jobs
    against local tasks, so one queue.

    >>> contracts(POLICIES["csm"]), contracts(POLICIES["fit"]), contracts(POLICIES["prio"])
    (('queue', 'class'), ('class', 'queue'), ('queue',))
    """
    both = ("queue", "class") if policy.contract == "queue" else ("class", "queue")
    return ("queue",) if policy.rule == "prio" else both


def contract_faults(policy: Policy, values: Mapping[str, Value]) -> list[str]:
    """Where policy and knobs ask for two rules of memory, or for what contract=class cannot give; one sentence each.

    >>> [len(contract_faults(POLICIES[name], {"contract": "class"})) for name in ("csm", "prio")]
    [0, 1]
    """
    faults = []
    if is_on(policy, "memory", values) and is_on(policy, "fit", values):
        faults.append(
            f"policy {policy.name} with these knobs has Set_Memory and fit on, and both decide which jobs are stopped: "
            "set memory=off or fit=off"
        )
    if values.get("contract") != "class":
        return faults
    if "class" not in contracts(policy):
        faults.append(
            f"policy {policy.name} puts jobs ahead of local tasks, which contract=class leaves to the kernel's own "
            "scheduler: load it with contract=queue"
        )
    if values.get("classify") == "mes":
        faults.append(
            "classify=mes looks for parallel tasks among all, and contract=class has tasks of jobs only: choose "
            "classify=cgroup, or load with contract=queue"
        )
    period = values.get("contract_period_ms", 0)
    if values.get("contract_step") == "on" and isinstance(period, int) and 0 < period < _LEAST_STEP_MS:
        faults.append(
            f"contract_step=on is work for the agent in each period, and contract_period_ms={period} leaves the CPU "
            f"too little else: give {_LEAST_STEP_MS} ms or more, or contract_step=off"
        )
    return faults


def check_contract(policy: Policy, values: Mapping[str, Value]) -> None:
    """Raise CoschedError (status 2) with the first of `contract_faults`."""
    for fault in contract_faults(policy, values):
        raise CoschedError(fault, USAGE)


def is_on(policy: Policy, module: str, values: Mapping[str, Value]) -> bool:
    """Whether a module of MODULES is on. Its knob decides; if the knob is `policy`, the policy's row decides.

    >>> is_on(POLICIES["ccs"], "quantum", {"quantum": "policy"}), is_on(POLICIES["ccs"], "quantum", {"quantum": "off"})
    (True, False)
    """
    word = values.get(module, "policy")
    return policy.has(module) if word == "policy" else word == "on"


def epochs(policy: Policy, values: Mapping[str, Value]) -> str:
    """What a task has in an epoch of a ready queue: the word of the knob `epochs`, `policy` resolved.

    Set_Quantum bounds a share only where a task that blocks has no new quantum before the epoch ends. Under
    contract=class the kernel's deadline server bounds the share.

    >>> epochs(POLICIES["ccs"], {"contract": "queue"}), epochs(POLICIES["ccs"], {"contract": "class"})
    ('task', 'off')
    """
    word = str(values.get("epochs", "policy"))
    if word != "policy":
        return word
    return "task" if is_on(policy, "quantum", values) and values.get("contract") == "queue" else "off"
