# SPDX-License-Identifier: GPL-2.0-or-later
"""Versions of insert_rq.h with one deliberate fault each: a comparison that misses them proves nothing.

Every comparison, logical operator, plan, constant and operand of the functions that decide is changed once,
by rule and not by hand, so a new line in the header brings its own faults.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

__all__ = ["Mutant", "mutants"]


class Mutant(NamedTuple):
    """A faulty version of the header."""

    function: str
    line: str  # as it stands in the header
    change: str  # "< -> <="
    header: str


# what is found, and what it may be mistaken for
_FAULTS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (r"(?<![<-])<(?![<=])", ("<=", ">")),
    (r"(?<![>-])>(?![>=])", (">=", "<")),
    (r"!=", ("==",)),
    (r"==", ("!=",)),
    (r"&&", ("||",)),
    (r"\|\|", ("&&",)),
    (r"!(?!=)", ("",)),
    (r"\bPLAN_TAIL\b", ("PLAN_TOP", "PLAN_WALK")),
    (r"\bPLAN_TOP\b", ("PLAN_TAIL", "PLAN_WALK")),
    (r"\bPLAN_WALK\b", ("PLAN_TAIL", "PLAN_TOP")),
    (r"\bmnod\b", ("mnol",)),
    (r"\bmnol\b", ("mnod",)),
    (r"\bmes\b(?! *=)", ("com",)),
    (r"->rec\b", ("->com",)),
    (r"->com\b", ("->rec", "->mes")),
    (r"->flt\b", ("->rec",)),
    (r"\bq->(?=(?!de)\w+ [<>])", ("h->",)),
    (r"\benv->overloaded\b", ("!env->overloaded", "0", "1")),
    (r"\bTASK_PARALLEL\b", ("TASK_CREDIT",)),
    (r"\bTASK_CREDIT\b", ("TASK_PARALLEL",)),
    (r"\bCAUSE_WAKE\b", ("CAUSE_FORK",)),
    (r"\bCAUSE_MESSAGE\b", ("CAUSE_EXPIRE",)),
    (r"\bCAUSE_CREDIT\b", ("CAUSE_WAKE",)),
    (r"\bSTAT_MODE_PRED\b", ("STAT_MODE_CSM",)),
    (r"\bSTAT_MODE_DYN\b", ("STAT_MODE_PRED",)),
    (r"\bSTAT_MODE_CSM\b", ("STAT_MODE_DYN",)),
    (r" \+ env->share_ns", ("", " - env->share_ns")),
    (r"\bcase (?=RULE_)", ("case 1000 + ",)),
)

_FUNCTION = re.compile(r"^IRQ_INLINE [^;{]*?(\w+)\([^{;]*\)\n\{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)


def _blank_comments(text: str) -> str:
    return _COMMENT.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)


# what the driver of the native build can see of the table of rules; the rest is seen by the kernel's tests
_ROWS = re.compile(r"^static const struct rule_row rule_rows.*?^};", re.MULTILINE | re.DOTALL)
_ROW_FAULTS = (
    (r"\bR_(?!REINSERTS|WAITERS_ONLY|POLLERS_WAIT|SEES_RUNNING|DISPLACED_LAST)\w+", ("0",)),
    (r"\bPRED\b", ("CSM",)),
    (r"\bDYN\b", ("PRED",)),
    (r"\bCSM\b", ("DYN",)),
)


def mutants(header: str) -> Iterator[Mutant]:
    """All faulty versions that the table above makes of a header."""
    code = _blank_comments(header)
    for function in _FUNCTION.finditer(code):
        if function[1] == "mes_update":
            continue  # arithmetic, compared value by value elsewhere
        yield from _faults(header, code, function[1], function.span(2), _FAULTS)
    for rows in _ROWS.finditer(code):
        yield from _faults(header, code, "rule_rows", rows.span(), _ROW_FAULTS)


def _faults(
    header: str, code: str, function: str, span: tuple[int, int], faults: tuple[tuple[str, tuple[str, ...]], ...]
) -> Iterator[Mutant]:
    """Every version of the header with one of these faults in a span of its code."""
    for pattern, replacements in faults:
        for found in re.compile(pattern).finditer(code, *span):
            begin, end = header.rfind("\n", 0, found.start()) + 1, header.find("\n", found.end())
            line = " ".join(code[begin:end].split())
            for new in replacements:
                changed = header[: found.start()] + new + header[found.end() :]
                yield Mutant(function, line, f"{found[0]} -> {new}", changed)
