# SPDX-License-Identifier: GPL-2.0-or-later
"""Names of jobs; by itself, as every rank of every job is started through `ctl run`, which checks one."""

from __future__ import annotations

import re

from ctl.errors import USAGE, CoschedError

__all__ = ["check_jid", "new_jid"]

_JID = re.compile(r"[A-Za-z0-9._:-]{1,64}", re.ASCII)


def new_jid(program: str, number: int) -> str:
    """A JID for a job of this program without one: its name, and a number that no other living job has.

    >>> new_jid("/usr/bin/python3 /home/eve/my sim.py", 4711)
    'my_sim.py-4711'
    """
    name = re.sub(r"[^A-Za-z0-9._:-]", "_", program.rpartition("/")[2])
    return f"{name[:40] or 'job'}-{number}"


def check_jid(jid: str) -> str:
    """Return jid, or raise CoschedError (status 2) with the allowed form of a JID."""
    if not _JID.fullmatch(jid) or jid in (".", ".."):
        short = jid if len(jid) <= 70 else jid[:67] + "..."
        raise CoschedError(
            f"JID {short!r} is not valid: allowed are 1 to 64 characters of A-Z a-z 0-9 . _ : -  "
            "but not '.' or '..'; choose another",
            USAGE,
        )
    return jid
