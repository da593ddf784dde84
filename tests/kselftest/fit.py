#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Policy `fit`: jobs whose memory does not fit wait, in turns, stopped or before they begin; local pages stay."""

from __future__ import annotations

import os
import re
import signal
import sys
import time
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, Final

from ctl.kernel.cgroups import PARENT
from ctl.kernel.sysinfo import meminfo, vmstat
from ctl.process.run_files import lock_is_held
from tests.kselftest import ktap
from tests.kselftest.command import agent, asked, ctl, refused
from tests.kselftest.node import ENDLESS, room, spawned

_ROOM: Final = 240 << 20  # bytes
_USES = "import time; m = bytearray({size})\nwhile True:\n for i in range(0, len(m), 4096): m[i] = 1\n time.sleep(0.05)"
_LOCAL_MB: Final = 24
_UNUSED: Final = 8 << 10  # KB of a Python program that it does not use again, and that may stay on swap
_IDLE: Final = 512  # pages that others read back in some seconds
_SILENT_S: Final = ktap.at_length(12, 0)  # longer than a command waits for an answer
_ONE_WAITS: Final = (("runs", "stopped"), ("stopped", "runs"))
_SWAPPED: Final = 256  # KB of a local program that the kernel may have taken before there were jobs


def _uses(size: int) -> tuple[str, ...]:
    """A program that uses so many bytes all the time."""
    return sys.executable, "-c", _USES.format(size=size)


def _job(jid: str, size: int, *options: str) -> tuple[str, ...]:
    return ("ctl", "run", "--job", jid, *options, "--", *_uses(size))


def _frozen(jid: str) -> bool:
    """Whether there is such a job, and it is stopped."""
    switch = PARENT / jid / "cgroup.freeze"
    return switch.exists() and switch.read_text() == "1\n"


def _limit() -> float:
    """What jobs together are held to, bytes."""
    return float((PARENT / "memory.high").read_text().replace("max", "inf"))


def _queue() -> dict[str, dict[str, Any]]:
    return {one["jid"]: one for one in asked("queue")["jobs"]}


