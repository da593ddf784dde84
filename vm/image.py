# SPDX-License-Identifier: GPL-2.0-or-later
"""Make the guest's root file system: Debian by mmdebstrap, in the cache under a key made of all its inputs.

The image holds packages and a kernel only: Debian's, and the few of PyPI that Debian lacks. This checkout, the compiled
BPF objects and the guest's init are brought in at run time, so a change to them never rebuilds it.

An entry of the cache, image-<key>/:
    rootfs/    the unpacked root; its compiler builds the BPF objects and the guest's init
    root.img   the same as ext4, which guests boot from through a copy-on-write layer
    kernel/    files from the kernel package, see kernel.py
    python/    packages unpacked by pip, see wheels.txt
"""

from __future__ import annotations

import dataclasses
import os
import pwd
import shlex
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path

from vm import kernel
from vm.host import REPO, VmError, cache_dir, content_key, fresh_dir, locked, need_programs, prune, run, stage

__all__ = ["DEFAULT_MIRROR", "IDENTITY", "SUITE", "Image", "Source", "bootstrap", "ensure", "make_disk",
           "wheels"]

SUITE = "forky"  # the first suite whose cloud kernel has sched_ext with all of its kfuncs in BTF
DEFAULT_MIRROR = "http://deb.debian.org/debian"
SNAPSHOTS = "http://snapshot.debian.org/archive/debian"

_HERE = Path(__file__).parent
_RECIPE = "1"  # raise when the way the image is made changes its content
_NEEDED_MB = 5000  # of disk: the unpacked root, its image, the guests' writes
_IMAGE_MB = 3072  # size of the file system; sparse, so unused space costs nothing
_EXCLUDED = ("/usr/share/doc/*", "/usr/share/man/*", "/usr/share/info/*", "/usr/share/locale/*", "/usr/share/lintian/*")
IDENTITY = (
    # The guest has no persistent identity: systemd makes one per boot, and root may log in on a console.
    ': > "$1/etc/machine-id"; echo cosched > "$1/etc/hostname"',
    'chroot "$1" passwd --quiet -d root',
)
_HOOKS = (
    'mkdir -p "$1/src" "$1/out" "$1/host" "$1/usr/lib/cosched"',
    # Broker, logins and Slurm are started on demand: by `ctl cluster init`, vm/guest/node, tests/slurm.
    'for unit in nats-server.service ssh.service ssh.socket munge.service slurmctld.service slurmd.service;'
    ' do ln -sf /dev/null "$1/etc/systemd/system/$unit"; done',
    *IDENTITY,
)


@dataclasses.dataclass(frozen=True)
class Source:
    """The source of the packages."""

    mirror: str = DEFAULT_MIRROR
    snapshot: str = ""

    @classmethod
    def from_environment(cls) -> Source:
        """Return the source that COSCHED_MIRROR and COSCHED_SNAPSHOT ask for."""
        return cls(os.environ.get("COSCHED_MIRROR") or DEFAULT_MIRROR, os.environ.get("COSCHED_SNAPSHOT", ""))

    @property
    def url(self) -> str:
        """The address given to apt."""
        return f"{SNAPSHOTS}/{self.snapshot}" if self.snapshot else self.mirror


@dataclasses.dataclass(frozen=True)
class Image:
    """One finished image in the cache."""

    path: Path

    @property
    def rootfs(self) -> Path:
        """The unpacked root directory."""
        return self.path / "rootfs"

    @property
    def python(self) -> Path:
        """The packages that Debian does not have, unpacked by pip."""
        return self.path / "python"

    @property
    def disk(self) -> Path:
        """The ext4 image guests boot from."""
        return self.path / "root.img"

    @property
    def kernel(self) -> kernel.Kernel:
        """The image's own kernel."""
        return kernel.Kernel(self.path / "kernel")

    @property
    def modules(self) -> Path:
        """The modules of the image's kernel."""
        return self.rootfs / "usr/lib/modules" / self.kernel.release

    @property
    def key(self) -> str:
        """This image's name in the keys of builds with it."""
        return self.path.name.removeprefix("image-")


def packages() -> list[str]:
    """Return the package list, a trailing "-" meaning "not this one"."""
    return kernel.read_words(_HERE / "packages.txt")


def wheels() -> list[str]:
    """Return the packages that pip installs, as NAME==VERSION."""
    return kernel.read_words(_HERE / "wheels.txt")


