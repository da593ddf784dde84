# SPDX-License-Identifier: GPL-2.0-or-later
"""Many runs at once: threads, because a thread that is in the engine leaves Python to the others.

Each result is kept as it comes. Ctrl-C drops running replications and keeps finished results: the same command
continues from there.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any

from ctl.errors import CoschedError
from ctl.sim.native import load
from ctl.sim.registry import MODELS
from ctl.sim.store import Run, Store

__all__ = ["Interrupted", "default_workers", "fetch", "make"]

_Done = tuple[Run, dict[str, Any], float]


class Interrupted(CoschedError):
    """Ctrl-C: finished results are kept."""


def default_workers() -> int:
    """The number of CPUs that this process may use."""
    return len(os.sched_getaffinity(0))


def _digest(run: Run) -> str:
    """Of the engine that makes it."""
    return load(MODELS[run.model].engine).digest


def _one(run: Run, stop: threading.Event) -> _Done:
    began = time.thread_time()
    result = MODELS[run.model].run(run.policy, run.parameters, run.seed, stop)
    return run, result, time.thread_time() - began


def _threads(runs: Iterable[Run], workers: int, stop: threading.Event) -> Iterator[_Done]:
    """Results in the order in which they are done; only as many runs are under way as there are workers."""
    waiting = iter(runs)
    with ThreadPoolExecutor(workers) as pool:
        under_way: set[Future[_Done]] = set()
        try:
            while True:
                while len(under_way) < workers and (run := next(waiting, None)) is not None:
                    under_way.add(pool.submit(_one, run, stop))
                if not under_way:
                    return
                done, under_way = wait(under_way, return_when=FIRST_COMPLETED)
                for future in done:
                    yield future.result()
        finally:
            stop.set()


def make(
    runs: Iterable[Run], store: Store, *, workers: int, progress: Callable[[int, int], None] = lambda *_: None
) -> int:
    """Make the runs that are not in the store yet; returns how many that were. `progress` is told done and all."""
    missing = [run for run in runs if store.get(run, _digest(run)) is None]
    done, stop = 0, threading.Event()
    progress(0, len(missing))
    try:
        for run, result, cpu_s in _threads(missing, workers, stop):
            store.add(run, _digest(run), result, cpu_s)
            done += 1
            progress(done, len(missing))
    except KeyboardInterrupt:
        raise Interrupted(f"interrupted: {done} of {len(missing)} runs are kept; the same command goes on") from None
    return done


def fetch(runs: Iterable[Run], store: Store) -> Mapping[tuple[str, str, str, int], dict[str, Any]]:
    """Kept results of runs, by their keys."""
    found = ((run.key, store.get(run, _digest(run))) for run in runs)
    return {key: result for key, result in found if result is not None}
