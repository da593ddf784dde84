# SPDX-License-Identifier: GPL-2.0-or-later
"""Slurm on this guest, or on the nodes of vm/cluster, without a service manager. On the first node:

    python3 -m tests.slurm start [--gang] [--slots N] [--cpus N]    returns when all nodes wait for jobs
    python3 -m tests.slurm stop                                     ends jobs and daemons, removes Slurm's cgroups

    with slurm.running():                                 the same in Python
        job = slurm.sbatch("srun -n 2 ./ranks")
        slurm.wait(job, "RUNNING")

The nodes are those of COSCHED_NODES (vm/guest/node), or this guest alone. With --gang, jobs take turns on the same CPUs
every TIME_SLICE seconds, the shortest that Slurm has, up to N at a time: Slurm's gang scheduling.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

__all__ = [
    "SCOPES",
    "TIME_SLICE",
    "Settings",
    "cancel",
    "field",
    "installed",
    "resume",
    "running",
    "sbatch",
    "start",
    "state",
    "stop",
    "suspend",
    "wait",
]

TIME_SLICE = 5  # seconds; slurm.conf(5): SchedulerTimeSlice
SCOPES = "system.slice/*slurmstepd.scope"  # of /sys/fs/cgroup

_CONFIG = Path("/etc/slurm")
_RUN = Path("/run/slurm")
_LOGS = Path("/var/log/slurm")
_LIMIT_S = 120.0  # for whatever Slurm is asked to do; two emulated nodes on a busy host take a third of it
_ALONE = "10.77.0.1"  # Slurm finds no address to listen at where there is no other than 127.0.0.1
_DAEMONS = ("slurmd", "slurmctld", "munged")

# IgnoreSystemd, EnableControllers: there is no systemd here that would make the scope and enable its controllers
_CGROUP_CONF = """\
CgroupPlugin=cgroup/v2
IgnoreSystemd=yes
EnableControllers=yes
"""


@dataclasses.dataclass(frozen=True)
class Settings:
    """The configuration of Slurm."""

    gang: bool = False
    slots: int = 2  # jobs that take turns on a CPU
    cpus: int = os.cpu_count() or 1  # that Slurm gives away on each node, there or not


def installed() -> bool:
    """Whether this image has Slurm."""
    return all(shutil.which(name) for name in _DAEMONS)


def _nodes() -> dict[str, str]:
    """Name to address, the first node first."""
    pairs = os.environ.get("COSCHED_NODES", f"{os.uname().nodename}={_ALONE}").split()
    return dict(pair.split("=", 1) for pair in pairs)


def slurm_conf(nodes: dict[str, str], settings: Settings) -> str:
    """The text of slurm.conf, the same on all nodes."""
    first, address = next(iter(nodes.items()))
    lines = [
        "ClusterName=cosched",
        f"SlurmctldHost={first}({address})",
        "SlurmUser=root",
        "AuthType=auth/munge",
        "CredType=cred/munge",
        f"StateSaveLocation={_RUN}/state",
        f"SlurmdSpoolDir={_RUN}/spool",
        f"SlurmctldPidFile={_RUN}/slurmctld.pid",
        f"SlurmdPidFile={_RUN}/slurmd.pid",
        f"SlurmctldLogFile={_LOGS}/slurmctld.log",
        f"SlurmdLogFile={_LOGS}/slurmd.log",
        "ProctrackType=proctrack/cgroup",
        "TaskPlugin=task/cgroup",
        "SelectType=select/cons_tres",
        "SelectTypeParameters=CR_CPU",
        "SlurmdParameters=config_overrides",
        # batch jobs start at once, as srun's do
        "SchedulerType=sched/builtin",
        "SchedulerParameters=batch_sched_delay=0",
        "ReturnToService=2",
        "KillWait=5",
        "MpiDefault=none",
    ]
    share = "NO"
    if settings.gang:
        lines += ["PreemptMode=GANG", f"SchedulerTimeSlice={TIME_SLICE}"]
        share = f"FORCE:{settings.slots}"
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 20  # MiB: the most that --mem may say
    of_each = f"CPUs={settings.cpus} RealMemory={memory} State=UNKNOWN"
    lines += [f"NodeName={name} NodeAddr={at} {of_each}" for name, at in nodes.items()]
    lines.append(f"PartitionName=all Nodes={','.join(nodes)} Default=YES State=UP OverSubscribe={share}")
    return "\n".join(lines) + "\n"


# daemons


def _run(*command: str) -> str:
    """Run a program; returns its output. Raises RuntimeError with its output."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=_LIMIT_S, check=False)
    if done.returncode:
        raise RuntimeError(f"{shlex.join(command)}: status {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def _until(condition: Callable[[], bool], what: Callable[[], str]) -> None:
    end = time.monotonic() + _LIMIT_S
    while not condition():
        if time.monotonic() > end:
            raise RuntimeError(f"{what()}, after {_LIMIT_S:g} s; the logs are in {_LOGS}")
        time.sleep(0.2)


def _munge() -> None:
    """Start munged, as its own user. All guests have the image's key."""
    place = Path("/run/munge")
    place.mkdir(exist_ok=True)
    shutil.chown(place, "munge", "munge")
    as_munge = ("setpriv", "--reuid=munge", "--regid=munge", "--clear-groups", "--")
    _run(*as_munge, "munged", "--num-threads=2")


def start_node(settings: Settings) -> None:
    """The daemons of this node."""
    nodes = _nodes()
    for directory in (_CONFIG, _RUN / "state", _RUN / "spool", _LOGS):
        directory.mkdir(parents=True, exist_ok=True)
    (_CONFIG / "slurm.conf").write_text(slurm_conf(nodes, settings))
    (_CONFIG / "cgroup.conf").write_text(_CGROUP_CONF)
    if _ALONE in nodes.values() and len(nodes) == 1:
        _run("ip", "address", "replace", f"{_ALONE}/32", "dev", "lo")
    _munge()
    name = os.uname().nodename
    if name == next(iter(nodes)):
        _run("slurmctld", "-c")
    _run("slurmd", "-N", name)


def stop_node() -> None:
    """End this node's daemons, and remove the cgroups Slurm made."""
    pids = {_RUN / "slurmd.pid", _RUN / "slurmctld.pid", Path("/run/munge/munged.pid")}
    left = {int(text) for path in pids if path.exists() and (text := path.read_text().strip())}
    for pid in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
    _until(lambda: not any(_alive(pid) for pid in left), lambda: f"daemons do not end: {left}")
    for scope in Path("/sys/fs/cgroup").glob(SCOPES):
        (scope / "cgroup.kill").write_text("1")
        for path in sorted((path for path in (scope, *scope.rglob("*")) if path.is_dir()), reverse=True):
            _until(lambda path=path: _removed(path), lambda path=path: f"{path} is not empty")  # type: ignore[misc]
    shutil.rmtree(_RUN, ignore_errors=True)


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _removed(path: Path) -> bool:
    with contextlib.suppress(OSError):
        path.rmdir()
    return not path.exists()


def _on_others(*words: str) -> None:
    """Run this module on the other nodes, all at once."""
    _, *others = _nodes()
    command = shlex.join(["python3", "-m", "tests.slurm", *words])
    started = [(name, subprocess.Popen(["ssh", "-n", name, f"cd /src && {command}"])) for name in others]
    failed = [name for name, process in started if process.wait(_LIMIT_S)]
    if failed:
        raise RuntimeError(f"on {', '.join(failed)}: {command} failed")


# the whole


def start(settings: Settings | None = None) -> None:
    """Start Slurm on all nodes; returns when they wait for jobs. Raises RuntimeError."""
    settings = settings or Settings()
    start_node(settings)
    _on_others("start-node", *(["--gang"] if settings.gang else []), f"--slots={settings.slots}",
               f"--cpus={settings.cpus}")
    _until(lambda: _states() == {"idle"}, lambda: f"nodes are {_states()}, not idle")


def _states() -> set[str]:
    """The nodes' states, as sinfo has them."""
    done = subprocess.run(["sinfo", "-h", "-N", "-o", "%t"], capture_output=True, text=True, check=False)
    return set(done.stdout.split())


def stop() -> None:
    """Cancel all jobs, end Slurm on all nodes."""
    with contextlib.suppress(RuntimeError):  # the controller may be gone
        cancel(*_jobs())
    _on_others("stop-node")
    stop_node()


def _jobs() -> list[str]:
    return _run("squeue", "-h", "-o", "%i").split()


@contextlib.contextmanager
def running(settings: Settings | None = None) -> Iterator[None]:
    """Slurm while the block runs."""
    try:
        start(settings)
        yield
    finally:
        stop()


# jobs


def sbatch(script: str, *options: str) -> str:
    """Submit a shell script; returns the job's id. Its output is in /root/slurm-ID.out of its first node."""
    text = f"#!/bin/sh\n{script}\n"
    command = ["sbatch", "--parsable", "--chdir=/root", *options]
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=_LIMIT_S, check=False)
    if done.returncode:
        raise RuntimeError(f"sbatch: {done.stderr.strip()}")
    return done.stdout.strip().partition(";")[0]


