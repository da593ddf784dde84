# SPDX-License-Identifier: GPL-2.0-or-later
"""`ctl cluster`: found a cluster, invite nodes, join, leave, run its broker."""

from __future__ import annotations

import asyncio
import os
import socket
import stat
import sys
import time
from typing import Any

import click

from ctl.cli.common import JSON, Group, emit, print_event, table
from ctl.errors import FAILED, USAGE, CoschedError

__all__ = ["cluster", "show_cluster"]

# Kinds that `ctl cluster events` prints
_EVENTS = ("follow", "event", "cluster", "local_user", "stop", "weight", "agent", "lost")
_MIB = 1 << 20


@click.group(cls=Group)
def cluster() -> None:
    """Make nodes cooperate in slowing and stopping jobs. If a node slows down or stops a job, all nodes that hold the
    job do so.

    \b
    Examples:
    ctl cluster init                                          on the first node
    ctl cluster invite node2 | ssh node2 ctl cluster join     there, for each other node
    ctl cluster revoke node2                                  there: its key counts no more
    """


@cluster.command()
@click.option("--node", "name", metavar="NAME", help="name of this node  [default: its host name]")
@click.option("--address", metavar="HOST[:PORT]", help="where other nodes reach this node  [default: found out, :4222]")
@click.option(
    "--broker",
    "others",
    metavar="NODE=HOST[:PORT]",
    multiple=True,
    help="another node with a broker; with three brokers in all, any one may fail",
)
@click.option("--next", "following", metavar="NAME", help="the first node to invite  [default: node1 -> node2]")
@click.option("--no-start", is_flag=True, help="do not start the broker; a service runs `ctl cluster serve`")
@JSON
def init(
    name: str | None, address: str | None, others: tuple[str, ...], following: str | None, no_start: bool, as_json: bool
) -> None:
    """Found a cluster on this node, and start its broker. Prints an invitation for the next node.

    Writes the cluster's secrets to /etc/cosched/cluster. An invitation contains the next node's key: its holder can act
    as this node. Send it over ssh, as in the example.

    \b
    Examples:
      ctl cluster init | ssh node2 ctl cluster join
      ctl cluster init --node lab1 --address 10.0.0.1 --broker lab2=10.0.0.2 --broker lab3=10.0.0.3
    """
    from ctl.cluster.membership import Files, default_name, found, invite, next_name
    from ctl.process import broker as serve

    files = Files()
    name = name or default_name()
    brokers = dict(_pair(other) for other in others)
    following = following or next(iter(brokers), next_name(name))
    found(files, name, address or _own_address(), brokers)
    invitation = invite(files, following)
    if not no_start:
        serve.start(files)

    def people() -> None:
        click.echo(f"this node is {name}; `ctl cluster join` on {following}, within a day, takes:", err=True)
        click.echo(invitation)

    emit({"node": name, "next": following, "invitation": invitation}, as_json, people)


@cluster.command("invite")
@click.argument("name", metavar="NODE")
@JSON
def invite_(name: str, as_json: bool) -> None:
    """Print an invitation for another node. It can be taken within a day.

    A second invitation gives the node a new key. The old key stays good until `ctl cluster revoke`.

    \b
    Example:
      ctl cluster invite lab4 | ssh lab4 ctl cluster join
    """
    from ctl.cluster.membership import Files, invite

    invitation = invite(Files(), name)
    emit({"node": name, "invitation": invitation}, as_json, lambda: click.echo(invitation))


@cluster.command("revoke")
@click.argument("name", metavar="NODE")
@JSON
def revoke_(name: str, as_json: bool) -> None:
    """Make a node's keys worthless on all brokers, at once. Use it on the node of `ctl cluster init`.

    The node works on alone. Invited again, it has a new key.

    \b
    Example:
      ctl cluster revoke lab4
    """
    from ctl.cluster.membership import Files
    from ctl.cluster.revocation import revoke

    told, missed = revoke(Files(), name)

    def people() -> None:
        click.echo(f"{name} is no member any more: the brokers on {', '.join(told)} refuse its key")
        if missed:
            click.echo(f"not reached, told by the others once they are back: {', '.join(missed)}", err=True)

    emit({"node": name, "told": told, "missed": missed}, as_json, people)


@cluster.command()
@JSON
def renew(as_json: bool) -> None:
    """Renew the brokers' certificates that will end within four months. Use it on the node of `ctl cluster init`.

    This happens by itself once a day, by the timer cosched-renew or, without systemd, by the broker.
    """
    from ctl.cluster.membership import Files
    from ctl.cluster.renewal import renew

    ends, missed = asyncio.run(renew(Files()))
    days = {name: time.strftime("%Y-%m-%d", time.localtime(end)) for name, end in ends.items()}

    def people() -> None:
        if not ends and not missed:
            click.echo("this cluster was founded when certificates had no end")
        for name, day in days.items():
            click.echo(f"{name}: its certificate is good until {day}")
        if missed:
            click.echo(f"not reached, and asked again by the next renewal: {', '.join(missed)}", err=True)

    emit({"ends": ends, "missed": missed}, as_json, people)


