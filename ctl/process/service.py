# SPDX-License-Identifier: GPL-2.0-or-later
"""The agent as a service of systemd (vm/cosched.service): what follows its end, in words for `ctl status`.

SysRq-S is the emergency stop of sched_ext: whoever presses it wants no scheduler of ours, so the agent ends with
EMERGENCY, which the unit does not answer with another start. After other failures systemd starts the agent again, later
each time, and gives up at the unit's StartLimitBurst.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from ctl.process.run_files import Ended

__all__ = ["EMERGENCY", "SYSRQ", "what_follows"]

EMERGENCY: Final = 3
"""Exit status of an agent whose scheduler SysRq-S ended; named in vm/cosched.service, too."""
SYSRQ: Final = "sysrq"
"""Name of this end: enum scx_exit_kind."""

_UNIT: Final = "cosched.service"
_SHOWN: Final = ("LoadState", "ActiveState", "SubState", "NRestarts")


def what_follows(ended: Ended | None, unit: Callable[[], Mapping[str, str]] | None = None) -> str:
    """One sentence on what follows the agent's end; "" if nothing but what an administrator does.

    `ended`: the last end, None if none is known; `unit`: asks for the unit's state, by default systemd.

    >>> failed = {"LoadState": "loaded", "ActiveState": "failed", "SubState": "failed", "NRestarts": "3"}
    >>> what_follows(None, lambda: failed)[:68]
    'systemd has tried 3 times to start it again and leaves it off now: o'
    """
    if ended is not None and (ended.get("exit") or {}).get("kind_name") == SYSRQ:
        return "SysRq-S, the emergency stop, ended it: it stays off until `ctl load`, or `systemctl start cosched`"
    now = (_ask_systemd if unit is None else unit)()
    if now.get("LoadState") != "loaded":
        return ""
    times = "once" if now["NRestarts"] == "1" else f"{now['NRestarts']} times"
    if now["SubState"] == "auto-restart":
        return f"systemd has tried {times} to start it again and goes on: `systemctl stop cosched` keeps it off"
    if now["ActiveState"] == "failed" and now["NRestarts"] != "0":
        return (
            f"systemd has tried {times} to start it again and leaves it off now: once the reason is gone, "
            "`systemctl reset-failed cosched` and `systemctl start cosched`"
        )
    return ""


def _ask_systemd() -> dict[str, str]:
    """The unit's state; nothing where systemd does not run this machine's services."""
    if not Path("/run/systemd/system").is_dir():
        return {}
    words = ["systemctl", "show", "--property", ",".join(_SHOWN), _UNIT]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    found = dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)
    return found if all(name in found for name in _SHOWN) else {}
