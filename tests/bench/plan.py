# SPDX-License-Identifier: GPL-2.0-or-later
"""The plan of measurements: every scheduler and every benchmark, declared once.

Read by the host side, which chooses and reports, and by the guest side, which runs. Times are nanoseconds of guest
time; under --icount one instruction takes 2 ns.
"""

from __future__ import annotations

import dataclasses

__all__ = ["BASELINE", "BENCHMARKS", "INSN_KERNEL", "INSN_LOADS", "NS_PER_INSTRUCTION", "ON", "PARTS", "SCHEDULERS",
           "SMP", "Benchmark", "Load", "Part", "Scheduler", "runs"]

NS_PER_INSTRUCTION = 2
BASELINE = "eevdf"
ON = "@"  # between the name of a part or scheduler and the kernel, where it is not the image's

_HOLD = ("python3", "-m", "tests.bench.hold")


@dataclasses.dataclass(frozen=True)
class Scheduler:
    """A column of the table.

    start is the command that brings it, empty for nothing; ops the name the kernel shows while it is loaded, "" where
    no scheduler is. kind says how it is kept: "stdin", until the command's input ends; "signal", until the command is
    terminated; "ctl", until "ctl unload". how is what Linux is asked for a job, as progs/barriers.c names it.
    """

    name: str
    title: str
    start: tuple[str, ...] = ()
    ops: str = ""
    kind: str = "stdin"
    how: str = "plain"


@dataclasses.dataclass(frozen=True)
class Benchmark:
    """A row of the table. argv: {dir} is the directory of the programs, {job} the cgroup.procs file of a parallel job,
    {other} that of another one; {as} how the scheduler's jobs are run; {cpus}, {half} and {twice} numbers of CPUs.

    quick is argv with less work. job: a task of each job is there, asleep, so that the node is not all local.
    """

    name: str
    title: str
    unit: str
    argv: tuple[str, ...]
    quick: tuple[str, ...]
    job: bool = False
    hackbench: bool = False


@dataclasses.dataclass(frozen=True)
class Load:
    """The load while instructions are counted; only: its schedulers, empty for all."""

    name: str
    argv: tuple[str, ...]
    job: bool = False
    only: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Part:
    """The work of a virtual machine: schedulers in turn with the baseline between them, and options of vm/run.

    group: a name for several parts; named: the part runs only if it is named, or its group.
    """

    name: str
    title: str
    schedulers: tuple[str, ...]
    benchmarks: tuple[str, ...] = ()
    insn: bool = False
    vm: tuple[str, ...] = ()
    cpus: int = 1
    group: str = ""
    named: bool = False


def _ctl(*knobs: str, policy: str = "csm") -> tuple[str, ...]:
    return ("ctl", "load", "--wait", "--policy", policy, *(word for knob in knobs for word in ("--set", knob)))


