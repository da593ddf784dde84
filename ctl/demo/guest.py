# SPDX-License-Identifier: GPL-2.0-or-later
"""The demo's part inside the guest: sets the stage, runs the jobs under one scheduler, measures.

    python3 -m ctl.demo.guest CONFIG SCENARIO [--top]

CONFIG is one of PEERS of scenario.py or a policy, with knobs as in "csm+flt=probability"; SCENARIO is what
`Scenario.to_json` wrote. Prints one JSON object per line while it goes on: "phase", "at" (s), and in the phase "run"
"seconds" since the jobs began, "jobs" (share done of each), "swapped_kb" (of each), "swapins" and "overloaded" (the
agent's verdict; null without an agent). The measurement is left in /out/result.json.

Four measures make runs comparable: the jobs wait at a gate until all programs are ready; idle programs (the agent, too)
are pushed out to swap; program files are locked in memory; and all memory but the scenario's room is held. So every
configuration starts with the same memory, and pages on the swap device alone.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from ctl.demo import groups
from ctl.demo.freezer import Freezer
from ctl.demo.room import COUNTERS, child, counters, kb_of, meminfo, push_out, read_ahead, settled, warm_agent
from ctl.demo.scenario import FREEZER, NICE, PEERS, STATIC, Job, Scenario
from ctl.protocol import Client

__all__ = ["main"]

_PROGRAMS: Final = Path("/usr/lib/cosched/progs")  # vm/checkout.py has compiled them
_SOURCES: Final = Path(__file__).with_name("progs")
_WORK: Final = Path("/run/cosched-demo")  # a tmpfs: nothing here waits for the image's disk
_RESULT: Final = Path("/out/result.json")
_TICK_S: Final = 1.0  # between two lines of progress
_ROOM_OFF: Final = 0.05  # of the room: allowed difference of the available memory when the jobs begin


class Stage:
    """Everything that runs during one measurement."""

    def __init__(self, config: str, scenario: Scenario, top: bool) -> None:
        self.config, self.scenario, self.top = config, scenario, top
        self.has_agent = config not in PEERS
        self.begin = time.monotonic()
        self.gate = _WORK / "gate"
        self.jobs: dict[str, _RunningJob] = {}
        self.timeline: list[dict[str, object]] = []

    def tell(self, phase: str, **more: object) -> None:
        """Print a line of progress, unless the dashboard has the terminal."""
        if self.top and self.has_agent and phase == "run":
            return
        print(json.dumps({"phase": phase, "at": round(time.monotonic() - self.begin, 1), **more}), flush=True)

    def run(self) -> dict[str, Any]:
        """Do one measurement and return it."""
        _WORK.mkdir(parents=True, exist_ok=True)
        for name in ("mpi_sweep", "local_task", "hold_memory"):
            shutil.copy2(_PROGRAMS / name, _WORK)
        with contextlib.ExitStack() as stack:
            if self.config in (STATIC, FREEZER):
                self._make_cgroups()
            if self.has_agent:
                self.tell("load")
                name, *knobs = self.config.split("+")
                _ctl("load", "--wait", "--policy", name, *(word for knob in knobs for word in ("--set", knob)))
                stack.callback(_ctl, "unload")
            self.tell("start")
            for name, job in self.scenario.jobs.items():  # one after the other, so that all runs have the same order
                self.jobs[name] = stack.enter_context(_started(self._argv(name, job)))
                self.jobs[name].wait_ready()
            if self.scenario.room:
                self.tell("settle")
            if self.top and self.has_agent:
                stack.enter_context(child(["ctl", "top"]))
            agent = _Agent() if self.has_agent else None
            room_kb, held = self.scenario.room * 1024, ""
            if room_kb:
                push_out()
                warm_agent()
                held = stack.enter_context(settled(_WORK / "hold_memory", room_kb))
            read_ahead(self.scenario.page_cluster)
            commit = os.environ.get("COSCHED_COMMIT", "unknown")
            return {"config": self.config, "commit": commit, "held": held, **self._measure(stack, agent)}

    def _argv(self, name: str, job: Job) -> list[str]:
        """Return the command line of a job, which under a policy of cosched runs in the job's cgroup."""
        sizes = (job.kb_per_rank, job.sweeps, job.passes, job.exchange)
        argv = ["mpiexec.mpich", "-n", str(job.ranks), str(_WORK / "mpi_sweep"), *map(str, sizes), str(self.gate)]
        if self.has_agent:
            return ["ctl", "run", "--job", name, "--", *argv]
        if self.config == NICE:
            return ["nice", "-n", "19", *argv]
        return groups.inside(groups.job_group(name), argv)

    def _make_cgroups(self) -> None:
        """For jobs and the local task, with weights and protection where this is the peer."""
        groups.make(self.scenario.jobs)
        if self.config == STATIC:
            groups.weigh()
            groups.protect(self.scenario.local.kb)

    def _measure(self, stack: contextlib.ExitStack, agent: _Agent | None) -> dict[str, Any]:
        task = self.scenario.local
        sizes = (task.period_ms, task.work_ms, task.kb, task.pages_per_wake)
        available = meminfo("MemAvailable")
        room_kb = self.scenario.room * 1024
        if room_kb and abs(available - room_kb) > room_kb * _ROOM_OFF:
            raise SystemExit(
                f"{available} KB are available to begin with, not the {self.scenario.room} MB that should be"
            )
        command = groups.inside(groups.LOCAL, [str(_WORK / "local_task"), *map(str, sizes)])
        local = stack.enter_context(child(command, stdout=subprocess.PIPE))
        if self.config == FREEZER:
            stack.enter_context(Freezer([groups.job_group(name) for name in self.scenario.jobs]))
        before = counters()
        opened = time.monotonic()
        self.gate.touch()
        compilers = [stack.enter_context(_compiling(self.scenario.files)) for _ in range(self.scenario.compilers)]
        try:
            self._watch(opened, agent, compilers)
        finally:
            self.gate.unlink()
        after = counters()
        local.send_signal(signal.SIGTERM)
        output, _ = local.communicate()
        return {
            "agent": agent.outcome(opened) if agent else None,
            "jobs": {name: job.outcome(opened) for name, job in self.jobs.items()},
            "timeline": self.timeline,
            "local": json.loads(output),
            **({"compiled_s": max(map(_Output.ended, compilers)) - opened} if compilers else {}),
            "node": {"available_kb": available, **{name: after[name] - before[name] for name in COUNTERS}},
        }

    def _watch(self, opened: float, agent: _Agent | None, compilers: Sequence[_Output]) -> None:
        """Follow the jobs, and what the agent says of the memory, until the last job and compiler has ended."""
        swapped, told, running = counters()["pswpin"], opened, len(self.jobs) + len(compilers)
        with selectors.DefaultSelector() as selector:
            sources: list[_Output | _Agent] = [*self.jobs.values(), *compilers, *([agent] if agent else [])]
            for source in sources:
                selector.register(source, selectors.EVENT_READ)
            while running:
                for key, _ in selector.select(max(0.0, told + _TICK_S - time.monotonic())):
                    if not key.fileobj.read():  # type: ignore[union-attr]
                        selector.unregister(key.fileobj)
                        running -= key.fileobj is not agent
                if time.monotonic() - told >= _TICK_S:
                    told = time.monotonic()
                    self.timeline.append(
                        {
                            "seconds": round(told - opened, 1),
                            "jobs": {name: job.progress() for name, job in self.jobs.items()},
                            "swapped_kb": {name: job.swapped_kb() for name, job in self.jobs.items()},
                            "swapins": counters()["pswpin"] - swapped,
                            "overloaded": agent.overloaded if agent else None,
                        }
                    )
                    self.tell("run", **self.timeline[-1])


