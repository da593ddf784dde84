# SPDX-License-Identifier: GPL-2.0-or-later
"""bpf/insert_rq.h compiled for the host: the same text the kernel runs, asked from Python.

insert_driver.c walks an array queue as the scheduler walks its own. Each version of the header becomes one
function of a cffi module (API mode: the C compiler checks every layout), cached by their content.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import os
import re
import shutil
import sys
import sysconfig
import tempfile
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import cffi

from tests.reference.insert_rq import CAUSES, RULES, Decision, Env, Task

__all__ = ["INSERT_RQ_H", "Case", "Native", "build", "decide", "mes_update", "real"]

_REPO = Path(__file__).resolve().parents[3]
_COSCHED_H = _REPO / "bpf" / "cosched.h"
INSERT_RQ_H = _REPO / "bpf" / "insert_rq.h"
_DRIVER = Path(__file__).with_name("insert_driver.c")

_CDEF = re.compile(r"/\* cdef begin \*/(.*?)/\* cdef end \*/", re.DOTALL)
_ENV = re.compile(r"^struct insert_env \{.*?^\};", re.DOTALL | re.MULTILINE)
_DRIVER_TYPES = re.compile(r"/\* driver begin \*/(.*?)/\* driver end \*/", re.DOTALL)
_RUN = "void {}(const struct test_case *, unsigned int, struct rq_task *, struct test_answer *);"

MODE_STATS = {"STAT_MODE_PRED": "predictive", "STAT_MODE_DYN": "dynamic", "STAT_MODE_CSM": "csm"}


class Case(NamedTuple):
    """An insertion to decide."""

    queue: tuple[Task, ...]  # head first, the task itself not in it
    task: Task
    running: Task | None
    env: Env
    start: int  # tasks ahead of it: all, fewer for the cause "message"


class Answer(NamedTuple):
    """The decision of a native build, with its mode and rule."""

    decision: Decision
    mode: str | None
    rises_on_expiry: bool
    compares_obs: bool
    passes_nobody: bool


def _part(pattern: re.Pattern[str], path: Path) -> str:
    found = pattern.search(path.read_text())
    if not found:
        raise ValueError(f"{path} has nothing that matches {pattern.pattern!r}")
    return found[found.lastindex or 0]


def _cdef(functions: Sequence[str]) -> str:
    driver, env = _part(_DRIVER_TYPES, _DRIVER), _part(_ENV, INSERT_RQ_H)
    modes = "\n".join(f"#define {name} ..." for name in MODE_STATS)
    calls = "\n".join(_RUN.format(name) for name in functions)
    return "\n".join([_part(_CDEF, _COSCHED_H), env, driver, modes, calls])


def _load(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.name.split(".", 1)[0], path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def _compile(name: str, functions: Sequence[str], headers: Sequence[str], work: Path) -> Path:
    """Compile one module of all versions; one translation unit each, since they define the same names."""
    units = []
    for function, header in zip(functions, headers, strict=True):
        (work / function).mkdir()
        (work / function / "insert_rq.h").write_text(header)
        unit = work / f"{function}.c"
        unit.write_text(f'#define RUN {function}\n#include "{function}/insert_rq.h"\n#include "{_DRIVER}"\n')
        units.append(unit.name)
    builder = cffi.FFI()
    builder.cdef(_cdef(functions))
    calls = "".join(_RUN.format(function) for function in functions)
    types = _part(_DRIVER_TYPES, _DRIVER)
    extra = "unsigned int native_mes_update(unsigned int mes, unsigned int com, unsigned int p)"
    builder.cdef(extra + ";")
    builder.set_source(
        name,
        f'#include "{INSERT_RQ_H}"\n{types}\n{calls}\n{extra} {{ return mes_update(mes, com, p); }}',
        sources=units,
        include_dirs=[str(_COSCHED_H.parent), str(work)],
        # -w: versions with a deliberate fault may leave something unused
        extra_compile_args=["-O1", "-g0", "-w" if len(headers) > 1 else "-Wall"],
    )
    before = Path.cwd()
    os.chdir(work)  # setuptools puts objects beside sources only when these are relative
    try:
        return Path(builder.compile(tmpdir=str(work)))
    finally:
        os.chdir(before)


def build(headers: Iterable[str]) -> list[Native]:
    """Compile these versions of insert_rq.h, or find them compiled, and return one Native for each."""
    headers = list(headers)
    digest = hashlib.sha256(sys.version.encode())
    for text in (Path(__file__).read_text(), _COSCHED_H.read_text(), _DRIVER.read_text(), *headers):
        digest.update(hashlib.sha256(text.encode()).digest())
    name = f"_insert_rq_{digest.hexdigest()[:12]}"
    functions = [f"run_{i}" for i in range(len(headers))]
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "cosched" / "native"
    base.mkdir(parents=True, exist_ok=True)
    module = base / (name + (sysconfig.get_config_var("EXT_SUFFIX") or ".so"))
    with (base / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # parallel test runs compile once
        if not module.exists():
            with tempfile.TemporaryDirectory() as work:
                built = _compile(name, functions, headers, Path(work))
                shutil.copy(built, module.with_suffix(".new"))
                module.with_suffix(".new").rename(module)
    loaded = _load(module)
    return [Native(loaded.ffi, getattr(loaded.lib, function), loaded.lib) for function in functions]


class Batch:
    """Cases laid out for the native side, so that several builds can answer the same ones."""

    def __init__(self, ffi: Any, lib: Any, cases: Sequence[Case]) -> None:
        self.cases = cases
        self._ffi, self._lib = ffi, lib
        self._in = ffi.new("struct test_case[]", len(cases))
        self._queue = ffi.new("struct rq_task[]", sum(len(case.queue) for case in cases) + 1)
        first = 0
        for case, out in zip(cases, self._in, strict=True):
            self._fill_case(out, case, first)
            for index, task in enumerate(case.queue, first):
                self._fill_task(self._queue[index], task)
            first += len(case.queue)

    def _fill_task(self, out: Any, task: Task) -> None:
        lib = self._lib
        out.flags = lib.TASK_PARALLEL * task.parallel | lib.TASK_CREDIT * task.credit
        out.flags |= lib.TASK_WAITING * task.waiting | lib.TASK_STARVED * task.starved
        out.flags |= task.place << lib.TASK_PLACE_SHIFT
        out.de, out.mes, out.com, out.rec, out.flt = task.de, task.mes, task.com, task.rec, task.flt
        out.cpu_ns = task.cpu_ns

    def _fill_case(self, out: Any, case: Case, first: int) -> None:
        env = case.env
        out.env.rule, out.env.cause = RULES.index(env.rule), CAUSES.index(env.cause)
        out.env.overloaded, out.env.mnol, out.env.mnod = env.overloaded, env.mnol, env.mnod
        out.env.share_ns, out.walk_max = env.share_ns, env.walk_max
        out.first, out.nr, out.start = first, len(case.queue), case.start
        self._fill_task(out.h, case.task)
        if case.running:
            out.has_running = 1
            self._fill_task(out.running, case.running)

    def _run(self, run: Any) -> tuple[Any, Any]:
        """The queues and answers that a build leaves."""
        ffi = self._ffi
        queue = ffi.new("struct rq_task[]", len(self._queue))
        ffi.memmove(queue, self._queue, ffi.sizeof(queue))
        answers = ffi.new("struct test_answer[]", len(self.cases))
        run(self._in, len(self.cases), queue, answers)
        return queue, answers

    def raw(self, run: Any) -> bytes:
        """The answers of one native build, only good for telling whether two builds answer the same."""
        return b"".join(bytes(self._ffi.buffer(part)) for part in self._run(run))

    def ask(self, run: Any) -> list[Answer]:
        """The answers of one native build."""
        modes = {getattr(self._lib, stat): mode for stat, mode in MODE_STATS.items()}
        queue, answers = self._run(run)
        done = []
        first = 0
        for case, a in zip(self.cases, answers, strict=True):
            grown = [queue[first + j].de - q.de for j, q in enumerate(case.queue)]
            first += len(case.queue)
            overtaken = tuple(j for j in range(len(grown) - 1, -1, -1) for _ in range(grown[j]))
            flags = bool(a.preempt), bool(a.charged_running), bool(a.bounded)
            decision = Decision(a.position, overtaken, *flags)
            told = bool(a.rises_on_expiry), bool(a.compares_obs), bool(a.passes_nobody)
            done.append(Answer(decision, modes.get(a.mode), *told))
        return done


class Native:
    """A compiled version of insert_rq.h."""

    def __init__(self, ffi: Any, run: Any, lib: Any) -> None:
        self.ffi, self.lib, self.run = ffi, lib, run

    def batch(self, cases: Sequence[Case]) -> Batch:
        """Lay cases out once, for Batch.ask of any build of the same module."""
        return Batch(self.ffi, self.lib, cases)

    def answers(self, cases: Sequence[Case]) -> list[Answer]:
        """Decide all cases."""
        return self.batch(cases).ask(self.run)


@cache
def real() -> Native:
    """The header as it stands."""
    return build([INSERT_RQ_H.read_text()])[0]


def decide(queue: Sequence[Task], task: Task, running: Task | None, env: Env, start: int) -> Decision:
    """insert_RQ by the header as it stands, in the reference's terms."""
    return real().answers([Case(tuple(queue), task, running, env, start)])[0].decision


def mes_update(mes: int, com: int, p: int) -> int:
    """The header's mes_update."""
    return int(real().lib.native_mes_update(mes, com, p))
