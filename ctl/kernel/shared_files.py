# SPDX-License-Identifier: GPL-2.0-or-later
"""Files in shared memory that nobody uses any more, though they keep their memory: on a tmpfs, or System V's segments.

The kernel knows how much a cgroup left, but not in which files. Those of the user, written since the job began, are the
likely ones.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Final, NamedTuple

from ctl.kernel.kernfs import read

__all__ = ["File", "left_by"]

_LEAST: Final = 1 << 20  # bytes of a file that is worth a word
_MOST: Final = 20_000  # files that are looked at


class File(NamedTuple):
    """A file, or a segment by the command that removes it."""

    name: str
    size: int  # bytes of memory and swap


def left_by(uid: int, since: float) -> list[File]:
    """The large files in shared memory that this user has written since then (Unix seconds), the largest first."""
    found = [*_on_tmpfs(uid, since), *_segments(uid, since)]
    return sorted((file for file in found if file.size >= _LEAST), key=lambda file: -file.size)


def _on_tmpfs(uid: int, since: float) -> Iterator[File]:
    looked = 0
    mounts = [line.split() for line in read("/proc/self/mountinfo").splitlines() if " - tmpfs " in line]
    for root in {words[2]: words[4] for words in reversed(mounts)}.values():  # each once, however often it is mounted
        device = _device(root)
        for directory, below, names in os.walk(root):
            below[:] = [name for name in below if _device(f"{directory}/{name}") == device]
            for name in names:
                looked += 1
                if looked > _MOST:
                    return
                with contextlib.suppress(OSError):
                    file = os.lstat(f"{directory}/{name}")
                    if file.st_uid == uid and max(file.st_mtime, file.st_ctime) >= since:
                        yield File(f"{directory}/{name}", file.st_blocks * 512)


def _device(path: str) -> int | None:
    try:
        return os.lstat(path).st_dev
    except OSError:
        return None


def _segments(uid: int, since: float) -> Iterator[File]:
    """System V's segments that no process has attached."""
    try:
        head, *lines = (line.split() for line in read("/proc/sysvipc/shm").splitlines())
    except OSError:  # a kernel without them
        return
    for line in lines:
        one = dict(zip(head, map(int, line), strict=True))
        if one["uid"] == uid and not one["nattch"] and one["ctime"] >= int(since):
            yield File(f"ipcrm -m {one['shmid']}", one["rss"] + one["swap"])
