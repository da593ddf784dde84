# SPDX-License-Identifier: GPL-2.0-or-later
"""The lines that ctl and the agent exchange, and the sentences of refusals."""

from __future__ import annotations

import json
import socket
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctl import protocol
from ctl.errors import CoschedError


def refusal(line: bytes) -> CoschedError:
    with pytest.raises(CoschedError) as caught:
        protocol.decode_request(line)
    return caught.value


def test_a_request_survives_the_way() -> None:
    line = protocol.encode_request("set", knobs={"mno": 4, "overload": "auto"})
    assert line.endswith(b"\n")
    assert protocol.decode_request(line) == ("set", {"knobs": {"mno": 4, "overload": "auto"}})


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b"\n", "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b"{", "not JSON"),
        (b"[" * 60_000, "not JSON"),
        (b"3\n", "JSON int"),
        (b'{"op":"status"}', "version None"),
        (b'{"v":2,"op":"status"}', "version 2"),
        (b'{"v":1}', "names no operation"),
        (b'{"v":1,"op":7}', "names no operation"),
        (b'{"v":1,"op":"' + b"a" * protocol.MAX_REQUEST + b'"}', "too long"),
    ],
)
def test_malformed_requests(line: bytes, words: str) -> None:
    error = refusal(line)
    assert words in str(error)
    assert error.status == 2
    assert "\n" not in str(error)


@given(st.binary(max_size=400))
def test_no_line_raises_anything_else(line: bytes) -> None:
    try:
        op, arguments = protocol.decode_request(line)
    except CoschedError:
        return
    assert isinstance(op, str) and isinstance(arguments, dict)


def test_the_agents_sentence_and_status_come_back() -> None:
    line = protocol.encode_refusal(CoschedError("mno 99 is out of range", 2))
    with pytest.raises(CoschedError, match="mno 99") as caught:
        protocol.decode_answer(line)
    assert caught.value.status == 2
    assert protocol.decode_answer(protocol.encode_answer({"a": 1})) == {"a": 1}


def test_an_answer_of_another_version() -> None:
    with pytest.raises(CoschedError, match="version 9"):
        protocol.decode_answer(b'{"v":9,"ok":true,"result":1}')


def test_nobody_listens(tmp_path: Path) -> None:
    with pytest.raises(protocol.NotRunning) as caught:
        protocol.Client(tmp_path / "agent.sock")
    assert caught.value.status == 2
    assert "ctl load" in str(caught.value)
    with socket.socket(socket.AF_UNIX) as dead:  # bound, but its owner is gone
        dead.bind(str(tmp_path / "dead.sock"))
    with pytest.raises(protocol.NotRunning):
        protocol.Client(tmp_path / "dead.sock")


def serve(path: Path, answer: bytes, pause: float = 0) -> threading.Thread:
    """A listener that reads one line, sends these bytes, in small pieces where there is a pause, and closes."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen()

    def once() -> None:
        peer, _ = listener.accept()
        with peer, listener:
            peer.makefile("rb").readline()
            for at in range(0, len(answer), 5 if pause else len(answer)):
                peer.sendall(answer[at : at + 5] if pause else answer)
                time.sleep(pause)

    thread = threading.Thread(target=once)
    thread.start()
    return thread


def test_agent_ends_before_it_answers(tmp_path: Path) -> None:
    thread = serve(tmp_path / "s", b'{"v":1,"ok":tr')
    with protocol.Client(tmp_path / "s") as client, pytest.raises(protocol.AgentGone, match="before it answered"):
        client.call("status")
    thread.join()


def test_agent_that_is_stopped(tmp_path: Path) -> None:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(tmp_path / "s"))
    listener.listen()
    with (
        listener,
        protocol.Client(tmp_path / "s", timeout=0.1) as client,
        pytest.raises(protocol.AgentGone, match="does not answer"),
    ):
        client.call("status")


def test_streams(tmp_path: Path) -> None:
    objects = [{"cpu": 0}, {"lost": 3}]
    answer = protocol.encode_answer({}) + b"".join(protocol.encode_line(o) for o in objects)
    thread = serve(tmp_path / "s", answer)
    with protocol.Client(tmp_path / "s") as client:
        assert list(client.stream("follow")) == objects
    thread.join()


def test_what_is_available_is_not_waited_for(tmp_path: Path) -> None:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(tmp_path / "s"))
    listener.listen()
    with listener, protocol.Client(tmp_path / "s", timeout=0.1) as client:
        peer, _ = listener.accept()
        with peer:
            peer.sendall(protocol.encode_answer({}))
            client.call("follow")
            assert peer.recv(100).endswith(b"\n")
            assert client.available() == []
            peer.sendall(protocol.encode_line({"cpu": 0}) + b'{"half"')
            assert client.available() == [{"cpu": 0}]
        assert client.available() is None


def test_raw_streams_end_at_a_whole_record(tmp_path: Path) -> None:
    records = b"".join(len(r).to_bytes(4, "little") + r for r in (b"abc", b"", b"\n" * 10))
    thread = serve(tmp_path / "s", protocol.encode_answer({}) + records + b"\x09\x00\x00\x00half")
    with protocol.Client(tmp_path / "s") as client:
        assert list(client.stream_raw("trace")) == [b"abc", b"", b"\n" * 10]
    thread.join()


def test_the_documented_examples_are_true() -> None:
    text = protocol.__doc__ or ""
    for word in ("request", "answer", "refusal"):
        line = next(line for line in text.splitlines() if line.strip().startswith(word + "   "))
        assert json.loads(line.split(None, 1)[1].replace("...", ""))["v"] == protocol.VERSION


def test_pieces_are_put_together(tmp_path: Path) -> None:
    record = bytes(range(30))
    thread = serve(tmp_path / "s", protocol.encode_answer({}) + (30).to_bytes(4, "little") + record, pause=0.01)
    with protocol.Client(tmp_path / "s") as client:
        assert list(client.stream_raw("trace")) == [record]
    thread.join()
