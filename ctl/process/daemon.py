# SPDX-License-Identifier: GPL-2.0-or-later
"""A node's agent as a process: composed, started in the background, watched, and told apart from a dead agent.

Two processes. The agent owns the scheduler; when the agent dies, in any way, the kernel closes the link and is back on
its own scheduler. The supervisor is the agent's parent and only waits. It undoes changes that the kernel leaves: frozen
jobs, memory limits, pinned maps; the first two also while the agent is stopped. If the supervisor is killed, the agent
ends in good order. If both are killed, the next `ctl load` repairs the node, and every command reports the end.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import json
import logging
import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ctl import policy, protocol
from ctl.contract import Measured
from ctl.errors import FAILED, USAGE, CoschedError
from ctl.kernel import knobs as encoding
from ctl.kernel.prompt import LONGEST, keep_small_pages, stay_in_memory
from ctl.policy import Value
from ctl.process import run_files as files
from ctl.process.notify import tell_systemd
from ctl.process.service import EMERGENCY, SYSRQ

__all__ = ["Options", "foreground", "start", "stop"]

_PR_SET_NAME, _PR_SET_PDEATHSIG = 15, 1  # linux/prctl.h
_STOP_TIMEOUT = 15.0  # seconds: sensors take one to come out, under emulation five
_log = logging.getLogger("ctl.process.daemon")

Ready = Callable[[dict[str, Any]], None]


@dataclass(frozen=True)
class Options:
    """The checked settings of a new agent."""

    policy: str
    knobs: dict[str, Value]


# commands use these


def start(options: Options) -> dict[str, Any]:
    """Start an agent in the background; returns when it is up. Raises the agent's CoschedError if it fails."""
    _refuse_second()
    ours, theirs = os.pipe()
    if os.fork() == 0:
        _detached(options, ours, theirs)
    os.close(theirs)
    with os.fdopen(ours, "rb") as pipe:
        line = pipe.readline()
    if not line:
        raise CoschedError(f"the agent died while it started: see {files.LOG}", FAILED)
    answer: dict[str, Any] = json.loads(line)
    if "error" in answer:
        raise CoschedError(answer["error"], answer["status"])
    return answer


def foreground(options: Options) -> int:
    """Be the supervisor of an agent until it ends, as a service of systemd; returns the exit status."""
    _refuse_second()
    with files.locked():
        return _supervise(options, _notify_systemd)


def stop() -> None:
    """End the agent, by force if it does not answer. Raises CoschedError if no agent runs, or if the agent does not
    end."""
    state = files.read(files.STATE)
    try:
        with protocol.Client() as agent:
            answer = agent.call("unload")
    except protocol.NotRunning:
        if files.left_behind() is None:
            raise
        _be_root("cleaning up after an agent")
        _repair()
        return
    except protocol.AgentGone:
        if state is None or not _alive(state["pid"]):
            raise
        _be_root("ending an agent that does not answer")
        _end_by_force(int(state["pid"]))
        answer = {"supervisor": 0}
    _await_end(int(answer["supervisor"]))


# starting


def _be_root(what: str) -> None:
    if os.geteuid() != 0:
        raise CoschedError(f"{what} needs root, this is user {os.geteuid()}: use sudo", USAGE)


def _refuse_second() -> None:
    _be_root("loading a scheduler")
    if files.lock_is_held():
        state = files.read(files.STATE) or {"pid": "?", "policy": "?"}
        raise CoschedError(
            f"policy {state['policy']} is loaded already (agent pid {state['pid']}): `ctl switch` changes the policy, "
            "`ctl unload` ends it",
            USAGE,
        )


def _detached(options: Options, ours: int, theirs: int) -> None:
    """The new background process: in a session of its own, without the terminal. Does not return."""
    status = FAILED
    try:
        os.close(ours)
        os.setsid()
        os.chdir("/")
        files.RUN_DIR.mkdir(mode=0o755, exist_ok=True)
        with open(os.devnull, "rb") as null, files.LOG.open("ab") as log:
            os.dup2(null.fileno(), 0)
            os.dup2(log.fileno(), 1)
            os.dup2(log.fileno(), 2)
        with os.fdopen(theirs, "wb", buffering=0) as pipe, files.locked():
            status = _supervise(options, lambda answer: _tell(pipe, answer))
    except CoschedError as error:
        with contextlib.suppress(OSError):
            os.write(theirs, protocol.encode_line({"error": str(error), "status": error.status}))
    finally:
        os._exit(status)


