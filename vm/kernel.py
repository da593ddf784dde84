# SPDX-License-Identifier: GPL-2.0-or-later
"""Take a kernel apart on the host, and name its missing features in one sentence.

The kernel is booted as the uncompressed ELF file that is inside vmlinuz: QEMU enters it directly (PVH), which saves an
emulated CPU the unpacking.
"""

from __future__ import annotations

import dataclasses
import re
import shutil
import struct
from pathlib import Path

from vm import chroot
from vm.host import VmError, run

__all__ = ["Kernel", "extract", "read_words", "unpack_vmlinuz"]

_HERE = Path(__file__).parent
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_SETUP_SECTS, _PAYLOAD = 0x1F1, 0x248  # Documentation/arch/x86/boot.rst
_FUNCTION = re.compile(r"^\[\d+\] FUNC '((?:__)?(?:scx|bpf)_\w+)'", re.M)


@dataclasses.dataclass(frozen=True)
class Kernel:
    """A directory with vmlinux (ELF), btf, vmlinux.h, config, functions, release and modules/."""

    path: Path

    @property
    def vmlinux(self) -> Path:
        """The uncompressed ELF kernel."""
        return self.path / "vmlinux"

    @property
    def release(self) -> str:
        """The output of uname -r."""
        return (self.path / "release").read_text().strip()

    @property
    def functions(self) -> set[str]:
        """Names of the scx_* and bpf_* functions in the kernel's BTF."""
        return set((self.path / "functions").read_text().split())

    def check(self) -> None:
        """Raise VmError when an option of kconfig.txt or a kernel function of kfuncs.txt is missing."""
        config = set(re.findall(r"^CONFIG_(\w+)=[ym]$", (self.path / "config").read_text(), re.M))
        if lacking := [f"CONFIG_{name}" for name in read_words(_HERE / "kconfig.txt") if name not in config]:
            raise VmError(f"kernel {self.release} is built without {', '.join(lacking)}: another kernel is needed")
        have = self.functions
        if lacking := [word for word in read_words(_HERE / "kfuncs.txt") if not have.intersection(word.split("|"))]:
            raise VmError(
                f"the BTF of kernel {self.release} lacks the kernel functions {', '.join(lacking)}, so no sched_ext "
                "scheduler loads on it: another kernel is needed"
            )


def read_words(path: Path) -> list[str]:
    """Return the words of a list file without its comments."""
    return [word for line in path.read_text().splitlines() for word in line.partition("#")[0].split()]


def unpack_vmlinuz(vmlinuz: Path, vmlinux: Path) -> None:
    """Write the ELF kernel that is inside a bzImage, or copy the file when it is one already."""
    data = vmlinuz.read_bytes()
    if data[:4] == b"\x7fELF":
        shutil.copyfile(vmlinuz, vmlinux)
        return
    if data[0x202:0x206] != b"HdrS":
        raise VmError(f"{vmlinuz} is neither a bzImage nor an ELF kernel")
    offset, length = struct.unpack_from("<II", data, _PAYLOAD)
    begin = (data[_SETUP_SECTS] + 1) * 512 + offset
    payload = data[begin:begin + length]
    if not payload.startswith(_ZSTD_MAGIC):
        raise VmError(f"{vmlinuz} is not compressed with zstd (CONFIG_KERNEL_ZSTD=y), the only method understood here")
    # The payload ends in its unpacked size, 4 bytes that are not part of the zstd frame.
    vmlinux.write_bytes(run(["zstd", "-dcq"], f"unpacking {vmlinuz}", stdin=payload[:-4]))


def extract(rootfs: Path, out: Path) -> None:
    """Take the newest kernel of a root apart into the files of class Kernel."""
    images = sorted((rootfs / "boot").glob("vmlinuz-*"))
    if not images:
        raise VmError(f"no kernel in {rootfs}/boot: the package list lacks a linux-image package")
    release = images[-1].name.removeprefix("vmlinuz-")
    out.mkdir(parents=True)
    (out / "release").write_text(release + "\n")
    unpack_vmlinuz(images[-1], out / "vmlinux")
    shutil.copyfile(rootfs / "boot" / f"config-{release}", out / "config")
    binds = {"/mnt": out}
    chroot.run_in(rootfs, ["objcopy", "--dump-section", ".BTF=/mnt/btf", "/mnt/vmlinux", "/dev/null"],
                  f"reading the BTF of kernel {release}", binds)
    dump = ["bpftool", "btf", "dump", "file", "/mnt/btf"]
    (out / "vmlinux.h").write_bytes(chroot.run_in(rootfs, [*dump, "format", "c"], "making vmlinux.h", binds))
    raw = chroot.run_in(rootfs, dump, "listing the kernel's functions", binds)
    names = sorted(set(_FUNCTION.findall(raw.decode())))
    (out / "functions").write_text("\n".join(names) + "\n")
