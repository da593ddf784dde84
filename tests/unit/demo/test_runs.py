# SPDX-License-Identifier: GPL-2.0-or-later
"""The demo's runs: one that fails takes no other's measurements along. The runs here measure nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from ctl.demo import __main__ as demo
from ctl.demo import results
from ctl.demo.progress import Progress
from ctl.demo.scenario import Scenario
from ctl.errors import CoschedError
from tests.unit.demo.test_report import measurement


class Runs(demo.Runs):
    """Runs of which those of csm fail."""

    def measure(self, config: str, label: str, progress: Progress) -> dict[str, Any]:
        """What a guest would leave."""
        if config == "csm":
            raise CoschedError(f"measuring {label} failed, vm/run ended with status 124")
        return {**measurement(), "config": config, "commit": "c0ffee"}


@pytest.mark.parametrize(("configs", "kept"), [("eevdf,csm,fit", ["eevdf", "fit"]), ("csm", None)])
def test_others_are_told_and_written(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, configs: str, kept: list[str] | None
) -> None:
    monkeypatch.setattr(demo, "Runs", Runs)
    monkeypatch.setattr("ctl.demo.__main__.subprocess.run", lambda *_, **__: None)
    written = tmp_path / "measured.jsonl"
    result = CliRunner().invoke(demo.cli, ["--configs", configs, "--json", str(written)])
    assert isinstance(result.exception, CoschedError)
    assert result.exception.status == 1 and "csm failed" in str(result.exception)
    if kept is None:
        assert not written.exists()
    else:
        assert "Measured in" in result.output
        measured = results.read(written)
        assert measured.head["command"] == f"just demo --scenario two --configs {configs} --repeat 1"
        assert Scenario.from_json(json.dumps(measured.head["scenario"])) == Scenario()
        assert [run["config"] for run in measured.runs] == kept and measured.commits == "c0ffee"
