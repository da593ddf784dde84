# SPDX-License-Identifier: GPL-2.0-or-later
"""The messages of libbpf 1.7 about failed loads become one sentence each. The texts are libbpf's own."""

from __future__ import annotations

import contextlib
import errno
from pathlib import Path

import pytest

from ctl.errors import FAILED, USAGE, CoschedError
from ctl.kernel.libbpf import LibbpfError
from ctl.kernel.refusal import check_lockdown, ended_at_once, explain
from ctl.kernel.sysinfo import lockdown

MISSING = """libbpf: extern (func ksym) 'scx_bpf_frobnicate': not found in kernel or module BTFs
libbpf: failed to load object '/usr/lib/cosched/cosched.bpf.o'
"""
REJECTED = """libbpf: prog 'cosched_enqueue': BPF program load failed: -EACCES
libbpf: prog 'cosched_enqueue': -- BEGIN PROG LOAD LOG --
0: R1=ctx() R10=fp0
; int x = *p; @ cosched.bpf.c:99
3: (61) r1 = *(u32 *)(r0 +0)
R0 invalid mem access 'map_value_or_null'
processed 4 insns (limit 1000000) max_states_per_insn 0 total_states 0 peak_states 0 mark_read 0
-- END PROG LOAD LOG --
libbpf: prog 'cosched_enqueue': failed to load: -EACCES
"""
PINNED = """libbpf: couldn't reuse pinned map at '/sys/fs/bpf/cosched/obs': parameter mismatch
libbpf: map 'obs': error reusing pinned map
"""


@pytest.mark.parametrize(
    ("printed", "number", "words", "status"),
    [
        (MISSING, errno.ESRCH, ["scx_bpf_frobnicate", "lacks"], USAGE),
        (REJECTED, errno.EACCES, ["cosched_enqueue", "R0 invalid mem access 'map_value_or_null'"], FAILED),
        (PINNED, errno.EINVAL, ["/sys/fs/bpf/cosched/obs", "remove"], FAILED),
        ("libbpf: something new\n", errno.ENOMEM, ["something new", "Cannot allocate memory"], FAILED),
        ("", errno.EBUSY, ["unload it first"], USAGE),
    ],
)
def test_explained(printed: str, number: int, words: list[str], status: int) -> None:
    error = explain(LibbpfError("load cosched.bpf.o", number, printed))
    assert error.status == status
    assert "\n" not in str(error)
    for word in words:
        assert word in str(error)


def test_a_kernel_that_keeps_its_memory_to_itself_is_refused_before_the_verifier_does(tmp_path: Path) -> None:
    for text, refused in (
        ("none [integrity] confidentiality\n", False),
        ("[none] integrity confidentiality\n", False),
        ("none integrity [confidentiality]\n", True),
    ):
        (tmp_path / "lockdown").write_text(text)
        with pytest.raises(CoschedError, match="lockdown=integrity") if refused else contextlib.nullcontext():
            check_lockdown(lockdown(tmp_path / "lockdown"))
    assert not lockdown(tmp_path / "missing")


def test_thrown_out_at_once() -> None:
    error = ended_at_once("runtime error", "out of memory")
    assert "at once: runtime error: out of memory" in str(error) and error.status == FAILED
    assert str(ended_at_once("runtime error", "")).endswith("at once: runtime error")
