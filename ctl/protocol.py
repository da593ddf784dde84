# SPDX-License-Identifier: GPL-2.0-or-later
"""The protocol of `ctl` and the agent: one JSON object per line over a Unix stream socket.

The socket is /run/cosched/agent.sock, mode 0660, root and group `cosched`. Only root may set, switch, unload and trace;
ctl/node/authority.py. A client sends one request per line and
reads one answer per line; it may send the next request when it has the answer.

    request   {"v": 1, "op": "set", "knobs": {"mno": 4}}
    answer    {"v": 1, "ok": true, "result": {...}}
    refusal   {"v": 1, "ok": false, "error": "one sentence", "status": 2}

`v` is the version of this protocol. The version changes when an old client would misread a new agent, but not for new
operations and new keys. `status` is the exit status of `ctl`: 1 failed, 2 the request was wrong and changed nothing.

Operations (arguments; result):

    ping                                    {"pid"}
    status                                  the object that `ctl status --json` prints
    get                                     {knob: value}, `ctl get --json`
    set        knobs {name: value}          {knob: value}, all knobs, one atomic change in the kernel
    switch     policy, knobs (optional)     {"policy", "rule"}
    view                                    one `ctl.contract.View`
    jobs                                    [job]: see `ctl.node.jobs`
    tasks                                   [task]
    enter      jid; optional memory, now,   {"jid", "path"}: the process that asks is moved into the job's cgroup; with
               program, static, ranks,      can_wait perhaps {"jid", "wait": why}: not yet, ask again within 5 s
               can_wait, again
    place      count; optional memory, by   [node]: where a job should run, see `ctl place`
    queue                                   {"room", "turn_left_s", "turns", "jobs"}: the queue of policy fit
    history                                 [{"program", "user", "ranks", "runs", "most", "working", "estimate"}], bytes
    forget     program                      {"program", "runs"}: so many runs of this key are forgotten: one's own,
                                            and for root all
    cancel     jid; optional signal, grace  {"jid", "was": "here" or "waiting", "grace"}: the job gets the signal and is
                                            killed after grace s, of which "grace" are left; 0: at once;
                                            or it is forgotten
    hold       jid                          {"jid", "was", "by", "since", "already"}: the job is on hold on all its
                                            nodes, by this user, since this Unix time
    release    jid                          {"jid", "was", "state", "why"}: it is no longer
    unload                                  {}: sent when the scheduler is gone; the agent then ends
    trace                                   a stream of decision records; see below
    follow                                  a stream, one event per line: {"time", "kind", "text", ...}

A stream begins with an ordinary answer and goes on until either side closes. The objects of `follow` have no
envelope. `trace` sends binary records: 4 bytes length (little endian), then a `struct decision` of bpf/cosched.h as
the kernel wrote it, cut behind queue[nr]; gaps in its `seq`, which counts per CPU, are records lost on the way.

The agent drops records that a client does not read in time. In `follow` {"lost": n} stands in place of n dropped
events. A request longer than MAX_REQUEST bytes is refused and the connection closed. A user has so many connections and
streams at a time (ctl/node/server.py); one more is refused.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ctl.errors import CoschedError, brief

__all__ = [
    "GROUP",
    "LONGEST_KEY",
    "MAX_INTEGER",
    "MAX_REQUEST",
    "SOCKET",
    "STATE_DIR",
    "STREAMS",
    "VERSION",
    "AgentGone",
    "AgentSilent",
    "Client",
    "NotRunning",
    "decode_answer",
    "decode_request",
    "encode_answer",
    "encode_line",
    "encode_refusal",
    "encode_request",
    "parse",
]

VERSION = 1
GROUP = "cosched"  # its members may use the socket, as root may; what they may ask: ctl/node/authority.py
MAX_REQUEST = 64 * 1024  # bytes: all knobs at once take 1 KiB, a JID 64
MAX_INTEGER = 1 << 62  # of counts from a client or another node; larger ones do not fit into a history
LONGEST_KEY = 4096  # characters of the key of a job's history: Linux' PATH_MAX
SOCKET = Path(os.environ.get("COSCHED_RUN_DIR", "/run/cosched")) / "agent.sock"
STATE_DIR = Path(os.environ.get("COSCHED_STATE_DIR", "/var/lib/cosched"))
"""For what outlives an agent: the history of jobs, the log of events, the broker's tokens."""
STREAMS = frozenset({"trace", "follow"})

