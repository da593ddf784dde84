# SPDX-License-Identifier: GPL-2.0-or-later
"""A job that waits for memory, and an agent that is silent for a while: a real socket, and an agent that is none."""

from __future__ import annotations

import socket
import threading
from pathlib import Path

import pytest

from ctl import protocol
from ctl.cli.run import wait_to_begin

WISH = {"jid": "sim", "memory": 1 << 20}


def serve(path: Path, *connections: list[dict[str, str] | None]) -> threading.Thread:
    """A listener that answers what is asked on each connection; None: it is silent, until the other end closes."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen()

    def answer() -> None:
        with listener:
            for answers in connections:
                peer, _ = listener.accept()
                with peer, peer.makefile("rb") as asked:
                    for one in answers:
                        op, arguments = protocol.decode_request(asked.readline())
                        assert (op, arguments) == ("enter", WISH | {"again": True})
                        if one is not None:
                            peer.sendall(protocol.encode_answer(one))
                    asked.read()

    thread = threading.Thread(target=answer)
    thread.start()
    return thread


def test_a_silent_agent_is_asked_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    thread = serve(tmp_path / "s", [{"wait": "after a"}, {"wait": "after a"}, None], [{"wait": "after b"}, {}])
    wait_to_begin(WISH, "after a", lambda: protocol.Client(tmp_path / "s", timeout=1))
    thread.join()
    first, silent, then = capsys.readouterr().err.splitlines()
    assert (first, then) == ("job sim waits: after a", "job sim waits: after b")
    assert silent.startswith("job sim waits: the agent does not answer within 1 s")


def test_an_agent_that_ends_is_told(tmp_path: Path) -> None:
    with pytest.raises(protocol.NotRunning):
        wait_to_begin(WISH, "after a", lambda: protocol.Client(tmp_path / "s"))


def test_who_need_not_wait_asks_nobody() -> None:
    wait_to_begin(WISH, "", lambda: pytest.fail("it asks"))
