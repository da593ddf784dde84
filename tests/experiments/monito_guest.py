# SPDX-License-Identifier: GPL-2.0-or-later
"""The experiment `monito` on its first node: `python3 -m tests.experiments.monito_guest NODES CASES`, a JSON list.

Prints a line of JSON for each case of monito_plan.py, and one for what switches take. A program's ranks are started
once for each way of receiving, and wait at a gate.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from tests.experiments.ccs_guest import Node
from tests.experiments.ccs_plan import WORK
from tests.experiments.monito_plan import MODES, OURS, PERIOD_MS, PROGRAMS, QUEUES, Case, Mode, Program, knobs

__all__ = ["main"]

_PROGS: Final = Path(__file__).resolve().parents[1] / "progs"
_SETTLE_S: Final = 0.2  # until ranks have seen a gate close, and compilers are at work
_LOADED_S: Final = 3.0  # until an agent that has just begun needs little CPU time
_PERIODS: Final = 40  # of starts and stops by switches.c
_DEVICE: Final = "eth0"
_FUNCTIONS: Final = 16  # of the file that local tasks compile


class Ranks:
    """A distributed program with a way of receiving: one rank on each node, at a gate between its runs."""

    def __init__(self, what: Program, mode: Mode, spin_us: int, nodes: Sequence[Node]) -> None:
        name, hosts = Path(what.source).stem, ",".join(node.name for node in nodes)
        self._nodes = nodes
        self._jid = f"{name}-{what.kb}-{mode.reads}-{'spin' if mode.spin else 'block'}"
        ways = {"FRAGMENT_READS": str(mode.reads)} if mode.reads else {}
        ways |= {"FRAGMENT_SPIN_US": str(spin_us)} if mode.spin else {}
        command = ["mpiexec.mpich", "-hosts", hosts, "-ppn", "1", "-n", str(len(nodes)), str(WORK / name)]
        command += [str(what.kb), str(what.rounds), str(what.work), str(WORK / f"gate-{self._jid}"), self._jid]
        # no message is asked for by its receiver: the library's own head and body stay together
        environment = os.environ | ways | {"UCX_RNDV_THRESH": "inf"}
        self._errors = WORK / f"errors-{self._jid}"  # mpiexec complains at length when ranks are ended
        with self._errors.open("wb") as errors:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, env=environment
            )
        self._lines = self._output()
        for _ in nodes:
            next(self._lines)

    def _output(self) -> Iterator[str]:
        assert self._process.stdout
        for line in self._process.stdout:
            yield line.decode()
        raise SystemExit(f"{self._jid} ended: {self._errors.read_text(errors='replace')[-2000:]}")

    def fileno(self) -> int:
        """Readable when a run has ended."""
        assert self._process.stdout
        return self._process.stdout.fileno()

    def begin(self) -> None:
        """Begin a run on all nodes."""
        for node in self._nodes:
            node.ask("open_gate", name=self._jid)
        for node in self._nodes:
            node.result()

    def said(self) -> dict[str, Any]:
        """Wait for the end of a run; what the program says of it."""
        said: dict[str, Any] = json.loads(next(self._lines))
        if not said["right"]:
            raise SystemExit(f"{self._jid}: its result is wrong: {said}")
        return said

    def end(self) -> None:
        """Have it wait for the next run."""
        for node in self._nodes:
            node.ask("close_gates")
        for node in self._nodes:
            node.result()
        time.sleep(_SETTLE_S)

    def close(self) -> None:
        """End them."""
        self._process.terminate()
        self._process.wait()


class Bench:
    """The nodes, with the programs and a file to compile."""

    def __init__(self, count: int) -> None:
        names = [f"node{number}" for number in range(1, count + 1)]
        _build(names[1:])
        self.nodes = [Node(name, "monito_node") for name in names]
        _tell(kind="alone", compile_s=self.all("prepare", functions=_FUNCTIONS))
        self.spin_us = _switches()  # the helpers have started, and no other local task is there
        self._policy: str | None = None
        self._program: Program | None = None
        self._ranks: dict[tuple[int, bool], Ranks] = {}  # of this program, by its way of receiving

    def all(self, op: str, **arguments: object) -> list[Any]:
        """Make all nodes do an operation at once."""
        for node in self.nodes:
            node.ask(op, **arguments)
        return [node.result() for node in self.nodes]

    def ready(self, what: Program, mode: Mode, kind: str) -> Ranks:
        """The ranks of a program at their gate, and the mode's scheduler."""
        if mode.policy != self._policy:
            self.all("policy", name=mode.policy, knobs=knobs(mode.policy))
            self._policy = mode.policy
            time.sleep(_LOADED_S)
        if what != self._program:
            self._dismiss()  # their memory is locked
            self._program = what
        key = mode.reads, mode.spin
        if key not in self._ranks:
            self._ranks[key] = Ranks(what, mode, self.spin_us, self.nodes)
            if kind != "local":
                self.beside(self._ranks[key], 0)  # connections are made in the first run
        return self._ranks[key]

    def close(self) -> None:
        """End all ranks, and bring the kernel's own scheduler back."""
        self._dismiss()
        self.all("policy", name=None, knobs={})

    def _dismiss(self) -> None:
        for ranks in self._ranks.values():
            ranks.close()
        self._ranks.clear()

    def beside(self, ranks: Ranks, load: int) -> dict[str, Any]:
        """A run of a program beside so many compilers on each node; what the program says of it."""
        self.all("load", count=load)
        time.sleep(_SETTLE_S)
        ranks.begin()
        said = ranks.said()
        self.all("load", count=0)
        ranks.end()
        return said

    def compiled(self, ranks: Ranks) -> list[float]:
        """Compile a file on each node beside a program, which runs over and over meanwhile; seconds."""
        ranks.begin()
        self.all("start_compile")
        with selectors.DefaultSelector() as ready:
            for node in self.nodes:
                ready.register(node, selectors.EVENT_READ)
            ready.register(ranks, selectors.EVENT_READ)
            while not all(node.events for node in self.nodes):
                for key, _ in ready.select():
                    if isinstance(key.fileobj, Node):
                        key.fileobj.read()
                    else:
                        ranks.said()
                        ranks.end()
                        ranks.begin()
        ranks.said()
        ranks.end()
        return [node.events.pop()["seconds"] for node in self.nodes]


