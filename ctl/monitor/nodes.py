# SPDX-License-Identifier: GPL-2.0-or-later
"""The cluster's nodes, and the slowed and stopped jobs with the reasons: two lines of the overview, and a page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from rich.text import Text

from ctl.contract import IN_MEMORY, ON_HOLD, Cluster, ClusterNode, Job, Queue, in_words
from ctl.monitor.listing import Entry, listing
from ctl.monitor.palette import LIMIT, LOCAL, PARALLEL, QUIET, WARN
from ctl.monitor.pen import Pen
from ctl.monitor.text import Column, clean, line, number, size, whole, wrapped

__all__ = ["cluster", "nodes"]

_LABEL: Final = 9
_STYLES: Final = {"free": QUIET, "slowed": WARN, "stopped": LIMIT, ON_HOLD: WARN}
_ALONE: Final = "This node works alone: `ctl cluster init` founds a cluster, `ctl cluster join` enters one."
_NODES: Final = (
    *(Column("JOBS", 4, True), Column("MEMORY", 8, True), Column("ROOM", 8, True), Column("FREE", 8, True)),
    *(Column("CPUS", 4, True), Column("RUNNABLE", 8, True), Column("L", 4, True), Column("SPEED", 5, True)),
    Column("FAULTS/s", 8, True),
)
_JOBS: Final = (Column("STATE", 7), Column("TASKS", 5, True), Column("MEMORY", 8, True))
_LEGEND: Final = (
    "JOBS: those of this node that the node holds, too. ROOM, by policy fit: its memory for jobs. FREE: what of it no "
    "running job needs. RUNNABLE: tasks that run or could run. L: the jobs' share beside a local user."
)


# on the overview


def nodes(pen: Pen) -> list[Text]:
    """At most two lines; none for a node that works alone and holds back no job. The page has the reasons."""
    lines, known = [], pen.view.get("cluster")
    if known is not None:
        lines.append(_line(pen, "cluster", [_broker(known), *map(Text, _names(known))]))
    held = [job for job in pen.view["jobs"] if job.get("state") in ("slowed", "stopped", ON_HOLD)]
    if held:
        reasons = [_held(job, True) for job in held]
        fit = sum(piece.cell_len + 2 for piece in reasons) - 2 <= pen.width - _LABEL
        lines.append(_line(pen, "held", reasons if fit else [_held(job, False) for job in held]))
    return lines


def _line(pen: Pen, label: str, pieces: list[Text]) -> Text:
    shown = whole(pen.width - _LABEL, pieces, pen.glyphs.more)
    return line(pen.width, [Text(f"{label:<{_LABEL}}", QUIET), shown])


def _broker(known: Cluster) -> Text:
    if known["broker"]:
        return Text(f"by {clean(known['broker'])}", LOCAL)
    return Text("no broker: this node decides alone", WARN)


def _names(known: Cluster) -> list[str]:
    """Each node with the number of this node's jobs that it holds."""
    return [
        clean(name) + (f" ({node['jobs']} of our jobs)" if node["jobs"] and name != known["node"] else "")
        for name, node in known["nodes"].items()
    ]


def _held(job: Job, reason: bool) -> Text:
    state, why = job.get("state", ""), clean(job.get("why", ""))
    text = Text().append(clean(job["jid"]), PARALLEL).append(f" {in_words(state)}", _STYLES[state])
    return text.append(why.removeprefix("on hold") if state == ON_HOLD else f": {why}", QUIET) if reason else text


# the page


def cluster(pen: Pen, room: int) -> list[Text]:
    """The lines of the page, at most `room`."""
    blank, known = line(pen.width, []), pen.view.get("cluster")
    if known is None:
        lines = [blank, *_sentence(pen, _ALONE), blank]
        legend: list[Text] = []
    else:
        count = Text("1 node" if len(known["nodes"]) == 1 else f"{len(known['nodes'])} nodes")
        lines = [blank, _line(pen, "cluster", [_broker(known), count]), blank]
        entries = [_node(pen, name, node) for name, node in known["nodes"].items()]
        lines += [*listing(pen, "NODE", _NODES, entries, (room - len(lines)) // 2), blank]
        legend = [blank, *_sentence(pen, _LEGEND)]
    if pen.view["jobs"]:
        rows = [_job(pen, job, known) for job in pen.view["jobs"]]
        lines += listing(pen, "JOB", _JOBS, rows, room - len(lines))
    else:
        lines += _sentence(pen, "No job here.")
    return (lines + legend if len(lines) + len(legend) <= room else lines)[:room]


def _node(pen: Pen, name: str, node: ClusterNode) -> Entry:
    none, queue, known = pen.glyphs.none, pen.view.get("queue"), pen.view.get("cluster")
    here = known is not None and name == known["node"]
    load: Mapping[str, float] = queue["loads"].get(name, {}) if queue else {}
    room, free = _rooms(queue, name)
    cells = [
        *(number(node["jobs"]), size(node["memory"], none), size(room, none), size(free, none)),
        *(number(load.get("cpus"), none), number(load.get("runnable"), none), number(node["share_l"], none)),
        *(number(node["speed"], none), number(load.get("faults_s"), none)),
    ]
    return Entry((clean(name) + (" (here)" if here else ""), "bold" if here else ""), [(cell, "") for cell in cells])


def _rooms(queue: Queue | None, node: str) -> tuple[int | None, int | None]:
    """A node's room for jobs, and what of it no running job needs; None: not known."""
    if queue is None or node not in queue["rooms"]:
        return None, None
    taken = sum(job["needs"].get(node, 0) for job in queue["jobs"] if job["state"] in IN_MEMORY)
    return queue["rooms"][node], max(0, queue["rooms"][node] - taken)


def _job(pen: Pen, job: Job, known: Cluster | None) -> Entry:
    state, notes = job.get("state", ""), [job.get("why", "")]
    if known is not None:
        notes.insert(0, "on " + ", ".join([known["node"], *known["holders"].get(job["jid"], [])]))
    shown = in_words(state), _STYLES.get(state, "")
    cells = [shown, (number(job["tasks"]), ""), (size(job["memory"], pen.glyphs.none), "")]
    return Entry((clean(job["jid"]), PARALLEL), cells, "; ".join(filter(None, notes)))


def _sentence(pen: Pen, told: str) -> list[Text]:
    return [line(pen.width, [Text(text, QUIET)]) for text in wrapped(told, pen.width)]
