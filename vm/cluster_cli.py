# SPDX-License-Identifier: GPL-2.0-or-later
"""The command lines of vm/cluster and vm/node."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Callable
from pathlib import Path

from vm import image, nodes, qemu, session
from vm.cli import EXIT_STATUS, add_options, between, build_machine, environment, guarded
from vm.control import Control
from vm.host import VmError
from vm.lockstep import build as lockstep
from vm.lockstep.channel import shared_file, time_of

__all__ = ["cluster", "node"]

_MAX_DELAY = 10_000.0  # ms
_MAX_SKEW = 1e9  # ms
_QUANTUM = 100  # us, see docs/lockstep.md
_MIN_QUANTUM, _MAX_QUANTUM = 10, 100_000  # us


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
    add = parser.add_argument_group("with --icount the nodes run in lock-step, see docs/lockstep.md").add_argument
    add("--quantum", type=between("us", _MIN_QUANTUM, _MAX_QUANTUM), metavar="US",
        help=f"guest time between two moments at which packets arrive; default {_QUANTUM}")
    add("--seed", type=between("", 0, 2**32), metavar="N",
        help="of all that is random in the nodes; the same command with the same seed runs the same; default 1")
    add("--clock-skew", type=_number("ms", _MAX_SKEW), metavar="MS",
        help="each node's clock is MS ahead of the clock of the node before it; without it all show the same")
    options = parser.parse_args(argv)
    for name in ("quantum", "seed", "clock_skew"):
        if getattr(options, name) is not None and not options.icount:
            parser.error(f"--{name.replace('_', '-')} is for nodes in lock-step: add --icount")
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
    settings = nodes.Settings(not options.alone, options.delay, options.loss, options.clock_skew or 0)
    with shared_file() as shared:
        machine = build_machine(options)
        if options.icount:
            machine = dataclasses.replace(machine, lockstep=_lockstep(options, machine, shared))
        whole = nodes.Cluster(options.nodes, machine, command, options.timeout, settings)
        try:
            return whole.run(options.control)
        finally:
            if options.timing:
                _tell_times(whole.first, time_of(shared))


def _lockstep(options: argparse.Namespace, machine: qemu.Machine, shared: Path) -> qemu.Lockstep:
    plugin = lockstep.ensure(image.ensure())
    lockstep.check(machine.emulator, plugin)
    paced = options.tty or options.control is not None  # somebody waits for the guests, and they for somebody
    return qemu.Lockstep(plugin, shared, 0, options.nodes, options.quantum or _QUANTUM,
                         seed=1 if options.seed is None else options.seed, paced=paced)


def _tell_times(first: nodes.Node, guest_ns: int) -> None:
    print(f"vm/cluster: command after {first.wall:.2f} s, at guest uptime {first.uptime:.2f} s", file=sys.stderr)
    if guest_ns:
        print(f"vm/cluster: {guest_ns / 1e9:.6f} s of guest time in {first.age:.2f} s", file=sys.stderr)


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
