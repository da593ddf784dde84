# SPDX-License-Identifier: GPL-2.0-or-later
"""Fetch Debian's linux-source package of a kernel's series, and unpack what is wanted of it.

This repository has none of the kernel's text: it is fetched at its first use.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from vm.host import VmError, run
from vm.image import SUITE, Source
from vm.kernel import Kernel

__all__ = ["fetch", "package_of", "unpack", "version_of"]


def package_of(kernel: Kernel) -> str:
    """Return the name of the package with a kernel's source, such as linux-source-7.2."""
    series = re.match(r"\d+\.\d+", kernel.release)
    if series is None:
        raise VmError(f"no kernel series in the release {kernel.release!r}")
    return f"linux-source-{series[0]}"


def fetch(package: str, source: Source, work: Path) -> Path:
    """Download a package of the image's suite with the host's apt, whose own state is not touched, and return the file.

    work is an empty directory, for apt's lists too.
    """
    for directory in ("state/lists/partial", "cache/archives/partial"):
        (work / directory).mkdir(parents=True)
    (work / "status").touch()
    (work / "sources.list").write_text(f"deb {source.url} {SUITE} main\n")
    options = [
        f"Dir::State={work}/state", f"Dir::State::status={work}/status", f"Dir::Cache={work}/cache",
        f"Dir::Etc::SourceList={work}/sources.list", "Dir::Etc::SourceParts=-", "Acquire::Check-Valid-Until=false",
        "APT::Sandbox::User=root", "Acquire::Languages=none", "Acquire::Retries=3",
    ]
    flags = [flag for option in options for flag in ("-o", option)]
    run(["apt-get", *flags, "-qq", "update"], f"reading the package list of {SUITE} at {source.url}")
    download = shlex.join(["apt-get", *flags, "-qq", "download", package])
    run(["sh", "-c", f"cd {shlex.quote(str(work))} && exec {download}"], f"fetching {package} from {source.url}")
    return next(work.glob(f"{package}_*.deb"))


def version_of(deb: Path) -> str:
    """Return the version of a package file."""
    return run(["dpkg-deb", "--field", deb, "Version"], f"reading {deb.name}").decode().strip()


def unpack(deb: Path, out: Path, part: str = "") -> None:
    """Unpack the source, or one directory of it, into out; what else is in the package never touches the disk."""
    package = deb.name.partition("_")[0]
    wanted = f"{package}/{part}" if part else package
    script = (f"set -o pipefail; dpkg-deb --fsys-tarfile {shlex.quote(str(deb))}"
              f" | tar -xO ./usr/src/{package}.tar.xz"
              f" | tar -xJ -C {shlex.quote(str(out))} --strip-components={1 + part.count('/') + bool(part)} {wanted}")
    run(["bash", "-c", script], f"unpacking {deb.name}")
