# SPDX-License-Identifier: GPL-2.0-or-later
"""Who may do what: two rights, and the credentials of the process that asks.

    run          start, list, hold and cancel one's own jobs; read  members of group cosched, and root
    administer   load, switch, set, unload, trace                   root; and whom polkit lets, save for load

The contract binds the owners of jobs, so they must not be able to change it: a user of the group could otherwise switch
to rule prio, which starves everybody at the machine. The group opens the socket (ctl/node/server.py); this file tells
its members from root.

A number is no person: a process may end, and another may get its number. So the kernel's handle of the process that
connected (SO_PEERPIDFD) is kept, and each request is judged by that process, as it is when the request acts.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import select
import socket
import struct
from typing import Final

from ctl.errors import FAILED, USAGE, CoschedError
from ctl.kernel.kernfs import read
from ctl.node import polkit

__all__ = ["ADMINISTER", "Peer", "user_name"]

ADMINISTER: Final = frozenset({"set", "switch", "unload", "trace"})
"""The operations of root, and of whom polkit lets do them; a member of the group may do all others."""

_CREDENTIALS: Final = struct.Struct("3i")  # struct ucred: pid, uid, gid
_SO_PEERPIDFD: Final = 77  # Linux 6.5


def user_name(uid: int) -> str:
    """The user's name, or the number of a user without a name.

    >>> user_name(0)
    'root'
    """
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


class Peer:
    """The process that asks."""

    def __init__(self, connection: socket.socket) -> None:
        raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        pid, uid, _ = _CREDENTIALS.unpack(raw)
        self.pid, self.uid = int(pid), int(uid)
        self._pidfd: int | None = None
        with contextlib.suppress(OSError):  # it has ended already: it is refused what needs the process
            self._pidfd = connection.getsockopt(socket.SOL_SOCKET, _SO_PEERPIDFD)

    def close(self) -> None:
        """The connection has ended."""
        if self._pidfd is not None:
            os.close(self._pidfd)
            self._pidfd = None

    @property
    def is_root(self) -> bool:
        """Whether it may do everything."""
        return self.uid == 0

    @property
    def user(self) -> str:
        """The user's name."""
        return user_name(self.uid)

    def lives(self) -> bool:
        """Whether the process that connected is still there: then its number is its own."""
        if self._pidfd is None:
            return False
        poller = select.poll()
        poller.register(self._pidfd, select.POLLIN)
        return not poller.poll(0)

    async def check(self, op: str) -> None:
        """Raise CoschedError (status 2) if the process may not do this, (status 1) if it has ended.

        Its user is read anew: a process may have changed its user since it connected, and while polkit was asked.
        """
        if op not in ADMINISTER:
            return
        start, uids = polkit.start_of(self.pid), self._uids(op)
        if uids == {0}:
            return
        if start is not None and uids == {self.uid} and await polkit.grants(self.pid, start, self.uid, op):
            uids = self._uids(op)
            if uids == {self.uid}:
                return
        also = f", and polkit does not grant it ({polkit.ACTION})" if polkit.PKCHECK.exists() else ""
        raise CoschedError(
            f"{op} is root's, not user {self.user}'s{also}: members of group cosched may start, list, hold and cancel "
            "their own jobs, and the contract between users and jobs is not theirs to change; ask root, or use sudo",
            USAGE,
        )

    def _uids(self, op: str) -> set[int | None]:
        """Its users, as it connected and now. Raises CoschedError if it has ended."""
        uids = {self.uid, _user_now(self.pid)}
        if not self.lives():  # read before: so the number was its own
            raise CoschedError(f"the process that asks for {op} has ended", FAILED)
        return uids

    def shown(self, owner: str, text: str) -> str:
        """What a job runs, for this peer: as it is for root and the job's owner, empty for others."""
        return text if self.is_root or owner == self.user else ""


def _user_now(pid: int) -> int | None:
    """The effective user of a process; None if there is no such process."""
    try:
        status = read(f"/proc/{pid}/status")
    except OSError:
        return None
    return int(next(line for line in status.splitlines() if line.startswith("Uid:")).split()[2])
