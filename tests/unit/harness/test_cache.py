# SPDX-License-Identifier: GPL-2.0-or-later
"""Old entries of the cache go when a new one is made, by several machines at once."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from vm import host


def test_old_entries_go_and_one_that_another_machine_removes_meanwhile_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host, "cache_dir", lambda: tmp_path)
    old, new, kept, lock = (tmp_path / name for name in ("x-old", "x-new", "x-kept", "x.lock"))
    for path in (old, new, kept, lock):
        path.write_text("")
    for path in (old, kept, lock):
        os.utime(path, (0, 0))
    (tmp_path / "x-gone").symlink_to(tmp_path / "nothing")  # it is listed, and not there when it is looked at
    host.prune("x*", kept)
    assert {path.name for path in tmp_path.iterdir()} == {"x-new", "x-kept", "x.lock", "x-gone"}
