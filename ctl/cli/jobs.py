# SPDX-License-Identifier: GPL-2.0-or-later
"""`ctl run`, `ctl jobs`, `ctl tasks`."""

from __future__ import annotations

import os
from typing import Any

import click

from ctl.cli.common import JSON, emit, table
from ctl.errors import CoschedError

__all__ = ["jobs", "run", "tasks"]

_NOT_FOUND, _NOT_EXECUTABLE = 127, 126  # as shells say it


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option("--job", "-j", "jid", metavar="JID", required=True, help="the job to start or to join")
@click.argument("command", metavar="-- CMD…", nargs=-1, required=True, type=click.UNPROCESSED)
def run(jid: str, command: tuple[str, ...]) -> int:
    """Run a command as (part of) a parallel job.

    The command replaces `ctl run`: same user, environment, directory and terminal, and its exit status. Commands with
    the same JID are one job. A job ends with its last process. Ranks that mpiexec starts on other nodes are in the job
    there; these nodes need an agent (`ctl load`), too.

    \b
    Examples:
      ctl run --job sim -- mpiexec.mpich -n 4 ./sim
      ctl run --job sim -- mpiexec.mpich -hosts node1,node2 -n 8 ./sim
      ctl run --job a -- stress-ng --vm 1 --vm-bytes 600M --timeout 30
    """
    import shutil

    from ctl.jobs.launcher import environment
    from ctl.kernel.jid import check_jid
    from ctl.protocol import Client

    check_jid(jid)
    program = shutil.which(command[0])
    if program is None:
        found = os.path.exists(command[0])
        why = "is not executable" if found else "is not found"
        raise CoschedError(f"command {command[0]!r} {why}", _NOT_EXECUTABLE if found else _NOT_FOUND)
    with Client() as agent:
        agent.call("enter", jid=jid)
    try:
        os.execve(program, command, environment(jid, os.environ))
    except OSError as error:
        raise CoschedError(f"cannot run {program}: {error.strerror}", _NOT_EXECUTABLE) from None


@click.command()
@JSON
def jobs(as_json: bool) -> None:
    """List the jobs, with CPU, memory and overtakes.

    CPU is the number of CPUs in use now. Overtakes are counted since the job began. given: its tasks passed a task.
    suffered: its tasks were passed. from: ctl (`ctl run`) or slurm (a job of Slurm with this id). state: free, slowed
    (a local user here or on another of its nodes) or stopped, with the reason.

    \b
    Example:
      ctl jobs
    """
    from ctl.protocol import Client

    with Client() as agent:
        found: list[dict[str, Any]] = agent.call("jobs")
    columns = (
        *("job", "tasks", "CPU", "CPU time s", "memory MiB", "swap MiB", "faults", "faults/s"),
        *("given", "suffered", "from", "state"),
    )

    def people() -> None:
        rows = [
            (
                job["jid"],
                str(job["tasks"]),
                _number(job["cpu_share"], 2),
                _number(job["cpu_s"], 1),
                _number(job["memory"] / (1 << 20)),
                _number(job["swap"] / (1 << 20)),
                str(job["majflt"]),
                _number(job["majflt_s"]),
                str(job["overtakes_given"]),
                str(job["overtakes_suffered"]),
                job["from"],
                job["state"] + (f": {job['why']}" if job["why"] else ""),
            )
            for job in found
        ]
        table(columns, rows, right=columns[1:-2], empty="no jobs: start a job with `ctl run --job JID -- CMD`")

    emit(found, as_json, people)


@click.command()
@click.option("--job", "-j", "jid", metavar="JID", help="list only the tasks of this job")
@JSON
def tasks(jid: str | None, as_json: bool) -> None:
    """List tasks of jobs, and running or queued local tasks.

    de: overtakes suffered; mes: P·mes + (1-P)·COM; com, rec: messages now queued, received; flt: major faults of the
    last second, or with flt=probability the per mille of its pages on swap; swap-in and thrashing: how long the task
    has waited for pages so far, by taskstats. de and mes are shown for tasks that run or are queued.

    \b
    Examples:
      ctl tasks
      ctl tasks --job sim --json
    """
    from ctl.protocol import Client

    with Client() as agent:
        found: list[dict[str, Any]] = agent.call("tasks")
    if jid is not None:
        found = [task for task in found if task["jid"] == jid]
        if not found:
            raise CoschedError(f"there is no job {jid!r} with tasks: `ctl jobs` lists the jobs", 2)
    columns = (
        *("tid", "command", "job", "state", "CPU", "place", "de", "mes", "com", "rec", "flt"),
        *("swap-in ms", "thrashing ms"),
    )

    def people() -> None:
        rows = [
            (
                str(task["tid"]),
                task["comm"],
                task["jid"] or "local",
                task["state"],
                _number(task["cpu"]),
                _number(task["position"]),
                _number(task["de"]),
                _number(task["mes"], 2),
                _number(task["com"]),
                _number(task["rec"]),
                _number(task["flt"]),
                _number(task["swapin_ms"], 1),
                _number(task["thrashing_ms"], 1),
            )
            for task in found
        ]
        table(columns, rows, right=("tid", *columns[4:]), empty="no tasks")

    emit(found, as_json, people)


def _number(value: float | None, digits: int = 0) -> str:
    """For a cell: "-" for an unknown value."""
    return "-" if value is None else f"{value:.{digits}f}"
