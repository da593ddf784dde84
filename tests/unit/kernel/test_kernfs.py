# SPDX-License-Identifier: GPL-2.0-or-later
"""Files of the kernel, read in pieces."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from ctl.kernel import kernfs
from ctl.kernel.sysinfo import fault_probability, major_faults, meminfo, memory, thread_cpu_ms, vmstat


def test_file_that_comes_in_pieces_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel gives /proc/vmstat a page at a time."""
    (tmp_path / "vmstat").write_text("nr_free_pages 12345\npswpin 678\n")
    monkeypatch.setattr(kernfs, "_MOST", 7)
    assert kernfs.keyed(tmp_path / "vmstat") == {"nr_free_pages": 12345, "pswpin": 678}


def test_memory_is_in_bytes_and_counts_are_counts() -> None:
    """A file in the form of /proc/meminfo."""
    found = {}
    for line in Path("/proc/meminfo").read_text().splitlines():
        name, value, *unit = line.replace(":", " ").split()
        found[name] = int(value) * (1024 if unit else 1)
    now = meminfo()
    assert list(now) == list(found)
    fixed = [name for name in found if name in ("MemTotal", "SwapTotal", "HugePages_Total", "Hugepagesize")]
    assert {name: now[name] for name in fixed} == {name: found[name] for name in fixed}


def test_some_lines_are_those_of_all(tmp_path: Path) -> None:
    """By whole names, in the order asked for; of a name that is not there the caller is told."""
    (tmp_path / "memory.stat").write_text("active_anon 3\nanon 12\nfile 0\nshmem 7\n")
    assert kernfs.numbers(tmp_path / "memory.stat", "shmem", "anon", "active_anon") == [7, 12, 3]
    for name in ("mem", "hmem", "shmem7"):
        with pytest.raises(ValueError, match="not found"):
            kernfs.numbers(tmp_path / "memory.stat", name)
    assert memory("SwapTotal", "MemTotal") == [meminfo()["SwapTotal"], meminfo()["MemTotal"]]
    assert 0 < major_faults() <= vmstat()["pgmajfault"]


def test_lines_of_name_and_number(tmp_path: Path) -> None:
    """A cgroup's file; a missing file raises the usual error."""
    (tmp_path / "cgroup.events").write_text("populated 1\nfrozen 0\n")
    assert kernfs.keyed(tmp_path / "cgroup.events") == {"populated": 1, "frozen": 0}
    (tmp_path / "empty").write_text("")
    assert kernfs.keyed(tmp_path / "empty") == {}
    with pytest.raises(FileNotFoundError):
        kernfs.read(tmp_path / "gone")


@pytest.mark.parametrize("name", [b"\xff\xfe", "Übung".encode(), "\u2028VmRSS:x".encode()])
def test_task_of_any_name_is_read(name: bytes) -> None:
    """A user chooses what its tasks are called; the kernel escapes only ASCII."""
    comm = Path(f"/proc/self/task/{threading.get_native_id()}/comm")
    before = comm.read_bytes()
    try:
        comm.write_bytes(name)
        assert fault_probability(threading.get_native_id()) == 0
        assert thread_cpu_ms(threading.get_native_id()) is not None
    finally:
        comm.write_bytes(before)
