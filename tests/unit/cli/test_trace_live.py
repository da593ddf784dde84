# SPDX-License-Identifier: GPL-2.0-or-later
"""`ctl trace --perfetto` beside an agent's real server: it ends with its count, or in good order when interrupted."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as proto

from ctl.kernel.trace import pack
from ctl.node import authority
from ctl.node.server import Server, Stream, open_socket
from tests.unit.monitor.decided import raw

ROOT = Path(__file__).resolve().parents[3]


class Node:
    """A server that streams a decision each millisecond, and one event, from a thread."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()))
        self._loop: asyncio.AbstractEventLoop | None = None

    def __enter__(self) -> Node:
        self._thread.start()
        assert self._ready.wait(10)
        return self

    def __exit__(self, *_: object) -> None:
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join()

    async def _serve(self) -> None:
        self._loop, self._end = asyncio.get_running_loop(), asyncio.Event()
        server = Server({}, {"trace": self._trace, "follow": self._follow})
        await server.start(open_socket(self._path))
        self._ready.set()
        await self._end.wait()
        await server.close()

    @contextlib.contextmanager
    def _trace(self, stream: Stream) -> Iterator[None]:
        async def feed() -> None:
            for number in range(1_000_000):
                stream.send(pack(raw(time.monotonic_ns(), "expire", 2 + number % 2, (4,), seq=number)))
                await asyncio.sleep(0.001)

        feeding = asyncio.get_running_loop().create_task(feed())
        try:
            yield
        finally:
            feeding.cancel()

    @contextlib.contextmanager
    def _follow(self, stream: Stream) -> Iterator[None]:
        text = {"kind": "stop", "action": "stop", "jid": "a", "text": "job a stopped", "time": time.time()}
        asyncio.get_running_loop().call_soon(stream.send_event, text)
        yield


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Node]:
    """A node whose decisions this user may trace, who need not be root here."""
    monkeypatch.setattr(authority, "ADMINISTER", frozenset())
    with Node(tmp_path / "agent.sock") as running:
        yield running


def started(tmp_path: Path, *options: str) -> subprocess.Popen[str]:
    """`ctl trace --perfetto` as a process."""
    environment = {**os.environ, "COSCHED_RUN_DIR": str(tmp_path), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "ctl", "trace", "--perfetto", str(tmp_path / "out"), *options]
    return subprocess.Popen(command, env=environment, text=True, stderr=subprocess.PIPE)


def read(path: Path) -> tuple[list[float], set[str]]:
    """Times of the decisions, in seconds, and the names of tracks and slices."""
    trace = proto.Trace.FromString(path.read_bytes())
    tracks = {packet.track_descriptor.uuid: packet.track_descriptor.name for packet in trace.packet}
    times = [one.timestamp / 1e9 for one in trace.packet if tracks.get(one.track_event.track_uuid) == "decisions"]
    return times, {*tracks.values(), *(packet.track_event.name for packet in trace.packet)}


def test_so_many_decisions(tmp_path: Path, node: Node) -> None:
    with started(tmp_path, "--count", "50") as process:
        said = process.communicate(timeout=300)[1]
    assert (process.returncode, said) == (0, f"50 decisions in {tmp_path}/out\n")
    times, names = read(tmp_path / "out")
    assert len(times) == 50 and times == sorted(times) and abs(times[0] - time.time()) < 60
    assert {os.uname().nodename, "CPU 0", "runs", "job a", "stopped"} <= names


def test_an_interruption_is_an_end_in_good_order(tmp_path: Path, node: Node) -> None:
    with started(tmp_path) as process:
        deadline = time.monotonic() + 60
        while not (tmp_path / "out").exists() or not (tmp_path / "out").stat().st_size:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=300)[1]
    assert process.returncode == 0, said
    assert said == f"{len(read(tmp_path / 'out')[0])} decisions in {tmp_path}/out\n"
    assert "stopped" in read(tmp_path / "out")[1], "the events come behind the last decision"


def test_the_offset_is_of_this_node(tmp_path: Path, node: Node) -> None:
    with started(tmp_path, "--offset", "elsewhere=1") as process:
        said = process.communicate(timeout=300)[1]
    assert process.returncode == 2 and "no recording is of node 'elsewhere'" in said
    assert not (tmp_path / "out").exists()
