# SPDX-License-Identifier: GPL-2.0-or-later
"""The experiments of CCS §5: configurations, workloads, and the scaling of the paper's sizes.

An experiment is a row: every configuration under every workload, some repetitions of each. A run of one configuration
under one workload is a `Case`. Everything that was scaled is in SCALES, which the results show in their heading.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from ctl.demo.scenario import FREEZER, STATIC

__all__ = [
    "CONFIGS",
    "EXPERIMENTS",
    "KERNELS",
    "MIXES",
    "NEEDS_MB",
    "PROFILES",
    "ROOM_MB",
    "SCALES",
    "WORK",
    "Case",
    "Config",
    "Experiment",
    "Kernel",
    "Profile",
    "Session",
    "Workload",
    "mix",
    "sessions",
]

WORK: Final = Path("/run/cosched-ccs")  # in the guests, a tmpfs
ROOM_MB: Final = 86  # a node's memory, beside what system, programs and measuring hold
NEEDS_MB: Final = 96  # what tasks need is a part of this: the sampler once took 10 MB out of a room of so much
SESSION_SCALE: Final = 1 / 120  # of the time local users stay
IDLE_S: Final = 2  # until a user who does nothing is gone
PERIOD_MS: Final = 200  # one cycle of a local user, undisturbed
PASS_S: Final = 10.0  # in which an undisturbed local user has gone once through all of its memory
PAGE_MS: Final = 0.4  # of a page to and from swap: jobs and users are quicker, too, and have fewer pages
EPOCH_MS: Final = 250
SAMPLES_HZ: Final = 250
LIMIT_S: Final = 150  # then a run is ended, and says which jobs had not
SHORT_S: Final = 60  # the same in the quick form, which is about local users

SCALES: Final = (
    ("nodes", "16 (8 in C(.15), C(.25) slower)", "2 virtual machines of 1 emulated CPU each; fit-4: 4"),
    ("memory M of a node", "512 MB", f"{ROOM_MB} MB, all else is held or locked; knob memory_mb"),
    ("what jobs and users need", "parts of M", f"the same parts of {NEEDS_MB} MB"),
    ("paging device", "a disk", f"{PAGE_MS} ms for each page, many at once"),
    ("read-ahead from swap", "Linux's own",
     "none: a fault brings one page (vm.page-cluster=0); in workload read-ahead Linux's own, 8 pages"),
    ("jobs", "48 of NAS classes A, B; Poisson",
     "6 of four kernels like IS, MG, CG, EP; fit-4: 9; the next starts when one ends"),
    ("tasks of a job", "4, 8 or 16", "2, one on each node; fit-4: 4 or 2"),
    ("MPL", "3", "3; fit-4: 4, of which one or two have 4 tasks"),
    ("local users at a time", "8 on 16 nodes", "1 on 2 nodes; fit-4: 2; who comes next comes to another node"),
    ("a local user's stay", "hyper-exponential: 10 or 60 min, weights .6, .4", "5 or 30 s, weights .6, .4"),
    ("local users' needs", "table 2, mean and deviation", "table 2, means; memory is gone through in 10 s"),
    ("no input until a user is gone", "60 s", f"{IDLE_S} s (knob local_idle_s)"),
    ("Def_Q; epoch", "210 ms; until all quanta are used", f"20 ms (the knob's default); {EPOCH_MS} ms"),
    ("slower nodes", "PCs of lower clock rate", "a real-time task takes 1 - W of the CPU; knob speed says so"),
)


@dataclass(frozen=True, slots=True)
class Profile:
    """A kind of local user (CCS table 2, means; B-CCS-19): CPU load, part of a node's memory, bytes/s in and out."""

    cpu: float
    memory: float
    received: int
    sent: int


PROFILES: Final = {
    "shell": Profile(0.40, 0.20, 108, 3),
    "xwin": Profile(0.15, 0.35, 608, 30),
    "internet": Profile(0.20, 0.60, 3154, 496),
    "hog": Profile(1.00, 0.01, 0, 0),  # not the paper's: computes without a pause
}
DISTRIBUTION: Final = {"shell": 0.05, "xwin": 0.62, "internet": 0.33}  # of table 2


@dataclass(frozen=True, slots=True)
class Kernel:
    """tests/progs/nas/NAME.c: part of NEEDS_MB that each rank uses, rounds, and what scales a round's CPU time."""

    memory: float
    rounds: int
    work: int


KERNELS: Final = {
    "is": Kernel(0.20, 12, 6),
    "mg": Kernel(0.18, 15, 4),
    "cg": Kernel(0.17, 15, 6),
    "ep": Kernel(0.16, 15, 12),
}
MIXES: Final = {  # by how much they communicate, as CCS table 3
    "COM_L": ("ep", "mg", "ep", "cg", "ep", "ep"),
    "COM_M": ("mg", "cg", "is", "mg", "ep", "cg"),
    "COM_H": ("is", "cg", "is", "mg", "is", "cg"),
    "pair": ("mg", "cg"),
    "nine": ("mg", "cg", "is", "mg", "ep", "cg", "mg", "cg", "is"),
}


