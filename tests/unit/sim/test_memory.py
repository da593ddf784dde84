# SPDX-License-Identifier: GPL-2.0-or-later
"""The simulator's memory against one that knows every page: global least recently used replacement (CSM §3.2)."""

from __future__ import annotations

import random
from collections import OrderedDict

import pytest

from ctl.sim.csm.model import MODEL
from ctl.sim.csm.simulation import Simulation
from ctl.sim.native import CHECKED, load

FRAMES = 60
TASKS = 12


class Pages:
    """All frames of a node, least recently used first: (task, page)."""

    def __init__(self) -> None:
        self.frames: OrderedDict[tuple[int, int], None] = OrderedDict()
        self.vir: dict[int, int] = {}

    def res(self, task: int) -> int:
        return sum(owner == task for owner, _ in self.frames)

    def run(self, task: int) -> None:
        """It touches all that it has."""
        for page in [frame for frame in self.frames if frame[0] == task]:
            self.frames.move_to_end(page)

    def enter(self, task: int, vir: int) -> None:
        """CSM eq. 7; the tasks that shrink for a new task shrink in proportion."""
        self.vir[task] = vir
        mem = sum(self.vir.values())
        new = vir if mem < FRAMES else vir * FRAMES // mem
        used = len(self.frames)
        if used + new > FRAMES:
            for other in list(self.vir):
                keep = self.res(other) * (FRAMES - new) // used
                for frame in [f for f in self.frames if f[0] == other][keep:]:
                    del self.frames[frame]
        for page in range(new):
            self.frames[task, page] = None

    def leave(self, task: int) -> None:
        for frame in [f for f in self.frames if f[0] == task]:
            del self.frames[frame]
        del self.vir[task]

    def load(self, task: int) -> None:
        """A page that is not there: into a free frame, else in place of the least recently used one of others."""
        has = {page for owner, page in self.frames if owner == task}
        missing = next((page for page in range(self.vir[task]) if page not in has), None)
        if missing is None:
            return
        if len(self.frames) == FRAMES:
            victim = next((frame for frame in self.frames if frame[0] != task), None)
            if victim is None:
                return
            del self.frames[victim]
        last = max((i for i, frame in enumerate(self.frames) if frame[0] == task), default=None)
        frames = list(self.frames)
        frames.insert(len(frames) if last is None else last + 1, (task, missing))
        self.frames = OrderedDict.fromkeys(frames)


@pytest.mark.parametrize("seed", range(40))
def test_resident_pages_are_those_of_a_page_by_page_lru(seed: int) -> None:
    choose = random.Random(seed)
    engine = load("csm", CHECKED)
    pages = Pages()
    working: dict[int, int] = {}
    ops: list[tuple[int, int, int, int]] = []
    expected: list[dict[int, int]] = []
    for _ in range(250):
        here = list(pages.vir)
        kind = choose.choices(("enter", "leave", "run", "load"), (1, 1, 8, 20))[0]
        if (kind == "enter" and len(here) < 6) or len(here) < 3:
            task = choose.choice([k for k in range(TASKS) if k not in here])
            vir = choose.randint(10, 60)
            working[task] = choose.randint(1, vir)
            pages.enter(task, vir)
            ops.append((engine.lib.MEMORY_ENTER, task, vir, working[task]))
            pages.run(task)
        else:
            task = choose.choice(here)
            if kind == "leave" and len(here) > 3:
                pages.leave(task)
                ops.append((engine.lib.MEMORY_LEAVE, task, 0, 0))
            elif kind == "run":
                pages.run(task)
                ops.append((engine.lib.MEMORY_RUN, task, 0, 0))
            else:
                # who faults was the last to run, as in the engine: it was dispatched to find the page missing
                pages.run(task)
                ops.append((engine.lib.MEMORY_RUN, task, 0, 0))
                expected.append({k: pages.res(k) for k in pages.vir})
                pages.load(task)
                ops.append((engine.lib.MEMORY_LOAD, task, 0, 0))
        expected.append({k: pages.res(k) for k in pages.vir})
    _compare(ops, expected, working)


def _compare(ops: list[tuple[int, int, int, int]], expected: list[dict[int, int]], working: dict[int, int]) -> None:
    engine = load("csm", CHECKED)
    values = MODEL.complete({"nodes": 1, "local_share": 1, "memory": FRAMES, "jobs": 1})
    with Simulation("rr", values, 1) as simulation:
        n = len(ops)
        res, flt = engine.ffi.new("uint32_t[]", n * TASKS), engine.ffi.new("uint32_t[]", n * TASKS)
        given = engine.ffi.new("struct sim_memory_op[]", ops)
        params = simulation._params
        assert engine.lib.sim_memory(engine.ffi.cast("struct sim_params *", params), given, n, TASKS, res, flt) == 0
    shrunk = 0
    for i, known in enumerate(expected):
        for task, resident in known.items():
            assert res[i * TASKS + task] == resident, f"operation {i}, {ops[i]}: task {task}"
        shrunk += sum(known.values()) == FRAMES
    assert shrunk > 50  # memory was full often enough


def test_probability_of_a_fault_is_that_of_equation_3() -> None:
    """A lone task whose working set does not fit faults at 1 - res/wrk of its dispatches (B-CSM-1)."""
    values = MODEL.complete({
        "nodes": 1, "jobs": 40, "local_share": 1, "memory": 4096, "mest": 16384, "tc_local_s": 200, "phase": 0,
        "mit_s": 1e6, "wrk_sd": 0, "wrk_local": 1.0, "tc_cv": 0, "slice_ms": 10,
    })  # fmt: skip
    with Simulation("rr", values, 3, kind=CHECKED) as simulation:
        assert simulation.advance()
        records = [(r.vir, r.faults, r.slow, r.tc) for r in simulation.records()]
    assert any(faults for _, faults, _, _ in records)
    for vir, faults, slow, tc in records:
        resident = min(vir, 4096)
        miss = 1 - resident / vir
        runs = tc / 10e6  # dispatches that found their page, on average
        assert abs(faults - runs * miss / (1 - miss)) < 5 * (runs * miss) ** 0.5 / (1 - miss) + 0.001 * runs
        assert slow - tc == faults * 20_000_000  # each suspends it for 20 ms, and nothing else does
