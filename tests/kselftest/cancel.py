#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""ctl cancel: a job is told to end, has time for a checkpoint, and is killed when its grace is over. ctl hold."""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from ctl.kernel.cgroups import PARENT
from tests.kselftest import ktap
from tests.kselftest.command import agent, asked, ctl, refused
from tests.kselftest.node import spawned

_CHECKPOINT_S: Final = 3  # Open MPI's daemon gives ranks less, if it gets the signal
_LAUNCHERS: Final = (
    ("mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "-n", "2"),
    ("mpiexec.mpich", "-n", "2"),
)
_KEEPS: Final = 'trap "sleep {s}; echo done >>{file}; exit" TERM; echo up >>{up}; while :; do sleep 0.1; done'
_IGNORES: Final = 'trap "" TERM; echo up >>{up}; while :; do sleep 0.1; done'


@contextlib.contextmanager
def _job(jid: str, script: str, before: tuple[str, ...] = (), ranks: int = 1) -> Iterator[Path]:
    """A job whose ranks run the script; gives the file to which they write their checkpoints."""
    with tempfile.TemporaryDirectory() as directory:
        file, up = Path(directory) / "checkpoint", Path(directory) / "up"
        text = script.format(s=_CHECKPOINT_S, file=file, up=up)
        with spawned("ctl", "run", "--job", jid, "--", *before, "sh", "-c", text):
            ktap.until(lambda: up.exists() and len(up.read_text().split()) == ranks, f"job {jid} is up", 30)
            yield file


def _gone(jid: str, timeout: float = 20) -> None:
    ktap.until(lambda: not (PARENT / jid).exists(), f"job {jid} is gone", timeout)


def time_for_a_checkpoint() -> None:
    """Ranks that write a checkpoint when they are told to end have written it; `ctl jobs` says that the job ends."""
    with agent():
        for launcher in ktap.cases(_LAUNCHERS, 1):
            with _job("a", _KEEPS, launcher, 2) as checkpoint:
                text = ctl("cancel", "a")
                assert "job a got SIGTERM; killed in 30 s" in text, text
                row = asked("jobs")[0]
                assert "was told to end, killed in" in row["why"], row
                _gone("a")
                ktap.expect(checkpoint.read_text(), "done\n" * 2, f"checkpoints of {launcher[0]}")
        refused("cancel", "a", words=("no job 'a'",))


def killed_after_its_grace() -> None:
    """A job that does not end is killed when its grace is over, and with --now at once."""
    with agent(), _job("a", _IGNORES):
        began = time.monotonic()
        ctl("cancel", "--grace", "3", "a")
        text = ctl("cancel", "--grace", "300", "a")
        assert "killed in 3 s" in text or "killed in 2 s" in text, f"it has longer: {text}"
        time.sleep(1)
        ktap.expect((PARENT / "a").exists(), True, "within its grace it is there")
        _gone("a")
        ktap.note(f"gone after {time.monotonic() - began:.1f} s")
        with _job("b", _KEEPS) as checkpoint, _job("c", _IGNORES):
            text = ctl("cancel", "--now", "b", "c", "nobody", status=2)
            assert "job b killed\njob c killed\n" in text and "no job 'nobody'" in text, text
            _gone("b")
            _gone("c")
            ktap.expect(checkpoint.exists(), False, "a checkpoint")
        refused("cancel", "--signal", "NOPE", "a", words=("'NOPE'", "kill -l"))


def a_stopped_job_ends() -> None:
    """A stopped job goes on for its checkpoint when it is told to end; one on hold goes on then, or when released."""
    with agent("epoch_ms=300", policy="poly"), _job("first", _IGNORES), _job("second", _KEEPS) as checkpoint:
        ctl("set", "mpl=1")
        frozen = PARENT / "second" / "cgroup.events"
        ktap.until(lambda: "frozen 1" in frozen.read_text(), "the second job is stopped", 20)
        ctl("cancel", "second")
        _gone("second")
        ktap.expect(checkpoint.read_text(), "done\n", "checkpoint")
        ctl("set", "mpl=0")
        _on_hold("first")
        ctl("cancel", "--now", "first")


def _on_hold(jid: str) -> None:
    """A job is on hold until it is released, whatever is set meanwhile; told to end, it ends as a stopped one does."""
    frozen = PARENT / jid / "cgroup.events"
    text = ctl("hold", jid, "nobody", status=2)
    assert f"job {jid} is on hold: `ctl release {jid}` lets it go on" in text and "no job 'nobody'" in text, text
    ktap.until(lambda: "frozen 1" in frozen.read_text(), "it is frozen")
    assert f"job {jid} is on hold already, by root since 2" in ctl("hold", jid)
    for change in ("mpl=1", "mpl=0", "epoch_ms=200"):
        ctl("set", change)
    time.sleep(1)  # some epochs
    ktap.expect("frozen 1" in frozen.read_text(), True, "frozen after some epochs")
    row = asked("jobs")[0]
    ktap.expect((row["state"], row["on_hold"]["by"], row["frozen"]), ("on_hold", "root", True), "ctl jobs")
    assert f"job {jid} is on hold by root since 2" in ctl("jobs"), row
    assert f"job {jid} stopped: on hold by root since 2" in ctl("status")
    ktap.expect(ctl("release", jid), f"job {jid} goes on\n", "ctl release")
    ktap.until(lambda: "frozen 0" in frozen.read_text(), "it goes on")
    refused("release", jid, words=(f"job {jid} is not on hold",))
    with _job("b", _KEEPS) as checkpoint:
        ctl("hold", "b")
        ctl("cancel", "b")
        refused("hold", "b", words=("was told to end", "not put on hold"))
        _gone("b")
        ktap.expect(checkpoint.read_text(), "done\n", "the checkpoint of a job on hold")
        refused("release", "b", words=("no job 'b'",))


if __name__ == "__main__":
    ktap.run(time_for_a_checkpoint, killed_after_its_grace, a_stopped_job_ends)