_PAIRS: Final = tuple((f"node{a}", f"node{b}") for a, b in ((1, 2), (3, 4), (2, 3), (4, 1), (1, 3), (2, 4)))


@dataclass(frozen=True, slots=True)
class Workload:
    """What runs: `users` is a profile, or "mix" as table 2 distributes them; `locals` of them at a time."""

    name: str
    mix: str = "COM_M"
    users: str = "mix"
    locals: int = 1
    mpl: int = 3
    size: float = 1.0  # of the jobs' memory
    rooms: tuple[float, ...] = (1.0, 1.0)  # of ROOM_MB, the nodes'
    weights: tuple[float, ...] = (1.0, 1.0)  # W of the nodes
    page_cluster: int = 0  # vm.page-cluster: a fault brings 2^page_cluster pages from swap
    ranks: tuple[int, ...] = (2,)  # of the jobs, in turn; each rank of a job is on a node of its own

    @property
    def nodes(self) -> tuple[str, ...]:
        """Their names."""
        return tuple(f"node{number}" for number in range(1, len(self.rooms) + 1))

    def hosts(self, job: int) -> tuple[str, ...]:
        """The nodes of a job, from 0 on: all nodes, or each pair in turn, so that all nodes have as many ranks."""
        width = self.ranks[job % len(self.ranks)]
        if width == len(self.nodes):
            return self.nodes
        before = sum(self.ranks[each % len(self.ranks)] == width for each in range(job))
        return _PAIRS[before % len(_PAIRS)]

    @property
    def jobs(self) -> tuple[str, float]:
        """The jobs: workloads with equal values have the same jobs."""
        return self.mix, self.size


@dataclass(frozen=True, slots=True)
class Config:
    """A scheduler: a policy with knobs on both nodes, None: the kernel's own.

    `gang`: Slurm starts the jobs, and has those that may run take turns on both nodes, 5 s each, the shortest it has;
    otherwise mpiexec alone starts them. `peer`: what runs instead of a policy, as in the demo (ctl/demo/scenario.py).
    """

    name: str
    policy: str | None
    knobs: dict[str, Any] = field(default_factory=dict)
    gang: bool = False
    peer: str = ""


def _stages() -> tuple[Config, ...]:
    """CCS F. 5, module by module (B-CCS-21: each is compared with the one before it)."""
    off = {"quantum": "off", "memory": "off", "events": "off"}
    return (
        Config("eevdf", None),
        Config("slurm-gang", None, gang=True),
        Config("dyn", "dyn"),
        Config("+Insert_RQ", "ccs", off),
        Config("+Set_Memory", "ccs", off | {"memory": "on"}),
        Config("+Set_Quantum", "ccs", off | {"memory": "on", "quantum": "on"}),
        Config("ccs", "ccs"),  # + Events
    )


CONFIGS: Final = {
    config.name: config
    for config in (
        *_stages(),
        *(Config(peer, None, peer=peer) for peer in (STATIC, FREEZER)),
        Config("pred", "pred"),
        Config("zhang", "zhang"),
        Config("poly", "poly"),
        *(Config(f"ccs:L={share:g}", "ccs", {"share_l": share}) for share in (0.25, 0.5, 1.0)),
        Config("ccs:spin_ms=0", "ccs", {"spin_ms": 0}),
        *(Config(f"ccs:epochs={word}", "ccs", {"epochs": word}) for word in ("off", "jobs")),
        Config("ccs:class", "ccs", {"contract": "class"}),
        Config("ccs:class+step", "ccs", {"contract": "class", "contract_period_ms": 200, "contract_step": "on"}),
        Config("fit", "fit"),
        *(Config(f"fit:L={share:g}", "fit", {"share_l": share}) for share in (0.33, 0.4)),
    )
}


@dataclass(frozen=True, slots=True)
class Case:
    """One run: a configuration under a workload, for the nth time; config "alone": the baselines of the workload.

    seed: of users, jobs and guests, the same for all configurations. lockstep: what runs it, see docs/lockstep.md.
    """

    experiment: str
    workload: str
    config: str
    repetition: int
    limit_s: float = LIMIT_S
    seed: int = 1
    lockstep: bool = True


