# SPDX-License-Identifier: GPL-2.0-or-later
"""JIDs: the valid names of jobs, and proof that no other name becomes a path. Real cgroups: tests/kselftest."""

from __future__ import annotations

import string
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctl.errors import USAGE, CoschedError
from ctl.kernel.cgroups import JobCgroups
from ctl.kernel.jid import check_jid

GOOD = string.ascii_letters + string.digits + "._:-"


@given(st.text(GOOD, min_size=1, max_size=64).filter(lambda jid: jid not in (".", "..")))
def test_allowed(jid: str) -> None:
    assert check_jid(jid) == jid
    assert JobCgroups(Path("/parent")).path(jid) == Path("/parent") / jid


BAD = ["", ".", "..", "a/b", "/", "../x", "a b", "a\n", "\n", "a\0", "é", "²", "x" * 65, "x" * 9999, "a*"]


@pytest.mark.parametrize("jid", BAD)
def test_refused(jid: str) -> None:
    for refuse in (check_jid, JobCgroups(Path("/parent")).path):
        with pytest.raises(CoschedError) as caught:
            refuse(jid)
        assert caught.value.status == USAGE
        assert "64" in str(caught.value) and "JID" in str(caught.value)
        assert len(str(caught.value)) < 300 and "\n" not in str(caught.value)


@given(st.text(min_size=1, max_size=70))
def test_a_jid_is_one_component_or_refused(jid: str) -> None:
    try:
        path = JobCgroups(Path("/parent")).path(jid)
    except CoschedError:
        return
    assert path.parent == Path("/parent") and path.name == jid and ".." not in path.parts