_TIMEOUT = 10.0  # seconds an agent may take to answer; under emulation listing all tasks takes one
_LONG = {"set": 120.0, "switch": 120.0}  # may start sensors, which compile for 5 s, emulated 40
_CHUNK = 1 << 18  # bytes asked of the socket at a time


class NotRunning(CoschedError):
    """No agent listens at the socket."""


class AgentGone(CoschedError):
    """The agent ended, or stopped answering, in the middle of a request."""


class AgentSilent(AgentGone):
    """The agent is there, and does not answer in time; a new connection is needed to ask again."""


def parse(data: bytes) -> Any:
    """The JSON value. Raises ValueError if it is none or has half a surrogate pair, RecursionError if too deep."""
    value = json.loads(data)
    json.dumps(value, ensure_ascii=False).encode()
    return value


def encode_line(value: object) -> bytes:
    """One JSON value as a line."""
    return json.dumps(value, separators=(",", ":")).encode() + b"\n"


def encode_request(op: str, **arguments: object) -> bytes:
    """A request as a line.

    >>> encode_request("set", knobs={"mno": 4})
    b'{"v":1,"op":"set","knobs":{"mno":4}}\\n'
    """
    return encode_line({"v": VERSION, "op": op, **arguments})


def decode_request(line: bytes) -> tuple[str, dict[str, Any]]:
    """The operation and its arguments. Raises CoschedError (status 2) with the fault of the line."""
    if len(line) > MAX_REQUEST:
        raise CoschedError(f"request of {len(line)} bytes is too long: at most {MAX_REQUEST} bytes to a line", 2)
    try:
        request = parse(line)
    except (ValueError, RecursionError) as error:
        raise CoschedError(f"request is not JSON ({error}): send one JSON object per line", 2) from None
    if not isinstance(request, dict):
        raise CoschedError(f"request is a JSON {type(request).__name__}: send one JSON object per line", 2)
    if request.get("v") != VERSION:
        raise CoschedError(
            f"protocol version {brief(request.get('v'))} is not known: this agent speaks version {VERSION}, "
            "use the ctl it was installed with",
            2,
        )
    op = request.get("op")
    if not isinstance(op, str):
        raise CoschedError('request names no operation: give "op" a string, as in {"v":1,"op":"status"}', 2)
    return op, {name: value for name, value in request.items() if name not in ("v", "op")}


def encode_answer(result: object) -> bytes:
    """The answer to a successful request."""
    return encode_line({"v": VERSION, "ok": True, "result": result})


def encode_refusal(error: CoschedError) -> bytes:
    """The answer to a failed request."""
    return encode_line({"v": VERSION, "ok": False, "error": str(error), "status": error.status})


def decode_answer(line: bytes) -> Any:
    """The result in an answer. Raises CoschedError with the agent's own sentence and status if it refused."""
    answer = json.loads(line)
    if not isinstance(answer, dict) or answer.get("v") != VERSION:
        version = answer.get("v") if isinstance(answer, dict) else None
        raise CoschedError(
            f"the agent speaks protocol version {version!r}, this ctl version {VERSION}: "
            "restart the agent (ctl unload, ctl load)",
            1,
        )
    if not answer.get("ok"):
        raise CoschedError(str(answer.get("error")), int(answer.get("status", 1)))
    return answer.get("result")


