# SPDX-License-Identifier: GPL-2.0-or-later
"""`ctl status`, `ctl top`: the scheduler's state, the dashboard."""

from __future__ import annotations

import itertools
import shutil
import sys
import textwrap
import time
from collections.abc import Iterator
from typing import Any

import click

from ctl.cli.common import JSON, Renamed, emit, interval_option, print_event
from ctl.errors import USAGE, CoschedError

__all__ = ["status", "top"]

_DUMP_LINES = 8  # lines of the kernel's dump that status shows; the log has the rest
_MIB = 1 << 20


@click.command()
@click.option("--follow", "-f", is_flag=True, help="print events from now on, until interrupted")
@click.option("--cluster", "of_cluster", is_flag=True, help="show the cluster's nodes, and the jobs of this node")
@JSON
def status(follow: bool, of_cluster: bool, as_json: bool) -> None:
    """Show the scheduler's state and settings, or why it ended.

    --follow prints a line for each event: any sched_ext scheduler that starts or ends, overload, jobs and their
    processes, changes of policy and knobs. With --json a line is an object. `ctl events` tells the same, and what was
    before; --cluster is `ctl cluster status`.

    \b
    Examples:
      ctl status
      ctl status --follow
      ctl status --cluster --json
    """
    if follow and of_cluster:
        raise CoschedError("--follow and --cluster exclude each other: `ctl cluster events` follows the cluster", USAGE)
    if of_cluster:
        from ctl.cli.cluster import show_cluster

        show_cluster(as_json)
    elif follow:
        from ctl.monitor.follow import follow as events

        for event in events():
            print_event(event, as_json)
    else:
        answer = _status()
        emit(answer, as_json, lambda: _print_status(answer))


def _status() -> dict[str, Any]:
    """The agent's status, or the little that is known without an agent."""
    from ctl.protocol import Client, NotRunning

    try:
        with Client() as agent:
            answer: dict[str, Any] = agent.call("status")
            return answer
    except NotRunning:
        from ctl.kernel import sysinfo
        from ctl.process import run_files, service

        known = sysinfo.has_sched_ext()
        return {
            "loaded": False,
            "policy": None,
            "sched_ext": {
                "state": sysinfo.scx_state() if known else "not in this kernel",
                "ops": sysinfo.scx_ops() if known else None,
            },
            "agent": None,
            "died": run_files.left_behind(),
            "last_exit": (ended := run_files.last_exit()),
            "follows": service.what_follows(ended),
        }


def _print_status(answer: dict[str, Any]) -> None:
    scx = answer["sched_ext"]
    kernel = f"sched_ext {scx['state']}" + (f", scheduler {scx['ops']}" if scx["ops"] else "")
    if answer["loaded"]:
        lines = [*_loaded(answer), ("kernel", kernel)]
    else:
        lines = [("loaded", "no"), ("kernel", kernel), *_why_not(answer)]
        lines += [("then", answer["follows"])] if answer["follows"] else []
    width = max(len(name) for name, _ in lines)
    room = shutil.get_terminal_size().columns - width - 2 if sys.stdout.isatty() else 0
    for name, text in lines:
        broken = [piece for line in text.splitlines() for piece in textwrap.wrap(line, room)] if room > 20 else None
        first, *rest = (text.splitlines() if broken is None else broken) or [""]
        label = click.style(name.ljust(width), bold=True)
        click.echo(f"{label}  {first}")
        for line in rest:
            click.echo(" " * (width + 2) + line)


