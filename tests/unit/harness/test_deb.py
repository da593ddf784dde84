# SPDX-License-Identifier: GPL-2.0-or-later
"""What goes into the Debian package, without building it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ctl.kernel import probes
from vm import deb
from vm.host import REPO, VmError

INSTALLED = dict(line.split() for line in (REPO / "debian/cosched.install").read_text().splitlines())


def included(name: str) -> set[str]:
    """The headers of bpf/ that a file of it includes, and those that they include."""
    direct = re.findall(r'^#include "(\w+\.h)"', (REPO / "bpf" / name).read_text(), re.MULTILINE)
    return set(direct).union(*(included(header) for header in direct))


def test_the_headers_that_are_read_on_a_node_are_installed() -> None:
    read = {"insert_rq.h", "set_quantum.h"}.union(*(included(f"{name}.bcc.c") for name in probes._SOURCES))
    there = {Path(name).name for name, place in INSTALLED.items() if name.endswith(".h") and place == "usr/lib/cosched"}
    assert there == read


def test_neither_name_of_the_command_hangs_on_the_other() -> None:
    """Where another program's `ctl` takes the place of ours, `cosched` is there."""
    links = (REPO / "debian/cosched.links").read_text().splitlines()
    assert {f"{INSTALLED['debian/ctl']}/ctl usr/bin/{name}" for name in ("ctl", "cosched")} < set(links)


@pytest.mark.parametrize("version", ["", "v1", "1.2-3", "1 2", "../1"])
def test_a_version_that_debian_does_not_take_is_refused(version: str) -> None:
    with pytest.raises(VmError, match=re.escape(f"the version {version!r} does not begin with a digit")):
        deb.ensure(version)


def test_a_changelog_names_version_and_maintainer() -> None:
    maintainer = re.search(r"^Maintainer: (.*)", (REPO / "debian/control").read_text(), re.MULTILINE)
    assert maintainer is not None
    text = deb._changelog("1.2")
    assert text.startswith("cosched (1.2) forky; urgency=medium\n\n  * ")
    assert re.search(rf"^ -- {re.escape(maintainer[1])}  \w{{3}}, \d+ \w{{3}} \d{{4}} ", text, re.MULTILINE)
