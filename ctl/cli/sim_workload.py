# SPDX-License-Identifier: GPL-2.0-or-later
"""`ctl sim workload`: describe a job log, or generate a log by a workload model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ctl.cli.common import JSON, Renamed, emit, output_option, table
from ctl.errors import USAGE, CoschedError

if TYPE_CHECKING:
    from ctl.sim.workloads.swf import Log

__all__ = ["workload"]


@click.command(cls=Renamed, old={"--out": "--output"})
@click.argument("log", type=click.Path(path_type=Path), required=False)
@click.option("--skip-malformed", is_flag=True, help="leave out malformed lines and count them instead of failing")
@click.option("--generate", type=click.Choice(["lublin"]), help="generate a log by this model")
@click.option("--jobs", type=click.IntRange(1, 10_000_000), default=1000, show_default=True, help="to generate")
@click.option("--nodes", type=click.IntRange(1, 1_000_000), default=128, show_default=True, help="of the machine")
@click.option("--kind", type=click.Choice(["all", "batch", "interactive"]), default="all", show_default=True)
@click.option("--seed", type=click.IntRange(0, 2**63), default=1, show_default=True)
@output_option("write the log here; .gz is compressed")
@JSON
def workload(
    log: Path | None,
    skip_malformed: bool,
    generate: str | None,
    jobs: int,
    nodes: int,
    kind: str,
    seed: int,
    output: Path | None,
    as_json: bool,
) -> None:
    """Describe a job LOG, or generate a log. Logs are in the Standard Workload Format.

    \b
    Examples:
      ctl sim workload log.swf.gz
      ctl sim workload --generate lublin --jobs 5000 --nodes 16 --output lublin.swf
    """
    from ctl.sim.workloads import summary, swf

    if (log is None) == (generate is None):
        raise CoschedError("give a LOG to read, or --generate lublin, and not both", USAGE)
    found = swf.read(log, skip_malformed) if log else summary.lublin_log(seed, jobs, nodes, kind)
    if output is not None:
        swf.write(output, found)
    said = summary.summary(found)
    emit(said, as_json, lambda: _show(found, said))


def _show(log: Log, said: dict[str, Any]) -> None:
    rows = [(name, _text(value)) for name, value in said.items()]
    table(("measured", "value"), rows, right=("value",))
    for line in log.skipped[:5]:
        click.echo(f"skipped: {line}", err=True)


def _text(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name}: {_text(of)}" for name, of in value.items())
    return "–" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)
