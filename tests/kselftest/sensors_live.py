#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""The agent's sensors: on, off and on again, ready at once, and CPUs that go and come meanwhile."""

from __future__ import annotations

from pathlib import Path

from tests.kselftest import ktap
from tests.kselftest.command import TIMEOUT, Follower, agent, asked, ctl, following
from tests.kselftest.node import online, spawned, state

_RECEIVE = ("tcp_cleanup_rbuf", "skb_consume_udp", "scm_recv_unix")
_PART = 0.4  # of the time until all sensors observe: sockets do so by then, on a host of any speed
_UNREAD = """
import os, socket, time
a, b = socket.socketpair()
a.send(b"x")
print(os.getpid(), flush=True)
time.sleep(3600)
"""


def sensors_live() -> None:
    """Sockets are observed long before the rest is compiled; sensors go and come, as a CPU does."""
    with agent() as pid, following("status", "--follow") as heard:
        ctl("set", "sensors=on")
        now = asked("status")["sensors"]
        ktap.expect("sockets" in now["active"], True, f"sockets are observed at once: {now}")
        ktap.until(_all_observe, "the others follow", TIMEOUT)
        ktap.until(lambda: len(_seconds(heard)) == 2, "the agent tells", TIMEOUT)
        sockets, all_ = (_seconds(heard)[action] for action in ("sockets", "on"))
        ktap.note(f"sockets were observed after {sockets:.1f} s, all after {all_:.1f} s")
        ktap.measured(sockets < _PART * all_, f"sockets were observed after {sockets:.1f} s, all after {all_:.1f} s")
        _memory_is_locked(pid)
        ctl("set", "sensors=off")
        ktap.expect(asked("status")["sensors"]["state"], "off", "sensors after sensors=off")
        ctl("set", "sensors=on")
        ktap.until(_all_observe, "all observe again", TIMEOUT)
        names = ("threads_unobserved", "sockets_unobserved", "socket_events_missed")
        ktap.expect([name in asked("status")["counters"] for name in names], [True] * 3, "losses are counted")
        if Path("/sys/devices/system/cpu/cpu1/online").exists():
            with online(1, False):
                ktap.expect(state(), "enabled", "sched_ext state with CPU 1 offline")
                asked("status")
        ktap.expect(asked("status")["sensors"]["state"], "on", "sensors after CPU 1 came back")
        _receiving_is_probed_beside_jobs()
        _first_socket_of_its_kind()


def _seconds(heard: Follower) -> dict[str, float]:
    """From sensors=on until sockets were observed ("sockets") and until all were ("on"), as the agent told."""
    return {one["action"]: one["seconds"] for one in heard.events() if one.get("action") in ("sockets", "on")}


def _all_observe() -> bool:
    return bool(asked("status")["sensors"]["state"] == "on")


def _memory_is_locked(pid: int) -> None:
    """The memory of the agent that has compiled is locked, and the compiler's is given back."""
    sizes = dict(line.split(":") for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    resident, locked = (int(sizes[name].split()[0]) for name in ("VmRSS", "VmLck"))
    ktap.note(f"{resident} KB resident, {locked} KB locked")
    assert locked > resident / 2, "the agent's memory is not locked"
    assert resident < 120 << 10, "the sensors' compiler is still in memory"


def _receiving_is_probed_beside_jobs() -> None:
    """On a node without jobs nobody who receives passes a probe."""

    def probed() -> int:
        listed = Path("/sys/kernel/tracing/enabled_functions").read_text().split()
        return sum(function in listed for function in _RECEIVE)

    ktap.until(lambda: probed() == 0, "functions that receive are not probed without a job")
    with spawned("ctl", "run", "--job", "asleep", "--", "sleep", "999"):
        ktap.until(lambda: probed() == len(_RECEIVE), "they are beside a job")
    ktap.until(lambda: probed() == 0, "and no more behind it")


def _first_socket_of_its_kind() -> None:
    """The agent observes the packets of a kind of socket soon after a job has the first socket of this kind."""
    with spawned("ctl", "run", "--job", "first", "--", "python3", "-c", _UNREAD) as job:
        assert job.stdout is not None
        tid = int(job.stdout.readline())

        def rec() -> int:
            return sum(row["rec"] or 0 for row in asked("tasks") if row["tid"] == tid)

        ktap.until(lambda: rec() == 1, "the message that it has not read is seen")


if __name__ == "__main__":
    ktap.run(sensors_live)
