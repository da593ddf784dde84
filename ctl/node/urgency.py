# SPDX-License-Identifier: GPL-2.0-or-later
"""Which of the kernel's classes the agent's event loop runs in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ctl.kernel import prompt

__all__ = ["Urgency"]

_QUEUE: Final = "contract=queue"


class Urgency:
    """Real-time priority while somebody wants it; else the first turn at each wake-up, among local tasks.

    Under contract=queue the agent always wants it: the kernel's own scheduler has no tasks then, and a policy may have
    the agent wait behind the jobs that it must stop (rule prio). Whatever goes by the clock wants it, too. Otherwise
    local tasks would wait for all that the agent does (77 ms were seen). Now they are served in between.
    """

    def __init__(self, tell: Callable[..., None]) -> None:
        """`tell(kind, text, **details)` is called when the kernel refuses."""
        self._tell = tell
        self._wanted: set[str] = set()

    def begin(self, contract: str) -> None:
        """What the agent has while nobody wants more, under this contract."""
        if contract == "class":
            self._settle()
        else:
            self.want(_QUEUE, True)

    def want(self, who: str, wanted: bool) -> None:
        """Run the agent ahead of all fair tasks and those of sched_ext while `who` or another wants it."""
        before = bool(self._wanted)
        (self._wanted.add if wanted else self._wanted.discard)(who)
        if bool(self._wanted) != before:
            self._settle()

    def _settle(self) -> None:
        refused = prompt.before_all_others() if self._wanted else prompt.first_at_wakeup()
        if refused:  # real-time bandwidth by cgroup, and ours has none
            late = f"; {', '.join(sorted(self._wanted))} will be late" if self._wanted else ""
            text = f"the agent waits its turn, which costs time on a busy node: {refused}{late}"
            self._tell("agent", text, action="late")
