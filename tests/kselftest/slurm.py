#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""A job of Slurm is a job by its id, with an unchanged script; slurmstepd is no part of the job."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from ctl import protocol
from ctl.kernel import trace
from tests import slurm
from tests.kselftest import ktap
from tests.kselftest.command import TIMEOUT, agent, asked, refused
from tests.kselftest.node import loaded, spawned

_CGROUPS = Path("/sys/fs/cgroup")
_SPIN = "srun taskset -c 1 sh -c 'while :; do :; done'"  # with two busy CPUs all else is slow in the emulator
_SLEEP = "srun sleep 1000"
_LIMIT = 120.0  # seconds for what takes a few
_begun = contextlib.ExitStack()  # Slurm, from the first test to the last


@cache
def _job(jid: str) -> Path:
    """A job's cgroup, as Slurm makes it: its processes have the id in their environment."""
    for procs in _CGROUPS.glob(f"{slurm.SCOPES}/*/step_*/user/**/cgroup.procs"):
        with contextlib.suppress(OSError):
            for pid in procs.read_text().split():
                if f"SLURM_JOB_ID={jid}".encode() in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                    return next(path for path in procs.parents if path.parent.match("*slurmstepd.scope"))
    raise LookupError(f"Slurm runs no process of job {jid}")


def _threads(jid: str, part: str) -> set[int]:
    """Threads in this part of every step of a job."""
    files = _job(jid).glob(f"step_*/{part}/**/cgroup.threads")
    return {int(tid) for file in files for tid in file.read_text().split()}


def _commands(jid: str) -> list[str]:
    """The command that Slurm runs in a job."""
    with contextlib.suppress(OSError, LookupError):
        return sorted(Path(f"/proc/{tid}/comm").read_text().strip() for tid in _threads(jid, "user"))
    return []


def _frozen(jid: str) -> bool:
    """Whether all of a job's processes are frozen."""
    with contextlib.suppress(OSError, LookupError):  # it has just ended
        events = [path.read_text() for path in _job(jid).glob("step_*/user/task_*/cgroup.events")]
        return bool(events) and all("frozen 1" in text or "populated 0" in text for text in events)
    return False


def _asked(operation: str) -> list[dict[str, Any]]:
    """The output of `ctl jobs` or `ctl tasks`, without starting a ctl, which takes the emulator seconds."""
    with protocol.Client(timeout=TIMEOUT) as client:
        answer: list[dict[str, Any]] = client.call(operation)
        return answer


def _jobs() -> dict[str, tuple[str, str]]:
    """The origin and the user of each job."""
    return {row["jid"]: (row["from"], row["user"]) for row in _asked("jobs")}


def _decided(jid: str) -> Iterator[dict[str, Any]]:
    """Tasks in the kernel's decisions, while the job's slurmstepd wakes up on the CPU where the job's tasks spin."""
    for tid in _threads(jid, "slurm"):
        os.sched_setaffinity(tid, {1})  # on an idle CPU nothing is decided
    end = time.monotonic() + ktap.PATIENCE * _LIMIT
    asking = f"while scontrol listpids {jid} >/dev/null; do :; done"
    with protocol.Client(timeout=TIMEOUT) as client, spawned("sh", "-c", asking):
        for record in client.stream_raw("trace"):
            decision = trace.decode(record)
            yield from filter(None, (decision["task"], decision["running"], *decision["queue"]))
            assert time.monotonic() < end, f"not seen in decisions within {ktap.PATIENCE * _LIMIT:g} s"


@contextlib.contextmanager
def _spinning(place: str, owner: str = "root") -> Iterator[int]:
    """A process that spins in this cgroup, whose top belongs to this user; its pid. No Slurm is needed."""
    path, made = _CGROUPS, []
    for name in place.split("/"):
        (path / "cgroup.subtree_control").write_text("+cpu +memory")
        path /= name
        if not path.exists():
            path.mkdir()
            shutil.chown(path, owner)
            made.append(path)
    try:
        with spawned("sh", "-c", "while :; do :; done", cgroup=path, cpu=1) as process:
            yield process.pid
    finally:
        for path in reversed(made):
            ktap.until(lambda path=path: _removed(path), f"{path} is removed")  # type: ignore[misc]


