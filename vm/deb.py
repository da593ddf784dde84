# SPDX-License-Identifier: GPL-2.0-or-later
"""Build the Debian package of this checkout in a root of the image's suite, and let lintian judge it.

An entry of the cache, deb-<key>/, has the package and lintian's words. The key is made of all that goes into it.
"""

from __future__ import annotations

import argparse
import re
import shutil
from pathlib import Path

from ctl import __version__
from vm import checkout, chroot, image
from vm.cli import guarded
from vm.host import REPO, VmError, cache_dir, content_key, fresh_dir, locked, prune, run, stage

__all__ = ["VERSION", "build", "ensure"]

VERSION = __version__

_RECIPE = "1"  # raise when the way the package is made changes its content
_SOURCES = (  # files, and directories with all that is in them
    "LICENSE", "README.md", "bpf", "ctl", "debian", "docs/cosched.7", "docs/grafana.json", "docs/man.py",
    "docs/policies.md", "pyproject.toml", "vm/*.policy", "vm/*.service", "vm/*.timer",
)
_TOOLS = ("build-essential", "lintian")  # besides what debian/control asks for
_BUNDLED = "debian/bundled"  # packages of PyPI, see debian/rules
_VERSION = re.compile(r"\d[A-Za-z0-9.+~]*")  # Debian's, of a native package
_LINTIAN = "lintian --allow-root --fail-on error --tag-display-limit 0"


def build(argv: list[str] | None = None) -> int:
    """Entry point of vm/deb."""
    parser = argparse.ArgumentParser(prog="vm/deb", description="Build the Debian package and copy it to a directory.")
    parser.add_argument("--out", type=Path, default=REPO / "build/dist", metavar="DIR", help="default build/dist")
    parser.add_argument("--version", default=VERSION, help="another version than ctl's (%(default)s)")
    options = parser.parse_args(argv)
    return guarded(lambda: _build(options.version, options.out))


def _build(version: str, out: Path) -> int:
    package = ensure(version)
    out.mkdir(parents=True, exist_ok=True)
    shutil.copy2(package, out)
    print(out / package.name)
    return 0


def ensure(version: str = VERSION) -> Path:
    """Return the package of the checkout as it is now, building it when it is not in the cache.

    Raises VmError when it does not build, or when lintian finds an error in it.
    """
    if not _VERSION.fullmatch(version):
        raise VmError(f"the version {version!r} does not begin with a digit, or has other characters than letters, "
                      "digits and .+~: give one as in --version 1.2")
    source = image.Source.from_environment()
    wanted = {path.relative_to(REPO) for part in _SOURCES for path in REPO.glob(part)}
    names = [name for name in checkout.files() if wanted.intersection((Path(name), *Path(name).parents))]
    parts = [part for name in names for part in (name, (REPO / name).read_bytes())]
    root = _root(source)
    entry = cache_dir() / f"deb-{content_key(_RECIPE, root.parent.name, version, *image.wheels(), *parts)}"
    if not entry.exists():
        with locked(entry.name):
            if not entry.exists():
                with fresh_dir(entry) as work:
                    _make(root, work, names, version)
        prune("deb-*", entry)
    return next(entry.glob("cosched_*.deb"))


def _root(source: image.Source) -> Path:
    """Return the root with what the build needs, unpacking it when it is not in the cache."""
    packages = [*_TOOLS, *_build_depends()]
    entry = cache_dir() / f"debroot-{content_key(_RECIPE, image.SUITE, source.url, *packages)}"
    if not entry.exists():
        with locked(entry.name):
            if not entry.exists():
                with fresh_dir(entry) as work, stage(f"vm: Debian {image.SUITE} with what builds packages"):
                    image.bootstrap(work / "rootfs", source, packages, variant="minbase", excluded=(),
                                    log=cache_dir() / "mmdebstrap-deb.log")
        prune("debroot-*", entry, days=14)
    return entry / "rootfs"


def _build_depends() -> list[str]:
    """Return the names of debian/control's Build-Depends."""
    field = re.search(r"^Build-Depends:((?:\n? .*)+)", (REPO / "debian/control").read_text(), re.M)
    assert field is not None, "debian/control has no Build-Depends"
    return [word.split()[0] for word in field[1].split(",") if word.strip()]


def _make(root: Path, work: Path, names: list[str], version: str) -> None:
    """Build into work, and leave the package and lintian's words there."""
    tree = work / "source"
    for name in names:
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(REPO / name, tree / name)
    (tree / "debian/changelog").write_text(_changelog(version))
    shutil.copytree(image.ensure().python, tree / _BUNDLED, ignore=shutil.ignore_patterns("*.dist-info", "__pycache__"))
    binds = {"/mnt": work}
    with stage(f"vm: cosched_{version} for Debian {image.SUITE}"):
        build = ["sh", "-c", "cd /mnt/source && exec dpkg-buildpackage --build=binary --no-sign"]
        chroot.run_in(root, build, "building the Debian package", binds)
    with stage("vm: lintian"):
        judge = ["sh", "-c", f"{_LINTIAN} /mnt/cosched_{version}_amd64.deb 2>&1"]
        (work / "lintian").write_bytes(chroot.run_in(root, judge, "lintian", binds))
    shutil.rmtree(tree)


def _changelog(version: str) -> str:
    """Return a debian/changelog of one entry, at the time of the newest commit, so that builds repeat."""
    maintainer = re.search(r"^Maintainer: (.*)", (REPO / "debian/control").read_text(), re.M)
    assert maintainer is not None, "debian/control has no Maintainer"
    date = run(["git", "-C", REPO, "-c", "safe.directory=*", "log", "-1", "--format=%cD", "--", *_SOURCES],
               "reading the checkout").decode().strip()
    return (f"cosched ({version}) {image.SUITE}; urgency=medium\n\n  * Built from commit {checkout.commit()}.\n\n"
            f" -- {maintainer[1]}  {date}\n")
