# SPDX-License-Identifier: GPL-2.0-or-later
"""Files of ranks: what counts, and what is no rank's. Real ranks are in tests/kselftest/netmon_mpi.py."""

from __future__ import annotations

import contextlib
import os
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ctl.errors import CoschedError
from ctl.monitor.netmon.mpi import Ranks, preload_library
from ctl.monitor.netmon.rows import NODE, Owner, Values

MAGIC = 0x314D4943
HOLDS = """
import mmap, os, sys
path = f"/dev/shm/cosched-mpi-{os.getpid()}"
with open(path, "w+b") as file:
    file.write(bytes.fromhex(sys.argv[1]))
    file.flush()
    held = mmap.mmap(file.fileno(), 48) if sys.argv[2] == "maps" else None
print(flush=True)
sys.stdin.read()
"""


def queues(posted: int, unexpected: int, magic: int = MAGIC) -> bytes:
    """A struct mpi_queues."""
    return struct.pack("=IIiIqqQQ", magic, 0, 0, 0, posted, unexpected, 0, 0)


@contextlib.contextmanager
def rank(content: bytes, *, maps: bool = True) -> Iterator[tuple[Path, int]]:
    """A process with such a file: (the file, its pid)."""
    command = [sys.executable, "-c", HOLDS, content.hex(), "maps" if maps else "leaves"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin and process.stdout
        process.stdout.readline()
        path = Path(f"/dev/shm/cosched-mpi-{process.pid}")
        try:
            yield path, process.pid
        finally:
            path.unlink(missing_ok=True)
            process.stdin.close()


def found(finest: str = "node", ranks: Ranks | None = None) -> dict[Owner, Values]:
    rows: dict[Owner, Values] = {NODE: {}}
    with contextlib.closing(ranks or Ranks(0.1, finest)) as looking:
        looking.add_to(rows)
    return rows


def test_ranks_add_up_and_each_is_a_task() -> None:
    with rank(queues(3, 5)) as (_, first), rank(queues(4, 6)):
        assert found()[NODE] == {"mpi.posted": 7, "mpi.unexpected": 11}
        (values,) = (values for owner, values in found("task").items() if owner.pid == first)
    assert values == {"mpi.posted": 3, "mpi.unexpected": 5}


def test_unknown_is_not_empty() -> None:
    with rank(queues(3, -1)):
        assert found()[NODE] == {"mpi.posted": 3, "mpi.unexpected": None}
        with rank(queues(1, 2)):
            assert found()[NODE] == {"mpi.posted": 4, "mpi.unexpected": 2}
    assert found()[NODE] == {"mpi.posted": None, "mpi.unexpected": None}


@pytest.mark.parametrize("content", [queues(1, 1, magic=0), queues(1 << 62, -(1 << 62))])
def test_what_is_no_length_is_left_out(content: bytes) -> None:
    with rank(content) as (path, _):
        assert found()[NODE] == {"mpi.posted": None, "mpi.unexpected": None}
        path.write_bytes(queues(1, 1)[:-1])  # cut off
        assert found()[NODE] == {"mpi.posted": None, "mpi.unexpected": None}
        assert path.stat().st_size == 47


def test_a_file_that_its_process_does_not_map_is_no_ranks() -> None:
    with rank(queues(3, 5), maps=False):
        assert found()[NODE] == {"mpi.posted": None, "mpi.unexpected": None}


def test_the_file_of_a_killed_rank_is_removed() -> None:
    with rank(queues(1, 1)) as (path, pid):
        os.kill(pid, 9)
        os.waitpid(pid, 0)
        assert path.exists()
        assert found()[NODE]["mpi.posted"] is None
        assert not path.exists()


def test_a_rank_is_told_that_somebody_reads_and_how_often() -> None:
    with rank(queues(1, 1)) as (path, _):
        now = time.monotonic_ns()
        found(ranks=Ranks(0.02, "node"))
        period, until = struct.unpack("=QQ", path.read_bytes()[32:])
    assert period == 20_000_000 and now + 2e9 < until < now + 60e9


def test_a_compiler_that_is_not_there_is_told() -> None:
    with pytest.raises(CoschedError, match="no 'mpicc-of-nobody'"):
        preload_library("mpicc-of-nobody")
