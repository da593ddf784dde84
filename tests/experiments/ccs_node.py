# SPDX-License-Identifier: GPL-2.0-or-later
"""A node of an experiment: it carries out requests of ccs_guest.py, in lines of JSON on standard input and output.

    {"op": "settle", "room_kb": 98304, "page_cluster": 0}   request: an operation and its arguments
    {"result": ...} or {"error": "..."}     its answer
    {"event": "local", "said": {...}}       at any time: the local user has gone

A local user is the benchmark `local` (tests/progs/local_user.c) and, once a second while it runs, a key pressed on the
node's own keyboard: the agent sees it as it would see anybody. The steps are the same for all schedulers.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, Final

from ctl.demo import groups
from ctl.demo.freezer import Freezer
from ctl.demo.room import counters, find_locked, meminfo, push_out, read_ahead, settled, warm_agent
from ctl.demo.scenario import STATIC
from ctl.kernel.sysinfo import process_cpu_ms, thread_cpu_ms
from ctl.policy import MODULES, POLICIES
from ctl.protocol import Client, NotRunning
from tests.experiments.ccs_plan import WORK
from vm.control import Control
from vm.host import VmError

__all__ = ["Helper", "main", "serve"]

_PORT: Final = 7077  # where local users of the other node ask for bytes
_ROOM_OFF: Final = 0.03  # of the room: memory that may be available besides
_KEY_S: Final = 1.0  # between two keys
_HUGE_PAGES: Final = Path("/sys/kernel/mm/transparent_hugepage/enabled")
_LARGEST: Final = 60000  # bytes in an answer
_BRAKE_PERIOD_S: Final = 0.01
_CONTEXT: Final = ("verdict", "effective", "why", "mem", "m")


class Helper:
    """The operations; each public method is one."""

    def __init__(self) -> None:
        self._room = contextlib.ExitStack()
        self._room_kb: int | None = None  # while memory is held
        self._new_agent = False
        self._peer = contextlib.ExitStack()
        self._static = False
        self._begun: list[Path] = []  # cgroups of the jobs that have begun and not ended, the oldest first
        self._local: subprocess.Popen[bytes] | None = None
        self._sampler: subprocess.Popen[str] | None = None
        self._brake: subprocess.Popen[bytes] | None = None
        self._output = threading.Lock()
        threading.Thread(target=_answer_users, daemon=True).start()

    def say(self, value: object) -> None:
        """Write a line."""
        with self._output:
            sys.stdout.write(json.dumps(value) + "\n")
            sys.stdout.flush()

    def clock(self) -> float:
        """Now, by this node's clock."""
        return time.monotonic()

    def policy(self, name: str | None, knobs: dict[str, Any]) -> None:
        """Have this scheduler, None: the kernel's own, with these knobs."""
        try:
            with Client(timeout=60) as agent:
                kind = agent.call("status")["contract"]["kind"]
                if name is not None and kind == knobs.get("contract", POLICIES[name].contract):
                    agent.call("set", knobs=dict.fromkeys(MODULES, "off"))  # what they remember ends here
                    agent.call("switch", policy=name, knobs={k: v for k, v in knobs.items() if k != "contract"})
                    return
        except NotRunning:
            if name is None:
                return
            kind = ""
        self.unsettle()  # the sensors' compiler needs memory
        if kind:
            _run("ctl", "unload")
        if name is None:
            return
        self._new_agent = True
        words = [word for knob, value in knobs.items() for word in ("--set", f"{knob}={value}")]
        _run("ctl", "load", "--wait", "--policy", name, *words)

    def push_out(self) -> None:
        """Send all memory to swap; needed pages come back."""
        push_out()
        push_out()

    def settle(self, room_kb: int, page_cluster: int = 0) -> int:
        """Leave so much memory, and have faults bring 2^page_cluster pages; returns what is available then, KB.

        The memory held for the last run is used again.
        """
        if self._new_agent:
            warm_agent()
            self._new_agent = False
        if self._room_kb is not None:
            find_locked()
        if room_kb != self._room_kb or abs(meminfo("MemAvailable") - room_kb) > _ROOM_OFF * room_kb:
            self.unsettle()
            self._room.enter_context(settled(WORK / "hold_memory", room_kb))
            self._room_kb = room_kb
        read_ahead(page_cluster)
        return meminfo("MemAvailable")

    def unsettle(self) -> None:
        """Give the memory back."""
        self._room.close()
        self._room_kb = None

    def peer(self, name: str, jobs: dict[str, list[int]]) -> None:
        """Have this peer of the demo, with the ranks of all jobs, by JID, and local users in cgroups of their own."""
        self._peer.callback(groups.remove)
        groups.make(jobs)
        for jid, pids in jobs.items():
            for pid in pids:
                (groups.job_group(jid) / "cgroup.procs").write_text(str(pid))
        self._static = name == STATIC
        if self._static:
            groups.weigh()
        else:
            self._peer.enter_context(Freezer(self._begun))

    def no_peer(self) -> None:
        """Have none any more."""
        self._peer.close()
        self._static = False

    def open_gate(self, name: str) -> None:
        """Let a job begin."""
        self._begun.append(groups.job_group(name))
        (WORK / f"gate-{name}").touch()

    def ended(self, name: str) -> None:
        """A job has ended."""
        self._begun.remove(groups.job_group(name))

    def close_gates(self) -> None:
        """Of all jobs."""
        self._begun.clear()
        for gate in WORK.glob("gate-*"):
            gate.unlink()

    def start_local(self, argv: list[str]) -> None:
        """A local user comes."""
        if self._static:
            groups.protect(int(argv[2]))
        command = groups.inside(groups.LOCAL, [str(WORK / "local_user"), *argv])
        self._local = subprocess.Popen(command, stdout=subprocess.PIPE)
        threading.Thread(target=self._attend, args=(self._local,), daemon=True).start()

    def _attend(self, local: subprocess.Popen[bytes]) -> None:
        """Press keys until the user has ended, then report its output."""
        while True:
            with contextlib.suppress(VmError, OSError):
                Control().key(socket.gethostname(), "a")
            try:
                output, _ = local.communicate(timeout=_KEY_S)
                break
            except subprocess.TimeoutExpired:
                continue
        self.say({"event": "local", "said": json.loads(output) if output else None})
        self._local = None

    def stop_local(self) -> bool:
        """Have the local user go; False where there is none, and no event will come."""
        local = self._local
        if local is None:
            return False
        local.send_signal(signal.SIGTERM)
        return True

    def sample(self, hz: int) -> None:
        """Begin to sample the running processes."""
        command = [str(WORK / "run_samples"), str(hz)]
        self._sampler = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._sampler.stdout
        if self._sampler.stdout.readline() != "on\n":
            raise RuntimeError("run_samples failed")

    def samples(self) -> list[list[int]]:
        """Milliseconds and processes of all samples since."""
        assert self._sampler is not None
        output, _ = self._sampler.communicate()
        return [[int(word) for word in line.split()] for line in output.splitlines()]

    def counters(self) -> dict[str, int]:
        """Paging since boot, and the CPU time of the agent, where there is one: all of it, and its event loop's.

        The rest is the kernel's, which pushes jobs' memory out and reads it back at the agent's word.
        """
        try:
            with Client(timeout=60) as agent:
                pid = agent.call("ping")["pid"]
        except NotRunning:
            return counters()
        used = {"agent_cpu_ms": process_cpu_ms(pid), "agent_loop_ms": thread_cpu_ms(pid)}
        return {**counters(), **{name: round(ms or 0) for name, ms in used.items()}}

    def agent(self) -> dict[str, Any] | None:
        """The agent's status; None without an agent."""
        try:
            with Client(timeout=60) as agent:
                status, view = agent.call("status"), agent.call("view")
        except NotRunning:
            return None
        overload = {name: status["overload"][name] for name in _CONTEXT}
        told = [[event["time"], event["text"]] for event in view["events"]]  # the last of them
        return {
            "overload": overload, "contract": status["contract"], "counters": status["counters"], "told": told
        }

    def brake(self, part: float) -> None:
        """Take this part of the CPU away from everybody, 0: no more; a real-time task does it, 10 ms after 10 ms."""
        if self._brake is not None:
            self._brake.kill()
            self._brake.wait()
            self._brake = None
        if part:
            pulse = [str(int(_BRAKE_PERIOD_S * 1e6)), str(int(part * _BRAKE_PERIOD_S * 1e6))]
            self._brake = subprocess.Popen(["chrt", "--fifo", "1", str(WORK / "brake"), *pulse])

    def kill(self, pids: list[int]) -> None:
        """End ranks that have not ended by themselves."""
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _answer_users() -> None:
    """Give the other node's local users the bytes they ask for."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as network:
        network.bind(("", _PORT))
        while True:
            asked, user = network.recvfrom(_LARGEST)
            with contextlib.suppress(OSError, ValueError):
                network.sendto(bytes(min(int(asked.split(b"\0")[0]), _LARGEST)), user)


def _run(*command: str) -> None:
    done = subprocess.run(command, check=False, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} ended with status {done.returncode}: {done.stderr[-2000:]}")


def main() -> int:
    """Serve until the input ends."""
    threading.stack_size(1 << 18)  # all memory is locked, stacks are too
    _HUGE_PAGES.write_text("never")  # one fault, one page
    return serve(Helper())


def serve(helper: Helper) -> int:
    """Answer requests until the input ends."""
    Path(WORK).mkdir(exist_ok=True)
    for line in sys.stdin:
        request = json.loads(line)
        try:
            helper.say({"result": getattr(helper, request.pop("op"))(**request)})
        except Exception as error:  # the other side is told, and ends the experiment
            helper.say({"error": f"{socket.gethostname()}: {type(error).__name__}: {error}"})
    helper.unsettle()
    return 0


if __name__ == "__main__":
    sys.exit(main())
