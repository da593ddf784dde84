# SPDX-License-Identifier: GPL-2.0-or-later
"""`just demo`: measure each configuration in a virtual machine of its own, and compare them.

The guests' clocks count instructions (vm/run --icount), so they run beside each other, and beside anything
else, without changing each other's figures.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import click
from rich.console import Console

from ctl import policy
from ctl.demo import report, results
from ctl.demo.progress import Progress
from ctl.demo.scenario import CORES, EEVDF, FREEZER, NICE, PEERS, SCENARIOS, STATIC, Scenario
from ctl.errors import CoschedError
from ctl.policy import values as knob_values

__all__ = ["main"]

_REPO: Final = Path(__file__).resolve().parents[2]
_CONFIGS: Final = {CORES: f"{EEVDF},{NICE},csm"}  # by scenario; of all others:
_DEFAULT_CONFIGS: Final = f"{EEVDF},{STATIC},csm,ccs+local_user=on,fit"
_TIMEOUT_S: Final = 900  # for one guest, which needs about 100 s on an idle host


class Runs:
    """The virtual machines of one demo."""

    def __init__(self, scenario: Scenario, top: bool) -> None:
        self.scenario, self.top = scenario, top
        self._processes: set[subprocess.Popen[str]] = set()
        self._lock = threading.Lock()

    def measure(self, config: str, label: str, progress: Progress) -> dict[str, Any]:
        """Measure one configuration; raises CoschedError with the guest's own words when that fails."""
        with tempfile.TemporaryDirectory(prefix="cosched-demo-") as out:
            if self.top:
                status, errors = subprocess.run(self._command(config, out), check=False).returncode, ""
            else:
                status, errors = self._watched(self._command(config, out), label, progress)
            if status != 0:
                raise CoschedError(f"measuring {label} failed, vm/run ended with status {status}\n{errors}".strip())
            measured: dict[str, Any] = json.loads((Path(out) / "result.json").read_text())
            return measured

    def _command(self, config: str, out: str) -> list[str]:
        machine = self.scenario
        return [
            str(_REPO / "vm/run"),
            "--cpus",
            str(machine.cpus),
            "--memory",
            str(machine.memory),
            "--swap",
            f"{machine.swap}:{machine.swap_ms}",
            "--icount",
            "--timeout",
            str(_TIMEOUT_S),
            "--out",
            out,
            *(["--tty"] if self.top else []),
            "--",
            "python3",
            "-m",
            "ctl.demo.guest",
            config,
            machine.to_json(),
            *(["--top"] if self.top else []),
        ]

    def _watched(self, command: list[str], label: str, progress: Progress) -> tuple[int, str]:
        progress.started(label)
        with tempfile.TemporaryFile("w+") as errors:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, text=True
            )
            with self._lock:
                self._processes.add(process)
            assert process.stdout is not None
            for line in process.stdout:
                with contextlib.suppress(json.JSONDecodeError):
                    progress.said(label, json.loads(line))
            status = process.wait()
            errors.seek(0)
            progress.ended(label, status == 0)
            return status, errors.read()

    def stop(self) -> None:
        """End the guests that still run."""
        with self._lock:
            for process in self._processes:
                if process.poll() is None:
                    process.terminate()


def _measure_all(
    runs: Runs, configs: Sequence[str], repeat: int, parallel: int, console: Console
) -> tuple[dict[str, list[dict[str, Any]]], list[CoschedError]]:
    """Measure every configuration as often as asked for; the order is that of `configs`. Also returns what failed:
    a configuration that thrashes until its time is over takes no other's measurements along.
    """
    wanted = [(config, number) for number in range(repeat) for config in configs]
    labels = [config if repeat == 1 else f"{config} {number + 1}" for config, number in wanted]
    measured: dict[str, list[dict[str, Any]]] = {config: [] for config in configs}
    failed: list[CoschedError] = []
    with (
        Progress(console, labels, runs.scenario, live=not runs.top) as progress,
        concurrent.futures.ThreadPoolExecutor(parallel) as pool,
    ):
        futures = [
            pool.submit(runs.measure, config, label, progress)
            for (config, _), label in zip(wanted, labels, strict=True)
        ]
        try:
            for (config, _), future in zip(wanted, futures, strict=True):
                try:
                    measured[config].append(future.result())
                except CoschedError as error:
                    failed.append(error)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            runs.stop()
            raise
    return {config: group for config, group in measured.items() if group}, failed


