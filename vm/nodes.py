# SPDX-License-Identifier: GPL-2.0-or-later
"""A cluster: a session for each node, node1's in the calling thread with this program's streams, the others in theirs.

The wire between the nodes is a multicast group on the host's loopback device, another one for each cluster. Before its
command a guest runs guest/node, which makes it a node and speaks with this program on a port of its own, in lines:

    invitation NODE LINE    node1 has invited NODE
    invited                 asks for the invitation of the node that speaks
    wait                    asks to be answered when all other nodes are up

On the same port, and through a socket on the host, comes what vm/node and control.py ask for:

    kill NODE               power it off, without notice; start NODE brings it back
    cut NODE                pull its network cable; mend NODE plugs it in again
    start NODE              boot it anew, answered when it is up: only name, address and membership are kept
    key NODE KEY            press a key of its keyboard, by QEMU's name
    nodes                   asks for "NODE=STATE ...": up, booting, cut or off

The answer is a line "ok TEXT", "no SENTENCE", or "later REQUEST": what to ask in a while.

Nodes in lock-step ask through the plugin (lockstep/host.c): all stand still until the answer is there, and it must not
wait for another node, so those that have to wait are told "later".
"""

from __future__ import annotations

import contextlib
import dataclasses
import secrets
import socketserver
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from vm import qemu
from vm.host import VmError
from vm.lockstep.channel import Channel, time_of
from vm.qmp import Qmp
from vm.session import Command, Session

__all__ = ["MAX_NODES", "Cluster", "Node", "Settings"]

MAX_NODES = 32
_NETWORK = "10.77.0"
_SETUP = "/src/vm/guest/node"
_WAIT_S = 240  # the slowest machine has all nodes up by then
_JOIN_S = 30  # half of what the plugin waits for a guest
_OUTPUT = 4096  # bytes kept of a node's output


@dataclasses.dataclass(frozen=True)
class Settings:
    """Settings of all nodes: whether they join one cluster, delay of each packet in ms, lost packets in percent."""

    join: bool = True
    delay: float = 0
    loss: float = 0
    skew: float = 0  # ms by which each node's clock is ahead of the node's before it

    @property
    def netem(self) -> str:
        """The words for tc(8)'s netem, on the sending side."""
        delay = f"delay {self.delay:g}ms" if self.delay else ""
        return f"{delay} {f'loss {self.loss:g}%' if self.loss else ''}".strip()


class Later(VmError):
    """It takes until then: the request to make in a while."""


class PoweredOff(VmError):
    """The session was ended on purpose."""


class Node(Session):
    """A node, while it is up; the first node has this program's streams."""

    def __init__(self, number: int, machine: qemu.Machine, command: Command, timeout: float | None,
                 answer: Callable[[Node, str], str], on_start: Callable[[], None]) -> None:
        super().__init__(machine, command, timeout,
                         channels=(qemu.HOST,) if machine.lockstep else (qemu.CLUSTER, qemu.QMP))
        self.number, self.name = number, f"node{number}"
        self.has_input = number == 1
        self.cut = False
        self.thread: threading.Thread | None = None
        self.written = b""
        self.hands: Qmp | Channel | None = None
        self._answer, self._on_start = answer, on_start
        self._listens = threading.Event()

    @property
    def state(self) -> str:
        """The node's state in `vm/node nodes` while it runs."""
        return "cut" if self.cut else "up" if self.uptime else "booting"

    def opened(self) -> None:
        """Begin to listen to the guest."""
        if self.machine.lockstep is not None:
            self.hands = Channel(self.channels[qemu.HOST], lambda line: _reply(line, lambda it: self._answer(self, it)))
            self._listens.set()
            return
        self.hands = Qmp(self.channels[qemu.QMP])
        port = self.channels[qemu.CLUSTER].makefile("rwb", buffering=0)
        threading.Thread(target=_converse, args=(port, lambda line: self._answer(self, line)), daemon=True).start()

    def join_others(self) -> None:
        """Wait until it is in step with the others, which stand still meanwhile."""
        listens = self._listens.wait(_JOIN_S)
        if not listens or not isinstance(self.hands, Channel) or not self.hands.joined.wait(_JOIN_S):
            raise VmError(f"{self.name} did not begin within {_JOIN_S} s")

    def started(self) -> None:
        """The node has been set up."""
        self._on_start()

    def output(self, name: str, data: bytes) -> None:
        """Show the first node's output, keep the end of the others' output."""
        if self.number == 1:
            super().output(name, data)
        else:
            self.written = (self.written + data)[-_OUTPUT:]


