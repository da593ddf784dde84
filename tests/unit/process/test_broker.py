# SPDX-License-Identifier: GPL-2.0-or-later
"""What the program around nats-server does with its own memory."""

from __future__ import annotations

import asyncio
import contextlib
import gc
from collections.abc import Callable
from typing import Any

import pytest

from ctl.process import broker


class _Ready:
    """A broker that is ready, and ends."""

    frozen = 0  # objects that no collection looks at, when it had told

    def __init__(self, *_: object) -> None: ...

    async def run(self, ready: Callable[[], None]) -> None:
        ready()
        _Ready.frozen = gc.get_freeze_count()


class _Files:
    def need(self, _name: str, _why: str) -> dict[str, Any]:
        return {}


def test_a_collection_does_not_read_a_ready_broker_back_from_swap(monkeypatch: pytest.MonkeyPatch) -> None:
    async def never(_files: object) -> None:
        await asyncio.sleep(3600)

    for name, instead in (("Broker", _Ready), ("keep_renewing", never), ("keep_small_pages", str),
                          ("_locked", contextlib.nullcontext), ("_directory", str), ("_kept", str)):
        monkeypatch.setattr(broker, name, instead)
    try:
        broker.serve(_Files())  # type: ignore[arg-type]
    finally:
        gc.unfreeze()
    assert _Ready.frozen > len(gc.get_objects()) // 2
