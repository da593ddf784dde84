# SPDX-License-Identifier: GPL-2.0-or-later
"""The modes read from insert_rq.h are those of the papers' rules in plain Python."""

from __future__ import annotations

import itertools

import pytest

from ctl.kernel.layout import RULE_NAMES
from ctl.kernel.modes import mode
from tests.reference.insert_rq import Env, Task, decided_by


@pytest.mark.parametrize("rule", RULE_NAMES)
def test_every_rule(rule: str) -> None:
    for overloaded, rec in itertools.product((False, True), (0, 2)):
        wanted = decided_by(Env(rule, "wake", overloaded), Task(1, parallel=True, rec=rec))
        assert mode(rule, overloaded=overloaded, received=rec > 0) == wanted, (overloaded, rec)
