# SPDX-License-Identifier: GPL-2.0-or-later
"""The host side's tools: this file runs programs, keeps the cache, and turns a failure into one clear line."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

__all__ = [
    "REPO", "VmError", "cache_dir", "content_key", "fresh_dir", "locked", "need_programs", "prune", "run", "stage",
]

REPO = Path(__file__).resolve().parent.parent

_LAST_LINES = 15  # of a failed program's output; enough for apt's and clang's reason


class VmError(Exception):
    """A failure in one sentence; detail has the failing program's last lines, if any."""

    def __init__(self, message: str, detail: str = "") -> None:
        super().__init__(message)
        self.detail = detail


def cache_dir() -> Path:
    """Return the directory all generated files live under, made when missing."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "cosched"
    base.mkdir(parents=True, exist_ok=True)
    return base


def content_key(*parts: str | bytes) -> str:
    """Return a short key that changes whenever one of the parts does."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()[:12]


def need_programs(programs: Iterable[str]) -> None:
    """Raise VmError that names what is missing on the host."""
    path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    missing = [name for name in programs if shutil.which(name, path=path) is None]
    if missing:
        raise VmError(f"not installed on this machine: {', '.join(missing)}; './just setup' installs what is needed")


def run(
    argv: Sequence[str | Path], what: str, *, stdin: bytes | None = None, root: bool = False, log: Path | None = None
) -> bytes:
    """Run a program to its end and return its standard output.

    root: run through sudo unless already root. log: where to keep all output, for programs worth a later look.
    Raises VmError, "what" being the sentence's subject, when the program fails or is missing.
    """
    full = [str(arg) for arg in argv]
    if root and os.geteuid() != 0:
        full = ["sudo", *full]
    env = dict(os.environ, LC_ALL="C.UTF-8")
    env["PATH"] = env.get("PATH", "/usr/bin:/bin") + ":/usr/sbin:/sbin"
    try:
        process = subprocess.Popen(full, stdin=subprocess.PIPE if stdin else subprocess.DEVNULL, env=env,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    except FileNotFoundError as err:
        raise VmError(f"{what}: {full[0]} is not installed; './just setup' installs what is needed") from err
    with process:
        try:
            stdout, stderr = process.communicate(stdin)
        except BaseException:
            process.terminate()  # not killed: mmdebstrap has mounts and children to end
            raise
    if log is not None:
        log.write_bytes(b"$ " + shlex.join(full).encode() + b"\n" + stdout + stderr)
    if process.returncode != 0:
        lines = [line.strip() for line in (stderr or stdout).decode(errors="replace").splitlines() if line.strip()]
        where = f"; all of its output is in {log}" if log else ""
        raise VmError(f"{what} failed: {full[0]} ended with status {process.returncode}{where}",
                      "\n".join(lines[-_LAST_LINES:]))
    return stdout


@contextlib.contextmanager
def stage(title: str) -> Iterator[None]:
    """Print the current step and its seconds on stderr, in one line."""
    begin = time.monotonic()
    live = sys.stderr.isatty()
    if live:
        print(f"{title} ...", end="", file=sys.stderr, flush=True)
    try:
        yield
    except BaseException:
        if live:
            print(file=sys.stderr)
        raise
    print(f"{chr(13) if live else ''}{title}: {time.monotonic() - begin:.1f} s", file=sys.stderr, flush=True)


@contextlib.contextmanager
def locked(name: str) -> Iterator[None]:
    """Keep other processes of this user out while an entry of the cache is made."""
    with open(cache_dir() / f"{name}.lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def fresh_dir(final: Path) -> Iterator[Path]:
    """Yield an empty directory that becomes "final" in one step when the block succeeds, and vanishes when it fails."""
    work = final.with_name(final.name + ".new")
    _remove_tree(work)
    work.mkdir(parents=True)
    try:
        yield work
        _remove_tree(final)
        work.rename(final)
    except BaseException:
        _remove_tree(work)
        raise


def prune(pattern: str, keep: Path, days: float = 7.0) -> None:
    """Remove cache entries that match pattern and were not used for some days; a running guest keeps its open files."""
    oldest = time.time() - days * 86400
    for path in cache_dir().glob(pattern):
        if path != keep and not path.name.endswith(".lock"):
            with contextlib.suppress(FileNotFoundError):  # another machine that starts now has removed it
                if path.stat().st_mtime < oldest:
                    _remove_tree(path)


def _remove_tree(path: Path) -> None:
    """Remove a tree, with sudo if an unpacked root in it belongs to root.

    A killed mmdebstrap may leave the host's own /dev or /sys mounted in the tree; mounts are never followed.
    """
    if path.is_dir():
        run(["rm", "-rf", "--one-file-system", "--", path], f"removing {path}", root=(path / "rootfs").exists())
    else:
        path.unlink(missing_ok=True)