_SCHEDULERS = (
    Scheduler(BASELINE, "EEVDF"),
    Scheduler("floor", "no callbacks", ("{dir}/scxload", "{dir}/floor.bpf.o"), "bench_floor"),
    Scheduler("simple", "scx_simple", ("{dir}/scx_simple",), "simple", "signal"),
    Scheduler("flatcg", "scx_flatcg", ("{dir}/scx_flatcg",), "flatcg", "signal"),
    Scheduler("csm", "csm, sensors off", _ctl("sensors=off"), "cosched", "ctl"),
    Scheduler("csm-sensors", "csm, sensors on", _ctl("sensors=on"), "cosched", "ctl"),
    Scheduler("csm-class", "csm, contract=class", _ctl("sensors=off", "contract=class"), "cosched", "ctl"),
    # a period in which local tasks have 100 ms before jobs delay them
    Scheduler("csm-class-200", "csm, class, 200 ms",
              _ctl("sensors=off", "contract=class", "contract_period_ms=200"), "cosched", "ctl"),
    Scheduler("csm-step", "csm, class, in step",
              _ctl("sensors=off", "contract=class", "contract_step=on", "contract_period_ms=100"), "cosched", "ctl"),
    Scheduler("ccs", "ccs, sensors off", _ctl("sensors=off", policy="ccs"), "cosched", "ctl"),
    Scheduler("fit", "fit, sensors off", _ctl("sensors=off", policy="fit"), "cosched", "ctl"),
    Scheduler("fit-step", "fit, in step",
              _ctl("sensors=off", "contract_step=on", "contract_period_ms=100", policy="fit"),
              "cosched", "ctl"),
    Scheduler("fit-queue", "fit, queue", _ctl("sensors=off", "contract=queue", policy="fit"), "cosched", "ctl"),
    Scheduler("csm-no-gang", "csm, gang=off", _ctl("sensors=off", "gang=off"), "cosched", "ctl"),
    Scheduler("nice19", "EEVDF, nice 19", how="nice19"),
    Scheduler("idle", "EEVDF, SCHED_IDLE", how="idle"),
    Scheduler("weight20", "EEVDF, weight 20", how="weight20"),
    # csm with sensors off but without agent: seconds faster to load, for work on the object
    Scheduler("object", "cosched.bpf.o", (*_HOLD, "--scheduler"), "cosched"),
    Scheduler("empty", "empty callback", ("{dir}/scxload", "{dir}/empty.bpf.o"), "bench_empty"),
    *(Scheduler(name, f"{name} sensor", (*_HOLD, "--sensor", name)) for name in ("faults", "sockets", "input")),
    # as if a job had sockets of each kind: everything that they need is probed
    Scheduler("sockets-all", "sockets, all probed", (*_HOLD, "--sensor", "sockets", "--every-kind")),
    Scheduler("sockets-kprobe", "the same by kprobes",
              (*_HOLD, "--sensor", "sockets", "--every-kind", "--form", "kprobe")),
)
SCHEDULERS = {one.name: one for one in _SCHEDULERS}


_WHERE = {"": "", "beside": ", a job asleep", "job": ", all of one job"}


def _yield(n: int, where: str = "") -> Benchmark:
    title = _WHERE[where]
    argv = ("{dir}/yield", str(n))
    rest = ("{job}",) if where == "job" else ()
    name = f"switch-{n}" + (where and f"-{where}")
    return Benchmark(name, f"sched_yield, {n:,} runnable{title}", "ns/switch",
                     (*argv, str(max(40000, n * 40)), *rest), (*argv, str(max(10000, n * 10)), *rest), job=bool(where))


