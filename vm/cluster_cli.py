# SPDX-License-Identifier: GPL-2.0-or-later
"""The command lines of vm/cluster and vm/node."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from vm import nodes, session
from vm.cli import EXIT_STATUS, add_options, between, build_machine, environment, guarded
from vm.control import Control
from vm.host import VmError

__all__ = ["cluster", "node"]

_MAX_DELAY = 10_000.0  # ms


def cluster(argv: list[str] | None = None) -> int:
    """Entry point of vm/cluster."""
    parser = argparse.ArgumentParser(
        prog="vm/cluster",
        description="Run a command as root on node1 of a fresh cluster of virtual machines, node1 to nodeN. Root can "
        "ssh and mpiexec.mpich between them. The broker of `ctl cluster` runs on node1 and all are members: `ctl load` "
        "on a node makes its agent part of the cluster. All are powered off when the command ends.",
        epilog=EXIT_STATUS + " In the command, vm/node kills, cuts off and brings back nodes.",
    )
    parser.add_argument("nodes", type=between("nodes", 1, nodes.MAX_NODES), metavar="N")
    add_options(parser, cpus=1, memory=512)
    add = parser.add_argument_group("the cluster").add_argument
    add("--alone", action="store_true", help="the nodes are in no cluster of ctl's: no broker, no members")
    add("--delay", type=_number("ms", _MAX_DELAY), default=0.0, metavar="MS",
        help="each packet from one node to another takes MS longer")
    add("--loss", type=_number("percent", 100), default=0.0, metavar="PERCENT", help="so many packets are lost")
    add("--control", type=Path, metavar="SOCKET", help="take the requests of vm/node on a Unix socket of the host")
    options = parser.parse_args(argv)
    if options.icount:
        parser.error("--icount: with counted instructions each guest has a time of its own, and nodes that wait "
                     "for each other would time out at once; use vm/run")
    return guarded(lambda: _cluster(options))


def _number(unit: str, high: float) -> Callable[[str], float]:
    def convert(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = -1
        if not 0 <= value <= high:
            raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0 to {high:g} ({unit})")
        return value
    return convert


def _cluster(options: argparse.Namespace) -> int:
    command = session.Command(tuple(options.command), environment(options.env), options.tty, options.out)
    settings = nodes.Settings(not options.alone, options.delay, options.loss)
    whole = nodes.Cluster(options.nodes, build_machine(options), command, options.timeout, settings)
    try:
        return whole.run(options.control)
    finally:
        if options.timing:
            first = whole.first
            print(f"vm/cluster: command after {first.wall:.2f} s, at guest uptime {first.uptime:.2f} s",
                  file=sys.stderr)


def node(argv: list[str] | None = None) -> int:
    """Entry point of vm/node."""
    parser = argparse.ArgumentParser(
        prog="vm/node", description="Kill, cut off and bring back nodes of vm/cluster: in a node, or on the host with "
        "the socket that vm/cluster --control has made.")
    parser.add_argument("--control", type=Path, metavar="SOCKET", help="on the host")
    requests = parser.add_subparsers(dest="request", required=True, metavar="REQUEST")
    for name, meaning in (
        ("nodes", "list the nodes and their states"),
        ("kill", "power a node off, without a word"),
        ("start", "boot a node that was killed, and wait until it is up"),
        ("cut", "pull its network cable"),
        ("mend", "plug its network cable in again"),
        ("key", "press a key of the node's keyboard, by QEMU's name"),
    ):
        one = requests.add_parser(name, help=meaning)
        if name != "nodes":
            one.add_argument("node", metavar="NODE")
        if name == "key":
            one.add_argument("key", metavar="KEY")
    options = parser.parse_args(argv)
    try:
        return _node(options)
    except VmError as error:
        print(f"vm/node: {error}", file=sys.stderr)
        return 1


def _node(options: argparse.Namespace) -> int:
    control = Control(options.control)
    words = [options.request, *(getattr(options, name) for name in ("node", "key") if hasattr(options, name))]
    answer = control.ask(" ".join(words))
    for word in answer.split():
        print(*word.split("=", 1))
    return 0
