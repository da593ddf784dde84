# SPDX-License-Identifier: GPL-2.0-or-later
"""`ctl config`: check /etc/cosched.conf without loading, show what would be loaded, and set values in it."""

from __future__ import annotations

from pathlib import Path

import click

from ctl.cli.common import JSON, Group, emit, table
from ctl.cli.control import chosen, policy_options
from ctl.errors import USAGE, CoschedError
from ctl.policy import KNOBS
from ctl.policy import config as file

__all__ = ["config"]


@click.group(cls=Group)
def config() -> None:
    """Check, show and set /etc/cosched.conf, the policy and the knobs that `ctl load` and `ctl agent` start with.

    The file is TOML: policy = "csm", and below a line [knobs] one line for each knob. The command line wins over the
    file, the file over the defaults. While anything is wrong with the file, `ctl load` is refused, or leaves the whole
    file out by --no-config.

    \b
    Examples:
      ctl config check                  before the next boot
      ctl config show                   what `ctl load` would load, and where each value comes from
      ctl config set policy=fit         write it into the file
    """


@config.command("check")
@click.argument("path", metavar="[FILE]", type=click.Path(path_type=Path), required=False)
@JSON
def check_(path: Path | None, as_json: bool) -> int:
    """Check a file, by default /etc/cosched.conf, and load nothing.

    Tells all that is wrong, one line each: what is not TOML, unknown names, values out of range, an unknown policy, a
    contract under which the policy has no meaning. Exit status: 0 nothing is wrong, 2 anything is.

    \b
    Examples:
      ctl config check
      ctl config check new.conf && sudo mv new.conf /etc/cosched.conf
    """
    found = file.read(path or file.FILE)
    if found is None and path is not None:
        raise CoschedError(f"there is no file {path}: name a file, or none for {file.FILE}", USAGE)
    checked, faults = found or (file.Config(), [])
    answer = {"file": str(path or file.FILE), "exists": found is not None, "faults": faults}

    def people() -> None:
        for fault in faults:
            click.echo(f"{path or file.FILE}: {fault}", err=True)
        if found is None:
            click.echo(f"there is no {file.FILE}: `ctl load` has policy and knobs from its options alone")
        elif not faults:
            policy = f"policy {checked.policy}" if checked.policy else "no policy"
            click.echo(f"{path or file.FILE}: {policy}, {len(checked.knobs)} knobs; nothing is wrong")

    emit(answer, as_json, people)
    return USAGE if faults else 0


@config.command()
@policy_options
@JSON
def show(name: str | None, assignments: tuple[str, ...], no_config: bool, as_json: bool) -> None:
    """Show the policy and all knobs that `ctl load` would load with the same options, and where each comes from.

    \b
    Examples:
      ctl config show
      ctl config show ccs --set mno=4 --json
    """
    choice = chosen(name, assignments, no_config)
    rows = choice.rows()
    answer = {
        "policy": {"name": choice.policy.name, "from": choice.policy_from},
        "knobs": {knob: {"value": value, "from": origin} for knob, value, origin in rows},
    }

    def people() -> None:
        click.echo(f"policy {choice.policy.name}, from: {choice.policy_from}\n")
        shown = [(knob, f"{value:g}" if isinstance(value, float) else str(value), KNOBS[knob].unit, origin)
                 for knob, value, origin in rows]  # fmt: skip
        table(("knob", "value", "unit", "from"), shown, right=("value",))

    emit(answer, as_json, people)


@config.command("set")
@click.argument("assignments", metavar="KNOB=VALUE…", nargs=-1, required=True)
@JSON
def set_(assignments: tuple[str, ...], as_json: bool) -> None:
    """Write values into /etc/cosched.conf, for the next load; policy=NAME sets the policy.

    Nothing is written unless the whole file is right with them. Its comments and its order stay. `ctl set` changes the
    scheduler that runs.

    \b
    Examples:
      ctl config set policy=fit turn_s=60
      ctl config set mno=4
    """
    from ctl.policy.config_edit import edited, write

    try:
        text = file.FILE.read_text(encoding="utf-8") if file.FILE.exists() else ""
    except (OSError, UnicodeDecodeError):
        raise CoschedError(f"{file.FILE} cannot be read: `ctl config check` tells why", USAGE) from None
    write(edited(text, assignments))
    answer = {"file": str(file.FILE), "set": list(assignments)}
    emit(answer, as_json, lambda: click.echo(f"{file.FILE}: {', '.join(assignments)}, from the next load on"))
