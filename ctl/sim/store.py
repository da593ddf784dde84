# SPDX-License-Identifier: GPL-2.0-or-later
"""Results: one SQLite file, one row per replication, keyed by model, policy, parameters, seed and engine.

A run in the file is never made again, so an interrupted experiment continues. The engine is part of the key: a changed
engine makes its own results, and old results stay until `forget`.

>>> store = Store(":memory:")
>>> store.add(Run("csm", "rr", {"jobs": 5}, 1), "e", {"correlation": 90.0})
>>> store.get(Run("csm", "rr", {"jobs": 5}, 1), "e")
{'correlation': 90.0}
"""

from __future__ import annotations

import json
import os
import sqlite3
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ctl.errors import FAILED, CoschedError
from ctl.sim.params import Value

__all__ = ["Run", "Store", "default_path"]

_SCHEMA = """
CREATE TABLE IF NOT EXISTS runs (
    model TEXT, policy TEXT, parameters TEXT, seed INTEGER, engine TEXT, cpu_s REAL, result TEXT,
    PRIMARY KEY (model, policy, parameters, seed, engine)
) WITHOUT ROWID
"""


class Run(NamedTuple):
    """A replication, to be made or made."""

    model: str
    policy: str
    parameters: Mapping[str, Value]  # all of them
    seed: int

    @property
    def key(self) -> tuple[str, str, str, int]:
        """The columns it is found by."""
        return self.model, self.policy, json.dumps(self.parameters, sort_keys=True), self.seed


def default_path() -> Path:
    """The default place of results: $XDG_STATE_HOME/cosched/sim.sqlite."""
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(base) / "cosched" / "sim.sqlite"


class Store:
    """The file. Used by one thread."""

    def __init__(self, path: Path | str) -> None:
        """Open it, making it and its directory if needed."""
        try:
            if path != ":memory:":
                Path(path).parent.mkdir(parents=True, exist_ok=True)
            self._db = sqlite3.connect(path, timeout=30)
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute(_SCHEMA)
        except (OSError, sqlite3.Error) as error:
            raise CoschedError(f"results cannot be kept in {path}: {error}", FAILED) from None

    def get(self, run: Run, engine: str) -> dict[str, Any] | None:
        """The kept result of a run; None if the run was never made with this engine."""
        found = self._db.execute(
            "SELECT result FROM runs WHERE model=? AND policy=? AND parameters=? AND seed=? AND engine=?",
            (*run.key, engine),
        ).fetchone()
        return json.loads(zlib.decompress(found[0])) if found else None

    def add(self, run: Run, engine: str, result: Mapping[str, Any], cpu_s: float = 0.0) -> None:
        """Keep a result, at once."""
        packed = zlib.compress(json.dumps(result).encode())
        with self._db:
            values = (*run.key, engine, cpu_s, packed)
            self._db.execute("INSERT OR REPLACE INTO runs VALUES (?, ?, ?, ?, ?, ?, ?)", values)

    def count(self, engine: str) -> int:
        """How many runs of this engine are kept."""
        return int(self._db.execute("SELECT count(*) FROM runs WHERE engine=?", (engine,)).fetchone()[0])

    def close(self) -> None:
        """Close the file."""
        self._db.close()
