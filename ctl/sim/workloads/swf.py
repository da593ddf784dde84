# SPDX-License-Identifier: GPL-2.0-or-later
"""Job logs in the Standard Workload Format, read and written.

Source: Chapin, Cirne, Feitelson and others, "Benchmarks and Standards for the Evaluation of Parallel Job Schedulers",
JSSPP 1999, and version 2.2 of the format as the Parallel Workloads Archive describes it. A line is a job of 18 numbers;
-1 is an unknown number. A line that begins with a semicolon is a comment; "; Label: value" is a line of the header. A
log may be compressed with gzip; its first bytes show the compression.

>>> job = Job(1, 0, run_s=60, processors=4)
>>> job.run_s, job.user
(60, None)
"""

from __future__ import annotations

import gzip
import io
import math
import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from ctl.errors import USAGE, CoschedError

__all__ = ["Header", "Job", "Log", "content", "read", "write"]

Number = int | float
"""Whole where the log has a whole number."""


class Job(NamedTuple):
    """A line of a log, its 18 fields in the format's order. None: not known."""

    job: int
    submit_s: Number  # since the log's start, UnixStartTime of the header
    wait_s: Number | None = None
    run_s: Number | None = None  # wall clock
    processors: int | None = None
    cpu_s: Number | None = None  # mean over the processors
    used_memory_kb: Number | None = None  # mean for each processor
    requested_processors: int | None = None
    requested_s: Number | None = None
    requested_memory_kb: Number | None = None  # for each processor
    status: int | None = None  # 0 failed, 1 completed, 2 to 4 a part of a job that was checkpointed, 5 cancelled
    user: int | None = None
    group: int | None = None
    application: int | None = None  # number of the executable
    queue: int | None = None
    partition: int | None = None
    preceding: int | None = None  # a job that this one waits for
    think_s: Number | None = None  # from the preceding job's end to this job's submittal


_WHOLE = frozenset(("job", "processors", "requested_processors", "status", "user", "group", "application", "queue",
                    "partition", "preceding"))  # fmt: skip
_NEEDED = frozenset(("job", "submit_s"))
_KINDS = [(name, name in _WHOLE, name in _NEEDED) for name in Job._fields]
_NUMBER = re.compile(r"[0-9]{1,18}(\.[0-9]{1,40})?([eE][+-]?[0-9]{1,3})?")
_MISSING = re.compile(r"-1(\.0*)?")
_LABEL = re.compile(r";\s*([A-Z][A-Za-z]*)\s*:\s*(.*?)\s*")  # "; Queue: 1 - normal jobs"
_COUNTS = frozenset(("MaxJobs", "MaxRecords", "UnixStartTime", "TimeZone", "MaxNodes", "MaxProcs", "MaxRuntime",
                     "MaxMemory", "MaxQueues", "MaxPartitions"))  # fmt: skip
_YES_NO = frozenset(("AllowOveruse",))


@dataclass(frozen=True)
class Header:
    """A log's comment lines, unchanged, semicolon first."""

    lines: tuple[str, ...] = ()

    def values(self, label: str) -> list[str]:
        """All values of a label ("Note", "Queue"), in the file's order."""
        found = (_LABEL.fullmatch(line) for line in self.lines)
        return [match[2] for match in found if match and match[1] == label]

    def value(self, label: str) -> str | int | bool | None:
        """The first value of a label, with whole numbers and Yes or No converted; None without a value.

        >>> Header(("; MaxProcs: 1024",)).value("MaxProcs")
        1024
        """
        text = next(iter(self.values(label)), None)
        if text is None:
            return None
        if label in _COUNTS:
            number = re.match(r"-?[0-9]{1,18}(?![0-9.])", text)
            return int(number[0]) if number else None
        if label in _YES_NO:
            return {"yes": True, "true": True, "no": False, "false": False}.get(text.lower())
        return text

    def count(self, label: str) -> int | None:
        """A label's whole number: MaxProcs, UnixStartTime (s), MaxMemory (KB); None if it is not there."""
        value = self.value(label)
        return value if isinstance(value, int) and not isinstance(value, bool) else None


