# SPDX-License-Identifier: GPL-2.0-or-later
"""What jobs needed: a history by executable and user, in a file that may be lost without harm (ParPar §2.1).

A job's need is estimated by the runs of this executable by this user, without such a run by those of all users
(§2.1.1, B-PP-5), of this period and the last (ctl/policy/estimate.py). The need of a run is the most that it had in
memory and in swap on this node (B-PP-13).

SQLite keeps the file. A damaged file is put aside, and the history begins anew; without a place to write, the history
lasts as long as the agent does.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from ctl.policy.estimate import PERIOD_S, Runs, estimate

__all__ = ["FILE", "History"]

FILE: Final = Path(os.environ.get("COSCHED_STATE_DIR", "/var/lib/cosched")) / "history.sqlite"
_EVERYBODY: Final = ""  # the user's column of rows that are for all users
_TABLE: Final = (
    "CREATE TABLE IF NOT EXISTS runs (program TEXT, user TEXT, period INTEGER, n INTEGER, total REAL, squares REAL, "
    "most REAL, PRIMARY KEY (program, user, period)) WITHOUT ROWID"
)


class History:
    """The history of this node. Memory in bytes, times in seconds since 1970."""

    def __init__(self, path: Path = FILE, tell: Callable[[str], None] = lambda _text: None) -> None:
        """`tell` gets a sentence if the file is damaged or cannot be written."""
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._rows = _opened(path)
        except (OSError, sqlite3.OperationalError) as error:
            tell(f"the history of jobs is not kept: {path}: {error}")
            self._rows = _opened(":memory:")
        except sqlite3.DatabaseError as error:
            aside = path.with_suffix(".damaged")
            with contextlib.suppress(OSError):
                path.replace(aside)
            tell(f"the history of jobs is damaged ({error}), put aside as {aside}, and begins anew")
            self._rows = _opened(path)

    def observe(self, program: str, user: str, memory: int, at: float) -> None:
        """A run of this program by this user had so much at most."""
        period = int(at // PERIOD_S)
        with contextlib.suppress(sqlite3.Error):
            for whose in (user, _EVERYBODY):
                runs = self._runs(program, whose, period, period).and_one(memory)
                self._rows.execute("REPLACE INTO runs VALUES (?, ?, ?, ?, ?, ?, ?)", (program, whose, period, *runs))
            self._rows.execute("DELETE FROM runs WHERE period < ?", (period - 1,))

    def estimate(self, program: str, user: str, at: float) -> int:
        """The need of the next run, bytes; 0 if nothing is known."""
        period = int(at // PERIOD_S)
        for whose in (user, _EVERYBODY):
            found = estimate(self._runs(program, whose, period - 1, period))
            if found is not None:
                return int(found)
        return 0

    def rows(self, at: float) -> list[dict[str, Any]]:
        """All that is known, for people: program, user, number of runs, the most, the estimate."""
        period = int(at // PERIOD_S)
        kinds = self._rows.execute(
            "SELECT DISTINCT program, user FROM runs WHERE user != ? AND period >= ? ORDER BY program, user",
            (_EVERYBODY, period - 1),
        )
        found = []
        for program, user in kinds.fetchall():
            runs = self._runs(program, user, period - 1, period)
            need = self.estimate(program, user, at)
            found.append({"program": program, "user": user, "runs": runs.n, "most": int(runs.most), "estimate": need})
        return found

    def _runs(self, program: str, user: str, first: int, last: int) -> Runs:
        """The runs of these periods."""
        try:
            rows = self._rows.execute(
                "SELECT n, total, squares, most FROM runs WHERE program = ? AND user = ? AND period BETWEEN ? AND ?",
                (program, user, first, last),
            ).fetchall()
        except sqlite3.Error:
            return Runs()
        runs = Runs()
        for row in rows:
            runs = runs.and_all(Runs(*row))
        return runs


def _opened(path: Path | str) -> sqlite3.Connection:
    """The database with its table. Nothing waits for the disk: the file may be lost."""
    rows = sqlite3.connect(path, isolation_level=None, timeout=1.0)
    try:
        rows.execute("PRAGMA synchronous=OFF")
        rows.execute(_TABLE)
        rows.execute("SELECT n, total, squares, most FROM runs LIMIT 1").fetchall()
    except BaseException:
        rows.close()
        raise
    return rows