def _converse(stream: BinaryIO, answer: Callable[[str], str]) -> None:
    """Answer each line until the other side is gone."""
    with contextlib.suppress(OSError, ValueError), stream:
        for line in stream:
            stream.write(_reply(line.decode(errors="replace"), answer).encode() + b"\n")


def _reply(line: str, answer: Callable[[str], str]) -> str:
    """The line to answer a line with."""
    try:
        return f"ok {answer(line.strip())}".rstrip()
    except Later as later:
        return f"later {later}"
    except VmError as error:
        return f"no {error}"


class Cluster:
    """Nodes node1 to nodeN on one wire."""

    def __init__(self, count: int, machine: qemu.Machine, command: Command, timeout: float | None,
                 settings: Settings) -> None:
        self._machine, self._command, self._timeout, self._settings = machine, command, timeout, settings
        self._group = "239.{}.{}.{}:{}".format(*secrets.token_bytes(3), 20000 + secrets.randbelow(40000))
        self._names = [f"node{number}" for number in range(1, count + 1)]
        self._changed = threading.Condition()
        self._invitations: dict[str, str] = {}
        self._nodes: dict[str, Node] = {}
        self._off: set[str] = set()  # powered off on purpose
        self._ending = False
        self.first = self._nodes["node1"] = self._node(1)

    def run(self, control: Path | None = None) -> int:
        """Boot all, run the command on the first, power all off; returns the command's exit status.

        control: where to make a socket that takes the requests of control.py. Raises the exceptions of Session.run(),
        also if another node ends without a power-off.
        """
        with _served(control, self._from_host):
            try:
                for number in range(2, len(self._names) + 1):
                    self._boot(number)
                return self.first.run()
            finally:
                self._power_off()

    def _power_off(self) -> None:
        """End all nodes but the first, which has ended."""
        self._ending = True
        for node in list(self._nodes.values()):
            node.abort(PoweredOff("the cluster has ended"))
        for node in list(self._nodes.values()):
            if node.thread is not None:
                node.thread.join()

    # the nodes

    def _address(self, name: str) -> str:
        return f"{_NETWORK}.{name.removeprefix('node')}"

    def _node(self, number: int) -> Node:
        """A node that has not been started."""
        name, mac = f"node{number}", f"52:54:00:c5:00:{number:02x}"
        nodes = " ".join(f"{other}={self._address(other)}" for other in self._names)
        command = dataclasses.replace(
            self._command if number == 1 else Command(("sleep", "infinity")),
            env={**self._command.env, "COSCHED_NODE": name, "COSCHED_NODES": nodes},
            setup=(_SETUP, str(len(qemu.PORTS) + 1), self._settings.netem,
                   "join" if self._settings.join else "alone"),
        )
        monitor = self._machine.monitor if number == 1 else None
        machine = dataclasses.replace(self._machine, network=qemu.Network(self._group, mac), monitor=monitor,
                                      lockstep=self._step(number))
        return Node(number, machine, command, self._timeout if number == 1 else None, self._request, self._notify)

    def _step(self, number: int) -> qemu.Lockstep | None:
        """The node's place among those in lock-step. Nodes that were killed begin when the others have come further."""
        step = self._machine.lockstep
        if step is None:
            return None
        clock = step.clock + time_of(step.shared) + round((number - 1) * self._settings.skew * 1e6)
        return dataclasses.replace(step, number=number - 1, clock=clock, seed=step.seed * MAX_NODES + number)

    def _notify(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def _boot(self, number: int) -> Node:
        node = self._node(number)
        self._nodes[node.name] = node
        node.thread = threading.Thread(target=self._live, args=(node,), name=node.name, daemon=True)
        node.thread.start()
        return node

    def _live(self, node: Node) -> None:
        """Run a node to its end; unless it was powered off, its end is the end of the cluster."""
        try:
            status = node.run()
            self._fail(VmError(f"{node.name} was left with status {status}", node.written.decode(errors="replace")))
        except PoweredOff:
            pass
        except VmError as error:
            self._fail(VmError(f"{node.name}: {error}", error.detail))
        except Exception as error:  # a fault of this program must not leave node1 waiting
            self._fail(VmError(f"{node.name}: {type(error).__name__}: {error}"))

    def _fail(self, error: VmError) -> None:
        if not self._ending:
            self.first.abort(error)

    def _wait(self, request: str, condition: Callable[[], bool], what: Callable[[], str]) -> None:
        """Wait for a condition; after a while raise an error that names the missing condition.

        Nodes in lock-step stand still while we wait: they are told to make the request again.
        """
        if self._machine.lockstep is not None:
            if not condition():
                raise Later(request)
            return
        with self._changed:
            until = time.monotonic() + _WAIT_S
            while not self._changed.wait_for(lambda: condition() or self._ending, 1):
                if time.monotonic() > until:
                    raise VmError(f"{what()} after {_WAIT_S} s")

    # requests

    def _from_host(self, line: str) -> str:
        """Carry out a line from the host; nodes in lock-step stand still meanwhile."""
        if isinstance(self.first.hands, Channel):
            with self.first.hands.stopped():
                return self._request(None, line)
        return self._request(None, line)

    def _request(self, speaker: Node | None, line: str) -> str:
        """Carry out a line, and return the answer; raises VmError to answer "no"."""
        word, _, rest = line.partition(" ")
        if speaker is not None and word in ("invitation", "invited", "wait"):
            return self._set_up(speaker, word, rest)
        actions: dict[str, Callable[[Node], None]] = {
            "kill": self._kill, "cut": self._cut, "mend": self._mend, "start": self._restart, "started": self._started,
        }
        name, _, key = rest.partition(" ")
        if word == "nodes" and not rest:
            return " ".join(f"{each}={'off' if each in self._off else self._nodes[each].state}" for each in self._names)
        if word == "key" and name in self._nodes and key:
            self._of(self._nodes[name]).key(key)
        elif word in actions and name in self._nodes and not key:
            actions[word](self._nodes[name])
        elif word in (*actions, "key") and name not in self._nodes:
            raise VmError(f"there is no node {name!r}: there are {', '.join(self._names)}")
        else:
            raise VmError(f"{line!r} is no request: see vm/node --help")
        return ""

    def _set_up(self, node: Node, word: str, rest: str) -> str:
        if word == "invitation":
            name, _, line = rest.partition(" ")
            self._invitations[name] = line
            self._notify()
        elif word == "invited":
            self._wait(word, lambda: node.name in self._invitations, lambda: f"node1 has not invited {node.name}")
            return self._invitations[node.name]
        else:
            self._wait(word, lambda: not self._late(), lambda: f"not up: {', '.join(self._late())}")
        return ""

    def _late(self) -> list[str]:
        """The nodes that have been started, are not up, and that node1 waits for."""
        return [name for name in self._names[1:] if not self._nodes[name].uptime and name not in self._off]

    def _of(self, node: Node) -> Qmp | Channel:
        if node.name in self._off or node.hands is None:
            raise VmError(f"{node.name} is off: start it first")
        return node.hands

    def _kill(self, node: Node) -> None:
        self._of(node)
        self._off.add(node.name)
        node.abort(PoweredOff(f"{node.name} was powered off"))
        if node.thread is not None:
            node.thread.join()

    def _cut(self, node: Node) -> None:
        self._of(node).link(qemu.NIC, False)
        node.cut = True

    def _mend(self, node: Node) -> None:
        self._of(node).link(qemu.NIC, True)
        node.cut = False

    def _restart(self, node: Node) -> None:
        if node.name not in self._off:
            raise VmError(f"{node.name} is {node.state}: only a node that was killed can be started")
        if self._ending or node is self.first:
            raise VmError(f"{node.name} cannot be started: the cluster has ended")
        began = self._boot(node.number)
        self._off.discard(node.name)
        if self._machine.lockstep is not None:
            began.join_others()
        self._started(began)

    def _started(self, node: Node) -> None:
        """Until it is up, a node that has been started; itself, or the one that has its place."""
        self._wait(f"started {node.name}", lambda: self._nodes[node.name].uptime > 0, lambda: f"{node.name} is not up")


class _Handler(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        """Answer a client on the host."""
        assert isinstance(self.server, _Server)
        for line in self.rfile:
            self.wfile.write(_reply(line.decode(errors="replace"), self.server.answer).encode() + b"\n")


class _Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True
    answer: Callable[[str], str]


@contextlib.contextmanager
def _served(path: Path | None, answer: Callable[[str], str]) -> Iterator[None]:
    """Serve requests on a Unix socket, until the block ends."""
    if path is None:
        yield
        return
    try:
        server = _Server(str(path), _Handler)
    except OSError as error:
        raise VmError(f"cannot make the socket {path}: {error.strerror or error}") from None
    server.answer = answer
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        path.unlink(missing_ok=True)
