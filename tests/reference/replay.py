# SPDX-License-Identifier: GPL-2.0-or-later
"""Replays recorded decisions of the kernel through the reference: `python -m tests.reference.replay FILE...`.

Each decision is made again from its recorded inputs. Each queue is compared with the queue after the preceding
decision. Exit status 0: all agree; 1: some do not; 2: usage; 3: all agree, but there are fewer than --at-least.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import click

from .continuity import Chain
from .insert_rq import Task, insert_RQ
from .records import PUT_BACK, WINDOW, BadRecord, Record, read
from .window import first_of

__all__ = ["Replay", "mismatch"]

_MAX_OVERTAKEN = 128  # as many tids as a record holds (bpf/cosched.h)


def _expected(record: Record) -> tuple[int, list[int], bool, bool]:
    """Position, tids charged, preempt and bounded by the reference."""
    if record.env.cause == WINDOW:
        place, passed = first_of(record.seen, record.window, record.env)
        return place, sorted(record.seen[j].tid for j in passed), False, False
    decision = insert_RQ(record.queue, record.task, record.running, record.env, start=record.start)
    charged = [record.queue[j].tid for j in decision.overtaken]
    if decision.charged_running and record.running:
        charged.append(record.running.tid)
    return decision.position, sorted(charged[:_MAX_OVERTAKEN]), decision.preempt, decision.bounded


def mismatch(record: Record) -> str | None:
    """The difference of the kernel's decision from the reference's, in words; None if there is none.

    If the keys had run out, the kernel's task may stand further back: this is counted, and no difference.
    """
    kernel = record.position, sorted(record.overtaken), record.preempt, record.bounded
    reference = _expected(record)
    if record.gap and record.position > reference[0]:
        reference = record.position, *reference[1:]
    if kernel == reference:
        return None
    env = record.env
    lines = [
        f"rule {env.rule}, cause {env.cause}, {'overloaded' if env.overloaded else 'memory fits'}, "
        f"mnol {env.mnol}, mnod {env.mnod}, walk_max {env.walk_max}, share_ns {env.share_ns}, "
        f"{record.start} ahead",
        f"  task     {_shown(record, record.task)}",
        f"  running  {_shown(record, record.running) if record.running else '-'}",
    ]
    lines += [f"  queue {j:2} {_shown(record, q)}" for j, q in enumerate(record.queue)]
    lines += [f"- kernel    {_answer(kernel)}", f"+ reference {_answer(reference)}"]
    return "\n".join(lines)


def _answer(answer: tuple[int, list[int], bool, bool]) -> str:
    position, charged, preempt, bounded = answer
    flags = f"{' preempt' if preempt else ''}{' bounded' if bounded else ''}"
    return f"position {position} overtaken {charged}{flags}"


def _shown(record: Record, task: Task) -> str:
    kind = "parallel" if task.parallel else "credit" if task.credit else "local"
    return (
        f"{record.comms.get(task.tid, '?')}[{task.tid}] {kind} de={task.de} mes={task.mes} com={task.com} "
        f"rec={task.rec} flt={task.flt} cpu_ns={task.cpu_ns}"
    )


@dataclass
class Replay:
    """Counts over any number of files."""

    by_rule: Counter[str] = field(default_factory=Counter)
    files: int = 0
    mismatches: int = 0
    disorders: int = 0
    truncated: int = 0
    bounded: int = 0
    gaps: int = 0
    overtakes: int = 0
    checked: int = 0
    lost: int = 0
    left_middle: int = 0
    put_backs: int = 0
    windows: int = 0
    turns: int = 0  # of these, where one of several jobs had the turn

    @property
    def decisions(self) -> int:
        """Decisions replayed; truncated ones cannot be."""
        return self.by_rule.total()

    @property
    def failed(self) -> bool:
        """Did a decision or a queue differ?"""
        return bool(self.mismatches or self.disorders)

    def file(self, records: Iterable[Record]) -> Iterator[str]:
        """Replay a recording; yields the faults, each with its place."""
        self.files += 1
        chains: dict[int, Chain] = {}
        mno = [0, 0]
        for number, record in enumerate(records, 1):
            place = f"record {number}, cpu {record.cpu}, seq {record.seq}"
            for problem in chains.setdefault(record.cpu, Chain(mno=mno)).follow(record):
                self.disorders += 1
                yield f"{place}: {problem}"
            if found := self._decision(record):
                yield f"{place}: {found}"
        for chain in chains.values():
            if len(chains) == 1:  # nobody else steals
                self.disorders += len(chain.ran_early)
                yield from chain.ran_early
            self.lost += chain.lost
            self.checked += chain.checked
            self.left_middle += chain.left_middle

    def _decision(self, record: Record) -> str | None:
        if record.env.cause == PUT_BACK:
            self.put_backs += 1
            return None
        if record.truncated:
            self.truncated += 1
            return None
        if record.env.cause == WINDOW:
            self.windows += 1
            self.turns += record.window.turns
        else:
            self.by_rule[record.env.rule] += 1
        self.bounded += record.bounded
        self.gaps += record.gap
        self.overtakes += len(record.overtaken)
        found = mismatch(record)
        self.mismatches += found is not None
        return found

    def summary(self) -> str:
        """One line."""
        return (
            f"replay: {self.decisions} decisions in {self.files} files, {self.mismatches} mismatches, "
            f"{self.disorders} disorders in {self.checked} queues, {self.overtakes} overtakes, "
            f"{self.lost} lost, {self.truncated} truncated, {self.bounded} bounded, {self.gaps} without a key, "
            f"{self.left_middle} left from the middle, {self.put_backs} put back, {self.windows} in windows, "
            f"{self.turns} in turns"
        )


@click.command(help=(__doc__ or "").split("\n", 1)[0])
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--at-least", type=click.IntRange(1), default=1, help="status 3 with fewer decisions replayed")
@click.option("--show", type=click.IntRange(0), default=10, show_default=True, help="differences to print")
@click.option("--by-rule", is_flag=True, help="count decisions by rule")
def main(files: tuple[Path, ...], at_least: int, show: int, by_rule: bool) -> None:
    """Replay, print, exit."""
    replay, wrong = Replay(), []
    for path in files:
        try:
            wrong += [f"{path}: {found}" for found in replay.file(read(path))]
        except BadRecord as error:
            raise click.UsageError(str(error)) from None
    wrong.sort(key=lambda text: "\n" not in text)  # decisions first, they are shown with their queue
    for text in wrong[:show]:
        click.echo(text)
    if len(wrong) > show:
        click.echo(f"{len(wrong) - show} more are not shown: --show {len(wrong)} prints them")
    if by_rule:
        click.echo("  ".join(f"{rule} {count}" for rule, count in sorted(replay.by_rule.items())))
    click.echo(replay.summary())
    if replay.decisions < at_least:
        click.echo(f"replay: {replay.decisions} decisions are fewer than the {at_least} asked for")
    sys.exit(1 if replay.failed else 3 if replay.decisions < at_least else 0)


if __name__ == "__main__":
    main()