def _tell(pipe: Any, answer: dict[str, Any]) -> None:
    with contextlib.suppress(BrokenPipeError, ValueError):
        pipe.write(protocol.encode_line(answer))
        pipe.close()


def _notify_systemd(answer: dict[str, Any]) -> None:
    """Tell the service manager that the agent is ready, or a person why it is not."""
    if "error" in answer:
        print(f"Error: {answer['error']}", file=sys.stderr)
    else:
        tell_systemd(f"policy {answer['policy']}")


# the supervisor


def _supervise(options: Options, ready: Ready) -> int:
    """Run the agent in a child, wait for it, and clean up if it was killed. Returns the exit status."""
    supervisor = os.getpid()
    pid = os.fork()
    if pid == 0:
        os._exit(_agent_process(options, ready, supervisor))
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda received, _frame: _signal(pid, received))
    _name("cosched-super")
    status = _await_agent(pid)
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        why = f"the agent was killed by {signal.Signals(-code).name}"
        if -code == signal.SIGXCPU:
            why += f": it computed for {LONGEST} s without waiting, and it runs before all other tasks"
        repaired = _repair()
        files.write_exit({**files.ended(pid, options.policy, why), "killed": True})
        ready({"error": f"{why} while it started", "status": FAILED})
        files.append_log([why, *repaired])
        return FAILED
    return code


def _await_agent(pid: int) -> int:
    """Wait for the agent's end, and return its status. While the agent is stopped, thaw the jobs that it has frozen."""
    from ctl.kernel.cgroups import JobCgroups

    while True:
        _, status = os.waitpid(pid, os.WUNTRACED)
        if not os.WIFSTOPPED(status):
            return status
        name = signal.Signals(os.WSTOPSIG(status)).name
        files.append_log([f"the agent was stopped by {name}", *JobCgroups().repair()])


