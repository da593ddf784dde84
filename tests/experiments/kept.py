# SPDX-License-Identifier: GPL-2.0-or-later
"""What an experiment has measured, kept as it comes: an experiment that was interrupted goes on where it was."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

from rich.console import Console

from ctl.demo import results
from vm import checkout

__all__ = ["Kept", "Measured", "write"]

_REPO: Final = Path(__file__).resolve().parents[2]

Measured = dict[str, Any]


class _Case(Protocol):
    """A named tuple: the values by which a measurement is known."""

    def _asdict(self) -> dict[str, Any]: ...


C = TypeVar("C", bound=_Case)


class Kept:
    """What was measured, in a file, if any; where there is none yet it begins with what is in a file of results/."""

    def __init__(self, path: Path | None, first: Path | None = None) -> None:
        self._path = path
        self.measured: list[Measured] = []
        if path is not None and path.exists():
            self.measured = [json.loads(line) for line in path.read_text().splitlines()]
        elif first is not None and first.exists():
            for one in results.read(first).runs:
                self.add(one)

    @classmethod
    def of(cls, stem: str, fresh: bool, short: bool) -> Kept:
        """Those of results/STEM. fresh: what was measured before is forgotten; short: nothing is kept."""
        path = _REPO / f"build/experiments/{stem}.jsonl"
        if fresh:
            path.unlink(missing_ok=True)
        return cls(None) if short else cls(path, None if fresh else _REPO / f"results/{stem}.jsonl")

    def add(self, one: Measured) -> None:
        """Keep one more, on the disk at once."""
        self.measured.append(one)
        if self._path is not None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("a") as file:
                file.write(json.dumps(one) + "\n")

    def missing(self, wanted: Iterable[C], nodes: int, seed: int) -> list[C]:
        """The cases that were not measured with so many nodes and this seed."""
        made = [one for one in self.measured if (one["nodes"], one["seed"]) == (nodes, seed)]
        return [case for case in wanted if not any(case._asdict().items() <= one.items() for one in made)]

    def follow(self, command: Sequence[str], nodes: int, seed: int, console: Console) -> None:
        """Run a command whose lines are measurements, in JSON; keep and show each as it comes. Raises SystemExit with
        the command's status if that is not 0."""
        known = {"nodes": nodes, "seed": seed, "commit": checkout.commit()}
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as guest:
            assert guest.stdout
            for line in guest.stdout:
                self.add(json.loads(line) | known)
                console.print(line.rstrip(), highlight=False, soft_wrap=True)
        if guest.returncode != 0:
            raise SystemExit(guest.returncode)


def write(stem: str, command: str, measured: Sequence[Mapping[str, Any]], report: Callable[[str], str]) -> None:
    """Write what was measured by a command to results/STEM.jsonl, and the report of it, given commits, to STEM.md."""
    results.write(_REPO / f"results/{stem}.jsonl", {"command": command}, measured)
    (_REPO / f"results/{stem}.md").write_text(report(results.commits_of(measured)))
