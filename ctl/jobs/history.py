# SPDX-License-Identifier: GPL-2.0-or-later
"""What jobs needed: a history by program, ranks and user, in a file that may be lost without harm (ParPar §2.1).

A run is what a job had on this node: its peak, the most that it had in memory and in swap (B-PP-13); its working set,
the most that it ran with without reading pages back (ctl/node/working_set.py); and its ranks here.

The need of the next run is estimated by the peaks of this period and the last (ctl/policy/estimate.py), of the first of
these keys that has any (ParPar §2.1.1, B-PP-5; nodes are ranks of this node here, since each node has its own history):

    same program, ranks, user          as they were; a program by its key, see ctl/jobs/program.py
    same program and ranks             as they were, of all users
    same program and user              for each rank, times the ranks of the next run
    same program                       the same, of all users
    same program                       as they were: ranks unknown, then or now; the user's own before all

SQLite keeps the file. A file of the layout before is taken over. A damaged file, or one of a later layout, is put
aside, and the history begins anew; without a place to write, the history lasts as long as the agent does.
"""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

from ctl.errors import FAILED, CoschedError
from ctl.policy.estimate import PERIOD_S, Runs, estimate
from ctl.protocol import STATE_DIR

__all__ = ["FILE", "VERSION", "History", "Run"]

FILE: Final = STATE_DIR / "history.sqlite"
VERSION: Final = 2  # of the layout, in the file's user_version; before, it was not set
_TABLE: Final = (
    "CREATE TABLE needs (program TEXT, user TEXT, ranks INTEGER, kind TEXT, period INTEGER, n INTEGER, total REAL, "
    "squares REAL, most REAL, PRIMARY KEY (program, user, ranks, kind, period)) WITHOUT ROWID"
)
_TAKE_OVER: Final = (  # its rows without a user were sums of the others
    "INSERT INTO needs SELECT program, user, 0, 'peak', period, n, total, squares, most FROM runs WHERE user != ''"
)
_T = TypeVar("_T")


class Run(NamedTuple):
    """What a job had on this node."""

    peak: int  # bytes in memory and in swap, at most
    working: int = 0  # bytes of its working set, at most; 0: not seen
    ranks: int = 0  # 0: not known


class _Row(NamedTuple):
    """The runs of one user with so many ranks."""

    user: str
    ranks: int
    runs: Runs


