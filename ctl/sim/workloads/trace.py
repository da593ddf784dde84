# SPDX-License-Identifier: GPL-2.0-or-later
"""A job log as a model's parameter: the log's content identifies a run, not the file's path.

A file given by its path is read. The parameter's value, and so a part of the run's key, becomes "swf:" and the SHA-256
of the unpacked content. This process remembers the file's path for the run that reads it. The same log elsewhere, or
packed with gzip, is the same run; a changed log is another.
"""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

from ctl.errors import USAGE, CoschedError
from ctl.sim.params import Parameter, Value
from ctl.sim.workloads import swf

__all__ = ["TraceParameter", "log_of"]

_PREFIX = "swf:"
_paths: dict[str, Path] = {}


class TraceParameter(Parameter):
    """The path of a log in the Standard Workload Format, or nothing."""

    @property
    def range(self) -> str:
        """The allowed values, in words."""
        return "a file in the Standard Workload Format, or nothing"

    def check(self, value: object) -> Value:
        """ "" or the content's digest; raises CoschedError (status 2) if there is no such file."""
        if value == "" or (isinstance(value, str) and value in _paths):
            return str(value)
        if not isinstance(value, (str, Path)):
            raise CoschedError(f"parameter {self.name} cannot be {value!r}: allowed is {self.range}", USAGE)
        if str(value).startswith(_PREFIX):
            raise CoschedError(f"parameter {self.name}: no file of content {value} was given to this command", USAGE)
        digest = _PREFIX + hashlib.sha256(swf.content(Path(value))).hexdigest()
        _paths[digest] = Path(value).resolve()
        return digest


@cache
def log_of(value: str) -> swf.Log:
    """The log that a value of a TraceParameter stands for; malformed lines are left out."""
    return swf.read(_paths[value], skip_malformed=True)
