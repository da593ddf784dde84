# SPDX-License-Identifier: GPL-2.0-or-later
"""`ctl run`, `ctl place`, `ctl jobs`, `ctl queue`, `ctl tasks`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from ctl.cli.common import JSON, emit, number, table
from ctl.cli.run import OPTIONS, Option, begin
from ctl.errors import CoschedError

__all__ = ["jobs", "place", "queue", "run", "tasks"]

_MIB = 1 << 20

F = TypeVar("F", bound=Callable[..., object])


def _option(option: Option) -> Callable[[F], F]:
    """An option of ctl/cli/run.py for click."""
    names = (*option.names, option.argument)
    if not option.metavar:
        return click.option(*names, is_flag=True, help=option.help)
    if option.is_count:
        default = {} if option.default is None else {"default": option.default, "show_default": True}
        return click.option(*names, metavar=option.metavar, type=click.IntRange(1), help=option.help, **default)

    def value(_context: click.Context, _parameter: click.Parameter, text: str | None) -> Any:
        return option.default if text is None else option.of(text)

    return click.option(*names, metavar=option.metavar, callback=value, help=option.help)


def _options(*arguments: str) -> Callable[[F], F]:
    """Those options of `ctl run` that give these arguments; none named: all."""

    def declare(function: F) -> F:
        for option in reversed(OPTIONS):
            if not arguments or option.argument in arguments:
                function = _option(option)(function)
        return function

    return declare


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@_options()
@click.argument("command", metavar="-- CMD…", nargs=-1, required=True, type=click.UNPROCESSED)
def run(**arguments: Any) -> int:
    """Run a command as (part of) a parallel job.

    The command replaces `ctl run`: same user, environment, directory and terminal, and its exit status. Commands with
    the same JID are one job; without --job it is a new one, whose JID is told on stderr. A job ends with its last
    process. Ranks that mpiexec starts on other nodes are in the job there; these nodes need an agent (`ctl load`), too.

    Under policy fit a job waits until its memory fits beside the jobs before it; `ctl queue` lists them. With --memory
    it waits before it begins. Without, its need is that of earlier runs (`ctl history`), before the first run the
    static size of its program, and the job is stopped if it grows too large. Ctrl-C gives up. In a cluster a job runs
    on all its nodes at once, or waits on all of them.

    Where a job has more threads of OpenMP than CPUs, they sleep while they wait (OMP_WAIT_POLICY=passive), unless the
    environment says how they wait.

    With --nodes (policy fit) the job's nodes are chosen as by `ctl place`, and mpiexec finds them in its environment.
    -J, -N, --mem and --ntasks-per-node are as for Slurm.

    Exit status: the command's; 127 it is not found, 126 it cannot be run, 1 and 2 as for the other commands.

    \b
    Examples:
      ctl run -- mpiexec.mpich -n 4 ./sim
      ctl run --job sim --memory 2G --nodes 3 --per-node 2 -- mpiexec.mpich -n 6 ./sim
      ctl run --job sim --memory 2G -- mpiexec.mpich -n 4 ./sim
      ctl run --job sim -- mpiexec.mpich -hosts node1,node2 -n 8 ./sim
      ctl run --job a -- stress-ng --vm 1 --vm-bytes 600M --timeout 30
      ctl run --estimate-as big -- make SIZE=8192
    """
    return begin(**arguments)


@click.command()
@click.argument("count", metavar="N", type=click.IntRange(1))
@_options("need", "by")
@JSON
def place(count: int, need: int, by: str, as_json: bool) -> None:
    """Print the N nodes where a job should run, the best first, by the load that the nodes of the cluster tell.

    Policy fit. Nodes whose room for jobs is smaller than --memory are left out. --by: cpu (runnable tasks and waiting
    jobs, in parts of the node's CPUs and speed), mem (needs of its jobs, in parts of its room), cpu-mem-hp (cpu, nodes
    without memory last), cpu-mem-ht (cpu, times mem where memory is short) or free (the largest free memory).

    \b
    Examples:
      ctl place 2 --memory 1G
      sbatch -N 2 -w $(ctl place 2 --memory 1G | paste -sd,) ./job.sh
    """
    from ctl.protocol import Client

    with Client() as agent:
        nodes: list[str] = agent.call("place", count=count, memory=need, by=by)
    emit(nodes, as_json, lambda: click.echo("\n".join(nodes)))


@click.command()
@JSON
def jobs(as_json: bool) -> None:
    """List the jobs, with CPU, memory and overtakes.

    CPU: CPUs in use now. faults: major page faults. overtook, overtaken: how often its tasks passed a task of a ready
    queue, and were passed, since it began. begun by: ctl (`ctl run`) or slurm (a job of Slurm with this id). state:
    free, slowed (a local user here or on another of its nodes), stopped, or on hold (`ctl hold`), with the reason.

    \b
    Example:
      ctl jobs
    """
    from ctl.contract import ON_HOLD, in_words
    from ctl.protocol import Client

    with Client() as agent:
        found: list[dict[str, Any]] = agent.call("jobs")
    columns = (
        *("job", "tasks", "CPU", "CPU time s", "memory MiB", "swap MiB", "faults", "faults/s"),
        *("overtook", "overtaken", "begun by", "state"),
    )

    def people() -> None:
        rows = [
            (
                job["jid"],
                str(job["tasks"]),
                number(job["cpu_share"], 2),
                number(job["cpu_s"], 1),
                number(job["memory"] / _MIB),
                number(job["swap"] / _MIB),
                str(job["majflt"]),
                number(job["majflt_s"]),
                str(job["overtakes_given"]),
                str(job["overtakes_suffered"]),
                job["from"],
                in_words(job["state"]),
            )
            for job in found
        ]
        narrow = ("begun by", "faults", "overtook", "overtaken", "swap MiB", "faults/s")
        start = "no jobs: start a job with `ctl run -- CMD`"
        table(columns, rows, right=columns[1:-2], empty=start, give_way=narrow)
        for job in found:
            if job["why"]:
                times = f"; stopped for {job['stopped_s']:.0f} s so far" if job["stopped_s"] >= 1 else ""
                state = "" if job["state"] == ON_HOLD else f"{job['state']}: "  # the reason says it
                click.echo(f"job {job['jid']} is {state}{job['why']}{times}")
            if job.get("refused"):
                click.echo(f"job {job['jid']}: {job['refused']}")

    emit(found, as_json, people)


@click.command()
@JSON
def queue(as_json: bool) -> None:
    """List the queue of policy fit: which jobs run, which wait, and why.

    need: what the job's owner declared, else what its history or its program tells, or what it had so far if that is
    more; in a cluster, on each of its nodes. passed: jobs that began while it waited; after 15 nobody passes it. state:
    runs, held (runs, and waits for memory), suspended (its owner has stopped its processes, and nobody wants its
    memory), waits (not begun yet), stopped (begun, and pushed out of memory) or on hold (`ctl hold`). The order is that
    of all nodes.

    \b
    Example:
      ctl queue
    """
    from ctl.contract import in_words
    from ctl.protocol import Client

    with Client() as agent:
        found: dict[str, Any] = agent.call("queue")

    def people() -> None:
        several = len(found["rooms"]) > 1

        def sizes(by_node: dict[str, int]) -> str:
            return ", ".join(f"{name} {size / _MIB:.0f}" for name, size in sorted(by_node.items()))

        rows = [
            (
                *(one["jid"], in_words(one["state"]), sizes(one["needs"]) if several else number(one["need"] / _MIB)),
                *(str(one["passed"]), one["why"]),
            )
            for one in found["jobs"]
        ]
        room = f"{sizes(found['rooms'])} MiB" if several else f"{found['room'] / _MIB:.0f} MiB"
        click.echo(f"room for jobs: {room}" + _turn(found["turn_left_s"]))
        if left := found["left_behind"] >> 20:
            click.echo(f"beside it: {left} MiB of files in shared memory that ended jobs left (`ctl report` has which)")
        table(("job", "state", "need MiB", "passed", "why"), rows, right=("need MiB", "passed"), empty="no jobs")

    emit(found, as_json, people)


def _turn(left_s: float | None) -> str:
    return "" if left_s is None else f"; those that wait go first in {left_s:.0f} s"


@click.command()
@click.option("--job", "-j", "jid", metavar="JID", help="list only the tasks of this job")
@JSON
def tasks(jid: str | None, as_json: bool) -> None:
    """List tasks of jobs, and running or queued local tasks.

    state: running, queued (in the ready queue of a CPU) or waiting. CPU, place: that CPU, and where in its queue; 0
    runs. overtaken: how often, since it came into the queue (the papers' de). messages: of it in sockets now, received
    and sent (COM); received: of these those received (rec); mean messages: P·mes + (1-P)·COM (mes). faults: major
    faults of the last second, or with flt=probability the per mille of its pages on swap (FLT). swap-in and thrashing:
    how long the task has waited for pages so far, by taskstats. overtaken and mean messages are shown for tasks that
    run or are queued. --json has the papers' names.

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
        *("tid", "command", "job", "state", "CPU", "place", "overtaken", "mean messages"),
        *("messages", "received", "faults", "swap-in ms", "thrashing ms"),
    )

    def people() -> None:
        rows = [
            (
                str(task["tid"]),
                task["comm"],
                task["jid"] or "local",
                task["state"],
                number(task["cpu"]),
                number(task["position"]),
                number(task["de"]),
                number(task["mes"], 2),
                number(task["com"]),
                number(task["rec"]),
                number(task["flt"]),
                number(task["swapin_ms"], 1),
                number(task["thrashing_ms"], 1),
            )
            for task in found
        ]
        narrow = ("thrashing ms", "swap-in ms", "received", "messages", "place")
        table(columns, rows, right=("tid", *columns[4:]), empty="no tasks", give_way=narrow)

    emit(found, as_json, people)