def _loaded(answer: dict[str, Any]) -> Iterator[tuple[str, str]]:
    agent, sensors, trace = answer["agent"], answer["sensors"], answer["trace"]
    yield "loaded", "yes"
    yield "policy", f"{answer['policy']} (rule {answer['rule']})"
    changed = ", ".join(f"{name}={value}" for name, value in answer["changed"].items())
    yield "knobs", changed or "all at their defaults"
    yield "overload", _overload(answer["overload"])
    yield "contract", _contract(answer["contract"], float(answer["knobs"]["share_l"]))
    if answer["queue"] is not None:
        yield "queue", _queue(answer["queue"])
    yield "sensors", sensors["state"] + (f": {sensors['reason']}" if sensors["reason"] else "")
    yield "jobs", ", ".join(answer["jobs"]) or "none"
    counted = {name: value for name, value in answer["counters"].items() if value}
    yield "counters", _columns([f"{value} {name.replace('_', ' ')}" for name, value in counted.items()])
    yield "trace", f"{trace['readers']} readers, {trace['recorded']} decisions recorded, {trace['lost']} lost"
    yield "agent", f"pid {agent['pid']}, up {_duration(agent['uptime_s'])}"


def _overload(now: dict[str, Any]) -> str:
    state = "overloaded" if now["effective"] else "not overloaded"
    lines = [f"{state} ({now['mode']}): {now['why']}"]
    numbers = [f"Mem {now['mem'] / _MIB:.0f} MiB, M {now['m'] / _MIB:.0f} MiB"]
    if now["swapins_s"] is not None:
        numbers.append(f"{now['swapins_s']:.0f} swap-ins/s, {now['refaults_s']:.0f} refaults/s")
    if now["psi_some"] is not None:
        numbers.append(f"PSI some {now['psi_some']:.1f} % full {now['psi_full']:.1f} % of the last 10 s")
    return "\n".join([*lines, "; ".join(numbers)])


def _contract(now: dict[str, Any], share_l: float) -> str:
    """The social contract: the local user, the shares that are set, the shares achieved."""
    user, quantum, memory, cluster = now["local_user"], now["quantum"], now["memory"], now["cluster"]
    modules = ", ".join(f"{name} {'on' if on else 'off'}" for name, on in now["modules"].items())
    achieved = "no CPU time used" if quantum["achieved_share"] is None else f"{quantum['achieved_share']:.0%} achieved"
    one_by_one = now["kind"] == "queue" and not quantum["windows"]
    beside = "for one task beside one local" if one_by_one else "beside busy local tasks"
    lines = [
        f"{now['kind']}: {modules}; local user {'present' if user['present'] else 'absent'}: {user['why']}",
        f"quanta: local {quantum['local_ms']:g} ms, parallel {quantum['parallel_ms']:g} ms (L {share_l:g}, "
        f"W {now['weight']:.2f}, speed {now['speed']:g})",
        f"CPU of jobs: {quantum['set_share']:.0%} set {beside}, {achieved} in epoch "
        f"{now['epoch']['number']} ({now['epoch']['ms']} ms)",
    ]
    if memory["used"] is not None:
        held = ", held to it" if memory["held"] else ""
        bound = f", of at most {memory['mpl_max']}" if memory["mpl_max"] else ""
        lines.append(
            f"memory of jobs: {memory['used'] / _MIB:.0f} of {memory['pool'] / _MIB:.0f} MiB{held}, "
            f"{memory['paged_s']:.0f} pages/s come back; {memory['mpl_now']} jobs run{bound}"
        )
    if (slots := now["slots"]) is not None:
        lines.append(f"slots: jobs run {slots['run_ms']} ms, are stopped {slots['stop_ms']} ms{_by_the_clock(slots)}")
    if (periods := now["periods"]) is not None:
        lines.append(f"periods: jobs have their part of each {periods['ms']} ms{_by_the_clock(periods)}")
    lines += [f"job {one['jid']} stopped: {one['why']}" for one in memory["stopped"]]
    if cluster is not None:
        lines.append(f"cluster: {cluster['node']}, broker {cluster['broker'] or 'not connected'}")
    return "\n".join(lines)


