# SPDX-License-Identifier: GPL-2.0-or-later
"""Buckets that take no records of this node while their broker answers: after two of three brokers were restarted at
once, a bucket has no leader for up to 22 s, and some stay so (nats-server#8519). The other nodes do not know of this
node's jobs then, and nothing else tells."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["PATIENCE", "Unwritten"]

PATIENCE = 30.0  # seconds; choosing a new leader of a bucket took 2.5 to 22
_WAY_OUT = (
    "if it stays so, `systemctl restart cosched-broker` on every broker's node: the nodes write their records again"
)


class Unwritten:
    """Since when which bucket has refused or not answered. Times are of the steady clock, in seconds."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._since: dict[str, float] = {}
        self._told: dict[str, str] = {}  # bucket: why

    def failed(self, bucket: str, why: str, now: float) -> None:
        """A record was not taken."""
        since = self._since.setdefault(bucket, now)
        if now - since >= PATIENCE and bucket not in self._told:
            self._told[bucket] = why
            self._tell(f"the broker answers, but {bucket} has taken no record of this node for {now - since:.0f} s "
                       f"({why}), so the other nodes do not know of its jobs; {_WAY_OUT}")

    def written(self, bucket: str, now: float) -> bool:
        """A record was taken; returns whether people had been told of the contrary, so that what was written earlier
        may be lost."""
        since = self._since.pop(bucket, now)
        if self._told.pop(bucket, None) is None:
            return False
        self._tell(f"{bucket} takes this node's records again, after {now - since:.0f} s")
        return True

    def forget(self) -> None:
        """The connection has ended."""
        self._since.clear()
        self._told.clear()

    def status(self) -> dict[str, str]:
        """The buckets that people were told of, and why."""
        return dict(self._told)
