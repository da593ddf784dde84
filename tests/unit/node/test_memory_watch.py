# SPDX-License-Identifier: GPL-2.0-or-later
"""The checks of memory go on, whatever a check runs into."""

from __future__ import annotations

import asyncio
from unittest.mock import Mock

import pytest

from ctl.node import overload
from ctl.node.memory_watch import MemoryWatch


def test_an_error_does_not_end_the_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    errors: list[object] = []
    samples = Mock(side_effect=[OSError("no such cgroup"), overload.take_sample(), overload.take_sample()])
    monkeypatch.setattr(overload, "take_sample", samples)
    monkeypatch.setattr(overload, "CHECK_EVERY", 0.01)

    async def watched() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: errors.append(context["exception"]))
        watch = MemoryWatch(Mock(), Mock())
        loop.call_soon(watch.check)
        while samples.call_count < 3:
            await asyncio.sleep(0.001)
        watch.stop()

    asyncio.run(asyncio.wait_for(watched(), 20))
    assert [str(error) for error in errors] == ["no such cgroup"]