def _removed(path: Path) -> bool:
    with contextlib.suppress(OSError):
        path.rmdir()
    return not path.exists()


def names() -> None:
    """Cgroups with the place and the names of Slurm's jobs are jobs; others, or those not of root, are local."""
    places = {
        "system.slice/slurmstepd.scope/job_7/step_0/user/task_0": True,
        "system.slice/slurmstepd.scope/job_7/step_0/slurm": False,
        "system.slice/slurmstepd.scope/s8Y1M7ZKWCEB00/step_batch/user/task_special": True,
        "system.slice/slurmstepd.scope/job_7/some/user/task_0": False,
        "system.slice/my-slurmstepd.scope/job_6/step_0/user/task_0": False,
        "a/b/node-1_slurmstepd.scope/job_8/step_batch/user/task_special": True,
    }
    with loaded() as scheduler, contextlib.ExitStack() as stack:
        pids = {stack.enter_context(_spinning(place)): parallel for place, parallel in places.items()}
        pids[stack.enter_context(_spinning("lent/slurmstepd.scope/job_5/step_0/user/task_0", "nobody"))] = False
        found: dict[int, bool] = {}

        def all_seen() -> bool:
            snap = scheduler.snapshot(1)
            found.update({task["tid"]: task["parallel"] for task in (snap["running"], *snap["queue"]) if task})
            return found.keys() >= pids.keys()

        ktap.until(all_seen, "all were seen on their CPU", _LIMIT)
        ktap.expect({pid: found[pid] for pid in pids}, pids, "parallel")


def _classes(jid: str) -> tuple[set[bool], set[bool]]:
    """Whether the kernel takes a job's processes, and its slurmstepd, for parallel."""
    inside, beside = _threads(jid, "user"), _threads(jid, "slurm")
    classes: tuple[set[bool], set[bool]] = set(), set()
    for task in _decided(jid):
        for tids, found in zip((inside, beside), classes, strict=True):
            if task["tid"] in tids:
                found.add(task["parallel"])
        if all(classes):
            break
    return classes


def begun_after_load() -> None:
    """slurmd starts after ctl load: Slurm's jobs are jobs, their processes parallel, slurmstepd is local."""
    if not slurm.installed():
        raise ktap.Skip("this image has no Slurm")
    with agent():
        _begun.enter_context(slurm.running(slurm.Settings(cpus=4)))
        first = slurm.sbatch(_SPIN, "--ntasks=1")
        ktap.until(lambda: "sh" in _commands(first), "the first job's task runs", _LIMIT)
        ktap.expect(_classes(first), ({True}, {False}), "parallel: the job's processes, slurmstepd")
        slurm.cancel(first)
        second = slurm.sbatch(_SLEEP, "--ntasks=2")
        ktap.until(lambda: _commands(second).count("sleep") == 2, "the second job's tasks run", _LIMIT)
        third = slurm.sbatch(_SLEEP, "--ntasks=1", "--uid=daemon", "--chdir=/tmp")
        both = {second: ("slurm", "root"), third: ("slurm", "daemon")}
        ktap.until(lambda: _jobs() == both, "two jobs, by their ids, and their users", _LIMIT)
        of_second = {row["tid"] for row in _asked("tasks") if row["jid"] == second}
        ktap.expect(of_second, _threads(second, "user"), "tasks of the second job")
        refused("run", "--job", third, "--", "true", words=(third, "a job of Slurm", "choose another"))
        slurm.cancel(second)
        ktap.until(lambda: list(_jobs()) == [third], "the second job is gone", _LIMIT)
        slurm.cancel(third)
        ktap.until(lambda: _jobs() == {}, "so is the third", _LIMIT)


