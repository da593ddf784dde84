#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Kernel threads of one CPU that never sleep take their turns: one, and two that could relieve each other for ever.

The two do not depend on a program of their CPU. A frame that two bridges with three links copy to each other without
end keeps ksoftirqd/0 busy. A sender on CPU 1 through WireGuard, which encrypts on all CPUs in turn, keeps a kworker of
CPU 0 busy.
"""

from __future__ import annotations

import base64
import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from tests.kselftest import ktap
from tests.kselftest.local_tasks import cpu_time
from tests.kselftest.node import job, loaded, spawned, state

_PKTGEN = Path("/proc/net/pktgen")
_ENDS = {"kst-near": ("10.99.0.1", 51001), "kst-far": ("10.99.0.2", 51002)}
_SEND = """
import contextlib, socket
out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
out.connect(("10.99.0.2", 9))
data = bytes(59000)
while True:
    with contextlib.suppress(OSError):  # nobody receives it
        out.send(data)
"""
_BEGIN = """
import socket
out = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
out.bind(("kst-a", 0))
out.send(bytes.fromhex("ffffffffffff" "020000000001" "88b5") + bytes(46))  # to all, of an experimental type
"""


def _needs(module: str) -> None:
    if subprocess.run(["modprobe", module], check=False, capture_output=True).returncode:
        raise ktap.Skip(f"this kernel has no {module}")


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


@contextlib.contextmanager
def _packets_without_end() -> Iterator[None]:
    """The kernel's packet generator: its thread of CPU 0 never sleeps."""
    _needs("pktgen")
    thread = _PKTGEN / "kpktgend_0"
    try:
        thread.write_text("rem_device_all")
        thread.write_text("add_device lo")
        for line in ("count 0", "delay 0", "dst 127.0.0.1", "pkt_size 60"):
            (_PKTGEN / "lo").write_text(line)
        with spawned("sh", "-c", f"echo start >{_PKTGEN}/pgctrl", cpu=1):
            yield
    finally:
        (_PKTGEN / "pgctrl").write_text("stop")
        thread.write_text("rem_device_all")
        subprocess.run(["modprobe", "-r", "pktgen"], check=True)


@contextlib.contextmanager
def _frames_without_end() -> Iterator[None]:
    """A storm of frames between two bridges in a network namespace, in the softirqs of CPU 0."""
    _needs("bridge")
    bridges = ("kst-a", "kst-b")
    try:
        _ip("netns", "add", "kst-storm")
        quiet = "net.ipv6.conf.default.disable_ipv6=1"  # the kernel's own frames could begin a storm on CPU 1
        subprocess.run(["ip", "netns", "exec", "kst-storm", "sysctl", "-qw", quiet], check=True)
        for bridge in bridges:
            _ip("-n", "kst-storm", "link", "add", bridge, "type", "bridge", "stp_state", "0")
            _ip("-n", "kst-storm", "link", "set", bridge, "up")
        for number in range(3):
            ends = [f"{bridge}{number}" for bridge in bridges]
            _ip("-n", "kst-storm", "link", "add", ends[0], "type", "veth", "peer", "name", ends[1])
            for end, bridge in zip(ends, bridges, strict=True):
                _ip("-n", "kst-storm", "link", "set", end, "master", bridge, "up")
        with spawned("ip", "netns", "exec", "kst-storm", sys.executable, "-c", _BEGIN, cpu=0) as beginner:
            ktap.expect(beginner.wait(), 0, "status of the program that sends the first frame")
        yield
    finally:
        subprocess.run(["ip", "netns", "del", "kst-storm"], check=False, capture_output=True)


@contextlib.contextmanager
def _encryption_without_end() -> Iterator[None]:
    """A tunnel to another network namespace and a sender on CPU 1: the kernel encrypts on both CPUs."""
    _needs("wireguard")
    try:
        _make_tunnel()
        with spawned(sys.executable, "-c", _SEND, cpu=1):
            yield
    finally:
        for command in (["ip", "link", "del", "kst-near"], ["ip", "netns", "del", "kst"]):
            subprocess.run(command, check=False, capture_output=True)


