#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Figures for Prometheus: over HTTP from the agent's socket and from loopback, and the same as `ctl` prints."""

from __future__ import annotations

import contextlib
import http.client
import os
import socket
import stat
import subprocess
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from ctl import protocol
from ctl.kernel.layout import STATS
from ctl.process.run_files import METRICS
from tests.kselftest import ktap
from tests.kselftest.command import agent, asked, ctl, refused
from tests.kselftest.node import spawned

_PORT = 9753
_NOBODY = 65534
_SEEN = 0.2
"""The least share of the CPUs that jobs have in an epoch in which hogs of theirs ran from begin to end."""
Samples = dict[tuple[str, ...], float]


class _OverUnix(http.client.HTTPConnection):
    """HTTP over the agent's socket."""

    def connect(self) -> None:
        """Connect to the socket."""
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(ktap.TIME_OUT_S)
        self.sock.connect(str(METRICS))


def _text(connection: http.client.HTTPConnection | None = None) -> str:
    """The text of a scrape."""
    connection = connection or _OverUnix("localhost")
    with contextlib.closing(connection):
        connection.request("GET", "/metrics")
        answer = connection.getresponse()
        text = answer.read().decode()
        ktap.expect(answer.status, 200, f"status of the answer {text[:200]!r}")
    return text


def _scraped(text: str | None = None) -> Samples:
    """Samples by name and the values of their labels, through Prometheus' own parser."""
    families = text_string_to_metric_families(text or _text())
    return {(one.name, *one.labels.values()): one.value for family in families for one in family.samples}


def _over_tcp() -> http.client.HTTPConnection:
    return http.client.HTTPConnection("127.0.0.1", _PORT, timeout=ktap.TIME_OUT_S)


def _as_nobody(code: str) -> subprocess.CompletedProcess[str]:
    """Run Python as a user in no group."""
    switch = ("setpriv", f"--reuid={_NOBODY}", f"--regid={_NOBODY}", "--clear-groups")
    command = [*switch, "python3", "-c", code]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=ktap.TIME_OUT_S)


def _same(found: Samples, status: dict[str, Any]) -> None:
    """Figures that only settings change."""
    contract = status["contract"]
    for name, wanted in {
        "share_set_ratio": contract["quantum"]["set_share"],
        "local_user_present": contract["local_user"]["present"],
        "speed_weight_ratio": contract["weight"],
        "jobs_memory_pool_bytes": contract["memory"]["pool"],
        "overloaded": status["overload"]["effective"],
        "memory_limit_bytes": status["overload"]["m"],
        "start_time_seconds": status["agent"]["since"],
        "trace_readers": status["trace"]["readers"],
    }.items():
        ktap.expect(found["cosched_" + name,], float(wanted), name)
    ktap.expect(found["cosched_scheduler_info", contract["kind"], status["policy"], status["rule"]], 1.0, "the policy")
    ktap.expect(found["cosched_quantum_seconds", "parallel"], contract["quantum"]["parallel_ms"] / 1000, "the quantum")


def _hogs_had_an_epoch() -> bool:
    """The first epoch may have begun before the hogs did."""
    share: float | None = asked("status")["contract"]["quantum"]["achieved_share"]
    return share is not None and share > _SEEN