def stopped_and_let_go() -> None:
    """ctl load finds running jobs; a stop leaves slurmstepd running, extends the time limit by a knob, and ends when
    the agent is killed."""
    if not slurm.installed():
        raise ktap.Skip("this image has no Slurm")
    jobs = [slurm.sbatch(_SLEEP, "--ntasks=1", "--time=5") for _ in range(2)]
    ktap.until(lambda: all("sleep" in _commands(jid) for jid in jobs), "both run", _LIMIT)
    with agent("mpl=1", "epoch_ms=300", "slurm_extend=on", policy="poly") as pid:
        ktap.expect(sorted(_jobs()), sorted(jobs), "jobs that were there before")
        ktap.until(lambda: any(map(_frozen, jobs)), "one is stopped", _LIMIT)
        stopped = next(filter(_frozen, jobs))
        assert "frozen 0" in (_job(stopped) / "cgroup.events").read_text(), "slurmstepd is frozen, too"
        limits = {jid: "00:06:00" if jid == stopped else "00:05:00" for jid in jobs}
        ktap.until(lambda: {jid: slurm.field(jid, "TimeLimit") for jid in jobs} == limits, "its minute is added", 10)
        before = _threads(stopped, "user")
        with spawned("srun", f"--jobid={stopped}", "--overlap", "--ntasks=1", "sleep", "1000"):
            ktap.until(lambda: _threads(stopped, "user") > before, "something joins it", _LIMIT)
            ktap.until(lambda: _frozen(stopped), "and is stopped with it", _LIMIT)
            os.kill(pid, signal.SIGKILL)
            ktap.until(lambda: not any(map(_frozen, jobs)), "it goes on without the agent", _LIMIT)
            ktap.until(lambda: _commands(stopped).count("sleep") == 2, "and so does what joined it", _LIMIT)
        ktap.until(lambda: not Path("/run/cosched/agent.json").exists(), "the supervisor cleaned up")
        ktap.expect([slurm.state(jid) for jid in jobs], ["RUNNING", "RUNNING"], "the jobs, for Slurm")
    with agent("mpl=1", "epoch_ms=300", policy="poly"):
        ktap.until(lambda: any(map(_frozen, jobs)), "one is stopped again", _LIMIT)
        slurm.cancel(next(filter(_frozen, jobs)))
        ktap.until(lambda: len(_jobs()) == 1 and not any(_frozen(jid) for jid in _jobs()), "the other goes on", _LIMIT)
        slurm.cancel(*jobs)


def _queue() -> dict[str, dict[str, Any]]:
    """The queue of policy fit, by JID."""
    with protocol.Client(timeout=TIMEOUT) as client:
        return {row["jid"]: row for row in client.call("queue")["jobs"]}


def does_not_fit() -> None:
    """Of two jobs whose --mem does not fit together the later is stopped at its start; for Slurm both run."""
    if not slurm.installed():
        raise ktap.Skip("this image has no Slurm")
    mark = Path("/root/began")
    with agent("epoch_ms=500", "turn_s=0", policy="fit"):
        room = asked("queue")["room"]
        ask = f"--mem={room * 6 // 10 >> 20}M"
        first = slurm.sbatch(_SLEEP, "--ntasks=1", ask)
        ktap.until(lambda: "sleep" in _commands(first), "the first job's task runs", _LIMIT)
        second = slurm.sbatch(f"sleep 5; touch {mark}; {_SLEEP}", "--ntasks=1", ask)
        ktap.until(lambda: _frozen(second), "the second is stopped", _LIMIT)
        rows = _queue()
        ktap.note(str(rows))
        ktap.expect([rows[jid]["state"] for jid in (first, second)], ["runs", "stopped"], "states")
        ktap.expect([rows[jid]["need"] >> 20 for jid in (first, second)], [room * 6 // 10 >> 20] * 2, "needs, MiB")
        assert rows[second]["why"].endswith(f"; after {first}"), rows
        time.sleep(6)
        ktap.expect((mark.exists(), _frozen(first)), (False, False), "the second went on, the first is stopped")
        ktap.expect([slurm.state(jid) for jid in (first, second)], ["RUNNING", "RUNNING"], "the jobs, for Slurm")
        slurm.cancel(first)
        ktap.until(lambda: mark.exists() and "sleep" in _commands(second), "the second goes on", _LIMIT)
        mark.unlink()
        third = slurm.sbatch(_SLEEP, "--ntasks=1", ask)
        ktap.until(lambda: _frozen(third), "the third is stopped", _LIMIT)
        slurm.cancel(third)
        ktap.until(lambda: list(_jobs()) == [second], "a stopped job can be cancelled", _LIMIT)
        slurm.cancel(second)


if __name__ == "__main__":
    with _begun:
        ktap.run(names, begun_after_load, stopped_and_let_go, does_not_fit)
