# SPDX-License-Identifier: GPL-2.0-or-later
"""Changes of /etc/cosched.conf by a program: line by line, so that its comments and its order stay."""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from ctl.errors import FAILED, USAGE, CoschedError
from ctl.policy.config import FILE, parse
from ctl.policy.knobs import Value
from ctl.policy.policies import find_policy
from ctl.policy.values import check_all, parse_assignments

__all__ = ["edited", "write"]

_POLICY: Final = "policy"
_TABLE: Final = re.compile(r"\s*\[")
_KNOBS: Final = re.compile(r"\s*\[\s*knobs\s*\]\s*(#.*)?")
_MODE: Final = 0o644  # of a new file


def edited(text: str, assignments: tuple[str, ...]) -> str:
    """The text of a file with these words in it, "policy=csm" and "mno=4", checked as a whole. Raises CoschedError
    (status 2).

    >>> print(edited('policy = "csm"  # ours\\n[knobs]\\nmno = 2', ("mno=4", "policy=fit", "turn_s=60")))
    policy = "fit"  # ours
    [knobs]
    mno = 4
    turn_s = 60
    <BLANKLINE>
    """
    policy, values = _wanted(assignments)
    lines = text.splitlines()
    if policy:
        _put(lines, 0, _next_table(lines, 0), _POLICY, policy)
    if values:
        header = next((number for number, line in enumerate(lines) if _KNOBS.fullmatch(line)), None)
        if header is None:
            lines += [*([""] if lines else []), "[knobs]"]
            header = len(lines) - 1
        for name, value in values.items():
            _put(lines, header + 1, _next_table(lines, header + 1), name, value)
    new = "\n".join(lines) + "\n"
    _judge(text, new, policy, values)
    return new


def _wanted(assignments: tuple[str, ...]) -> tuple[str, dict[str, Value]]:
    """The policy, or empty, and the knobs by the names that were given, `mno`, too."""
    policy, values = "", dict[str, Value]()
    for assignment in assignments:
        name, sign, text = assignment.partition("=")
        if sign and name.strip() == _POLICY:
            policy = find_policy(text.strip()).name
        else:
            values[name.strip()] = next(iter(parse_assignments([assignment]).values()))
    return policy, values


def _next_table(lines: list[str], begin: int) -> int:
    """The number of the first line from `begin` on that begins a table, or the number of lines."""
    return next((number for number in range(begin, len(lines)) if _TABLE.match(lines[number])), len(lines))


def _put(lines: list[str], begin: int, end: int, name: str, value: Value) -> None:
    """Set a name between two lines: where it stands, else behind the last line that says something."""
    told = json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)
    there = re.compile(rf"(\s*{re.escape(name)}\s*=\s*)(\"[^\"\\]*\"|'[^']*'|[^\s#\"']+)(\s*(?:#.*)?)")
    for number in range(begin, end):
        if found := there.fullmatch(lines[number]):
            lines[number] = f"{found[1]}{told}{found[3]}"
            return
    said = [number for number in range(begin, end) if lines[number].strip()[:1] not in ("", "#")]
    place = said[-1] + 1 if said else begin if begin else end
    lines[place:place] = [f"{name} = {told}", *([""] if not begin and place < len(lines) and not said else [])]


def _judge(old: str, new: str, policy: str, values: Mapping[str, Value]) -> None:
    """Raise CoschedError (status 2) unless the new text is right, and differs from the old one in what is wanted."""
    config, faults = parse(new)
    before, _ = parse(old)
    if faults:
        more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
        raise CoschedError(f"{FILE} would be wrong, and stays as it is: {faults[0]}{more}", USAGE)
    wanted = {**before.knobs, **check_all(values)}
    if (config.policy, dict(config.knobs)) != (policy or before.policy, wanted):
        names = ", ".join([*([_POLICY] if policy else []), *values])
        raise CoschedError(f"{FILE} is written in a way that cannot be changed line by line ({names}): edit it", USAGE)


def write(text: str, path: Path = FILE) -> None:
    """Write a file whole or not at all, with the owner and mode of the one before. Raises CoschedError."""
    path = path.resolve()
    new = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with new.open("x", encoding="utf-8") as file:
            old = path.stat() if path.exists() else None
            os.fchmod(file.fileno(), old.st_mode & 0o7777 if old else _MODE)
            if old:
                os.fchown(file.fileno(), old.st_uid, old.st_gid)
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            new.unlink()
        way = ": be root, or use sudo" if isinstance(error, PermissionError) else ""
        raise CoschedError(f"cannot write {path}: {error.strerror}{way}", USAGE if way else FAILED) from None
