# SPDX-License-Identifier: GPL-2.0-or-later
"""Whether a local user is at this node: by keyboard and mouse as the input sensor sees them (bpf/input.bcc.c), and by
what logind knows of sessions (ctl/node/sessions.py).

Terminals that are no login session's count with the knob local_user_tty only: who has a job has terminals, too, and any
program types on one of its own.

A user is present from the first input on, until no input came for `local_idle_s` (CCS §4.4, B-CCS-18). While the input
sensor is wanted and does not observe, because it failed or is still compiled, a user is assumed: nobody knows better,
and the owner comes first. With sensors=off the administrator has said not to look, and none is assumed.
"""

from __future__ import annotations

from dataclasses import dataclass

from ctl.kernel.observations import Input

__all__ = ["LocalUser", "Signs", "decide"]

_NS = 1_000_000_000
_ASSUMED = "assumed: the input sensor does not observe (`ctl status` says why at sensors); local_user=off assumes none"
_NOT_LOOKED_FOR = "not looked for with sensors=off: local_user=on assumes one"


@dataclass(frozen=True, slots=True)
class Signs:
    """What sessions show of a user."""

    typed_ns: int = 0  # CLOCK_MONOTONIC: last input at a session's terminal; 0: none
    where: str = ""  # "ssh", "console"
    held: str = ""  # what shows a user now, until it is gone: "desktop", or a sentence; "": nothing


@dataclass(frozen=True, slots=True)
class LocalUser:
    """The verdict."""

    present: bool = False
    why: str = "no input seen"  # "keyboard", or why not
    until: float | None = None  # monotonic seconds: time of the next decision; None: when input comes


_NO_SIGNS = Signs()


def decide(
    mode: str,
    seen: Input | None,
    idle_s: float,
    now_ns: int,
    tty: bool = False,
    wanted: bool = True,
    signs: Signs = _NO_SIGNS,
) -> LocalUser:
    """The verdict at a time of CLOCK_MONOTONIC. `mode` is the knob local_user; `seen`: None while no sensor runs;
    `tty`: terminals count; `wanted`: the knob sensors is on; `signs`: those that count by their knobs.

    >>> decide("auto", Input(5_000_000_000, 0, 0, 1, 0, 0), 60, 6_000_000_000)
    LocalUser(present=True, why='keyboard', until=65.0)
    """
    if mode != "auto":
        return LocalUser(mode == "on", f"knob local_user is {mode}")
    times = [(signs.typed_ns, signs.where)]
    if seen is not None:
        times += [(seen.key_ns, "keyboard"), (seen.rel_ns, "mouse"), (seen.tty_ns if tty else 0, "terminal")]
    last, source = max(times)
    ends = last + int(idle_s * _NS)
    if last and now_ns < ends:
        return LocalUser(True, source, ends / _NS)
    if signs.held:
        return LocalUser(True, signs.held)
    if seen is None:
        return LocalUser(True, _ASSUMED) if wanted else LocalUser(why=_NOT_LOOKED_FOR)
    if not last:
        return LocalUser()
    return LocalUser(why=f"no input for {idle_s:g} s, the last was at the {source}")
