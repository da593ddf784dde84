#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Who may do what: users of group cosched run jobs and change no contract, and no job has more than who starts it."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

from ctl import protocol
from ctl.kernel.cgroups import PARENT, ROOT
from tests.kselftest import ktap
from tests.kselftest.command import agent, asked
from tests.kselftest.node import spawned

_NOBODY = 65534
_LIMITED = ROOT / "kselftest-limited"


def _as_nobody(*words: str) -> subprocess.CompletedProcess[str]:
    """Run a command as user nobody, in the socket's group."""
    group = protocol.SOCKET.stat().st_gid
    switch = ("setpriv", f"--reuid={_NOBODY}", f"--regid={group}", "--clear-groups")
    return subprocess.run([*switch, *words], capture_output=True, text=True, check=False, timeout=ktap.TIME_OUT_S)


def _refused(done: subprocess.CompletedProcess[str], *words: str) -> None:
    """Status 2, one sentence with these words."""
    ktap.expect((done.returncode, done.stderr.count("\n")), (2, 1), f"status and lines of {done.stderr!r}")
    for word in words:
        assert word in done.stderr, f"no {word!r} in {done.stderr!r}"


@contextlib.contextmanager
def _limited(limits: Mapping[str, str], below: str = "") -> Iterator[tuple[str, ...]]:
    """A cgroup with these limits; the beginning of a command line that runs in it, or in a cgroup below."""
    inner = _LIMITED / below
    inner.mkdir(parents=True)
    try:
        for name, value in limits.items():
            (_LIMITED / name).write_text(value)
        yield "sh", "-c", f'echo $$ > {inner}/cgroup.procs; exec "$@"', "sh"
    finally:
        ktap.until(lambda: not (inner / "cgroup.procs").read_text(), "the cgroup is empty")
        for cgroup in (inner, *inner.parents):
            cgroup.rmdir()
            if cgroup == _LIMITED:
                break


@contextlib.contextmanager
def _controllers(*names: str) -> Iterator[None]:
    """Have the root's children have these controllers, as far as the kernel has them."""
    control = ROOT / "cgroup.subtree_control"
    here, before = set((ROOT / "cgroup.controllers").read_text().split()), set(control.read_text().split())
    added = (set(names) & here) - before
    control.write_text(" ".join(f"+{name}" for name in added))
    try:
        yield
    finally:
        control.write_text(" ".join(f"-{name}" for name in added))


def _run(inside: tuple[str, ...], *words: str) -> subprocess.CompletedProcess[str]:
    """Run a command in the limited cgroup."""
    return subprocess.run([*inside, *words], capture_output=True, text=True, check=False, timeout=ktap.TIME_OUT_S)


def members_run_jobs_and_change_nothing() -> None:
    """A member of the group starts, lists and cancels its jobs; set, switch, unload and trace are root's."""
    with agent(), spawned("ctl", "run", "--job", "theirs", "--", "sleep", "1000"):
        ktap.until(lambda: [job["jid"] for job in asked("jobs")] == ["theirs"], "root's job")
        for words in (("switch", "prio"), ("set", "share_l=1"), ("unload",), ("trace", "--json")):
            _refused(_as_nobody("ctl", *words), "root's, not user nobody's", "sudo")
        ktap.expect(asked("status")["policy"], "csm", "the policy")
        done = _as_nobody("ctl", "run", "--job", "mine", "--", "id", "-un")
        ktap.expect((done.stdout, done.returncode), ("nobody\n", 0), "a job of nobody's")
        for command in ("cancel", "hold", "release"):
            _refused(_as_nobody("ctl", command, "theirs"), "belongs to user root")
        tasks = _as_nobody("ctl", "tasks", "--job", "theirs")
        ktap.expect((tasks.returncode, "theirs" in tasks.stdout, "sleep" in tasks.stdout), (0, True, False), "tasks")
        ktap.expect("sleep" in _as_nobody("ctl", "jobs").stdout, False, "what root's job runs")