def figures_agree() -> None:
    """A scrape has the figures of ctl status and ctl jobs, and none of what jobs run."""
    with (
        agent("quantum_ms=5", "local_user=on", policy="ccs", sensors=True),
        spawned("taskset", "1", "ctl", "run", "--job", "h", "--", ktap.program("hog"), "3"),  # CPU 1 is for the test
    ):
        ktap.until(lambda: [job["tasks"] for job in asked("jobs")] == [3], "the job runs")
        ktap.until(_hogs_had_an_epoch, "an epoch of the hogs is over")
        before, job_before = asked("status"), asked("jobs")[0]
        text = _text()
        found = _scraped(text)
        after, job_after = asked("status"), asked("jobs")[0]
        _same(found, after)
        for counter in STATS:
            got = sum(value for key, value in found.items() if key[0] == f"cosched_{counter.name}_total")
            low, high = before["counters"][counter.name], after["counters"][counter.name]
            assert low <= got <= high, f"{counter.name} is {got}, ctl status says {low} before and {high} after"
        for what in ("threads_unobserved", "sockets_unobserved", "socket_events_missed"):
            assert found["cosched_sensors_lost_total", what] <= after["counters"][what], what
        share = found["cosched_share_achieved_ratio",]
        assert _SEEN < share <= 1, f"three hogs had {share} of the CPU time"
        ktap.expect(found["cosched_job_tasks", "h"], 3.0, "tasks of the job")
        for name, key in {"cpu_seconds_total": "cpu_s", "overtakes_given_total": "overtakes_given",
                          "major_faults_total": "majflt", "swapped_in_pages_total": "swapins"}.items():
            got = found["cosched_job_" + name, "h"]
            assert job_before[key] <= got <= job_after[key], f"{name}: {job_before[key]}, {got}, {job_after[key]}"
        ktap.expect(found["cosched_job_start_time_seconds", "h"], job_after["since"], "the job's begin")
        ktap.expect(found["cosched_job_state", "h", job_after["state"]], 1.0, "the job's state")
        cpus = sorted(key[1] for key in found if key[0] == "cosched_queued_tasks")
        ktap.expect(cpus, [str(number) for number in range(os.cpu_count() or 0)], "CPUs with a queue")
        for word in ("hog", "root"):
            assert word not in text, f"{word!r} in a scrape"
    ktap.expect(METRICS.exists(), False, "the socket after unload")


def who_may_read() -> None:
    """The socket is for root and the agent's group; with metrics_port loopback is for everybody."""
    with agent():
        ktap.expect(stat.S_IMODE(METRICS.stat().st_mode), 0o660, "mode of the socket")
        ktap.expect(METRICS.stat().st_gid, protocol.SOCKET.stat().st_gid, "its group")
        connect = f"import socket as s; s.socket(s.AF_UNIX).connect({str(METRICS)!r})"
        assert "PermissionError" in _as_nobody(connect).stderr, "a user outside the group may read"
        ktap.expect(asked("get", "metrics_port"), {"metrics_port": 0}, "the knob")
        ctl("set", f"metrics_port={_PORT}")
        fetch = f"import urllib.request as u; print(u.urlopen('http://127.0.0.1:{_PORT}/metrics').read().decode())"
        done = _as_nobody(fetch)
        ktap.expect(_scraped(done.stdout).get(("cosched_trace_readers",)), 0.0, f"what nobody reads {done.stderr}")


def a_port_by_knob() -> None:
    """The port comes, moves and goes with its knob; one that is taken is refused and changes nothing."""
    with agent(f"metrics_port={_PORT}"):
        ktap.expect(_scraped(_text(_over_tcp()))["cosched_trace_readers",], 0.0, "readers")
        with socket.create_server(("127.0.0.1", _PORT + 1)):
            refused("set", f"metrics_port={_PORT + 1}", "mno=5", words=("metrics_port", str(_PORT + 1), "is taken"))
            ktap.expect((asked("get")["metrics_port"], asked("get")["mno"]), (_PORT, 2), "knobs after the refusal")
        _text(_over_tcp())
        ctl("set", "metrics_port=0")
        with contextlib.suppress(ConnectionRefusedError):
            _text(_over_tcp())
            raise AssertionError("the port is still open")
        ctl("set", f"metrics_port={_PORT}")
        _text(_over_tcp())
    with contextlib.suppress(ConnectionRefusedError):
        _text(_over_tcp())
        raise AssertionError("the port is still open after unload")
    with socket.create_server(("127.0.0.1", _PORT)):
        text = ctl("load", "--policy", "rr", f"--set=metrics_port={_PORT}", "--set=sensors=off", status=2)
        assert "is taken" in text, text
    ktap.expect((METRICS.exists(), asked("status")["loaded"]), (False, False), "left by a load that was refused")


if __name__ == "__main__":
    ktap.run(figures_agree, who_may_read, a_port_by_knob)
