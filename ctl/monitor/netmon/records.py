# SPDX-License-Identifier: GPL-2.0-or-later
"""Samples for programs: CSV with a column for each figure, or JSON with an object a line. Both can be read back.

The last object of JSON is {"report": …}, what the monitor itself cost; CSV has no place for it.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from ctl.errors import USAGE, CoschedError, brief
from ctl.monitor.netmon.clock import OwnReport
from ctl.monitor.netmon.figures import BY_KEY, FIGURES
from ctl.monitor.netmon.rows import Owner, Sample, Values

__all__ = ["Csv", "Json", "read"]

_OWNER: Final = ("time", "seconds", *Owner._fields)


class Csv:
    """A line for each owner of a sample; an unknown figure is an empty cell."""

    def __init__(self) -> None:
        self._head = True

    def sample(self, sample: Sample) -> str:
        """The lines of a sample, the head before the first."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        if self._head:
            writer.writerow([*_OWNER, *(figure.key for figure in FIGURES)])
            self._head = False
        for owner, values in sample.ordered():
            figures = (values.get(figure.key) for figure in FIGURES)
            writer.writerow([f"{sample.time:.6f}", f"{sample.seconds:.6f}", *owner, *figures])
        return out.getvalue()

    def end(self, report: OwnReport) -> str:
        """Nothing."""
        return ""


class Json:
    """An object for each sample: {"time", "seconds", "rows": [{"kind", "name", "pid", GROUP: {FIGURE: value}}]}."""

    def sample(self, sample: Sample) -> str:
        """The line of a sample."""
        rows = [{**owner._asdict(), **_grouped(values)} for owner, values in sample.ordered()]
        return json.dumps({"time": round(sample.time, 6), "seconds": round(sample.seconds, 6), "rows": rows}) + "\n"

    def end(self, report: OwnReport) -> str:
        """The last line."""
        return json.dumps({"report": asdict(report)}) + "\n"


def _grouped(values: Values) -> dict[str, dict[str, int | None]]:
    found: dict[str, dict[str, int | None]] = {}
    for key, value in values.items():
        found.setdefault(BY_KEY[key].group, {})[BY_KEY[key].name] = value
    return found


def read(path: Path) -> list[Sample]:
    """The samples in a file, of either form. Raises CoschedError."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            first = file.read(1)
            file.seek(0)
            return list(_objects(file) if first == "{" else _table(file))
    except OSError as error:
        raise CoschedError(f"cannot read {path}: {error.strerror}", USAGE) from None
    except (ValueError, KeyError, TypeError) as error:
        raise CoschedError(f"{path} is no record of `ctl netmon`: {brief(str(error))}", USAGE) from None


def _objects(lines: Any) -> Iterator[Sample]:
    for line in lines:
        one = json.loads(line)
        if "rows" in one:
            yield Sample(one["time"], one["seconds"], dict(map(_row, one["rows"])))


def _row(row: dict[str, Any]) -> tuple[Owner, Values]:
    owner = Owner(*(row.pop(name) for name in Owner._fields))
    return owner, {f"{group}.{name}": value for group, named in row.items() for name, value in named.items()}


def _table(lines: Any) -> Iterator[Sample]:
    last: Sample | None = None
    reader = csv.DictReader(lines)
    if missing := {*_OWNER} - {*(reader.fieldnames or ())}:
        raise ValueError(f"it has no column {min(missing)}")
    for row in reader:
        if last is None or float(row["time"]) != last.time:
            if last is not None:
                yield last
            last = Sample(float(row["time"]), float(row["seconds"]), {})
        owner = Owner(row["kind"], row["name"], int(row["pid"]))
        last.rows[owner] = {key: int(row[key]) for key in BY_KEY if row[key]}
    if last is not None:
        yield last
