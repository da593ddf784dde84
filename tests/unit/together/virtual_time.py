# SPDX-License-Identifier: GPL-2.0-or-later
"""An event loop in virtual time for several nodes' agents in one process, which may be stopped and killed.

What an agent schedules carries a context, and the context knows the agent's process (`current`). So the loop holds back
what belongs to a stopped process until it is continued, and what belongs to a dead one for ever, as the kernel does.
"""

from __future__ import annotations

import asyncio
import contextvars
import heapq
import itertools
import random
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, Final

__all__ = ["Livelock", "Loop", "Process", "Thread", "current"]

_ROUNDS: Final = 10  # of cancelling what is left at the end: what catches one may wait once more
_MOST_STEPS: Final = 20_000  # of the loop, in a second of virtual time: some hundred times what agents need


class Livelock(AssertionError):
    """The loop turns and turns, and time does not pass."""


class Process:
    """An agent as the kernel sees it. `wall` is its node's clock, Unix seconds."""

    def __init__(self, loop: Loop, wall: Callable[[], float], owner: object) -> None:
        self.loop, self.wall, self.owner = loop, wall, owner
        self.alive, self.stopped = True, False
        self.spent = 0.0  # seconds that its thread has worked on what it does now
        self.parked: list[asyncio.Handle] = []
        self.context = contextvars.copy_context()
        self.context.run(current.set, self)
        loop.processes.append(self)

    def call(self, what: Callable[..., object], *args: object) -> None:
        """Do this in the process: now, or when it is continued, or never."""
        self.loop.put(asyncio.Handle(what, args, self.loop, self.context.copy()))

    def stop(self) -> None:
        """SIGSTOP."""
        self.stopped = True

    def go_on(self) -> None:
        """SIGCONT."""
        self.stopped = False
        if self.alive:
            self.resume()

    def resume(self) -> None:
        """Do what was held back."""
        for handle in self.parked:
            self.loop.put(handle)
        self.parked.clear()

    def kill(self) -> None:
        """SIGKILL."""
        self.alive = False


current: contextvars.ContextVar[Process | None] = contextvars.ContextVar("current", default=None)


class Loop(asyncio.AbstractEventLoop):
    """The loop, with what agents use of one. Time jumps to the next thing that is due."""

    def __init__(self) -> None:
        self.now = 0.0
        self.errors: list[BaseException] = []
        self.tasks: list[asyncio.Task[Any]] = []
        self.processes: list[Process] = []
        self._due: list[tuple[float, int, asyncio.Handle]] = []
        self._ready: deque[asyncio.Handle] = deque()
        self._number = itertools.count()
        self._steps, self._second = 0, 0

    def run_until(self, when: float) -> None:
        """Let time pass."""
        asyncio._set_running_loop(self)
        try:
            while True:
                while self._ready:
                    self.step(self._ready.popleft())
                    if self.errors:  # now: what was said last led to it
                        raise self.errors[0]
                if not self._due or self._due[0][0] > when:
                    break
                due, _, handle = heapq.heappop(self._due)
                self.now = max(self.now, due)
                self._ready.append(handle)
            self.now = when
        finally:
            asyncio._set_running_loop(None)

    def step(self, handle: asyncio.Handle) -> None:
        """Run this, if its process runs."""
        process = handle._context.get(current)  # type: ignore[attr-defined]
        if handle.cancelled():
            return
        if process is not None and (process.stopped or not process.alive):
            process.parked.append(handle)
            return
        self._count()
        handle._run()

    def _count(self) -> None:
        if int(self.now) != self._second:
            self._second, self._steps = int(self.now), 0
        self._steps += 1
        if self._steps > _MOST_STEPS:
            raise Livelock(f"{self._steps} steps in the second after {self._second}")

    def put(self, handle: asyncio.Handle) -> None:
        """Run this next."""
        self._ready.append(handle)

    def end(self) -> None:
        """Cancel all that is left, of the dead as well, so that no coroutine ends in the middle."""
        for process in self.processes:
            process.alive, process.stopped = True, False
            process.resume()
        self.errors.clear()
        for _ in range(_ROUNDS):
            if not (left := self._left()):
                return
            for task in left:
                task.cancel()
            self._steps = 0
            self.run_until(self.now + 0.5)
        for task in self._left():  # what would have woken it went with a process that was killed
            task.get_coro().close()

    def _left(self) -> list[asyncio.Task[Any]]:
        return [task for task in self.tasks if not task.done()]

    # what asyncio asks of a loop

    def time(self) -> float:
        return self.now

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return False

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(self, coro: Coroutine[Any, Any, Any], **named: Any) -> asyncio.Task[Any]:  # type: ignore[override]
        task = asyncio.Task(coro, loop=self, **named)
        self.tasks.append(task)
        return task

    def call_soon(self, callback: Callable[..., object], *args: Any, context: Any = None) -> asyncio.Handle:  # type: ignore[override]
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    call_soon_threadsafe = call_soon  # type: ignore[assignment]

    def call_at(self, when: float, callback: Callable[..., object], *args: Any, context: Any = None) -> Any:  # type: ignore[override]
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        heapq.heappush(self._due, (when, next(self._number), handle))
        return handle

    def call_later(self, delay: float, callback: Callable[..., object], *args: Any, context: Any = None) -> Any:  # type: ignore[override]
        return self.call_at(self.now + max(0.0, delay), callback, *args, context=context)

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """It is passed over when it is due."""

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> Any:  # type: ignore[override]
        """Run it now; its result comes a moment later."""
        future = self.create_future()
        try:
            result = func(*args)
        except Exception as error:
            self.call_later(0.001, future.set_exception, error)
        else:
            self.call_later(0.001, future.set_result, result)
        return future

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if "exception" in context:
            self.errors.append(context["exception"])


class Thread:
    """Stands for a ThreadPoolExecutor of one thread: its work begins a moment later, one after the other."""

    def __init__(self, _threads: int, _name: str) -> None:
        self._free = 0.0

    def submit(self, work: Callable[..., object], *args: object) -> None:
        """Do this as soon as the thread is free. Others see all of it at once."""
        loop = asyncio.get_running_loop()
        self._free = max(self._free, loop.time() + random.uniform(0.001, 0.3))
        loop.call_at(self._free, self._work, work, args)

    def _work(self, work: Callable[..., object], args: tuple[object, ...]) -> None:
        process = current.get()
        assert process is not None
        work(*args)
        self._free, process.spent = self._free + process.spent, 0.0