@cluster.command("join")
@click.argument("file", metavar="[FILE]", default="-")
@click.option("--no-start", is_flag=True, help="do not start the broker of this node")
@JSON
def join_(file: str, no_start: bool, as_json: bool) -> None:
    """Become a node of a cluster, by an invitation from standard input or from a file that only its owner may read.

    \b
    Examples:
      ctl cluster invite node2 | ssh node2 ctl cluster join      on the first node
      ctl cluster join                                           asks for the invitation
      ctl cluster join ./invitation
    """
    from ctl.cluster.membership import Files, join
    from ctl.process import broker as serve

    files = Files()
    member = join(files, _invitation(file))
    if not no_start:
        serve.start(files)
    servers = ", ".join(member.servers)
    emit(
        {"node": member.name, "brokers": list(member.servers)},
        as_json,
        lambda: click.echo(f"this node is {member.name} of the cluster of {servers}"),
    )


def _invitation(file: str) -> str:
    """The text of an invitation. Raises CoschedError (status 2) where others may have read it."""
    from ctl.cluster.membership import LONGEST, MARK

    most = LONGEST + 1  # one more than there may be: so a longer one is seen to be too long
    if file.startswith(MARK):
        what = "everybody on this machine can read the words of a command"
        raise CoschedError(f"{what}: `ctl cluster join` reads the invitation from its standard input", USAGE)
    if file == "-":
        if sys.stdin.isatty():
            return str(click.prompt("invitation", hide_input=True, err=True))
        return sys.stdin.read(most)
    try:
        with open(file) as opened:
            mode = stat.S_IMODE(os.fstat(opened.fileno()).st_mode)
            if mode & 0o077:
                raise CoschedError(f"others may read {file} (mode {mode:04o}): `chmod 600 {file}` first", USAGE)
            return opened.read(most)
    except (OSError, ValueError) as error:
        raise CoschedError(f"cannot read {file}: {error}", USAGE) from None


@cluster.command()
@JSON
def leave(as_json: bool) -> None:
    """Leave the cluster: end this node's broker, and forget its key.

    After the founding node has left, no node can be invited any more.
    """
    from ctl.cluster.membership import Files
    from ctl.cluster.membership import leave as forget
    from ctl.process import broker as serve

    serve.stop()
    serve.forget()
    forget(Files())
    emit({"node": None}, as_json, lambda: click.echo("this node is in no cluster"))


@cluster.command()
@click.option("--ready-fd", type=int, hidden=True)
def serve(ready_fd: int | None) -> None:
    """Run this node's broker in the foreground. For a service manager; ends on SIGTERM."""
    from ctl.cluster.membership import Files
    from ctl.process import broker as service

    def ready() -> None:
        if ready_fd is not None:
            os.write(ready_fd, b"r")
            os.close(ready_fd)

    service.start_log()
    service.serve(Files(), ready)


def _pair(text: str) -> tuple[str, str]:
    name, sign, address = text.partition("=")
    if not sign:
        raise CoschedError(f"{text!r} names no broker: write NODE=HOST, as in lab2=10.0.0.2", USAGE)
    return name, address


def _own_address() -> str:
    """The address from which this node reaches others, found without sending a packet."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # RFC 5737: an address for documentation
            return str(probe.getsockname()[0])
        except OSError:
            raise CoschedError("other nodes can reach no address of this node: give --address HOST", USAGE) from None


@cluster.command()
@JSON
def events(as_json: bool) -> None:
    """Print the messages between nodes, until interrupted. This node's reactions are printed, too.

    Prints LOCAL_U, NO_LOCAL, STOP and RESUME of every node that holds a job of this node; local users; jobs that stop
    and go on here; the connection to the broker; and dropped messages with the reason.

    \b
    Examples:
      ctl cluster events
      ctl cluster events --json
    """
    from ctl.monitor.follow import follow

    for event in follow():
        if event["kind"] in _EVENTS:
            print_event(event, as_json)


@cluster.command()
@JSON
def status(as_json: bool) -> None:
    """Print the nodes of the cluster with their sizes, this node's jobs with theirs, and counts of messages.

    \b
    Example:
      ctl cluster status
    """
    show_cluster(as_json)


def show_cluster(as_json: bool) -> None:
    """Print this node's view of its cluster. Raises CoschedError if it is in no cluster."""
    from ctl.protocol import Client

    with Client() as agent:
        answer = agent.call("status")["contract"]
    known = answer["cluster"]
    if known is None:
        events_on = answer["modules"]["events"]
        way = "`ctl cluster init` founds one" if events_on else "the events are off: `ctl set events=on`"
        raise CoschedError(f"this node works alone: {way}", FAILED)
    emit(known, as_json, lambda: _print_cluster(known))


def _print_cluster(known: dict[str, Any]) -> None:
    from ctl.contract import in_words

    broker = known["broker"] or "not connected: this node decides alone"
    click.echo(f"node {known['node']}, incarnation {known['incarnation']}, broker {broker}")
    for bucket, why in known["unwritten"].items():
        click.echo(f"records: {bucket} takes none of this node ({why}), so the other nodes do not know of its jobs")
    table(
        ("node", "speed", "memory MiB", "L"),
        [
            (node["node"], f"{node['speed']:.3g}", f"{node['memory'] / _MIB:.0f}", f"{node['share_l']:g}")
            for node in known["nodes"]
        ],
        right=("speed", "memory MiB", "L"),
        empty="the size of no node is known",
    )
    jobs = [
        (job["jid"], job["user"], in_words(job["state"]), ", ".join([known["node"], *job["nodes"]]), job["why"])
        for job in known["jobs"]
    ]
    table(("job", "user", "state", "nodes", "why"), jobs, empty="no jobs here")
    for name, counts in (("messages", known["counts"]), ("dropped", known["dropped"])):
        if counts:
            click.echo(f"{name}: " + ", ".join(f"{count} {what}" for what, count in counts.items()))
