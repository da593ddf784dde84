# SPDX-License-Identifier: GPL-2.0-or-later
"""`ctl load`, `agent`, `unload`, `switch`, `get`, `set`, `policies`: the scheduler and its settings."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any, TypeVar, cast

import click

from ctl import policy
from ctl.cli.common import JSON, emit, settings, table
from ctl.errors import USAGE, CoschedError, brief
from ctl.policy import config
from ctl.policy import values as knob_values
from ctl.policy.config import Choice

__all__ = ["agent", "chosen", "get", "load", "policies", "policy_options", "policy_word", "set_", "switch", "unload"]

F = TypeVar("F", bound=Callable[..., object])


def policy_word(function: F) -> F:
    """POLICY or --policy POLICY, as `name`; None without either."""

    @functools.wraps(function)
    def with_one(*arguments: Any, word: str | None, option: str | None, **others: Any) -> Any:
        if word is not None and option is not None and word != option:
            what = f"the policy is named twice, {brief(word)} and --policy {brief(option)}"
            raise CoschedError(f"{what}: leave one out", USAGE)
        return function(*arguments, name=option if word is None else word, **others)

    named = click.argument("word", metavar="[POLICY]", required=False)
    option = click.option("--policy", "-p", "option", metavar="POLICY", help="how the ready queues are ordered; `ctl "
                          "policies` lists them")  # fmt: skip
    return cast(F, named(option(with_one)))


def policy_options(function: F) -> F:
    """POLICY or --policy POLICY, --set KNOB=VALUE, --no-config, as `name`, `assignments` and `no_config`; see
    `chosen`."""
    leave_out = click.option("--no-config", is_flag=True, help="leave out /etc/cosched.conf")
    return policy_word(settings(leave_out(function)))


def chosen(name: str | None, assignments: tuple[str, ...], no_config: bool) -> Choice:
    """The settings by these options and the file. Raises CoschedError (status 2)."""
    return config.choose(name, assignments, None if no_config else config.load())


def _options(choice: Choice) -> Any:
    from ctl.process.daemon import Options

    return Options(choice.policy.name, dict(choice.values))


_COMPILED_S = 120.0  # loading the compiler holds Python's lock: an emulated agent is mute for seconds


def _sensors_ready() -> tuple[str, str]:
    """Wait until the agent's sensors have started, or failed to; returns their state, and the reason of a failure."""
    from ctl.protocol import Client

    with Client(timeout=_COMPILED_S) as agent:
        while (now := agent.call("status")["sensors"])["state"] == "starting":
            time.sleep(0.1)
    return now["state"], now["reason"]


@click.command()
@policy_options
@click.option("--wait", is_flag=True, help="return when all sensors observe; status 1 if one failed")
@JSON
def load(name: str | None, assignments: tuple[str, ...], no_config: bool, wait: bool, as_json: bool) -> None:
    """Load the in-kernel scheduler and start its agent.

    Policy and knobs are those of /etc/cosched.conf, as far as the options do not say otherwise; `ctl config show` tells
    what would be loaded.

    Returns when the kernel runs the scheduler and sockets are observed. Page faults and user input follow a second or
    two later: --wait waits for them, and `ctl status` shows the state; --set sensors=off leaves all three out. After a
    failure the kernel is on its own scheduler, and the error names the reason.

    \b
    Examples:
      ctl load csm
      ctl load --policy csm --set mno=4 --set quantum_ms=10
      ctl load --policy rr --set sensors=off
      ctl load                            policy and knobs of /etc/cosched.conf
    """
    choice = chosen(name, assignments, no_config)
    from ctl.process.daemon import start

    answer, reason = start(_options(choice)), ""
    if wait:
        answer["sensors"], reason = _sensors_ready()

    def people() -> None:
        click.echo(
            f"policy {answer['policy']} (rule {answer['rule']}) enabled after {answer['enabled_s']:.2f} s, "
            f"ready after {answer['ready_s']:.2f} s; sensors {answer['sensors']}, agent pid {answer['pid']}"
        )
        if answer["voided"]:
            from ctl.kernel import cpu_limits

            click.echo(cpu_limits.in_words(answer["voided"]))

    emit(answer, as_json, people)
    if reason:
        raise CoschedError(f"the policy is loaded, but {reason}; until then a local user is assumed")


