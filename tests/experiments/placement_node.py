# SPDX-License-Identifier: GPL-2.0-or-later
"""A node of the experiment `placement`: the helper of ccs_node.py, with jobs that are placed, begun and waited for.

A job begins as by `ctl run`: its process asks the agent to enter, waits where it is told to, and then becomes the
program. The process comes from this helper, because the start of `ctl run` itself takes 2 s of an emulated CPU.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from typing import Any, Final

from ctl.protocol import Client
from tests.experiments import ccs_node
from tests.experiments.disk import Disk

__all__ = ["Helper"]

_ASK_S: Final = 0.5  # between two questions of a job that waits, as `ctl run` asks
_PATIENCE_S: Final = 60.0  # of a question: an agent may be busy
_MOST_SAID: Final = 1 << 16  # bytes that a job prints


class Helper(ccs_node.Helper):
    """The operations; each public method is one."""

    def disk(self, latency_ms: float, size_mb: int) -> str:
        """Have swap on a disk that serves one request at a time; returns its device, which jobs may read, too."""
        return Disk(1, latency_ms, size_mb, filled=True).device

    def place(self, need: int, by: str) -> str:
        """The node that this node's agent chooses for a job of so many bytes, 0: unknown."""
        with Client(timeout=_PATIENCE_S) as agent:
            found: list[str] = agent.call("place", count=1, memory=need, by=by)
        return found[0]

    def room(self) -> int:
        """Bytes for jobs."""
        with Client(timeout=_PATIENCE_S) as agent:
            return int(agent.call("queue")["room"])

    def begin(self, jid: str, need: int, waits: bool, argv: list[str]) -> int:
        """Begin a job that needs so many bytes, 0: unknown; its process. An event tells its output when it has ended.

        `waits`: not before its memory fits.
        """
        output, said = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                os.dup2(said, 1)
                _enter({"jid": jid, "memory": need, "now": not waits, "can_wait": True})
                os.execv(argv[0], argv)
            except Exception as error:  # there is nobody to catch it
                print(f"job {jid}: {error}", file=sys.stderr, flush=True)
            finally:
                os._exit(1)
        os.close(said)
        threading.Thread(target=self._await, args=(jid, pid, output)).start()
        return pid

    def _await(self, jid: str, pid: int, output: int) -> None:
        with os.fdopen(output, "rb") as pipe:
            said = pipe.read(_MOST_SAID)
        os.waitpid(pid, 0)
        self.say({"event": "job", "jid": jid, "said": json.loads(said) if said else None})


def _enter(wish: dict[str, Any]) -> None:
    """Make this process a job's, when it may begin."""
    with Client(timeout=_PATIENCE_S) as agent:
        while agent.call("enter", **wish).get("wait"):
            wish["again"] = True
            time.sleep(_ASK_S)


if __name__ == "__main__":
    raise SystemExit(ccs_node.serve(Helper()))
