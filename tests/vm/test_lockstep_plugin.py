# SPDX-License-Identifier: GPL-2.0-or-later
"""The lock-step plugin in QEMUs that run nothing but their firmware: who waits for whom, and how that ends."""

from __future__ import annotations

import contextlib
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from vm import emulator, image
from vm.host import REPO, VmError
from vm.lockstep import build
from vm.lockstep.channel import time_of

pytestmark = pytest.mark.vm

PATIENCE_S = 2
LIMIT_S = 60  # a test that takes as long hangs


@pytest.fixture(scope="module")
def plugin() -> Path:
    """The plugin, built."""
    return build.ensure(image.ensure())


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """The file of some guests, not used yet."""
    path = tmp_path / "shared"
    path.touch()
    return path


@contextlib.contextmanager
def guest(plugin: Path, shared: Path, number: int, count: int, *settings: str) -> Iterator[subprocess.Popen[str]]:
    """Run one of some guests, which share a file."""
    words = [str(plugin), f"shm={shared}", f"me={number}", f"n={count}", f"patience={PATIENCE_S}", *settings]
    command = [*emulator.ensure(), "-machine", "q35", "-nodefaults", "-display", "none", "-plugin", ",".join(words),
               "-accel", "tcg,thread=single", "-icount", "shift=1,sleep=off"]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    """The guest's exit status and its last line, once it has ended."""
    assert process.stderr is not None
    status = process.wait(LIMIT_S)
    return status, process.stderr.read().splitlines()[-1]


def wait_until_past(shared: Path, ns: int) -> None:
    """Wait until the guests have come so far."""
    until = time.monotonic() + LIMIT_S
    while time_of(shared) <= ns:
        assert time.monotonic() < until, f"the guests stand still at {time_of(shared)} ns"
        time.sleep(0.01)


def test_the_others_go_on_when_a_guest_is_killed(plugin: Path, shared: Path) -> None:
    with guest(plugin, shared, 0, 3), guest(plugin, shared, 1, 3) as killed, guest(plugin, shared, 2, 3):
        wait_until_past(shared, 0)
        killed.send_signal(signal.SIGKILL)
        killed.wait()
        wait_until_past(shared, time_of(shared) + 10**9)


def test_a_guest_that_comes_back_is_waited_for(plugin: Path, shared: Path) -> None:
    with guest(plugin, shared, 0, 2) as first, guest(plugin, shared, 1, 2) as killed:
        wait_until_past(shared, 0)
        killed.send_signal(signal.SIGKILL)
        killed.wait()
        wait_until_past(shared, time_of(shared) + 10**9)
        with guest(plugin, shared, 1, 2) as again:
            time.sleep(0.5)  # until it is there
            again.send_signal(signal.SIGSTOP)
            time.sleep(0.1)
            stands = time_of(shared)
            time.sleep(0.3)
            assert time_of(shared) == stands
            again.send_signal(signal.SIGCONT)
            wait_until_past(shared, stands + 10**8)
            assert (first.poll(), again.poll()) == (None, None)


def test_a_guest_that_stands_still_ends_the_others_with_a_sentence(plugin: Path, shared: Path) -> None:
    with guest(plugin, shared, 0, 2) as waiting, guest(plugin, shared, 1, 2, "name=node2") as still:
        wait_until_past(shared, 0)
        still.send_signal(signal.SIGSTOP)
        status, said = ended(waiting)
    assert status == 1
    assert said.startswith("lockstep: guest 1, node2, did not reach ")
    assert said.endswith(f"within {PATIENCE_S} s: is it stopped, or in a debugger?")


def test_a_guest_that_never_comes_ends_the_others_with_a_sentence(plugin: Path, shared: Path) -> None:
    with guest(plugin, shared, 0, 2) as waiting:
        status, said = ended(waiting)
    assert (status, said.split(" did")[0]) == (1, "lockstep: guest 1, not there yet,")


@pytest.mark.parametrize(("setting", "sentence"), [
    ("quantum=5", "quantum=5 is not a whole number from 10000 to 1000000000"),
    ("nothing=1", "there is no setting nothing"),
    ("wire=net0", "wire=net0 is not ID:FD"),
    ("me=7", "shm=FILE, me=NUMBER and n=COUNT are wanted, the number below the count"),
])
def test_wrong_settings_are_told(plugin: Path, shared: Path, setting: str, sentence: str) -> None:
    with guest(plugin, shared, 0, 1, setting) as process:
        assert ended(process) == (1, f"lockstep: {sentence}")


@pytest.mark.parametrize(("old", "new", "words"), [
    ("#define PLUGIN_INTERFACE 7", "#define PLUGIN_INTERFACE 1", "requires API version 1"),
    ("qemu_send_packet", "qemu_send_parcel", "undefined symbol: qemu_send_parcel"),
])
def test_another_interface_and_a_missing_symbol_are_told(tmp_path: Path, old: str, new: str, words: str) -> None:
    for source in (REPO / "vm/lockstep").glob("*.[ch]"):
        shutil.copy(source, tmp_path)
        (tmp_path / source.name).write_text(source.read_text().replace(old, new))
    with pytest.raises(VmError, match=f"this QEMU cannot keep guests in lock-step.*{words}.*without COSCHED_QEMU"):
        build.check(emulator.ensure(), build.ensure(image.ensure(), tmp_path))


def test_a_cluster_says_so_before_anything_boots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COSCHED_QEMU", "/bin/true")
    command = [str(REPO / "vm/cluster"), "2", "--icount", "--", "true"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (125, "")
    assert done.stderr.startswith("vm: this QEMU cannot keep guests in lock-step")
    assert len(done.stderr.splitlines()) == 1
