# SPDX-License-Identifier: GPL-2.0-or-later
"""The products of vm/build and its refusals; only the custom kernel is booted."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from vm import bpf, image, initrd, kernel
from vm.host import REPO, VmError

pytestmark = pytest.mark.vm

PROGRAM = """
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
char _license[] SEC("license") = "GPL";
%s
SEC("struct_ops/select_cpu") int select_cpu(struct task_struct *p) { return %s; }
"""


@pytest.fixture(scope="module")
def built() -> image.Image:
    """The image, from the cache or built now."""
    return image.ensure()


@pytest.fixture
def copy(built: image.Image, tmp_path: Path) -> kernel.Kernel:
    """A copy of the image's kernel that a test may take something away from."""
    for name in ("config", "functions", "release"):
        shutil.copy(built.kernel.path / name, tmp_path)
    return kernel.Kernel(tmp_path)


def remove(path: Path, line: str) -> None:
    lines = path.read_text().splitlines()
    assert line in lines
    path.write_text("\n".join(other for other in lines if other != line) + "\n")


def test_complete_kernel_passes(copy: kernel.Kernel) -> None:
    copy.check()


def test_missing_option_is_named(copy: kernel.Kernel) -> None:
    remove(copy.path / "config", "CONFIG_SCHED_CLASS_EXT=y")
    with pytest.raises(VmError, match=r"kernel \S+ is built without CONFIG_SCHED_CLASS_EXT: another kernel is needed"):
        copy.check()


def test_missing_kfuncs_are_named_and_alternatives_count(copy: kernel.Kernel) -> None:
    remove(copy.path / "functions", "scx_bpf_dsq_insert___v2")
    copy.check()
    remove(copy.path / "functions", "scx_bpf_dsq_insert")
    remove(copy.path / "functions", "bpf_iter_scx_dsq_new")
    with pytest.raises(VmError, match=r"scx_bpf_dsq_insert___v2\|scx_bpf_dsq_insert, bpf_iter_scx_dsq_new"):
        copy.check()


def write(directory: Path, declaration: str, value: str) -> Path:
    (directory / "one.bpf.c").write_text(PROGRAM % (declaration, value))
    return directory


def test_bpf_objects_have_btf_and_no_dwarf(built: image.Image, tmp_path: Path) -> None:
    source = write(tmp_path, "int scx_bpf_task_cpu(const struct task_struct *p) __ksym;", "scx_bpf_task_cpu(p)")
    made = bpf.ensure(built, source)
    assert [path.name for path in made.iterdir()] == ["one.bpf.o"]
    sections = subprocess.run(["readelf", "-SW", made / "one.bpf.o"], capture_output=True, check=True).stdout
    assert b" .BTF " in sections
    assert b".debug" not in sections
    assert bpf.ensure(built, source) == made
    assert bpf.ensure(built, write(tmp_path, "", "0")) != made


def test_bpf_warning_is_an_error(built: image.Image, tmp_path: Path) -> None:
    with pytest.raises(VmError, match=r"compiling bpf/one\.bpf\.c failed") as caught:
        bpf.ensure(built, write(tmp_path, "static int unused;", "0"))
    assert "unused variable" in caught.value.detail


def test_bpf_call_of_a_missing_kfunc_is_named(built: image.Image, tmp_path: Path) -> None:
    weak = "int scx_bpf_nothing(void) __ksym __weak;"
    bpf.ensure(built, write(tmp_path, weak, "bpf_ksym_exists(scx_bpf_nothing) ? scx_bpf_nothing() : 0"))
    with pytest.raises(VmError, match=r"the BTF of kernel \S+ lacks: scx_bpf_nothing"):
        bpf.ensure(built, write(tmp_path, weak.replace(" __weak", ""), "scx_bpf_nothing()"))


def test_initrd_is_small_and_has_the_disk_driver(built: image.Image) -> None:
    content = initrd.ensure(built, built.modules).read_bytes()
    assert len(content) < 1_500_000
    assert b"modules/00-virtio_blk.ko\0" in content
    assert initrd.ensure(built, None) != initrd.ensure(built, built.modules)


def test_another_kernel_brings_its_modules(built: image.Image) -> None:
    vmlinuz = next((built.rootfs / "boot").glob("vmlinuz-*"))
    script = """
        uname -r; grep -c /usr/lib/modules /proc/mounts
        modprobe null_blk && ls -d /lib/modules/$(uname -r)/build/.
    """
    done = subprocess.run([REPO / "vm/run", "--kernel", vmlinuz, "--", "sh", "-c", script], capture_output=True,
                          timeout=120, check=False)
    release = built.kernel.release
    assert done.stdout.decode().split() == [release, "1", f"/lib/modules/{release}/build/."], done.stderr


def test_unusable_kernel_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "kernel"
    file.write_bytes(b"no kernel" * 1000)
    done = subprocess.run([REPO / "vm/run", "--kernel", file, "--", "true"], capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (125, b"")
    assert done.stderr.decode() == f"vm: {file} is neither a bzImage nor an ELF kernel\n"