def _make_tunnel() -> None:
    from pyroute2 import WireGuard

    keys = {name: X25519PrivateKey.generate() for name in _ENDS}
    with WireGuard() as wireguard:
        for name, other in zip(_ENDS, reversed(_ENDS), strict=True):
            _ip("link", "add", name, "mtu", "60000", "type", "wireguard")
            peer: dict[str, Any] = {
                "public_key": base64.b64encode(keys[other].public_key().public_bytes_raw()),
                "endpoint_addr": "127.0.0.1",
                "endpoint_port": _ENDS[other][1],
                "allowed_ips": ["10.99.0.0/24"],
            }
            private = base64.b64encode(keys[name].private_bytes_raw())
            wireguard.set(name, private_key=private, listen_port=_ENDS[name][1], peer=peer)
    _ip("netns", "add", "kst")
    _ip("link", "set", "kst-far", "netns", "kst")  # its UDP socket stays here
    for name, where in (("kst-near", ()), ("kst-far", ("-n", "kst"))):
        _ip(*where, "addr", "add", f"{_ENDS[name][0]}/24", "dev", name)
        _ip(*where, "link", "set", name, "up")
    ping = ["ping", "-c", "1", "-W", "2", _ENDS["kst-far"][0]]
    ktap.until(lambda: not subprocess.run(ping, check=False, capture_output=True).returncode, "the tunnel is open")


def _threads(name: str) -> list[int]:
    """The kernel threads of this name, or whose names begin so if it ends in ":"."""
    found = []
    for path in Path("/proc").glob("[0-9]*/comm"):
        with contextlib.suppress(OSError):  # it has just ended
            comm = path.read_text().strip()
            if comm == name or (name.endswith(":") and comm.startswith(name)):
                found.append(int(path.parent.name))
    return found


def _used(names: dict[str, list[int]]) -> dict[str, float]:
    return {name: sum(map(cpu_time, pids)) for name, pids in names.items()}


def _sleeps(names: dict[str, list[int]]) -> dict[str, int]:
    """How often threads went to sleep: their voluntary switches."""
    texts = {name: [Path(f"/proc/{pid}/status").read_text() for pid in pids] for name, pids in names.items()}
    return {name: sum(int(text.split("\nvoluntary_ctxt_switches:")[1].split()[0]) for text in own)
            for name, own in texts.items()}  # fmt: skip


def _shares(*kernel_threads: str) -> dict[str, float]:
    """The parts of CPU 0 that these kernel threads, a local hog and a job's hog have beside each other."""
    hog = ktap.program("hog")
    with (
        job("bound") as cgroup,
        loaded(),
        spawned(hog, "1", cpu=0) as local,
        spawned(hog, "1", cgroup=cgroup, cpu=0) as parallel,
    ):
        who = {name: _threads(name) for name in kernel_threads} | {"local": [local.pid], "job": [parallel.pid]}
        time.sleep(0.5)
        before, slept = _used(who), _sleeps(who)
        time.sleep(ktap.at_length(4, 2))
        used = {name: seconds - before[name] for name, seconds in _used(who).items()}
        slept = {name: sleeps - slept[name] for name, sleeps in _sleeps(who).items()}
        # a program that had no turn for 30 s has ended the scheduler: what is measured then is the kernel's own
        ktap.expect(state(), "enabled", "sched_ext at the end")
    ktap.note("CPU seconds: " + ", ".join(f"{name} {seconds:.2f}" for name, seconds in used.items()))
    ktap.note(f"went to sleep: {slept}")
    for name in kernel_threads:
        ktap.measured(used[name] > 0.1, f"{name} did not work, so this shows nothing: {used}")
    return {name: seconds / sum(used.values()) for name, seconds in used.items()}


def _needs_two_cpus() -> None:
    if (os.cpu_count() or 1) < 2:
        raise ktap.Skip("needs 2 CPUs, this machine has 1")


def one_takes_turns() -> None:
    """A kernel thread of one CPU that never sleeps has its share beside a local task and a job, and no more."""
    _needs_two_cpus()
    with _packets_without_end():
        shares = _shares("kpktgend_0")
    # ahead of everything after each quantum, it had 0.6 of the CPU
    ktap.measured(shares["kpktgend_0"] < 0.45, f"the kernel thread had more than its turns: {shares}")


def two_shut_out_nobody() -> None:
    """A kworker and ksoftirqd of one CPU, neither of which sleeps, leave a local task and a job their turns."""
    _needs_two_cpus()
    with _encryption_without_end(), _frames_without_end():
        shares = _shares("kworker/0:", "ksoftirqd/0")
    for name in ("local", "job"):
        ktap.measured(shares[name] > 0.1, f"{name} had too little beside two kernel threads: {shares}")


if __name__ == "__main__":
    ktap.run(one_takes_turns, two_shut_out_nobody)
