# SPDX-License-Identifier: GPL-2.0-or-later
"""Whatever a client sends, the agent's server answers in one sentence or ends the connection, and serves the next."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from ctl import protocol
from ctl.errors import CoschedError
from ctl.node.authority import Peer
from ctl.node.server import Server, open_socket
from tests.unit.fuzz.cases import fuzzed, lines

VALID = [protocol.encode_request(op, knobs={"mno": 4}, jid="a")[:-1] for op in ("set", "enter", "status")]


@given(lines(*VALID))
@example(VALID[1].replace(b'"a"', rb'"\ud800"'))
@example(b'{"v":' + b"[" * 900 + b"]" * 900 + b"}")
@fuzzed
def test_requests(line: bytes) -> None:
    try:
        op, arguments = protocol.decode_request(line)
    except CoschedError as error:
        assert error.status == 2
        assert len(str(error)) < 500
    else:
        assert isinstance(op, str)
        assert isinstance(arguments, dict)
        json.dumps(arguments, ensure_ascii=False).encode()


async def _echo(_peer: Peer, arguments: dict[str, Any]) -> object:
    return len(arguments)


async def _answers(path: Path, sent: list[bytes]) -> list[bytes]:
    """What the server says to these bytes, and then to a request on another connection."""
    reader, writer = await asyncio.open_unix_connection(str(path))
    for data in sent:
        writer.write(data)
    writer.write_eof()
    said = (await reader.read()).splitlines()
    writer.close()
    reader, writer = await asyncio.open_unix_connection(str(path))
    writer.write(protocol.encode_request("status"))
    assert protocol.decode_answer(await reader.readline()) == 0
    writer.close()
    return said


def test_connections(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    loop = asyncio.new_event_loop()
    server = Server(dict.fromkeys(("set", "enter", "status"), _echo), {})

    @given(st.lists(lines(*VALID), max_size=4))
    @example([b"x" * 57_000] * 4)
    @fuzzed
    def anything(sent: list[bytes]) -> None:
        for line in loop.run_until_complete(asyncio.wait_for(_answers(path, sent), 20)):
            answer = json.loads(line)
            assert answer["ok"] or (len(answer["error"]) < 500 and "failed to answer" not in answer["error"])

    try:
        loop.run_until_complete(server.start(open_socket(path)))
        anything()
        assert len(server._connections) <= 1, "connections that have ended are kept"
    finally:
        loop.run_until_complete(server.close())
        loop.close()
