# SPDX-License-Identifier: GPL-2.0-or-later
"""`ctl doctor`: what this machine has of what cosched needs."""

from __future__ import annotations

import click

from ctl.cli.common import JSON, emit, table
from ctl.errors import FAILED

__all__ = ["doctor"]


@click.command()
@JSON
def doctor(as_json: bool) -> int:
    """Check what this machine has of what cosched needs, and say what to do about the rest. Changes nothing.

    A check is ok; it is limited if something does not work that not everybody needs; it fails if something does not
    work that is needed. Exit status: 0 no check fails, 1 any fails.

    \b
    Examples:
      sudo ctl doctor
      ctl doctor --json
    """
    from ctl.process.doctor import examine, is_well

    findings = examine()
    well = is_well(findings)
    answer = {"well": well, "checks": [{"check": f.check, "state": f.state.value, "text": f.text} for f in findings]}
    rows = [(finding.check, finding.state.value, finding.text) for finding in findings]
    emit(answer, as_json, lambda: table(("check", "state", "what"), rows))
    return 0 if well else FAILED