@click.command()
@policy_options
def agent(name: str | None, assignments: tuple[str, ...], no_config: bool) -> int:
    """Run the agent in the foreground, for a service manager.

    Loads the scheduler, tells the service manager (sd_notify), and unloads it on SIGTERM. Policy and knobs are those of
    /etc/cosched.conf, as far as the options do not say otherwise; without any policy csm.

    \b
    Examples:
      ctl agent
      ctl agent --policy csm --set mno=4
    """
    from ctl.process.daemon import foreground

    return foreground(_options(chosen(name, assignments, no_config)))


@click.command()
@JSON
def unload(as_json: bool) -> None:
    """Unload the scheduler and end its agent. Jobs run on under the kernel's own scheduler.

    Ends an agent by force if it does not answer, and cleans up after a killed agent.

    \b
    Example:
      ctl unload
    """
    from ctl.process.daemon import stop

    stop()
    emit({"loaded": False}, as_json, lambda: click.echo("unloaded: the kernel is back on its own scheduler"))


@click.command()
@policy_word
@settings
@JSON
def switch(name: str | None, assignments: tuple[str, ...], as_json: bool) -> None:
    """Change the policy of the running scheduler. The kernel's own scheduler never runs meanwhile.

    \b
    Examples:
      ctl switch rr
      ctl switch --policy csm-bounded --set mno=8
    """
    if name is None:
        raise CoschedError("no policy is named: `ctl switch csm`; `ctl policies` lists them", USAGE)
    row = policy.find_policy(name)
    values = knob_values.parse_assignments(assignments)
    knob_values.check_live(values)
    from ctl.protocol import Client

    with Client() as connection:
        answer = connection.call("switch", policy=row.name, knobs=values)
    emit(answer, as_json, lambda: click.echo(f"policy {answer['policy']} (rule {answer['rule']})"))


@click.command()
@click.argument("knob", required=False)
@JSON
def get(knob: str | None, as_json: bool) -> None:
    """Print the value of a knob, or of all knobs.

    \b
    Examples:
      ctl get mno
      ctl get --json
    """
    if knob is not None:
        policy.find_knob(knob)
    from ctl.protocol import Client

    with Client() as connection:
        values: dict[str, Any] = connection.call("get")
    if knob is not None:
        emit({knob: values[knob]}, as_json, lambda: click.echo(_word(values[knob])))
        return
    rows = [(name, _word(value), policy.KNOBS[name].unit) for name, value in values.items()]
    emit(values, as_json, lambda: table(("knob", "value", "unit"), rows, right=("value",)))


def _word(value: object) -> str:
    return "-" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


@click.command("set")
@click.argument("assignments", metavar="KNOB=VALUE…", nargs=-1, required=True)
@JSON
def set_(assignments: tuple[str, ...], as_json: bool) -> None:
    """Change knobs of the running scheduler, all in one step. If a value is wrong, no knob changes.

    \b
    Examples:
      ctl set mno=4
      ctl set mnol=2 mnod=20 overload=on
    """
    values = knob_values.parse_assignments(assignments)
    knob_values.check_live(values)
    from ctl.protocol import Client

    with Client() as connection:
        now: dict[str, Any] = connection.call("set", knobs=values)
    changed = {name: now[name] for name in values}
    emit(now, as_json, lambda: click.echo(", ".join(f"{k} = {_word(v)}" for k, v in changed.items())))


@click.command()
@JSON
def policies(as_json: bool) -> None:
    """List the policies, and the knobs with range and default.

    \b
    Example:
      ctl policies
    """
    columns = ("name", "rule", "meaning", "modules", "contracts", "reference")
    rows = [
        (p.name, p.rule, p.meaning, knob_values.modules(p), ", ".join(policy.contracts(p)), p.reference)
        for p in policy.POLICIES.values()
    ]
    knobs = [(k.name, k.range, _word(k.default), k.meaning, k.reference) for k in policy.KNOBS.values()]
    everything = {
        "policies": [dict(zip(columns, row, strict=True)) for row in rows],
        "knobs": [
            {
                "name": k.name,
                "range": k.range,
                "unit": k.unit,
                "default": k.default,
                "live": k.live,
                "meaning": k.meaning,
                "reference": k.reference,
            }
            for k in policy.KNOBS.values()
        ],
    }

    def people() -> None:
        table(("policy", "insert rule", "order of the ready queue", "modules", "contracts", "source"), rows)
        click.echo()
        table(("knob", "allowed", "default", "meaning", "source"), knobs)

    emit(everything, as_json, people)
