#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""`ctl doctor`: all is well on the image's kernel, and each missing part is told, with status 1."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from ctl.kernel.cgroups import JobCgroups
from tests import slurm
from tests.kselftest import ktap
from tests.kselftest.command import TIMEOUT, agent, ctl
from tests.kselftest.node import OBJECT, job, loaded, spawned

_LIMITED = {"clock", "permissions"}  # this guest has no time service, and need not have the group
_CALLER = """
extern void no_such_kfunc(void) __attribute__((section(".ksyms")));
__attribute__((section("syscall"), used)) int caller(void *context) { no_such_kfunc(); return 0; }
"""  # a BPF program


def _read(answer: str) -> tuple[dict[str, str], set[str]]:
    """(check -> text, the checks that fail) of an answer in JSON."""
    checks: list[dict[str, Any]] = json.loads(answer)["checks"]
    for check in checks:
        ktap.note(f"{check['check']}: {check['state']}: {check['text']}")
    limited = {check["check"] for check in checks if check["state"] == "limited"}
    assert limited <= _LIMITED, f"limited: {limited}, allowed: {_LIMITED}"
    return {check["check"]: check["text"] for check in checks}, {c["check"] for c in checks if c["state"] == "fails"}


def _fails(check: str, *words: str, also: str = "") -> None:
    """This check alone fails, or with one other, and its sentence has these words."""
    texts, failed = _read(ctl("doctor", "--json", status=1))
    ktap.expect(failed, {check, also} - {""}, "failed checks")
    for word in words:
        assert word in texts[check], f"no {word!r} in {texts[check]!r}"


def all_is_well() -> None:
    """All is well on this kernel, before a load, beside an agent, and after."""

    def well(scheduler: str, about_agent: str) -> None:
        texts, failed = _read(ctl("doctor", "--json"))
        ktap.expect(failed, set(), "failed checks")
        ktap.expect(texts["other scheduler"], scheduler, "other scheduler")
        assert "scheduler (0)" not in texts["functions"], "the scheduler calls functions of the kernel"
        assert about_agent in texts["agent"], texts["agent"]

    well("no sched_ext scheduler is loaded", "no agent runs")
    with agent():
        well("cosched is loaded", "an agent answers")
    well("no sched_ext scheduler is loaded", "no agent runs")


def no_swap() -> None:
    """Without swap it fails, and names mkswap and swapon."""
    devices = [line.split()[0] for line in Path("/proc/swaps").read_text().splitlines()[1:]]
    assert devices, "this guest has no swap from the start"
    subprocess.run(["swapoff", *devices], check=True)
    try:
        _fails("swap", "mkswap", "swapon")
    finally:
        subprocess.run(["swapon", *devices], check=True)


def no_controller() -> None:
    """In a cgroup tree without the controllers, as in a container, it fails and names them."""
    tree = Path("/sys/fs/cgroup/tree/inner")  # no controller is enabled for the children of `tree`
    tree.mkdir(parents=True)
    try:
        script = f"mount --bind {tree} /sys/fs/cgroup && exec ctl doctor --json"
        done = subprocess.run(
            ["unshare", "--mount", "sh", "-c", script], capture_output=True, text=True, timeout=TIMEOUT, check=False
        )
        ktap.expect(done.returncode, 1, f"status; {done.stderr}")
        texts, failed = _read(done.stdout)
        ktap.expect(failed, {"cgroups"}, "failed checks")
        assert "no cpu and no memory controller" in texts["cgroups"], texts["cgroups"]
    finally:
        tree.rmdir()
        tree.parent.rmdir()


def another_scheduler() -> None:
    """A sched_ext scheduler that no agent owns is named, and so are its pinned maps."""
    with loaded():
        _fails("other scheduler", "cosched", "unload it first", also="leftovers")


def a_function_is_missing() -> None:
    """A function of the kernel that the scheduler calls and this kernel lacks is named."""
    before = os.environ.get("COSCHED_BPF_DIR")
    with tempfile.TemporaryDirectory() as directory:
        shutil.copy(OBJECT.with_name("sockets.bpf.o"), directory)
        words = ["clang", "-g", "-O2", "-target", "bpf", "-x", "c", "-", "-c", "-o", f"{directory}/cosched.bpf.o"]
        subprocess.run(words, input=_CALLER, text=True, check=True)
        os.environ["COSCHED_BPF_DIR"] = directory
        try:
            _fails("functions", "no_such_kfunc", "boot the kernel")
        finally:
            del os.environ["COSCHED_BPF_DIR"]
            os.environ |= {"COSCHED_BPF_DIR": before} if before else {}


def left_frozen() -> None:
    """A job that a killed agent left frozen is named."""
    groups = JobCgroups()
    with job("left") as path, spawned("sleep", "100", cgroup=path):
        groups.freeze("left")
        try:
            _fails("leftovers", "left: cgroup.freeze is 1", "ctl load")
        finally:
            groups.thaw("left")


def with_slurm() -> None:
    """A slurmd with its cgroups is well."""
    if not slurm.installed():
        raise ktap.Skip("Slurm is not installed")
    with slurm.running():
        texts, failed = _read(ctl("doctor", "--json"))
    ktap.expect(failed, set(), "failed checks")
    assert "slurmd runs" in texts["Slurm"], texts["Slurm"]


if __name__ == "__main__":
    ktap.run(all_is_well, no_swap, no_controller, another_scheduler, a_function_is_missing, left_frozen, with_slurm)