def state(job: str) -> str:
    """The state of a job in Slurm's words: PENDING, RUNNING, SUSPENDED, COMPLETED…"""
    return field(job, "JobState")


def field(job: str, name: str) -> str:
    """A field of a job, as `scontrol show job` prints it."""
    words = _run("scontrol", "-o", "show", "job", job).split()
    return next(word.removeprefix(f"{name}=") for word in words if word.startswith(f"{name}="))


def wait(job: str, wanted: str) -> None:
    """Wait until a job is in this state."""
    _until(lambda: state(job) == wanted, lambda: f"job {job} is {state(job)}, not {wanted}")


def suspend(job: str) -> None:
    """Suspend a job, whether it runs or waits for its turn: it gets none until resume()."""
    _run("scontrol", "suspend", job)


def resume(job: str) -> None:
    """Undo suspend()."""
    _run("scontrol", "resume", job)


def cancel(*jobs: str) -> None:
    """End the jobs that still run, and wait for their end."""
    left = set(jobs) & set(_jobs())
    if left:
        _run("scancel", *left)
        _until(lambda: not left & set(_jobs()), lambda: f"jobs do not end: {_jobs()}")


def main() -> int:
    """The options of the command line."""
    parser = argparse.ArgumentParser(prog="python3 -m tests.slurm", description="Slurm on the nodes of vm/cluster.")
    parser.add_argument("what", choices=("start", "stop", "start-node", "stop-node"))
    parser.add_argument("--gang", action="store_true", help="jobs take turns on the same CPUs")
    parser.add_argument("--slots", type=int, default=Settings.slots, metavar="N", help="so many (%(default)s)")
    parser.add_argument("--cpus", type=int, default=Settings.cpus, metavar="N", help="of each node (%(default)s)")
    options = parser.parse_args()
    settings = Settings(options.gang, options.slots, options.cpus)
    work = {"start": lambda: start(settings), "stop": stop, "start-node": lambda: start_node(settings),
            "stop-node": stop_node}
    try:
        work[options.what]()
    except (RuntimeError, OSError, subprocess.TimeoutExpired) as error:
        print(f"tests.slurm: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
