# SPDX-License-Identifier: GPL-2.0-or-later
"""The page of policy fit's queue of jobs: the room and who has it, the turn, and the jobs in their order with what they
need, how that is known, and why a job waits.
"""

from __future__ import annotations

from typing import Final

from rich.text import Text

from ctl.contract import IN_MEMORY, ON_HOLD, Job, Queue, QueuedJob, in_words
from ctl.monitor.listing import Entry, listing
from ctl.monitor.palette import LIMIT, PARALLEL, QUIET, WARN
from ctl.monitor.pen import Pen
from ctl.monitor.tables import jobs
from ctl.monitor.text import Column, clean, duration, level, line, number, of, size, wrapped

__all__ = ["job_queue", "place_in_queue"]

_COLUMNS: Final = (
    *(Column("STATE", 9), Column("NEED", 8, True), Column("DECLARED", 8, True), Column("ESTIMATE", 8, True)),
    *(Column("PASSED", 6, True), Column("MEMORY", 8, True), Column("SWAP", 8, True)),
)
_STATES: Final = {
    "runs": QUIET,
    "held": LIMIT,
    "suspended": WARN,
    "waits": WARN,
    "stopped": LIMIT,
    ON_HOLD: WARN,
}
_LEGEND: Final = (
    "A job runs if its need fits on all its nodes beside the jobs above it.",
    "NEED: what its owner declared, else the estimate, or what it had so far if that is more.",
    "ESTIMATE: by the history of its program, or by Slurm. PASSED: jobs that began while it waited; after 15 none may.",
)


def job_queue(pen: Pen, room: int) -> list[Text]:
    """The lines of the page, at most `room`."""
    queue = pen.view.get("queue")
    blank = line(pen.width, [])
    if queue is None:
        why = f"Policy {pen.view['policy']} keeps no queue of jobs" if pen.view["policy"] else "No policy is loaded"
        told = f"{why}: `ctl switch fit` lets those jobs run whose memory fits, and the others wait."
        return [blank, *_sentences(pen, [told]), blank, *jobs(pen)][:room]
    top = [blank, _room(pen, queue), _turn(pen, queue), blank]
    legend = [blank, *_sentences(pen, _LEGEND)]
    if not queue["jobs"]:
        return [*top, *_sentences(pen, ["No job: start a job with `ctl run --job JID -- COMMAND`."])][:room]
    used = {job["jid"]: job for job in pen.view["jobs"]}
    entries = [_entry(pen, place, one, used.get(one["jid"])) for place, one in enumerate(queue["jobs"], 1)]
    table = listing(pen, "  # JOB", _COLUMNS, entries, room - len(top))
    lines = [*top, *table]
    return (lines + legend if len(lines) + len(legend) <= room else lines)[:room]


def place_in_queue(queue: Queue) -> tuple[list[QueuedJob], list[QueuedJob]]:
    """The jobs in memory, and those that wait, in their order; jobs on hold do neither."""
    run = [job for job in queue["jobs"] if job["state"] in IN_MEMORY]
    return run, [job for job in queue["jobs"] if job["state"] not in (*IN_MEMORY, ON_HOLD)]


def _room(pen: Pen, queue: Queue) -> Text:
    run, _ = place_in_queue(queue)
    needed = sum(job["need" if job["state"] in IN_MEMORY else "stays"] for job in queue["jobs"])
    taken = f" {of(needed, queue['room'], pen.glyphs.none)} for {_jobs(len(run), 'running')}"
    left = queue["room"] - needed
    free = Text(f"{size(left)} free") if left >= 0 else Text("more than there is", LIMIT)
    bar = level(float(needed), float(queue["room"]), max(8, min(40, pen.width // 6)), pen.glyphs)
    return line(pen.width, [Text(f"{'room':<9}", QUIET), bar, taken, ", ", free])


def _jobs(count: int, which: str) -> str:
    return f"{count} {which} job{'' if count == 1 else 's'}"


def _turn(pen: Pen, queue: Queue) -> Text:
    _, rest = place_in_queue(queue)
    so_far = f"; {queue['turns']} turn{'' if queue['turns'] == 1 else 's'} so far" if queue["turns"] else ""
    left = queue["turn_left_s"]
    if not rest:
        told = Text(f"nobody waits{so_far}")
    elif left is None:
        told = Text(f"{_jobs(len(rest), 'waiting')}; there are no turns: knob turn_s is 0", WARN)
    else:
        told = Text(f"{_jobs(len(rest), 'waiting')}: first when the turn ends, in {duration(left)}{so_far}", WARN)
    return line(pen.width, [Text(f"{'turn':<9}", QUIET), told])


def _entry(pen: Pen, place: int, one: QueuedJob, used: Job | None) -> Entry:
    none = pen.glyphs.none

    def known(value: int | None) -> tuple[str, str]:
        return (size(value, none), "") if value else (none, QUIET)

    notes = [one["why"]]
    if len(one["needs"]) > 1 or not one["need"]:
        needs = ", ".join(f"{node} {size(need)}" for node, need in sorted(one["needs"].items()))
        notes.append(f"needs {needs}")
    cells = [
        (in_words(one["state"]), _STATES.get(one["state"], "")),
        *(known(one["need"]), known(one["declared"]), known(one["estimated"])),
        (number(one["passed"], none), "" if one["passed"] else QUIET),
        *(known(used["memory"] if used else None), known(used["swap"] if used else None)),
    ]
    return Entry((f"{place:>3} {clean(one['jid'])}", PARALLEL), cells, "; ".join(filter(None, notes)))


def _sentences(pen: Pen, told: list[str] | tuple[str, ...]) -> list[Text]:
    return [line(pen.width, [Text(text, QUIET)]) for sentence in told for text in wrapped(sentence, pen.width)]
