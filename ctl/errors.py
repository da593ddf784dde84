# SPDX-License-Identifier: GPL-2.0-or-later
"""The only exception that people see: a sentence, and the exit status of the command."""

from __future__ import annotations

import reprlib

__all__ = ["FAILED", "USAGE", "CoschedError", "brief"]

FAILED = 1
USAGE = 2

_BRIEF = reprlib.Repr()
_MOST = 66  # characters: a JID of 64, and its quotes
_BRIEF.maxstring = _BRIEF.maxother = _MOST


def brief(value: object) -> str:
    """A value from outside as it stands in a sentence: short, printable, and safe to write however it nests.

    >>> brief("sim.1"), brief("a" * 70000), brief([[[[[[[[[]]]]]]]]])
    ("'sim.1'", "'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa...aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa'", '[[[[[[[...]]]]]]]')
    """
    text = _BRIEF.repr(value)
    return text if len(text) <= _MOST else text[: _MOST - 3] + "..."

class CoschedError(Exception):
    """An error for the user: one sentence with the value, the limit and the way out.

    >>> error = CoschedError("knob mno is 0, allowed 1..64 overtakes: see `ctl policies`", USAGE)
    >>> str(error), error.status
    ('knob mno is 0, allowed 1..64 overtakes: see `ctl policies`', 2)
    """

    def __init__(self, sentence: str, status: int = FAILED) -> None:
        """Keep the sentence and the exit status: 1 failed, 2 the request was wrong and changed nothing."""
        super().__init__(sentence)
        self.sentence = sentence
        self.status = status

    def __reduce__(self) -> tuple[type[CoschedError], tuple[str, int]]:
        return type(self), (self.sentence, self.status)