@dataclass(frozen=True, slots=True)
class Experiment:
    """A row: `short` are the names of workloads and configurations of the quick form."""

    name: str
    title: str
    workloads: tuple[Workload, ...]
    configs: tuple[str, ...]
    short: tuple[str, ...] = ()

    @property
    def nodes(self) -> tuple[str, ...]:
        """Their names."""
        return self.workloads[0].nodes

    def workload(self, name: str) -> Workload:
        """The workload of this name."""
        return next(each for each in self.workloads if each.name == name)

    def unknown(self, names: tuple[str, ...]) -> list[str]:
        """Those that are neither workloads nor configurations of it."""
        return [name for name in names if name not in self.configs and name not in {w.name for w in self.workloads}]

    def cases(
        self, repetition: int, names: tuple[str, ...] = (), seed: int = 1, lockstep: bool = True
    ) -> Iterator[Case]:
        """The runs of one repetition, the kernel's own scheduler first or last in turn; first of all the baselines.

        `names`: only these workloads and configurations; all where no workload, or no configuration, is among them.
        `seed`: of the first repetition; each has the next.
        """
        kind: dict[str, Any] = {"seed": seed + repetition, "lockstep": lockstep}
        workloads = [each for each in self.workloads if each.name in names] or list(self.workloads)
        configs = [each for each in self.configs if each in names] or list(self.configs)
        if repetition % 2:
            configs.reverse()
        for workload in workloads if repetition == 0 else ():
            yield Case(self.name, workload.name, "alone", 0, **kind)
        for same in dict.fromkeys(each.jobs for each in workloads):  # whose jobs are started once for all
            for config in configs:
                for workload in (each for each in workloads if each.jobs == same):
                    yield Case(self.name, workload.name, config, repetition, **kind)


_FITS_AND_NOT: Final = (Workload("fits", users="shell"), Workload("overload", users="internet", size=2.0))
_READ_AHEAD: Final = Workload("read-ahead", users="internet", size=2.0, page_cluster=3)  # as Linux has it
EXPERIMENTS: Final = {
    each.name: each
    for each in (
        Experiment(
            "ccs-modules",
            "What each module of CCS contributes (CCS F. 5)",
            _FITS_AND_NOT,
            (*(config.name for config in _stages()), "ccs:class"),
            short=("overload", "eevdf", "ccs"),
        ),
        Experiment(
            "fit",
            "Jobs that fit: who is in memory, and who has the CPU first (policy fit)",
            (*_FITS_AND_NOT, _READ_AHEAD),
            ("eevdf", STATIC, FREEZER, "slurm-gang", "ccs", "fit", "fit:L=0.33", "fit:L=0.4"),
            short=("overload", "eevdf", "fit"),
        ),
        Experiment(
            "fit-4",
            "Jobs that fit, on four nodes: jobs of four ranks and of two",
            (Workload("overload", mix="nine", users="internet", locals=2, mpl=4, size=2.0, rooms=(1.0,) * 4,
                      weights=(1.0,) * 4, ranks=(4, 2, 2)),),
            ("eevdf", STATIC, FREEZER, "slurm-gang", "ccs", "fit"),
            short=("overload", "eevdf", "fit"),
        ),
        Experiment(
            "ccs-share",
            "The part L of a node that is the jobs' (CCS F. 6, F. 7)",
            tuple(Workload(mix, mix=mix) for mix in ("COM_L", "COM_M", "COM_H")),
            ("dyn", "pred", "ccs:L=0.25", "ccs:L=0.5", "ccs:L=1"),
            short=("COM_H", "pred", "ccs:L=0.5"),
        ),
        Experiment(
            "ccs-hetero",
            "Nodes of different speed and memory (CCS F. 8)",
            (
                Workload("C(0)", size=0.6),
                Workload("C(.15)", size=0.6, rooms=(1.0, 0.5), weights=(1.0, 0.7)),
                Workload("C(.25)", size=0.6, rooms=(0.5, 0.5), weights=(1.0, 0.5)),
            ),
            ("dyn", "pred", "zhang", "poly", "ccs"),
            short=("C(.25)", "pred", "ccs"),
        ),
        Experiment(
            "waiting-jobs",
            "Two jobs on two nodes beside a busy local task: what their waiting costs",
            (Workload("hog", mix="pair", users="hog", locals=2, mpl=2, size=0.3),),
            ("eevdf", "ccs:spin_ms=0", "ccs:epochs=off", "ccs:epochs=jobs", "ccs", "ccs:class", "ccs:class+step"),
            short=("hog", "eevdf", "ccs"),
        ),
    )
}


@dataclass(frozen=True, slots=True)
class Session:
    """A local user's stay: seconds that it would take undisturbed."""

    profile: str
    seconds: float


def mix(workload: Workload, seed: int) -> list[str]:
    """The kernels of the workload's jobs, in the order in which they come."""
    kernels = list(MIXES[workload.mix])
    random.Random(f"{workload.mix} {seed}").shuffle(kernels)
    return kernels


def sessions(workload: Workload, seed: int) -> Iterator[Session]:
    """Who comes, one after the other, for ever: the same under every configuration."""
    drawn = random.Random(f"{workload.users} {seed}")
    while True:
        mean_s = (10 if drawn.random() < 0.6 else 60) * 60 * SESSION_SCALE
        length = max(2.0, drawn.expovariate(1 / mean_s))
        who = workload.users
        if who == "mix":
            who = drawn.choices(list(DISTRIBUTION), list(DISTRIBUTION.values()))[0]
        yield Session(who, 1e6 if who == "hog" else length)
