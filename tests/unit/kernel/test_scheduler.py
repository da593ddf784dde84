# SPDX-License-Identifier: GPL-2.0-or-later
"""What the loader of the scheduler refuses before the kernel is asked."""

from __future__ import annotations

import pytest

from ctl.errors import USAGE, CoschedError
from ctl.kernel import refusal, sysinfo
from ctl.kernel.layout import constant


def test_more_cpus_than_it_is_built_for_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """No machine here has so many, so only the number is made up."""
    cpus = constant("MAX_CPUS") + 1
    monkeypatch.setattr(sysinfo, "possible_cpus", lambda: cpus)
    with pytest.raises(CoschedError, match=f"{cpus} CPUs.*{cpus - 1}.*MAX_CPUS") as refused:
        refusal.check_cpus()
    assert refused.value.status == USAGE