def _disk() -> str:
    """A block device's number, for io.max."""
    return next(path.read_text().strip() for path in sorted(Path("/sys/block").glob("*/dev")))


def no_job_has_more() -> None:
    """From a cgroup with a limit of memory, CPU, CPUs or devices a job is refused, and the limit is named."""
    limits = (
        ("memory.max", "157286400"),
        ("cpuset.cpus", "0"),
        ("cpu.max", "20000 100000"),
        ("memory.high", "157286400"),
        ("memory.swap.max", "4096"),
        ("memory.zswap.max", "4096"),
        ("cpuset.mems", "0"),
        ("io.max", f"{_disk()} rbps=1048576"),
    )
    with _controllers("cpuset", "io"), agent():
        for name, value in ktap.cases(limits, 3):
            if not (PARENT / name).exists():
                ktap.note(f"this kernel has no {name}")
                continue
            with _limited({name: value}) as inside:
                _refused(_run(inside, "ctl", "run", "--job", "esc", "--", "true"), f"{name} {value}", _LIMITED.name)
            ktap.expect((PARENT / "esc").exists(), False, f"the job's cgroup, of {name}")


def no_container_is_left() -> None:
    """From a container (namespaces of its own, a limited cgroup above) a job is refused; the real cgroup is named."""
    walls = ("unshare", "--cgroup", "--pid", "--fork", "--mount", "--mount-proc")
    with agent(), _limited({"memory.max": "150M"}, below="inner/process") as inside:
        seen = _run(inside, *walls, "cat", "/proc/self/cgroup")
        ktap.expect(seen.stdout, "0::/\n", f"what the container sees; {seen.stderr}")
        done = _run(inside, *walls, "ctl", "run", "--job", "esc", "--", "true")
        _refused(done, "memory.max 157286400", f"/{_LIMITED.name},")
        ktap.expect((PARENT / "esc").exists(), False, "the job's cgroup")


def no_program_is_left() -> None:
    """From a cgroup with a BPF program for devices, as containers have, a job is refused; from beside it, it is not."""
    pin = Path("/sys/fs/bpf/kselftest-devices")
    subprocess.run(["bpftool", "prog", "load", ktap.program("devices.bpf.o"), pin, "type", "cgroup/dev"], check=True)
    try:
        with agent(), _limited({}, below="inner/process") as inside:
            attach = ("bpftool", "cgroup", "attach", str(_LIMITED), "device", "pinned", str(pin))
            ktap.expect(_run(inside, "ctl", "run", "--job", "esc", "--", "true").returncode, 0, "without a program")
            subprocess.run(attach, check=True)
            done = _run(inside, "ctl", "run", "--job", "esc", "--", "true")
            _refused(done, "BPF program (device)", f"/{_LIMITED.name}/inner/process")
            ktap.expect(_run((), "ctl", "run", "--job", "out", "--", "true").returncode, 0, "outside")
    finally:
        pin.unlink()


def tasks_go_with_it() -> None:
    """The number of tasks that a cgroup may have goes with the process into the job, and into one that this starts."""
    few = PARENT / "few"
    with (
        agent(),
        _limited({"pids.max": "30"}) as inside,
        spawned(*inside, "ctl", "run", "--job", "few", "--", "sleep", "1000"),
    ):
        ktap.until(lambda: few.exists() and (few / "cgroup.procs").read_text() != "", "it runs")
        ktap.expect((few / "pids.max").read_text(), "30\n", "the job's number of tasks")
        within = f"echo $$ > {few}/cgroup.procs; exec ctl run --job more -- cat {PARENT}/more/pids.max"
        done = _run(("sh", "-c", within))
        ktap.expect(done.stdout, "30\n", "that of a job which it starts")


if __name__ == "__main__":
    os.umask(0o022)
    ktap.run(
        members_run_jobs_and_change_nothing,
        no_job_has_more,
        no_container_is_left,
        no_program_is_left,
        tasks_go_with_it,
    )