def ensure(source: Source | None = None, *, rebuild: bool = False) -> Image:
    """Return the image for this package list and source, building it when it is not in the cache."""
    source = source or Source.from_environment()
    key = content_key(_RECIPE, SUITE, source.url, *packages(), *wheels(), *_HOOKS)
    image = Image(cache_dir() / f"image-{key}")
    if image.path.exists() and not rebuild:
        os.utime(image.path)
    else:
        with locked(image.path.name):
            if rebuild or not image.path.exists():
                _build(image.path, source)
        prune("image-*", image.path, days=14)
    image.kernel.check()
    return image


def _build(path: Path, source: Source) -> None:
    need_programs(["mmdebstrap", "mke2fs", "zstd"])
    if (free := shutil.disk_usage(path.parent).free >> 20) < _NEEDED_MB:
        raise VmError(f"{free} MB are left on the file system of {path.parent}, and an image takes {_NEEDED_MB} MB: "
                      "free some, or name another place in XDG_CACHE_HOME")
    with fresh_dir(path) as work:
        with stage(f"vm: {', '.join(wheels())} from PyPI"):
            _install_wheels(work / "python")
        with stage(f"vm: Debian {SUITE} from {source.url}"):
            bootstrap(work / "rootfs", source, packages(), variant="minbase", log=cache_dir() / "mmdebstrap.log",
                      hooks=(*_HOOKS, _python_hook(work / "python")))
        with stage("vm: kernel, BTF, vmlinux.h"):
            kernel.extract(work / "rootfs", work / "kernel")
        with stage("vm: root.img"):
            make_disk(work / "rootfs", work / "root.img")


def _install_wheels(directory: Path) -> None:
    """Unpack the Python packages that are not Debian's, by this user's own pip and its configuration."""
    own = REPO / ".venv/bin/python"
    python = own if own.exists() else Path(sys.executable)
    run([python, "-m", "pip", "install", "--quiet", "--no-deps", "--no-compile", "--only-binary=:all:",
         "--target", directory, *wheels()],
        f"installing {', '.join(wheels())} for the guest ('./just setup' makes a Python that has pip)")


def _python_hook(directory: Path) -> str:
    """Return the shell line that copies pip's packages to the place where the guest's Python finds them."""
    place = "/usr/lib/python3/dist-packages"
    # a package is a directory with a name that can be imported: google, which protobuf is in, has no __init__.py
    found = [path.name for path in sorted(directory.iterdir()) if path.is_dir() and path.name.isidentifier()]
    packages = [f"{place}/{name}" for name in found]
    return (f'cp -r --no-preserve=ownership {shlex.quote(str(directory))}/. "$1{place}/"'
            f' && chroot "$1" python3 -m compileall -q {shlex.join(packages)}')


def bootstrap(
    root: Path, source: Source, wanted: Iterable[str], *, variant: str, hooks: Iterable[str] = (),
    excluded: Iterable[str] = _EXCLUDED, log: Path,
) -> None:
    """Unpack packages and their dependencies into root; hooks are shell lines with the root as "$1".

    excluded: patterns of files that dpkg leaves out.
    """
    need_programs(["mmdebstrap"] + (["sudo"] if os.geteuid() != 0 else []))
    options = [
        # A snapshot, and a mirror that lags, offers a Release file past its date.
        '--aptopt=Acquire::Check-Valid-Until "false"',
        '--aptopt=APT::Install-Recommends "false"',
        '--aptopt=Acquire::Retries "3"',
        *(f"--dpkgopt=path-exclude={pattern}" for pattern in excluded),
        *(f"--customize-hook={hook}" for hook in hooks),
    ]
    run(
        ["mmdebstrap", "--mode=root", f"--variant={variant}", f"--include={','.join(wanted)}", *options, SUITE, root,
         source.url],
        f"unpacking Debian {SUITE} from {source.url}", root=True, log=log,
    )


def make_disk(rootfs: Path, disk: Path) -> None:
    """Write rootfs as an ext4 image without mounting anything."""
    # No journal and no lazy initialisation: nothing survives a guest, and neither should run in it.
    features = "^has_journal,^metadata_csum,^resize_inode"
    run(
        ["mke2fs", "-q", "-t", "ext4", "-O", features, "-E", "lazy_itable_init=0,nodiscard", "-m", "0", "-L", "cosched",
         "-d", rootfs, disk, f"{_IMAGE_MB}M"],
        f"making {disk.name}", root=True,
    )
    if os.geteuid() != 0:
        run(["chown", pwd.getpwuid(os.getuid()).pw_name, disk], f"handing {disk.name} to the user", root=True)