def _swapped_kb(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmSwap"))


def the_later_waits() -> None:
    """Of two jobs that do not fit the later is stopped until the first has ended, and no local page is taken."""
    with room(_ROOM) as available, spawned(*_uses(_LOCAL_MB << 20)) as local, agent("epoch_ms=500", policy="fit"):
        with ExitStack() as stack:
            stack.enter_context(spawned(*_job("first", available * 45 // 100)))
            ktap.until(lambda: "first" in _queue(), "the first has come", 20)
            second = stack.enter_context(spawned(*_job("second", available * 11 // 10)))
            ktap.until(lambda: _frozen("second"), "the second is stopped", 60)
            now = _queue()
            ktap.note(str(now))
            ktap.expect((now["first"]["state"], now["second"]["state"]), ("runs", "stopped"), "states")
            assert "MiB" in now["second"]["why"] and now["second"]["why"].endswith("; after first"), now
            ktap.expect(_frozen("first"), False, "the first is stopped")
            told = ctl("status")
            assert "run: first" in told and "job second waits: needs" in told, told
            page = ctl("top", "--once", "--page", "queue")
            wanted = r" 1 first +runs .* 2 second +stopped .* needs \d+ MiB.*; after first"
            assert re.search(wanted, page, re.DOTALL), page
            ktap.expect(asked("place", "1"), [os.uname().nodename], "where a job should run")
            time.sleep(2)
            ktap.expect(_swapped_kb(local.pid) <= _SWAPPED, True, "the local program has its pages")
            ctl("cancel", "first")
            ktap.until(lambda: not _frozen("second"), "the second goes on", 10)
            ktap.expect(second.poll(), None, "the second's exit")
            time.sleep(2)
            ktap.note(f"{_swapped_kb(local.pid)} KB of the local program are on swap")
            ktap.expect(_swapped_kb(local.pid) <= _SWAPPED, True, "the local program has its pages still")
            _on_hold("second", available)
            _suspended("second", available)
        ktap.note(f"jobs are held to {_limit()} bytes, {available} were available at first")
        ktap.expect(_limit() < float("inf"), True, "the jobs are held to a limit")
    ktap.expect(PARENT.exists() and _limit() < float("inf"), False, "a limit is left")


def _on_hold(jid: str, available: int) -> None:
    """A job on hold keeps no room: its memory goes out, and a job that waits begins; one on hold does not begin."""
    ctl("hold", jid)
    ktap.until(lambda: _frozen(jid), "it is frozen", 10)
    swap = PARENT / jid / "memory.swap.current"
    ktap.until(lambda: int(swap.read_text()) > available // 2, "its memory goes out", 60)
    now = _queue()[jid]
    assert now["state"] == "on_hold" and now["why"].startswith("on hold by root since 2"), now
    assert f"job {jid} is on hold by root since 2" in ctl("status")
    with spawned("ctl", "run", "--job", "next", "--memory", f"{available * 8 // 10 >> 20}M", "--", "sleep", ENDLESS):
        ktap.until((PARENT / "next").exists, "the next begins beside it", 20)
        ctl("release", jid)
        ktap.until(lambda: _states() in ({jid: a, "next": b} for a, b in _ONE_WAITS), "one of them waits", 20, _queue)
        ctl("hold", jid)
        ctl("cancel", "--now", "next")
    ktap.until(lambda: not (PARENT / "next").exists(), "the next has ended")
    time.sleep(1)
    ktap.expect(_frozen(jid), True, "on hold still, with all room free")
    ctl("release", jid)
    ktap.until(lambda: not _frozen(jid), "it goes on", 20)


def _suspended(jid: str, available: int) -> None:
    """A job that its owner stops keeps its memory until another one wants it, and has its turn when he continues it."""
    pids = [int(pid) for pid in (PARENT / jid / "cgroup.procs").read_text().split()]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    ktap.until(lambda: _states() == {jid: "suspended"}, "it is seen to be stopped", 20, _queue)
    assert "stopped (SIGSTOP or a debugger)" in ctl("jobs") and not _frozen(jid)
    with spawned("ctl", "run", "--job", "next", "--memory", f"{available * 8 // 10 >> 20}M", "--", "sleep", ENDLESS):
        ktap.until(lambda: _states() == {jid: "stopped", "next": "runs"}, "it gives way", 30, _queue)
        assert "its processes are stopped" in _queue()[jid]["why"], _queue()
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
        ktap.until(lambda: _states() in ({jid: a, "next": b} for a, b in _ONE_WAITS), "one waits", 20, _queue)
        ktap.until(lambda: "its processes are stopped" not in _queue()[jid]["why"], "it waits for a turn", 20, _queue)
        ctl("cancel", "--now", "next")
    ktap.until(lambda: not _frozen(jid), "it goes on", 20)


def _needs(jid: str, size: int) -> bool:
    """Whether there is such a job, and it needs more than this."""
    return int(_queue().get(jid, {}).get("need", 0)) > size


def _sight(pid: int) -> dict[str, object]:
    """What tells why no job was stopped: the queue, the limit, the node's memory, and a local program's."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {"queue": asked("queue"), "limit": _limit(), "node": meminfo(), "program": lines}


def a_local_program_comes() -> None:
    """When a local program needs the memory, the newest job goes out of its way, and the program has its pages."""
    with room(_ROOM) as available, agent("epoch_ms=500", policy="fit"), ExitStack() as stack:
        for jid in ("old", "new"):
            stack.enter_context(spawned(*_job(jid, available * 30 // 100)))
            ktap.until(partial(_needs, jid, available // 4), f"{jid} has its memory", 20)
        ktap.expect([_frozen(jid) for jid in ("old", "new")], [False, False], "stopped jobs")
        # more than what is over by far: idle pages of other programs go to swap, and leave the jobs some room
        local = stack.enter_context(spawned(*_uses(available * 60 // 100)))
        began = time.monotonic()
        ktap.until(lambda: _frozen("new"), "the newest job is stopped", 20, lambda: _sight(local.pid))
        took = time.monotonic() - began
        ktap.note(f"stopped {took:.2f} s after the program began; {_swapped_kb(local.pid)} KB of it are on swap")
        ktap.until(lambda: _swapped_kb(local.pid) <= _UNUSED, "the program has the pages that it uses", 30)
        ktap.expect(_frozen("old"), False, "the older job is stopped")


def turns() -> None:
    """What waits goes first in the next turn."""
    with room(_ROOM) as available, agent("epoch_ms=500", "turn_s=3", policy="fit"):
        size = available * 60 // 100
        with spawned(*_job("a", 1 << 20, "--memory", f"{size >> 20}M")) as one:
            ktap.until(lambda: "a" in _queue(), "a is here", 20)
            with spawned("ctl", "run", "--job", "b", "--memory", f"{size >> 20}M", "--", "sleep", ENDLESS) as other:
                for turn, waits in ktap.cases((("a", "b"), ("b", "a"), ("a", "b")), 2):
                    # a busy host exchanges memory slowly, and turns of 3 s become turns of 96 s
                    ktap.until(partial(_have, turn, waits), f"{turn} runs, {waits} waits", 60)
                ktap.expect((one.poll(), other.poll()), (None, None), "ends")


def _states() -> dict[str, str]:
    return {jid: one["state"] for jid, one in _queue().items()}


def _have(turn: str, waits: str) -> bool:
    """Whether it is this job's turn, and the other waits: stopped, if it has begun."""
    return _states() == {turn: "runs", waits: "stopped" if (PARENT / waits).exists() else "waits"}


def waits_before_it_begins() -> None:
    """A job that says what it needs waits before it begins, can be cancelled, begins in its turn or with --now."""
    with room(_ROOM) as available, agent("epoch_ms=500", "turn_s=0", policy="fit") as pid:
        most = f"{available * 70 // 100 >> 20}M"
        with spawned("ctl", "run", "--job", "a", "--memory", most, "--", "sleep", ENDLESS):
            ktap.until(lambda: "a" in _queue(), "a is here", 20)
            mark = Path("/run/kselftest-began")
            late = ("ctl", "run", "--job", "late", "--memory", most, "--", "touch", str(mark))
            with spawned(*late) as first:
                ktap.until(lambda: _states().get("late") == "waits", "it waits", 20)
                time.sleep(1)
                ktap.expect((mark.exists(), (PARENT / "late").exists()), (False, False), "it has begun")
                ctl("cancel", "late")
                ktap.expect(first.wait(ktap.TIME_OUT_S), 1, "status of a cancelled command")
            ctl("run", "--job", "urgent", "--memory", most, "--now", "--", "true")
            with spawned(*late) as second:
                ktap.until(lambda: _states().get("late") == "waits", "it waits", 20)
                os.kill(pid, signal.SIGSTOP)
                time.sleep(_SILENT_S)
                os.kill(pid, signal.SIGCONT)
                ktap.until(lambda: _states().get("late") == "waits", "it waits on when the agent was silent", 20)
                ctl("cancel", "a")
                ktap.expect(second.wait(ktap.TIME_OUT_S), 0, "status of a command that had its turn")
            assert mark.exists()
            mark.unlink()
        ctl("set", "share_mem=0.9")
        ktap.expect(asked("queue")["room"] > available, True, "the owner leaves more to jobs than local tasks do")
        refused("place", "2", words=("2 nodes are wanted, and 1 tell",))
        refused("run", "--job", "x", "--memory", "9000G", "--", "true", words=("9216000 MiB", "in all", "--memory"))
        refused("run", "--job", "x", "--memory", "0", "--", "true", words=("'0'", "48M"))
        refused("cancel", "nobody", words=("no job 'nobody'", "ctl queue"))
        refused("set", "memory=on", words=("Set_Memory and fit", "fit=off"))
        ctl("switch", "csm")
        refused("queue", words=("csm has no queue", "ctl switch fit"))


def what_jobs_needed() -> None:
    """Two ranks had so much; the next time four ranks need twice as much before they begin."""
    script = Path("/run/kselftest-uses.py")
    script.write_text("import time\nm = bytearray(24 << 20)\n"
                      f"end = time.monotonic() + {ktap.at_length(8, 4)}\n"
                      "while time.monotonic() < end:\n for i in range(0, len(m), 4096): m[i] = 1\n time.sleep(0.1)\n")
    run = ("mpiexec.mpich", "-n", "{ranks}", sys.executable, str(script))
    try:
        with room(_ROOM), agent("epoch_ms=500", "turn_s=0", policy="fit"):
            ctl("run", "--job", "two", "--", *(word.format(ranks=2) for word in run))
            ktap.until(lambda: bool(asked("history", str(script))), "its end is noted", 20)
            (row,) = asked("history", str(script))
            ktap.note(str(row))
            ktap.expect((row["user"], row["ranks"], row["runs"]), ("root", 2, 1), "user, ranks, runs")
            assert row["most"] >= row["working"] >= 48 << 20, row
            with spawned("ctl", "run", "--job", "four", "--", *(word.format(ranks=4) for word in run)):
                ktap.until(lambda: "four" in _queue(), "four ranks are here, or wait", 20)
                ktap.expect(abs(_queue()["four"]["estimated"] - 2 * row["most"]) <= 4096, True, "twice as much")
            assert "working set MiB" in ctl("history"), ctl("history")
            ctl("run", "--estimate-as", "uses", "--", *(word.format(ranks=1) for word in run))
            ktap.until(lambda: bool(asked("history", "uses")), "its end is noted by the name it was given", 20)
            ctl("history", "forget", str(script))
            ktap.expect(asked("history", str(script)), [], "of a key that was forgotten")
    finally:
        script.unlink()


def larger_than_the_limit() -> None:
    """A job larger than what jobs are held to runs, if no other does; what it does not use stays on swap."""
    with room(_ROOM) as available, agent("epoch_ms=500", policy="fit"):
        size = available * 13 // 10
        idle = f"m = bytearray({size})\nfor i in range(0, len(m), 4096): m[i] = 1\nimport time; time.sleep(1e6)"
        with spawned("ctl", "run", "--job", "large", "--", sys.executable, "-c", idle):
            ktap.until(lambda: _needs("large", size), "it has its memory", 60)
            # a job that was stopped is read back once; pages that push out each other come back at each look
            ktap.until(lambda: _back(5) <= _IDLE, "pages that it does not use stay on swap")
            ktap.expect(_frozen("large"), False, "it is stopped")
            ktap.note(f"jobs are held to {_limit() / size:.2f} of its size")


def _back(seconds: float) -> int:
    """Pages that come back from swap in this time."""
    before = vmstat()["pswpin"]
    time.sleep(seconds)
    back = vmstat()["pswpin"] - before
    ktap.note(f"{back} pages came back in {seconds:g} s")
    return back


def killed() -> None:
    """kill -9 of the agent: stopped jobs go on, without a limit."""
    with (
        room(_ROOM) as available,
        agent("epoch_ms=500", policy="fit") as pid,
        spawned(*_job("a", available * 60 // 100)),
        spawned(*_job("b", available * 60 // 100)),
    ):
        ktap.until(lambda: _frozen("a") or _frozen("b"), "one is stopped", 60)
        ktap.note(f"jobs are held to {_limit()} bytes, {available} were available at first")
        ktap.expect(_limit() < float("inf"), True, "the jobs are held to a limit")
        os.kill(pid, signal.SIGKILL)
        ktap.until(lambda: not _frozen("a") and not _frozen("b"), "both go on", 10)
        ktap.until(lambda: _limit() == float("inf"), "the limit is gone", 10)


def declared() -> None:
    """What a job's owner declared is known to the next agent: after kill -9, after `ctl unload`; and to fit again."""
    with agent(policy="fit") as pid, spawned("ctl", "run", "--job", "a", "--memory", "100M", "--", "sleep", ENDLESS):
        ktap.until(lambda: _queue().get("a", {}).get("declared") == 100 << 20, "it has begun", 20)
        os.kill(pid, signal.SIGKILL)
        ktap.until(lambda: not lock_is_held(), "agent and supervisor are gone", 10)
        for how in ("killed", "unloaded"):
            with agent(policy="fit"):
                found = _queue()["a"]
                ktap.expect((found["declared"], found["need"]), (100 << 20, 100 << 20), f"after the agent was {how}")
                ctl("switch", "csm")
                ctl("switch", "fit")
                ktap.expect(_queue()["a"]["declared"], 100 << 20, "after another policy")


if __name__ == "__main__":
    ktap.run(
        the_later_waits,
        a_local_program_comes,
        turns,
        waits_before_it_begins,
        what_jobs_needed,
        larger_than_the_limit,
        killed,
        declared,
    )