def _signal(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def _repair() -> list[str]:
    """Undo the changes of a killed agent; one sentence for each."""
    from ctl.kernel import ext_server
    from ctl.kernel.cgroups import JobCgroups
    from ctl.kernel.pins import remove_pins

    cgroups = JobCgroups()
    done = cgroups.repair() + ext_server.restore()
    cgroups.dissolve()
    done += [f"removed the pinned map {name}" for name in remove_pins()]
    for path in (protocol.SOCKET, files.METRICS, files.STATE):
        path.unlink(missing_ok=True)
    return done


# the agent


def _agent_process(options: Options, ready: Ready, supervisor: int) -> int:
    """The agent, from its first to its last moment; returns its exit status."""
    _name("cosched-agent")
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != supervisor:
        return FAILED
    files.start_log()
    try:
        why, ended = _run_agent(options, ready)
    except CoschedError as error:
        _log.error("%s", error)
        ready({"error": str(error), "status": error.status})
        return error.status
    except BaseException as error:  # report any exception to the waiting `ctl load`
        _log.exception("the agent failed")
        what = f"the agent failed ({type(error).__name__}: {error}): see {files.LOG}"
        ready({"error": what, "status": FAILED})
        files.write_exit({**files.ended(os.getpid(), options.policy, what), "killed": False})
        return FAILED
    finally:
        for path in (files.STATE, protocol.SOCKET, files.METRICS):
            path.unlink(missing_ok=True)
    record: files.Ended = {**files.ended(os.getpid(), options.policy, why), "killed": False}
    if ended is not None:
        record["exit"] = dict(ended)
        _log.info("kernel: kind %s, reason %s: %s", ended["kind_name"], ended["reason"], ended["msg"])
        if ended["dump"]:
            _log.info("the kernel's dump:\n%s", ended["dump"])
    files.write_exit(record)
    if ended is None or ended["kind_name"] == "unreg":
        return 0
    return EMERGENCY if ended["kind_name"] == SYSRQ else FAILED


def _run_agent(options: Options, ready: Ready) -> tuple[str, Any]:
    """Load the scheduler, serve, unload. Returns why it ended and the kernel's exit record."""
    from ctl.kernel import ext_server
    from ctl.kernel.cgroups import JobCgroups
    from ctl.kernel.pins import remove_pins
    from ctl.kernel.scheduler import Scheduler
    from ctl.process import recording

    began = time.monotonic()
    cgroups = JobCgroups()
    cgroups.prepare()
    for sentence in cgroups.repair() + ext_server.restore():
        _log.info("left by an agent before: %s", sentence)
    values = policy.defaults() | options.knobs
    keep = recording.start(tell=_log.warning)
    remove_pins()
    try:
        scheduler = Scheduler.load(
            object_path(),
            encoding.encode(values, options.policy),
            jobs_cgid=cgroups.cgid,
            jobs_level=cgroups.level,
            watchdog_ms=int(values["watchdog_ms"] or 0),
            partial=values["contract"] == "class",
        )
        with scheduler:
            enabled = time.monotonic() - began
            _log.info("policy %s enabled after %.3f s", options.policy, enabled)
            files.STATE.write_text(json.dumps({"pid": os.getpid(), "policy": options.policy, "since": time.time()}))

            # imported now, so that the scheduler does not wait for them
            import asyncio

            from ctl.jobs.history import History
            from ctl.jobs.queue import Queue
            from ctl.node.agent import Agent
            from ctl.node.metrics import Metrics
            from ctl.node.operations import measure_of, server_of
            from ctl.node.server import open_socket
            from ctl.process.figures import record
            from ctl.process.relay import join

            def up(answer: dict[str, Any]) -> None:
                files.LAST_EXIT.unlink(missing_ok=True)
                took = time.monotonic() - began
                ready({**answer, "pid": os.getpid(), "enabled_s": enabled, "ready_s": took})

            gc.collect()
            gc.freeze()  # the modules stay for good: no collection in the loop walks them again
            for refused in filter(None, (keep_small_pages(), stay_in_memory())):
                _log.warning("the agent: %s", refused)

            queue = Queue(os.uname().nodename, history=History(tell=_log.warning))

            async def serve() -> tuple[str, Any]:
                agent = Agent(scheduler, cgroups, options.policy, values, queue, join, keep)
                agent.tell("agent", f"policy {options.policy} loaded", action="begin", policy=options.policy)
                measure = measure_of(agent)
                server = server_of(agent), open_socket(protocol.SOCKET)
                metrics = Metrics(measure, _text), open_socket(files.METRICS)
                figures = asyncio.create_task(record(measure, keep, lambda: len(agent.jobs) > 0))
                why = await agent.run(server, metrics, up)
                figures.cancel()
                return why, agent.exit

            return asyncio.run(serve())
    finally:
        for sentence in cgroups.repair() + ext_server.restore():  # nothing, unless the agent failed early
            _log.error("left by the agent: %s", sentence)
        cgroups.dissolve()


def _text(measured: Measured) -> bytes:
    """The text of a scrape. Prometheus' library is imported at the first one: nobody else pays for it."""
    from ctl.monitor.exporter import render

    return render(measured)


def object_path() -> Path:
    """The compiled scheduler: $COSCHED_BPF_DIR/cosched.bpf.o."""
    return Path(os.environ.get("COSCHED_BPF_DIR", "/usr/lib/cosched")) / "cosched.bpf.o"


def _name(name: str) -> None:
    """Set the name of this process in ps and top, at most 15 characters."""
    ctypes.CDLL(None).prctl(_PR_SET_NAME, name.encode(), 0, 0, 0)


# ending


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _end_by_force(pid: int) -> None:
    """End an agent that does not answer: wake it and ask, then kill it; its supervisor cleans up."""
    _signal(pid, signal.SIGTERM)
    _signal(pid, signal.SIGCONT)
    deadline = time.monotonic() + _STOP_TIMEOUT / 2
    while _alive(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    _signal(pid, signal.SIGKILL)


def _await_end(supervisor: int) -> None:
    """Wait until agent and supervisor are gone: then everything is undone."""
    deadline = time.monotonic() + _STOP_TIMEOUT
    while files.lock_is_held():
        if time.monotonic() > deadline:
            raise CoschedError(
                f"the scheduler is unloaded, but the agent (supervisor pid {supervisor}) has not ended after "
                f"{_STOP_TIMEOUT:g} s: see {files.LOG}",
                FAILED,
            )
        time.sleep(0.02)
