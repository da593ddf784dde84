# SPDX-License-Identifier: GPL-2.0-or-later
"""The Debian package in a bare guest: installed, a job under its unit, upgraded beneath the job, purged."""

from __future__ import annotations

import itertools
import json
import subprocess
from pathlib import Path

import pytest

from vm import bare, deb
from vm.session import Command, Session

pytestmark = pytest.mark.vm

GUEST = Path(__file__).with_name("package_guest")
NEWER = f"{deb.VERSION}+newer"
LIMIT_S = 900.0
LONGEST_S = 10.0  # that a job which sleeps for 0.1 s may not be heard of, on an emulated machine that unpacks a package
ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/root",
    "LANG": "C.UTF-8",
    "DEBIAN_FRONTEND": "noninteractive",
}


class Quiet(Session):
    """A session without the input of this program."""

    has_input = False


def newer(package: Path, directory: Path) -> Path:
    """The same package with a higher version."""
    tree, made = directory / "tree", directory / f"cosched_{NEWER}_amd64.deb"
    subprocess.run(["dpkg-deb", "--raw-extract", package, tree], check=True)
    control = tree / "DEBIAN/control"
    control.write_text(control.read_text().replace(f"\nVersion: {deb.VERSION}\n", f"\nVersion: {NEWER}\n"))
    subprocess.run(["dpkg-deb", "--root-owner-group", "-Zgzip", "--build", tree, made], check=True, capture_output=True)
    return made


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the guest has left in /out."""
    directory = tmp_path_factory.mktemp("package")
    package = deb.ensure()
    packages = package, newer(package, tmp_path_factory.mktemp("newer"))
    with bare.machine(package, [GUEST, *packages]) as machine:
        words = (f"/src/{GUEST.name}", *(f"/src/{package.name}" for package in packages))
        status = Quiet(machine, Command(words, ENVIRONMENT, out=directory), LIMIT_S).run()
    assert status == 0, "\n".join(f"{path.name}: {path.read_text()}" for path in sorted(directory.iterdir()))
    return directory


def told(out: Path, name: str) -> str:
    """What a command in the guest has printed."""
    return (out / name).read_text().strip()


def test_an_installation_brings_all_files_and_starts_nothing(out: Path) -> None:
    assert (told(out, "installed-active").split()[0], told(out, "installed-enabled").split()[0]) == (
        "inactive",
        "disabled",
    )
    assert told(out, "installed-version") == deb.VERSION
    assert told(out, "completed") == "plain,unload"
    assert told(out, "second-name") == f"cosched {deb.VERSION}"
    assert "csm" in told(out, "config")
    assert told(out, "missing") == ""
    files = told(out, "list").split()
    for file in (
        "/etc/cosched.conf",
        "/usr/lib/cosched/cosched.bpf.o",
        "/usr/share/man/man1/ctl-run.1.gz",
        "/usr/share/man/man5/cosched.conf.5.gz",
        "/usr/share/man/man7/cosched.7.gz",
        "/usr/lib/systemd/system/cosched.service",
        "/usr/lib/sysusers.d/cosched.conf",
    ):
        assert file in files


def test_the_unit_schedules_a_job(out: Path) -> None:
    assert told(out, "started-state") == "enabled"
    assert json.loads(told(out, "started-status"))["policy"] == "csm"
    assert told(out, "started-job").endswith("/cosched/j1")
    assert [(job["jid"], job["tasks"] > 0) for job in json.loads(told(out, "started-jobs"))] == [("j1", True)]


def test_an_upgrade_brings_a_new_agent_and_leaves_the_job_alone(out: Path) -> None:
    assert told(out, "upgraded-version") == NEWER
    assert (told(out, "upgraded-active"), told(out, "upgraded-state")) == ("active", "enabled")
    assert told(out, "upgraded-agent") == "another"
    assert told(out, "upgraded-job") == told(out, "started-job")
    assert [(job["jid"], job["tasks"] > 0) for job in json.loads(told(out, "upgraded-jobs"))] == [("j1", True)]
    assert int(told(out, "beats-behind")) > int(told(out, "beats-before"))
    times = [float(line) for line in told(out, "beats").split()]
    assert max(later - earlier for earlier, later in itertools.pairwise(times)) < LONGEST_S
    assert told(out, "job-status") == "0"


def test_a_purge_leaves_nothing(out: Path) -> None:
    assert told(out, "purged-state") == "disabled"
    assert "No files found" in told(out, "purged-unit")
    before, after = (set(told(out, name).splitlines()) for name in ("before", "after"))
    assert len(before) > 1000
    assert sorted(after - before) == []
    assert sorted(before - after) == []
