#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""The log of events that a real agent writes: complete after `ctl unload` and after a kill, and not for everybody."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any, Final

from ctl.kernel.cgroups import PARENT
from ctl.monitor.event_log import FIGURES, FILE, read
from tests.kselftest import ktap
from tests.kselftest.command import agent, asked, ctl, refused
from tests.kselftest.node import room, spawned

_ROOM: Final = 240 << 20  # bytes
_SECRET: Final = "sleep 1000"


def _events(since: float) -> list[dict[str, Any]]:
    return read(since, time.time(), FILE).events


def _began(jid: str, since: float) -> bool:
    """Is it in the log? The agent looks at jobs once in an epoch: on a busy host, later than the test ends one."""
    return any((event.get("jid"), event.get("action")) == (jid, "begin") for event in _events(since))


def _writers() -> list[int]:
    """The processes that have the log open."""
    found = []
    for place in Path("/proc").glob("[0-9]*/fd/*"):
        try:
            found += [int(place.parts[2])] if place.readlink() == FILE else []
        except OSError:
            continue
    return found


def written() -> None:
    """A wait, its job's begin and end, a stop and figures are in the log, with users and without command lines."""
    since = time.time()
    with room(_ROOM) as available, agent("epoch_ms=500", policy="fit"):
        need = f"--memory={(available >> 20) * 7 // 10}M"
        with (
            spawned("ctl", "run", "--job", "first", need, "--", *_SECRET.split()),
            spawned("ctl", "run", "--job", "second", need, "--", *_SECRET.split()),
        ):
            ktap.until(lambda: len(asked("queue")["jobs"]) == 2, "both jobs are in the queue", 20)
            wait, runs = sorted(asked("queue")["jobs"], key=lambda job: job["state"] == "runs")
            ktap.until(lambda: any(row["jobs"] for row in _events(since) if row["kind"] == FIGURES), "figures", 30)
            ctl("cancel", runs["jid"])
            ktap.until(lambda: _began(wait["jid"], since), "the job that waited begins", 30)
        ktap.until(lambda: not (PARENT / wait["jid"]).exists(), "it is gone", 20)
        ctl("unload")
    events = _events(since)
    happened = [(event.get("jid"), event.get("action")) for event in events if event["kind"] in ("job", "queue")]
    ktap.note(f"{len(events)} events: {happened}")
    began, waited = (runs["jid"], "begin"), (wait["jid"], "wait")
    assert {began, waited} == set(happened[:2]), happened
    ktap.expect(happened[2:], [(runs["jid"], "end"), (wait["jid"], "begin"), (wait["jid"], "end")], "after the cancel")
    users = {event["user"] for event in events if event["kind"] in ("job", "queue") and event["action"] != "end"}
    ktap.expect(users, {"root"}, "users of jobs")
    ktap.expect("scheduler unloaded" in events[-1]["text"], True, "the last event is the end")
    ktap.expect(_SECRET in FILE.read_text(), False, "a command line in the log")
    ktap.expect(oct(FILE.stat().st_mode & 0o777), "0o640", "mode of the log")
    ktap.expect(_writers(), [], "writers after the agent's end")


def after_a_kill() -> None:
    """Events up to the kill are in the log, no writer stays, and the next agent goes on in the same file."""
    since = time.time()
    with agent() as pid:
        ctl("set", "mno=5")
        os.kill(pid, signal.SIGKILL)
        ktap.until(lambda: not Path(f"/proc/{pid}").exists(), "the agent is gone", 20)
        ktap.until(lambda: not _writers(), "the writer is gone", 20)
        ktap.expect([event["kind"] for event in _events(since)].count("knobs"), 1, "events of knobs")
    with agent():
        ctl("set", "mno=6")
        ctl("unload")
    ktap.expect([event["kind"] for event in _events(since)].count("knobs"), 2, "events of knobs with the next agent's")


def reported() -> None:
    """`ctl report` tells a job without an agent, to members of the group and to nobody else."""
    page, since = Path("/tmp/report.html"), time.time()  # the page is for nobody, too
    with agent(), spawned("ctl", "run", "--job", "told", "--", *_SECRET.split()):
        ktap.until(lambda: _began("told", since), "the job", 30)
    said = ctl("report", "--since", "10m", "-o", str(page))
    assert "jobs" in said and page.read_text().endswith("</html>\n"), said
    (now,) = asked("report", "--since", "10m")
    assert "told" in [job["jid"] for job in now["jobs"]], now
    page.unlink()
    told = [json.loads(line) for line in ctl("events", "--job", "told", "--since", "10m", "--json").splitlines()]
    ktap.expect({event["jid"] for event in told}, {"told"}, "whose events `ctl events --job` tells")
    ktap.expect(told[0]["action"], "begin", f"the first of {told}")
    refused("report", "--since", "yesterday", words=("'yesterday'", "12h"))
    said = ctl("report", "-o", "/nowhere/x.html", status=1)
    assert "/nowhere/x.html" in said and "-o" in said, said
    nobody, group = 65534, 4711
    os.chown(FILE, -1, group)  # as it is where there is a group cosched: the image has none
    for member, wanted in ((nobody, 2), (group, 0)):
        switch = ["setpriv", f"--reuid={nobody}", f"--regid={member}", "--clear-groups"]
        command = [*switch, "ctl", "report", "-o", "-"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=ktap.TIME_OUT_S)
        ktap.expect(done.returncode, wanted, f"status for group {member}: {done.stderr}")
        ktap.expect("member of group cosched" in done.stderr, wanted == 2, "the refusal")


if __name__ == "__main__":
    ktap.run(written, after_a_kill, reported)