def _build(others: Sequence[str]) -> None:
    """Build the programs, and bring them to the other nodes; one connection to each serves all that follows."""
    WORK.mkdir(exist_ok=True)
    config = Path("/root/.ssh/config")
    config.parent.mkdir(mode=0o700, exist_ok=True)
    config.write_text("Host node*\n  ControlMaster auto\n  ControlPath /run/ssh-%C\n  ControlPersist yes\n")
    for name, program in PROGRAMS.items():
        sources = [str(_PROGS / program.source), str(_PROGS / "fragments.c")]
        _run("mpicc.mpich", "-O2", "-o", str(WORK / name), *sources)
    _run("gcc", "-O2", "-o", str(WORK / "switches"), str(_PROGS / "switches.c"))
    for name in others:
        _run("scp", "-O", "-q", "-r", str(WORK), f"{name}:{WORK.parent}")


def _run(*command: str) -> str:
    done = subprocess.run(command, check=False, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)} ended with status {done.returncode}: {done.stderr[-2000:]}")
    return done.stdout


def _tell(**measured: object) -> None:
    print(json.dumps(measured), flush=True)


def _switches() -> int:
    """What switches take; returns how long a receiver spins, us: as long as a switch takes (Monito eq. 4)."""
    found: dict[str, float] = json.loads(_run(str(WORK / "switches"), str(_PERIODS)))
    spin_us = max(1, round(found["switch_us"]))
    _tell(kind="switches", spin_us=spin_us, **found)
    return spin_us


def _queues(bench: Bench, ranks: Ranks, load: int) -> dict[str, Any]:
    """The largest values of what `ctl netmon` sees on a program's first node, and its report on itself."""
    command = ["ctl", "netmon", "--json", "--by", "node", "-d", f"{PERIOD_MS}ms", _DEVICE]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as monitor:
        assert monitor.stdout
        monitor.stdout.readline()  # it is at work
        said = bench.beside(ranks, load)
        monitor.send_signal(signal.SIGINT)
        *samples, end = map(json.loads, monitor.stdout)
    return {"seconds": said["seconds"], "peaks": _peaks(samples), "capacities": _capacities(), **end}


def _peaks(samples: Sequence[dict[str, Any]]) -> dict[str, int]:
    """The largest value of each figure of the node, by the figure's key."""
    peaks: dict[str, int] = {}
    for sample in samples:
        for row in sample["rows"]:
            for group, figures in row.items():
                for name, value in figures.items() if isinstance(figures, dict) else ():
                    if value is not None:
                        peaks[f"{group}.{name}"] = max(peaks.get(f"{group}.{name}", 0), value)
    return peaks


def _capacities() -> dict[str, int]:
    """What the queues hold that have a limit in packets, by the figure's key."""
    (qdisc,) = json.loads(_run("tc", "-json", "qdisc", "show", "dev", _DEVICE, "root"))
    waiting = qdisc["options"].get("limit") or int(Path(f"/sys/class/net/{_DEVICE}/tx_queue_len").read_text())
    backlog = int(Path("/proc/sys/net/core/netdev_max_backlog").read_text())
    return {"qdisc.packets": waiting, "softnet.packets": backlog}


def _measure(bench: Bench, case: Case) -> dict[str, Any]:
    what = QUEUES if case.kind == "queues" else PROGRAMS[case.program]
    ranks = bench.ready(what, {**MODES, **OURS}[case.mode], case.kind)
    if case.kind == "local":
        return {"compile_s": bench.compiled(ranks)}
    return _queues(bench, ranks, case.load) if case.kind == "queues" else bench.beside(ranks, case.load)


def main(argv: Sequence[str]) -> int:
    """Measure all cases."""
    bench = Bench(int(argv[0]))
    for case in (Case(*words) for words in json.loads(argv[1])):
        _tell(**case._asdict(), **_measure(bench, case))
    bench.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