def _pingpong(kind: str, rounds: int, where: str = "") -> Benchmark:
    title = {"pipe": "pipe", "unix": "Unix socket", "udp": "UDP", "tcp": "TCP"}[kind] + _WHERE[where]
    argv, rest = ("{dir}/pingpong", kind), ("{job}",) if where == "job" else ()
    return Benchmark(f"pingpong-{kind}" + (where and f"-{where}"), f"ping-pong, {title}", "ns/round trip",
                     (*argv, str(rounds), *rest), (*argv, str(rounds // 4), *rest), job=bool(where))


def _hackbench(kind: str, *flags: str, where: str = "") -> Benchmark:
    common = ("hackbench", *flags, "--groups", "4", "--fds", "10", "--datasize", "100", "--loops")
    enter = ("{dir}/enter", "{job}") if where == "job" else ()
    return Benchmark(f"hackbench-{kind}" + (where and f"-{where}"), f"hackbench, {kind}, 80 tasks{_WHERE[where]}", "ns",
                     (*enter, *common, "100"), (*enter, *common, "20"), job=bool(where), hackbench=True)


def _late(where: str) -> Benchmark:
    job = ("{job}",) if where == "job" else ()
    argv = ("{dir}/latency", "5000")
    return Benchmark(f"late-{where}", f"5 ms sleeper, 4 {'hogs of a job' if job else 'local hogs'}", "ns late",
                     (*argv, "400", "3", "4", *job), (*argv, "100", "1", "4", *job), job=bool(job))


def _bursts(hogs: int) -> Benchmark:
    argv = ("{dir}/bursts", "80000", "120000", str(hogs), "{job}")
    return Benchmark(f"bursts-{hogs}-job", f"80 ms of work every 200, {hogs} hogs of a job", "ns/burst",
                     (*argv, "40"), (*argv, "8"), job=True)


def _program(name: str, title: str, unit: str, argv: tuple[str, ...], count: int) -> Benchmark:
    return Benchmark(name, title, unit, (*argv, str(count)), (*argv, str(count // 4)))


_SCHEDULING = (
    _pingpong("pipe", 20000),
    _pingpong("pipe", 20000, "beside"),
    *(_yield(n, where) for where in ("", "beside", "job") for n in (2, 16, 128, 1024)),
    _hackbench("sockets"),
    _hackbench("sockets", where="job"),
    _hackbench("pipes", "--pipe"),
    _late("job"),
    _late("local"),
    *(_bursts(hogs) for hogs in (3, 4)),
)
_OBSERVED = (
    _program("fault-minor", "minor fault", "ns/fault", ("{dir}/fault", "minor"), 16384),
    _program("fault-swap", "fault served from swap", "ns/fault", ("{dir}/fault", "swap"), 8192),
    _pingpong("pipe", 5000),
    _pingpong("unix", 5000),
    _pingpong("udp", 5000),
    _pingpong("tcp", 5000),
    _program("input-tty", "byte typed on a terminal", "ns/event", ("{dir}/input", "tty"), 5000),
    _program("input-key", "key typed on a keyboard", "ns/event", ("{dir}/input", "key"), 5000),
    _hackbench("sockets"),
    # last: from then on a job has had sockets of each kind, and what passes them is probed for everybody
    *(_pingpong(kind, 5000, "job") for kind in ("pipe", "unix", "udp", "tcp")),
    _hackbench("sockets", where="job"),
)


_WAYS = {"yield": "sched_yield", "futex": "futex", "spin-futex": "12 ms of spin, futex", "spin": "spin"}
_LOADS = {"alone": (), "half": ("--hogs", "{half}"), "hogs": ("--hogs", "{cpus}", "--sleeper")}
_BESIDE = {"alone": "", "half": ", a hog on half the CPUs", "hogs": ", a hog on each CPU"}
_BARRIERS = {15: 2000, 70: 1000, 2000: 50}  # by phase, µs: enough work for some turns of a scheduler
_LIMIT_MS = 1000  # for a repeat: spinning beside hogs takes for ever under some


def _barriers(
    way: str, load: str, phase: int = 70, twice: bool = False, jobs: int = 1, longer: int = 1
) -> Benchmark:
    """Threads at barriers, one on each CPU unless there are twice as many; `longer`: so many times as long."""
    name = f"barriers-{way}-{load}" + ("" if phase == 70 else f"-{phase}us")
    name += ("-twice" if twice else "") + ("-two-jobs" if jobs > 1 else "") + ("-long" if longer > 1 else "")
    count, where = _BARRIERS[phase] * longer, ("{job}", "{other}")[:jobs]
    title = f"{f'{count:,} ' if longer > 1 else ''}barriers of {phase:,} µs, {_WAYS[way]}{_BESIDE[load]}"
    title += (", 2 threads a CPU" if twice else "") + (", two jobs" if jobs > 1 else "")
    argv = ("{dir}/barriers", "--way", way, "--as", "{as}", "--phase", str(phase), *_LOADS[load],
            "--threads", "{twice}" if twice else "{cpus}", "--limit", str(_LIMIT_MS * longer))
    return Benchmark(name, title, "ns", (*argv, "--barriers", str(count), *where),
                     (*argv, "--barriers", str(count // 2), "--repeats", "2", *where), job=True)


def _ranks(load: str) -> Benchmark:
    argv = ("{dir}/beside", "{cpus}" if load == "hogs" else "0", "{as}", "{job}",
            "mpiexec.mpich", "-n", "{cpus}", "{dir}/ranks")
    return Benchmark(f"mpich-{load}", f"MPICH, ping-pong in shared memory{_BESIDE[load]}", "ns/round trip",
                     (*argv, "5000", str(_LIMIT_MS)), (*argv, "1000", str(_LIMIT_MS)), job=True)


_TOGETHER = (
    *(_barriers(way, load) for way in _WAYS for load in _LOADS),
    *(_barriers(way, "hogs", phase) for way in ("yield", "futex") for phase in (15, 2000)),
    *(_barriers(way, "alone", twice=True) for way in _WAYS),
    *(_barriers(way, "alone", jobs=2) for way in _WAYS),
    *(_ranks(load) for load in ("alone", "hogs")),
    _pingpong("pipe", 20000),
    _hackbench("pipes", "--pipe"),
)
# by the number of CPUs: long enough for some windows
_BY_CPUS = tuple(_barriers(way, "hogs", longer=2) for way in _WAYS)
BENCHMARKS = {one.name: one for one in (*_OBSERVED, *_SCHEDULING, *_TOGETHER, *_BY_CPUS)}


def runs(scheduler: str, bench: str) -> bool:
    """Tell whether the benchmark is run under the scheduler: without jobs, it says nothing of a way to run these."""
    return SCHEDULERS[scheduler].how == "plain" or "{as}" in BENCHMARKS[bench].argv


# While instructions are counted: the kernel's functions looked at beside the scheduler's own programs, and the loads.
INSN_KERNEL = ("do_enqueue_task", "pick_task_scx")
_OURS = ("csm", "csm-sensors", "object")
INSN_LOADS = (
    Load("switch-16", ("{dir}/yield", "16", "20000")),
    Load("switch-1024", ("{dir}/yield", "1024", "20000")),
    Load("switch-16-job", ("{dir}/yield", "16", "20000", "{job}"), job=True),
    Load("switch-1024-job", ("{dir}/yield", "1024", "20000", "{job}"), job=True),
    Load("pingpong-pipe", ("{dir}/pingpong", "pipe", "5000")),
    # A local sleeper among 1,024 hogs of a job, and messages among 1,024 yielding tasks of the same job: the two
    # ways to the longest insertion. Under the others the sleeper would wait for 1,024 quanta. Messages for all of 1,024
    # queued tasks: the longest dispatch.
    Load("sleeper-1024-job", ("{dir}/latency", "5000", "200", "3", "1024", "{job}"), job=True, only=_OURS),
    Load("messages-1024-job", ("{dir}/crowd", "1024", "200", "{job}"), job=True, only=_OURS),
    Load("receivers-1024-job", ("{dir}/receivers", "1024", "4", "{job}"), job=True, only=_OURS),
)

_SENSORS = ("faults", "sockets", "sockets-all", "sockets-kprobe", "input")
_COMPARED = ("floor", "simple", "flatcg", "csm", "csm-sensors", "csm-class")


def _smp(cpus: int, group: str) -> Part:
    return Part(f"smp-{cpus}", f"several CPUs: {cpus}", ("nice19", "weight20", "csm", "csm-no-gang", "csm-step"),
                tuple(one.name for one in _TOGETHER), vm=("--cpus", str(cpus)), cpus=cpus, group=group, named=True)


def _by_cpus(cpus: int) -> Part:
    return Part(f"gangs-{cpus}", f"gangs on {cpus} CPUs", ("nice19", "csm", "ccs"), tuple(one.name for one in _BY_CPUS),
                vm=("--cpus", str(cpus)), cpus=cpus, group=GANGS, named=True)


SMP, GANGS = "smp", "gangs"
PARTS = {
    one.name: one for one in (
        Part("time", "what scheduling costs", _COMPARED, tuple(one.name for one in _SCHEDULING)),
        Part("instructions", "instructions by program", _COMPARED, insn=True),
        Part("observations", "what each observation costs", _SENSORS,
             tuple(one.name for one in _OBSERVED), vm=("--swap", "128")),
        _smp(2, SMP),
        _smp(4, SMP),
        _smp(8, ""),  # takes hours
        *map(_by_cpus, (2, 4, 8)),
    )
}
