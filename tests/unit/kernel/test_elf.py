# SPDX-License-Identifier: GPL-2.0-or-later
"""The static size of a program, of files made here, and of files that are none."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctl.kernel.elf import static_size

SIZES = st.lists(st.integers(0, 1 << 30), max_size=20)


def program(sizes: list[int], bits: int, order: str) -> bytes:
    """An ELF file with these segments to load, and one of another kind behind each."""
    head, entry = (64, 56) if bits == 64 else (52, 32)
    ident = b"\x7fELF" + bytes([bits // 32, 1 if order == "<" else 2, 1]) + bytes(9)
    word = "Q" if bits == 64 else "I"
    fields = (2, 62, 1, 0, head, 0, 0, head, entry, 2 * len(sizes), 0, 0, 0)
    text = ident + struct.pack(f"{order}HHI{word}{word}{word}IHHHHHH", *fields)
    for size in sizes:
        for kind in (1, 6):
            if bits == 64:
                text += struct.pack(order + "IIQQQQQQ", kind, 0, 0, 0, 0, 0, size, 0)
            else:
                text += struct.pack(order + "IIIIIIII", kind, 0, 0, 0, 0, size, 0, 0)
    return text


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("bits", [32, 64])
@given(sizes=SIZES)
def test_it_is_the_sum_of_what_is_loaded(sizes: list[int], bits: int, order: str) -> None:
    file = Path(f"/dev/shm/cosched-elf-{os.getpid()}")
    try:
        file.write_bytes(program(sizes, bits, order))
        assert static_size(str(file)) == (sum(sizes) or None)
    finally:
        file.unlink(missing_ok=True)


@given(st.binary(max_size=300), st.integers(0, 400))
def test_a_bad_file_gives_none_or_a_size(noise: bytes, cut: int) -> None:
    """Whatever follows the first bytes, nothing is raised, and a size is one of memory."""
    file = Path(f"/dev/shm/cosched-elf-{os.getpid()}")
    whole = program([1 << 20, 1 << 21], 64, "<")
    try:
        for text in (noise, whole[:6] + noise, whole[:cut], whole[:cut] + noise):
            file.write_bytes(text)
            size = static_size(str(file))
            assert size is None or 0 < size < 1 << 47
    finally:
        file.unlink(missing_ok=True)


def test_no_program_is_larger_than_the_address_space(tmp_path: Path) -> None:
    for sizes, expected in (([1 << 46], 1 << 46), ([1 << 46, 1 << 46], None)):
        (tmp_path / "elf").write_bytes(program(sizes, 64, "<"))
        assert static_size(str(tmp_path / "elf")) == expected


def test_no_compiler_makes_so_many_segments(tmp_path: Path) -> None:
    for count, expected in ((256, 256 << 20), (257, None)):  # another segment stands behind each
        (tmp_path / "elf").write_bytes(program([1 << 20] * count, 64, "<"))
        assert static_size(str(tmp_path / "elf")) == expected


def test_what_is_no_program(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in ("/none", "/etc/passwd", "/dev/zero", str(tmp_path), str(tmp_path / "pipe"), "a\0b"):
        assert static_size(path) is None, path
