# SPDX-License-Identifier: GPL-2.0-or-later
"""The deadline server of sched_ext is set in steps that the kernel takes."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctl.errors import CoschedError
from ctl.kernel import ext_server, sysinfo
from ctl.kernel.ext_server import _steps

_PERIODS = st.integers(1, 4_000)
_SHARES = st.fractions(0, Fraction(19, 20))


@given(_PERIODS, _SHARES, _PERIODS, _SHARES)
def test_no_step_asks_for_more_than_before_or_after(before: int, had: Fraction, period: int, wanted: Fraction) -> None:
    """Of a CPU; so where both were granted, each step is."""
    now = {"period": before, "runtime": int(had * before)}
    after = {"period": period, "runtime": int(wanted * period)}
    most = max(Fraction(one["runtime"], one["period"]) for one in (now, after))
    for name, value in _steps(before, after["runtime"], period):
        now[name] = value
        assert Fraction(now["runtime"], now["period"]) <= most
    assert now == after


def test_a_locked_kernel_is_named_and_the_way_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(_cpu: Path) -> tuple[int, int]:
        raise PermissionError

    (tmp_path / "cpu0").mkdir()
    monkeypatch.setattr(ext_server, "SERVERS", tmp_path)
    level = sysinfo.lockdown
    monkeypatch.setattr(sysinfo, "lockdown", lambda: level(tmp_path / "lockdown"))
    monkeypatch.setattr(ext_server, "_read", refused)
    with pytest.raises(CoschedError, match=r"the kernel lets nobody at .*contract=queue"):
        ext_server.cpus()
    (tmp_path / "lockdown").write_text("none [integrity] confidentiality\n")
    with pytest.raises(CoschedError, match=r"locked down \(integrity\), as with Secure Boot.*contract=queue"):
        ext_server.cpus()
