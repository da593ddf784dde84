# SPDX-License-Identifier: GPL-2.0-or-later
"""Messages left unread, from sweep to sweep."""

from __future__ import annotations

import threading
import time

from ctl.kernel.observations import Socket
from ctl.kernel.sysinfo import process_cpu_ms, thread_cpu_ms
from ctl.kernel.unread import Unread

_SOCKET = Socket(tid=7, tgid=7, proto=4, rcv=1, snd=0, closed=False, changes=3)


class _Cpu:
    """The CPU time of thread 7, the only one there is."""

    used: float | None = 100.0

    def __call__(self, tid: int) -> float | None:
        return self.used if tid == 7 else None


def test_left_once_its_owner_ran_long_enough() -> None:
    cpu = _Cpu()
    unread = Unread(cpu)
    for used, left in ((100.0, False), (900.0, False), (1099.0, False), (1100.0, True), (1200.0, False)):
        cpu.used = used
        assert unread.left({1: _SOCKET}, 1000) == ({1} if left else set()), used


def test_a_change_starts_anew() -> None:
    cpu = _Cpu()
    unread = Unread(cpu)
    unread.left({1: _SOCKET}, 1000)
    cpu.used = 1100.0
    assert unread.left({1: _SOCKET._replace(changes=4)}, 1000) == set()
    cpu.used = 2100.0
    assert unread.left({1: _SOCKET._replace(changes=4)}, 1000) == {1}


def test_never() -> None:
    cpu = _Cpu()
    unread = Unread(cpu)
    empty, nobodys, gone = _SOCKET._replace(rcv=0), _SOCKET._replace(tid=0), _SOCKET._replace(tid=8)
    for used in (100.0, 5000.0):
        cpu.used = used
        assert unread.left({1: empty, 2: nobodys, 3: gone}, 1000) == set()
        assert unread.left({1: _SOCKET}, 0) == set()


def test_a_gap_starts_anew() -> None:
    """The address may be another socket's by then."""
    cpu = _Cpu()
    unread = Unread(cpu)
    unread.left({1: _SOCKET}, 1000)
    unread.left({}, 1000)
    cpu.used = 1100.0
    assert unread.left({1: _SOCKET}, 1000) == set()


def test_cpu_time_is_the_threads_not_its_processs() -> None:
    """A thread that waits beside one that computes has not run past its messages."""
    done = threading.Event()
    waits = threading.Thread(target=done.wait)
    waits.start()
    assert waits.native_id is not None
    until = time.thread_time() + 0.2
    while time.thread_time() < until:
        pass
    used, ours = thread_cpu_ms(waits.native_id), thread_cpu_ms(threading.get_native_id())
    everybodys = process_cpu_ms(waits.native_id)
    done.set()
    waits.join()
    assert used is not None and ours is not None and everybodys is not None
    assert used <= 20 < 180 <= ours <= everybodys
    assert thread_cpu_ms(0x3FFFFF) is None