class Client:
    """A connection to the agent; a context manager.

    >>> with Client() as agent:  # doctest: +SKIP
    ...     agent.call("set", knobs={"mno": 4})["mno"]
    4
    """

    def __init__(self, path: Path = SOCKET, timeout: float | None = _TIMEOUT) -> None:
        """Connect. Raises NotRunning without an agent, CoschedError without permission."""
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(timeout)
        self._timeout = timeout
        try:
            self._socket.connect(os.fspath(path))
        except PermissionError:
            self._socket.close()
            raise CoschedError(
                f"no permission to talk to the agent at {path}: be root or a member of group cosched", 2
            ) from None
        except (FileNotFoundError, ConnectionRefusedError):
            self._socket.close()
            raise NotRunning("the agent is not running: start it with `ctl load --policy csm`", 2) from None
        except OSError as error:  # a full backlog of a stopped agent gives EAGAIN
            self._socket.close()
            raise self._silent(error) from None
        self._buffer = b""

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the connection; a stream ends with it."""
        self._socket.close()

    def finish(self) -> None:
        """End a stream from this side, also from a signal's handler: its iterator stops behind what has arrived."""
        with contextlib.suppress(OSError):  # the agent was faster
            self._socket.shutdown(socket.SHUT_RDWR)

    def call(self, op: str, **arguments: object) -> Any:
        """Ask for an operation and wait for its result; raises the agent's error, or AgentGone."""
        if op in _LONG:
            self.call("ping")  # a stopped agent is not awaited for so long
        self._socket.settimeout(_LONG.get(op, self._timeout))
        try:
            self._socket.sendall(encode_request(op, **arguments))
            line = self._line()
        except OSError as error:
            raise self._silent(error) from None
        if not line:
            raise AgentGone(f"the agent ended before it answered `{op}`: see `ctl status` for why", 1)
        return decode_answer(line)

    def stream(self, op: str, **arguments: object) -> Iterator[dict[str, Any]]:
        """Ask for a stream; yields its objects until the agent ends it. Raises before the first if refused."""
        self.call(op, **arguments)
        self._socket.settimeout(None)  # silence is no fault in a stream
        return self._objects()

    def stream_raw(self, op: str, **arguments: object) -> Iterator[bytes]:
        """Ask for a stream of binary records; yields each without its length."""
        self.call(op, **arguments)
        self._socket.settimeout(None)
        return self._records()

    def fileno(self) -> int:
        """Readable when there are objects of a stream, or its end."""
        return self._socket.fileno()

    def available(self) -> list[dict[str, Any]] | None:
        """The objects of a stream that are present now, without waiting; None when the stream has ended. After
        call("follow")."""
        self._socket.setblocking(False)  # with MSG_DONTWAIT alone Python waits for the time-out, and raises
        with contextlib.suppress(BlockingIOError):
            chunk = self._socket.recv(_CHUNK)
            if not chunk:
                return None
            self._buffer += chunk
        *lines, self._buffer = self._buffer.split(b"\n")
        return [json.loads(line) for line in lines]

    def _line(self) -> bytes:
        """A whole line without its end; empty if the agent closed before."""
        parts = [self._buffer]
        while b"\n" not in parts[-1]:
            chunk = self._socket.recv(_CHUNK)
            if not chunk:
                return b""
            parts.append(chunk)
        line, _, self._buffer = b"".join(parts).partition(b"\n")
        return line

    def _take(self, size: int) -> bytes | None:
        """So many bytes; None if the agent closed before."""
        while len(self._buffer) < size:
            chunk = self._socket.recv(_CHUNK)
            if not chunk:
                return None
            self._buffer += chunk
        taken, self._buffer = self._buffer[:size], self._buffer[size:]
        return taken

    def _objects(self) -> Iterator[dict[str, Any]]:
        while line := self._line():
            yield json.loads(line)

    def _records(self) -> Iterator[bytes]:
        while (head := self._take(4)) is not None:
            record = self._take(int.from_bytes(head, "little"))
            if record is None:
                return
            yield record

    def _silent(self, error: OSError) -> CoschedError:
        if isinstance(error, (TimeoutError, BlockingIOError)):
            return AgentSilent(
                f"the agent does not answer within {self._socket.gettimeout():g} s: it may be stopped (kill -CONT its "
                "pid), or end it with `ctl unload`",
                1,
            )
        return AgentGone(f"the connection to the agent broke ({error.strerror}): see `ctl status` for why", 1)