class History:
    """The history of this node. Memory in bytes, times in seconds since 1970."""

    def __init__(self, path: Path = FILE, tell: Callable[[str], None] = lambda _text: None) -> None:
        """`tell` gets a sentence if the file is damaged or cannot be written."""
        self._path, self._tell = path, tell
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._rows = _opened(path)
        except (OSError, sqlite3.OperationalError) as error:
            self._keep_in_memory(error)
        except sqlite3.DatabaseError as error:
            self._begin_anew(error)

    def observe(self, program: str, user: str, run: Run, at: float) -> None:
        """A run of this program by this user."""
        period = int(at // PERIOD_S)
        sizes = {"peak": run.peak, "working": run.working}

        def add() -> None:
            for kind, size in sizes.items():
                if size:
                    key = (program, user, run.ranks, kind, period)
                    found = self._rows.execute(
                        "SELECT n, total, squares, most FROM needs WHERE (program, user, ranks, kind, period) = "
                        "(?, ?, ?, ?, ?)", key
                    ).fetchone()
                    runs = Runs(*found or ()).and_one(size)
                    self._rows.execute("REPLACE INTO needs VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", (*key, *runs))
            self._rows.execute("DELETE FROM needs WHERE period < ?", (period - 1,))

        self._tried(add, None)

    def estimate(self, program: str, user: str, at: float, ranks: int = 0) -> int:
        """The need of the next run with so many ranks on this node (0: not known), bytes; 0 if nothing is known."""
        for runs in _alike(self._runs(program, "peak", at), user, ranks):
            found = estimate(runs)
            if found is not None:
                return math.ceil(found)
        return 0

    def rows(self, at: float) -> list[dict[str, Any]]:
        """All that is known, for people: program, user, ranks, number of runs, the largest peak and working set, and
        the estimate for a next run of so many ranks."""
        nothing: list[Any] = []
        programs = self._tried(lambda: self._rows.execute("SELECT DISTINCT program FROM needs").fetchall(), nothing)
        found = []
        for (program,) in sorted(programs):
            working = {(one.user, one.ranks): one.runs.most for one in self._runs(program, "working", at)}
            for user, ranks, runs in self._runs(program, "peak", at):
                row = {"program": program, "user": user, "ranks": ranks, "runs": runs.n, "most": int(runs.most)}
                row["working"] = int(working.get((user, ranks), 0))
                found.append({**row, "estimate": self.estimate(program, user, at, ranks)})
        return found

    def forget(self, program: str, user: str | None) -> int:
        """Forget the runs of this key, of this user or of all (None); how many there were. Raises CoschedError
        (status 1) if the file is in use."""
        which, values = ("program = ?", (program,)) if user is None else ("program = ? AND user = ?", (program, user))

        def delete() -> int:
            ((runs,),) = self._rows.execute(f"SELECT SUM(n) FROM needs WHERE {which} AND kind = 'peak'", values)
            self._rows.execute(f"DELETE FROM needs WHERE {which}", values)
            return runs or 0

        forgotten = self._tried(delete, None)
        if forgotten is None:
            raise CoschedError(f"the history of jobs, {self._path}, is in use or full: try again", FAILED)
        return forgotten

    def _runs(self, program: str, kind: str, at: float) -> list[_Row]:
        """The runs of this period and the last, by user and ranks."""
        period, nothing = int(at // PERIOD_S), list[Any]()
        found = self._tried(
            lambda: self._rows.execute(
                "SELECT user, ranks, SUM(n), SUM(total), SUM(squares), MAX(most) FROM needs WHERE program = ? AND "
                "kind = ? AND period BETWEEN ? AND ? GROUP BY user, ranks ORDER BY user, ranks",
                (program, kind, period - 1, period),
            ).fetchall(),
            nothing,
        )
        return [_Row(user, ranks, Runs(*runs)) for user, ranks, *runs in found]

    # the file

    def _tried(self, work: Callable[[], _T], otherwise: _T) -> _T:
        """The result of work on the file; `otherwise` if the file does not do it now, or is damaged."""
        try:
            return work()
        except sqlite3.OperationalError:  # full, or another process writes
            return otherwise
        except sqlite3.DatabaseError as error:
            self._begin_anew(error)
            return otherwise

    def _begin_anew(self, error: Exception) -> None:
        """Put the file aside, and keep a new one."""
        aside = self._path.with_suffix(".damaged")
        try:
            self._path.replace(aside)
            self._rows = _opened(self._path)
            self._tell(f"the history of jobs is damaged or of another version ({error}), put aside as {aside}, and "
                       "begins anew")
        except (OSError, sqlite3.Error) as again:
            self._keep_in_memory(again)

    def _keep_in_memory(self, error: Exception) -> None:
        self._tell(f"the history of jobs is not kept: {self._path}: {error}")
        self._rows = _opened(":memory:")


def _alike(rows: list[_Row], user: str, ranks: int) -> Iterator[Runs]:
    """The runs by which the next one is estimated, those first that are most like it."""
    groups = [row for row in rows if row.user == user], rows
    if ranks:
        for group in groups:
            yield _together(row.runs for row in group if row.ranks == ranks)
        for group in groups:
            yield _together(row.runs.times(ranks / row.ranks) for row in group if row.ranks)
    for group in groups:
        yield _together(row.runs for row in group)


def _together(several: Iterable[Runs]) -> Runs:
    runs = Runs()
    for one in several:
        runs = runs.and_all(one)
    return runs


def _opened(path: Path | str) -> sqlite3.Connection:
    """The database with its table. Nothing waits for the disk: the file may be lost. Raises sqlite3.Error."""
    rows = sqlite3.connect(path, isolation_level=None, timeout=1.0)
    try:
        rows.execute("PRAGMA synchronous=OFF")
        _lay_out(rows)
        rows.execute("SELECT user, ranks, kind, period, n, total, squares, most FROM needs LIMIT 1").fetchall()
    except BaseException as error:
        rows.close()
        if isinstance(error, sqlite3.OperationalError) and error.sqlite_errorcode == sqlite3.SQLITE_ERROR:
            raise sqlite3.DatabaseError(str(error)) from None  # no such table, no such column: the layout is not ours
        raise
    return rows


def _lay_out(rows: sqlite3.Connection) -> None:
    """Make the table, or take over the one before. Raises sqlite3.DatabaseError for a later layout."""
    rows.execute("BEGIN IMMEDIATE")  # all of it or nothing
    ((version,),) = rows.execute("PRAGMA user_version").fetchall()
    if version > VERSION:
        raise sqlite3.DatabaseError(f"it is of layout {version}, and this is {VERSION}")
    if version < VERSION:
        rows.execute(_TABLE)
        if rows.execute("SELECT 1 FROM sqlite_master WHERE name = 'runs'").fetchall():
            rows.execute(_TAKE_OVER)
            rows.execute("DROP TABLE runs")
        rows.execute(f"PRAGMA user_version = {VERSION}")
    rows.execute("COMMIT")