class _Agent:
    """The agent of a loaded policy: its verdicts on memory, and its scheduler's counters."""

    def __init__(self) -> None:
        self._follow, self._ask = Client(), Client()
        self._follow.call("follow")
        self.overloaded = False
        self.verdicts: list[tuple[float, bool]] = []

    def fileno(self) -> int:
        """Readable when it has something to say."""
        return self._follow.fileno()

    def read(self) -> bool:
        """Read its events; False when it has ended."""
        events = self._follow.available()
        for event in events or []:
            if event.get("kind") == "overload":
                self.overloaded = bool(event["verdict"])
                self.verdicts.append((time.monotonic(), self.overloaded))
        return events is not None

    def outcome(self, opened: float) -> dict[str, Any]:
        """Return its verdicts, in seconds since the gate opened, and its status."""
        verdicts = [(round(at - opened, 1), verdict) for at, verdict in self.verdicts]
        return {"verdicts": verdicts, "status": self._ask.call("status")}


class _Output:
    """A started program, and its output so far."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        self.process, self._stdout = process, process.stdout
        self.text = b""
        self.told = 0.0  # when it last printed something

    def fileno(self) -> int:
        """Readable when it has printed something, or ended."""
        return self._stdout.fileno()

    def read(self) -> bool:
        """Read its output; at its end, take the status and return False."""
        piece = os.read(self.fileno(), 4096)
        self.text += piece
        if piece:
            self.told = time.monotonic()
        else:
            self.process.wait()
        return bool(piece)

    def ended(self) -> float:
        """Return when it printed its last word."""
        if self.process.returncode != 0:
            raise SystemExit(f"a program ended with status {self.process.returncode}: {self.process.args!r}")
        return self.told


class _RunningJob(_Output):
    """A started job."""

    def wait_ready(self) -> None:
        """Wait until all its ranks stand at the gate."""
        while b"ready\n" not in self.text:
            if not self.read():
                raise SystemExit(f"a job ended with status {self.process.returncode} before it began")

    def progress(self) -> float:
        """Return the finished part of its sweeps."""
        lines = [line.split() for line in self.text.splitlines() if line.startswith(b"sweep ")]
        return round(int(lines[-1][1]) / int(lines[-1][2]), 3) if lines else 0.0

    def swapped_kb(self) -> int:
        """Return how much of its ranks' memory is on swap."""
        pids = [line.split()[1].decode() for line in self.text.splitlines() if line.startswith(b"rank ")]
        return sum(kb_of(f"/proc/{pid}/status", "VmSwap") or 0 for pid in pids)

    def outcome(self, opened: float) -> dict[str, Any]:
        """Return what the job measured of itself, and the seconds from the opening of the gate to its last word: the
        clock of a job that is held back begins late."""
        seconds = round(self.ended() - opened, 3)
        measured: dict[str, Any] = json.loads(self.text[self.text.index(b"{") :])
        return {**measured, "seconds": seconds, "own_seconds": measured["seconds"]}


@contextlib.contextmanager
def _started(argv: list[str]) -> Iterator[_RunningJob]:
    with child(argv, stdout=subprocess.PIPE) as process:
        yield _RunningJob(process)


@contextlib.contextmanager
def _compiling(files: int) -> Iterator[_Output]:
    """A compiler that is done with so many files when it says so."""
    one = f"cc -O2 -c {_SOURCES / 'local_task.c'} -o /dev/null"
    with child(["sh", "-ec", f"for i in $(seq {files}); do {one}; done; echo done"], stdout=subprocess.PIPE) as process:
        yield _Output(process)


def _ctl(*args: str) -> None:
    subprocess.run(["ctl", *args], check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)


def main(argv: list[str]) -> int:
    """Run one configuration; exit status 0 when it could be measured."""
    config, text, *options = argv
    result = Stage(config, Scenario.from_json(text), "--top" in options).run()
    _RESULT.parent.mkdir(exist_ok=True)
    _RESULT.write_text(json.dumps(result) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
