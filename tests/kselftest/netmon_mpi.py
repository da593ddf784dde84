#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""`ctl netmon` finds the message queues of real MPI ranks: receives without a message, messages without a receive."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

from ctl.monitor.netmon.rows import NODE, Owner, Values
from ctl.monitor.netmon.sampler import Sampler
from tests.kselftest.command import ctl
from tests.kselftest.ktap import cases, expect, note, run, until
from tests.kselftest.node import in_job

_MESSAGES, _RECEIVES = 20, 7
_SOURCE = Path(__file__).parents[1] / "progs" / "mpi_backlog.c"
_GATE = Path("/tmp/netmon-mpi")
_ENVIRONMENT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


@contextlib.contextmanager
def _ranks(library: str) -> Iterator[subprocess.Popen[str]]:
    """Two ranks of this MPI library with ours preloaded."""
    preload = ctl("netmon", "--preload", f"mpicc.{library}").strip()
    program = f"/tmp/mpi_backlog.{library}"
    subprocess.run([f"mpicc.{library}", "-O2", "-o", program, str(_SOURCE)], check=True)
    words = [f"mpiexec.{library}", "-n", "2", program, str(_MESSAGES), str(_RECEIVES), str(_GATE)]
    environment = {**os.environ, **_ENVIRONMENT, "LD_PRELOAD": preload}
    with subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, text=True) as ranks:
        try:
            yield ranks
        finally:
            for gate in ("go", "end"):
                _GATE.with_suffix(f".{gate}").unlink(missing_ok=True)
            if ranks.poll() is None:
                ranks.terminate()


def _says(ranks: subprocess.Popen[str], word: str) -> int:
    """Wait until rank 1 says this word; its pid."""
    assert ranks.stdout
    for line in ranks.stdout:
        if line.startswith(f"{word} "):
            return int(line.split()[1])
    raise AssertionError(f"the ranks ended, and did not say {word}")


def _queues(values: Values) -> tuple[int | None, int | None]:
    return values["mpi.posted"], values["mpi.unexpected"]


def _of(sampler: Sampler, pid: int) -> Values:
    """The figures of a task; empty while it has none."""
    return next((values for owner, values in sampler.sample().rows.items() if owner.pid == pid), {})


def _backlog(library: str, *, tells_unexpected: bool) -> None:
    held, empty = (_RECEIVES, _MESSAGES if tells_unexpected else None), (0, 0 if tells_unexpected else None)
    with in_job("mpi"), _ranks(library) as ranks:
        pid = _says(ranks, "ready")
        with Sampler("lo", "task", 0.05) as sampler:
            until(lambda: bool(values := _of(sampler, pid)) and _queues(values) == held, f"the queues are {held}", 10)
            rows = sampler.sample().rows
            note(f"job {rows[Owner('job', 'mpi')]}")
            expect(
                _queues(rows[Owner("job", "mpi")]), (_RECEIVES + 1, held[1]), "queues of both ranks: the other waits"
            )
            expect(_queues(rows[NODE]), (_RECEIVES + 1, held[1]), "queues of the node")
            _GATE.with_suffix(".go").touch()
            _says(ranks, "empty")
            until(lambda: _queues(_of(sampler, pid)) == empty, f"the queues are {empty}", 10)
            _GATE.with_suffix(".end").touch()
            expect(ranks.wait(60), 0, "status of mpiexec")
            until(lambda: sampler.sample().rows[NODE]["mpi.posted"] is None, "no rank is left", 10)
        expect(list(Path("/dev/shm").glob("cosched-mpi-*")), [], "files left")


def openmpi() -> None:
    """Open MPI: posted receives as the program calls, unexpected messages over MPI_T, of two communicators"""
    _backlog("openmpi", tells_unexpected=True)


def mpich() -> None:
    """MPICH: posted receives as the program calls; Debian's tells no unexpected messages, so they are unknown"""
    _backlog("mpich", tells_unexpected=False)


def harmless() -> None:
    """A program that is no MPI program runs with the library preloaded as without it."""
    for library in ("openmpi", "mpich"):
        preload = ctl("netmon", "--preload", f"mpicc.{library}").strip()
        words, environment = ["echo", "as ever"], {"LD_PRELOAD": preload}
        done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
        expect((done.returncode, done.stdout, done.stderr), (0, "as ever\n", ""), "status and output")


if __name__ == "__main__":
    run(openmpi, *cases((mpich,), 0), harmless)
