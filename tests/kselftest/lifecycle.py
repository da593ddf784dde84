#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Loading and unloading, often and with refusals; the kernel is always back on its own scheduler."""

from __future__ import annotations

import os
import struct
import tempfile
import threading
from pathlib import Path

from ctl.errors import CoschedError
from ctl.kernel import knobs, scheduler
from ctl.policy import defaults
from tests.kselftest import ktap, stock
from tests.kselftest.node import OBJECT, disabled, loaded, spawned, state

_CYCLES = int(ktap.at_length(200, 50))  # of enabling and disabling in the kernel
# With the verifier, 0.5 s each under TCG.
_LOADS = 200 if os.environ.get("KSELFTEST_FULL") == "1" else int(ktap.at_length(10, 4))


def unload_says_why() -> None:
    """Unloading is recorded as an unregistration from user space."""
    with loaded() as running:
        ktap.expect(state(), "enabled", "sched_ext state while loaded")
        ended = running.unload()
    assert ended, "no exit record"
    ktap.expect(ended["kind_name"], "unreg", "kind of the exit")
    assert disabled(), f"sched_ext is {state()} after unload"


def two_hundred_cycles() -> None:
    """After each of many enablings and disablings under load the kernel is back on its own scheduler."""
    hog = ktap.program("hog")
    with loaded() as running, spawned(hog, "3"):
        assert running._link
        running._link.destroy()  # the same object is attached again and again
        for cycle in range(_CYCLES):
            ktap.until(disabled, f"the kernel's own scheduler before cycle {cycle}")
            link = running._map("cosched").attach_struct_ops()
            ktap.expect(state(), "enabled", f"sched_ext state in cycle {cycle}")
            link.destroy()


def loads_leave_nothing() -> None:
    """Repeated loading and unloading under load leaves nothing behind."""
    hog = ktap.program("hog")
    with spawned(hog, "3"):
        for cycle in range(_LOADS):
            with loaded():
                ktap.expect(state(), "enabled", f"sched_ext state in load {cycle}")
            ktap.expect(state(), "disabled", f"sched_ext state after load {cycle}")


def another_scheduler_is_named() -> None:
    """A second load is refused in a sentence that names the loaded scheduler, and changes nothing."""
    with loaded() as running:
        try:
            with loaded():
                raise AssertionError("a second scheduler was loaded")
        except CoschedError as error:
            assert "cosched" in str(error), f"the refusal does not name the loaded scheduler: {error}"
        ktap.expect(state(), "enabled", "sched_ext state after the refused load")
        assert running.running(), f"the first scheduler ended: {running.exit_record()}"


def _broken_object() -> Path:
    """Our object with an instruction that reads an unwritten register, in place of the return from cpu_online."""
    image = bytearray(OBJECT.read_bytes())
    offset, entry, count, names = struct.unpack_from("<Q10xHHH", image, 0x28)
    headers = [struct.unpack_from("<IIQQQQ", image, offset + i * entry) for i in range(count)]
    strings = headers[names][4]
    for name, _, _, _, at, _ in headers:
        end = image.index(0, strings + name)
        if image[strings + name : end] == b"struct_ops/cosched_cpu_online":
            image[at : at + 8] = bytes([0x79, 0x90, 0, 0, 0, 0, 0, 0])  # r0 = *(u64 *)(r9 + 0)
    path = Path(tempfile.mkdtemp()) / "cosched.bpf.o"
    path.write_bytes(image)
    return path


def verifier_rejection_is_told() -> None:
    """The refusal of an object by the verifier is explained in one sentence."""
    try:
        with scheduler.Scheduler.load(
            _broken_object(), knobs.encode(defaults(), "csm"), jobs_cgid=1, jobs_level=1, watchdog_ms=30000
        ):
            raise AssertionError("the broken object was loaded")
    except CoschedError as error:
        ktap.note(str(error))
        assert "verifier" in str(error), f"the sentence does not speak of the verifier: {error}"
        ktap.expect(len(str(error).splitlines()), 1, "lines of the error")
    assert disabled(), f"sched_ext is {state()} after the rejection"


def knobs_from_many_threads() -> None:
    """Knobs written from several threads while tasks run leave the scheduler running."""
    hog = ktap.program("hog")
    with loaded() as running, spawned(hog, "2"):

        def turn(quantum: int) -> None:
            for _ in range(50):
                running.write_knobs(quantum_ns=quantum)

        threads = [threading.Thread(target=turn, args=(n * 1_000_000,)) for n in (5, 10, 20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        ktap.expect(state(), "enabled", "sched_ext state")


if __name__ == "__main__":
    stock.anew()
    ktap.run(
        unload_says_why,
        another_scheduler_is_named,
        verifier_rejection_is_told,
        knobs_from_many_threads,
        two_hundred_cycles,
        loads_leave_nothing,
    )