@dataclass(frozen=True)
class Log:
    """A log, its jobs in the file's order. `skipped`: a sentence for each malformed line that was left out."""

    header: Header
    jobs: tuple[Job, ...]
    skipped: tuple[str, ...] = ()


class _Malformed(Exception):
    pass


def _field(text: str, name: str, whole: bool, needed: bool) -> Number | None:
    if text.isascii() and text.isdigit() and len(text) <= 18:
        return int(text)
    if _MISSING.fullmatch(text):
        if needed:
            raise _Malformed(f"field {name} is missing")
        return None
    number = float(text) if _NUMBER.fullmatch(text) and not whole else math.inf
    if not math.isfinite(number):
        raise _Malformed(f"field {name} is {text!r}, allowed is a {'whole ' if whole else ''}number from 0 on, or -1")
    return number


def _job(line: str) -> Job:
    texts = line.split()
    if len(texts) != len(_KINDS):
        raise _Malformed(f"it has {len(texts)} fields, a job has {len(_KINDS)}")
    return Job(*(_field(text, *kind) for text, kind in zip(texts, _KINDS, strict=True)))  # type: ignore[arg-type]


def content(path: Path) -> bytes:
    """A log's bytes, unpacked; raises CoschedError (status 2) if they cannot be read."""
    try:
        data = path.read_bytes()
        return gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
    except (OSError, EOFError, zlib.error) as error:
        raise CoschedError(f"the log {path} cannot be read: {error}", USAGE) from None


def _lines(path: Path) -> Iterator[str]:
    """A file's lines; bytes that are not UTF-8 pass through unchanged."""
    yield from io.StringIO(content(path).decode("utf-8", "surrogateescape"), newline=None)


def read(path: Path | str, skip_malformed: bool = False) -> Log:
    """Read a log, plain or gzip.

    Raises CoschedError (status 2), with file and line, for a malformed line. If malformed lines are skipped,
    Log.skipped has a sentence for each. Comments between jobs are kept with the header.
    """
    path = Path(path)
    comments: list[str] = []
    jobs: list[Job] = []
    skipped: list[str] = []
    for number, line in enumerate(_lines(path), 1):
        text = line.strip()
        if text.startswith(";"):
            comments.append(line.rstrip("\n"))
        elif text:
            try:
                jobs.append(_job(text))
            except _Malformed as problem:
                said = f"{path}:{number}: this is no job: {problem}"
                if not skip_malformed:
                    raise CoschedError(said, USAGE) from None
                skipped.append(said)
    return Log(Header(tuple(comments)), tuple(jobs), tuple(skipped))


def _checked(jobs: Iterable[Job]) -> Iterator[Sequence[Number | None]]:
    for job in jobs:
        for name, value in zip(Job._fields, job, strict=True):
            if value is not None and not (value >= 0 and math.isfinite(value)):
                raise ValueError(f"{name} of job {job.job} is {value}: a log has numbers from 0 on")
        yield job


def write(path: Path | str, log: Log) -> None:
    """Write a log, with gzip if the name ends in .gz; read() of it gives the same header and jobs.

    Raises CoschedError if the file cannot be written, ValueError if a value is negative or a header line no comment.
    """
    path = Path(path)
    for line in log.header.lines:
        if not line.lstrip().startswith(";") or "\n" in line or "\r" in line:
            raise ValueError(f"{line!r} is no comment line")
    rows = (" ".join("-1" if v is None else repr(v) for v in row) for row in _checked(log.jobs))
    data = "".join(f"{line}\n" for line in (*log.header.lines, *rows)).encode("utf-8", "surrogateescape")
    try:
        path.write_bytes(gzip.compress(data, mtime=0) if path.suffix == ".gz" else data)
    except OSError as error:
        raise CoschedError(f"the log {path} cannot be written: {error}") from None