def _check_same_work(measured: dict[str, list[dict[str, Any]]]) -> None:
    """Every configuration must have computed the same, or the figures compare different work."""
    sums = {
        tuple((name, job["checksum"]) for name, job in one["jobs"].items())
        for group in measured.values()
        for one in group
    }
    if len(sums) != 1:
        raise CoschedError(f"the jobs computed different results in different runs: {sorted(sums)}")


def _configs(_context: click.Context, _option: click.Parameter, text: str) -> list[str]:
    return _checked(text) if text else []


def _checked(text: str) -> list[str]:
    configs = list(dict.fromkeys(text.split(",")))
    for config in configs:
        if config not in PEERS:
            name, *knobs = config.split("+")
            policy.find_policy(name)
            knob_values.parse_assignments(knobs)
    return configs


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--top",
    is_flag=True,
    help="Watch `ctl top` in the guest while the jobs run, one guest after the other; "
    "drawing takes CPU time, so figures differ from those without.",
)
@click.option(
    "--json",
    "json_file",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Also write what was measured, as JSON lines: one with what holds for all runs, then a run a line.",
)
@click.option(
    "--configs",
    default="",
    show_default=f"{_DEFAULT_CONFIGS}; of {CORES}: {_CONFIGS[CORES]}",
    callback=_configs,
    metavar="LIST",
    help=f"{EEVDF} (the kernel's own scheduler), {STATIC} (the same, with weights and protected memory as systemd sets "
    f"them), {FREEZER} (the same, the newest job frozen while tasks stall on memory), {NICE} (jobs at nice 19) and "
    "policies, with commas between them; a policy's knobs follow a +.",
)
@click.option(
    "--scenario",
    "name",
    default="two",
    show_default=True,
    type=click.Choice(list(SCENARIOS)),
    help="two: a small and a large job, either fits beside the local task; crowded: three jobs, of which one fits; "
    "read-ahead: two, where a fault brings eight pages from swap, as Linux has it by default, and not one; "
    f"{CORES}: a job with a rank on each of two CPUs, beside a user who compiles on both.",
)
@click.option("--repeat", default=1, show_default=True, type=click.IntRange(1, 100), metavar="N", help="Runs of each.")
@click.option(
    "--parallel",
    default=(os.cpu_count() or 1) + 1,
    show_default="one more than CPUs",
    type=click.IntRange(1, 64),
    metavar="N",
    help="Guests that run at once. They count instructions, so they may share a CPU; with one more than CPUs, no CPU "
    "idles for long before the last guest ends.",
)
def cli(top: bool, json_file: Path | None, configs: list[str], name: str, repeat: int, parallel: int) -> None:
    """Run parallel jobs beside local tasks, in too little memory or on two CPUs, under the kernel's scheduler and ours.

    Prints completion times, page faults, CPU time and the local task's response times, with better and worse figures.
    """
    console = Console()
    configs = configs or _checked(_CONFIGS.get(name, _DEFAULT_CONFIGS))
    subprocess.run([str(_REPO / "vm/build")], check=True, stdout=subprocess.DEVNULL)
    begin, scenario = time.monotonic(), SCENARIOS[name]
    measured, failed = _measure_all(Runs(scenario, top), configs, repeat, 1 if top else parallel, console)
    if measured:
        _tell(measured, scenario, top, time.monotonic() - begin, console)
        if json_file is not None:
            command = f"just demo{' --top' * top} --scenario {name} --configs {','.join(configs)} --repeat {repeat}"
            head = {"command": command, "scenario": dataclasses.asdict(scenario)}
            results.write(json_file, head, [one for group in measured.values() for one in group])
    if failed:
        raise CoschedError("\n".join(map(str, failed)))


def _tell(
    measured: dict[str, list[dict[str, Any]]], scenario: Scenario, top: bool, took_s: float, console: Console
) -> None:
    """Show the comparison."""
    _check_same_work(measured)
    if top:
        console.print("Measured while `ctl top` was drawing in the guest, which takes CPU time there.")
    console.print(report.table(measured, scenario))
    console.print(f"Measured in {took_s:.0f} s.")
    if not scenario.compilers:
        console.print(f"Jobs on several CPUs beside a user who compiles: ./just demo --scenario {CORES}")


def main() -> int:
    """Run the command line; exit status 0, 1 (a measurement failed) or 2 (usage)."""
    try:
        cli.main(prog_name="just demo", standalone_mode=False)
    except CoschedError as error:
        click.echo(f"Error: {error}", err=True)
        return error.status
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except subprocess.CalledProcessError as error:
        return error.returncode  # it has said why
    except (click.Abort, KeyboardInterrupt):
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