def _queue(now: dict[str, Any]) -> str:
    """Policy fit: the room for jobs, the jobs that run, and those that wait."""
    turn = "" if now["turn_left_s"] is None else f"; those that wait go first in {now['turn_left_s']:.0f} s"
    first = f"room for jobs {now['room'] / _MIB:.0f} MiB; run: {', '.join(now['runs']) or 'none'}{turn}"
    held = [f"job {jid} {why}" for jid, why in now["held"]]
    on_hold = [f"job {jid} is {why}" for jid, why in now["on_hold"]]
    return "\n".join([first, *held, *(f"job {jid} waits: {why}" for jid, why in now["waits"]), *on_hold])


def _by_the_clock(now: dict[str, Any]) -> str:
    """The lateness of what the agent begins by the time of day, and the error of this node's clock."""
    late = "" if now["late_ms"] is None else f", {now['late_ms']:.1f} ms late, at most {now['latest_ms']:.1f}"
    missed = f", {now['missed']} missed" if now["missed"] else ""
    error = now["clock_error_ms"]
    clock = "no time service sets this clock" if error is None else f"this clock is at most {error:.1f} ms off"
    return f"{late}{missed}; {clock}"


def _why_not(answer: dict[str, Any]) -> Iterator[tuple[str, str]]:
    from ctl.process.run_files import LOG

    if answer["died"]:
        yield "agent", answer["died"]
    ended = answer["last_exit"]
    if ended is None:
        if not answer["died"]:
            yield "agent", "not running: start it with `ctl load --policy csm`"
        return
    when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(ended["time"]))
    yield "ended", f"{when}, policy {ended['policy']}, agent pid {ended['pid']}: {ended['why']}"
    record = ended.get("exit")
    if not record:
        return
    yield "reason", f"{record['reason'] or 'none given'} (kind {record['kind_name']}, code {record['code']:#x})"
    if record["msg"]:
        yield "message", record["msg"]
    dump = record["dump"].strip().splitlines()
    if dump:
        more = [f"… {len(dump) - _DUMP_LINES} more lines in {LOG}"] if len(dump) > _DUMP_LINES else []
        yield "dump", "\n".join(dump[:_DUMP_LINES] + more)


def _columns(words: list[str], to_a_line: int = 5) -> str:
    if not words:
        return "all 0"
    return "\n".join(", ".join(chunk) for chunk in _chunks(words, to_a_line))


def _chunks(words: list[str], size: int) -> Iterator[list[str]]:
    rest = iter(words)
    while chunk := list(itertools.islice(rest, size)):
        yield chunk


def _duration(seconds: float) -> str:
    minutes, seconds = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {seconds} s" if minutes else f"{seconds} s"


@click.command(cls=Renamed, old={"-p": "--page"})
@interval_option("between two frames [default: 1]")
@click.option("--count", "-n", type=int, metavar="N", help="print N frames as text and end")
@click.option("--once", is_flag=True, help="print one frame as text and end")
@click.option("--page", default="overview", metavar="NAME", help="begin with this page: overview, queue or nodes")
@JSON
def top(interval: float | None, count: int | None, once: bool, page: str, as_json: bool) -> None:
    """Show the ready queues, jobs and overload, live; q quits.

    Pages: overview, the node with its ready queues; queue, policy fit's queue of jobs with what each needs and why it
    waits; nodes, the cluster. Keys 1, 2, 3 and tab turn pages, p stops the picture and q ends. Without a terminal,
    prints one frame as text, or --count frames.

    In the ready queues de, mes, COM, rec and FLT are the papers' names of what `ctl tasks` lists as overtaken, mean
    messages, messages, received and faults.

    \b
    Examples:
      ctl top
      ctl top --once --page queue
      ctl top --count 3 --interval 0.5 > frames.txt
    """
    from ctl.monitor.top import run

    if once and count not in (None, 1):
        raise CoschedError("--once and --count exclude each other", USAGE)
    run(interval=interval, count=1 if once else count, page=page, as_json=as_json)
