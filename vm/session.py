# SPDX-License-Identifier: GPL-2.0-or-later
"""Run one command in one guest: start QEMU, carry the streams, and end with the command's status.

The guest's init (guest/session.c) is the other side. Init gets a request, NUL-terminated "key=value" strings ended by
"end", and answers on the control port in lines:

    start SECONDS                        the command is being started, at this guest uptime
    end STATUS OOM STDOUT STDERR OUT     it has ended; bytes sent on each port, which may still be on their way
    fail TEXT                            the guest cannot run it
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import select
import selectors
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import BinaryIO

from vm import qemu
from vm.host import VmError, run
from vm.terminal import raw_terminal, terminal_size

__all__ = ["BROKEN", "TIMED_OUT", "Command", "Session", "TimedOutError"]

TIMED_OUT, BROKEN = 124, 125  # exit statuses, as timeout(1) uses them
_BOOT_S = 180  # a guest that has not started its command by then, on any machine, never will
_TRAILING_S = 10  # seconds until announced bytes must have arrived
_CONSOLE_LINES = 40
_PANIC_LINES = 120
_CHUNK = 65536
_LOCKSTEP = "lockstep: "  # what the plugin's sentences begin with
_LOOP_BYTES = 4 << 20  # what a guest may send in a quantum; the host may allow less


class TimedOutError(VmError):
    """The command was given less time than it needs."""


@dataclasses.dataclass(frozen=True)
class Command:
    """The command in the guest."""

    argv: tuple[str, ...]
    env: dict[str, str] = dataclasses.field(default_factory=dict)
    tty: bool = False
    out: Path | None = None
    setup: tuple[str, ...] = ()  # a program that runs before, in the same environment; its output is not shown

    def request(self, machine: qemu.Machine) -> bytes:
        """Return the bytes the guest's init reads."""
        words = [f"arg={arg}" for arg in self.argv] + [f"env={name}={value}" for name, value in self.env.items()]
        words += [f"setup={arg}" for arg in self.setup]
        if self.tty:
            words.append("tty={}x{}".format(*terminal_size()))
        if self.out is not None:
            words.append("out")
        if machine.swap:
            words.append(f"swap={machine.swap}:{round(machine.swap_latency * 1000)}")
        if machine.lockstep is not None:
            words.append(f"clock={machine.lockstep.clock}")
        return b"".join(os.fsencode(word) + b"\0" for word in [*words, "end"])


class Session:
    """A run. Afterwards uptime and wall hold the seconds, guest's and host's, from the call to the first command.

    Others derive from it: see the methods opened(), started(), output(). channels: names of further sockets to the
    machine, see qemu.command_line(); afterwards our ends of them, from opened() on.
    """

    has_input = True  # the command reads what this program would

    def __init__(
        self, machine: qemu.Machine, command: Command, timeout: float | None, channels: tuple[str, ...] = ()
    ) -> None:
        self.machine, self.command, self.timeout = machine, command, timeout
        self.channels: dict[str, socket.socket] = {}
        self._inputs: dict[str, socket.socket] = {}  # where to write what the guest reads
        self._wanted = channels
        self._stopped: VmError | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self.uptime = self.wall = 0.0
        self._begin = time.monotonic()
        self._lines = b""
        self._counts = {"stdout": 0, "stderr": 0, "out": 0}
        self._ending: tuple[int, bool, dict[str, int]] | None = None
        self._failure = ""
        self._archive: BinaryIO | None = None
        self._input = b""
        self._input_ended = False

    def run(self) -> int:
        """Boot, run, and return the exit status; raise VmError (status 125) or TimedOutError (status 124)."""
        with contextlib.ExitStack() as stack:
            work = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="cosched-vm-")))
            self._console = work / "console"
            if self.command.out is not None:
                self._archive = stack.enter_context((work / "out.tar").open("wb+"))
            ours = self._start(stack)
            if self.command.tty:
                stack.enter_context(raw_terminal(self._inputs["control"]))
            self._loop(ours)
            return self._finish()

    def _start(self, stack: contextlib.ExitStack) -> dict[str, socket.socket]:
        """Start QEMU, to be killed when the stack unwinds, and return our ends of its ports."""
        ours: dict[str, socket.socket] = {}
        theirs: dict[str, socket.socket] = {}
        for name in (*qemu.PORTS, *self._wanted):
            ours[name], theirs[name] = (stack.enter_context(end) for end in socket.socketpair())
        self._inputs = {name: ours[name] for name in ("control", "stdin")}
        self._input_ended = not self._has_input()
        if self.machine.lockstep is not None:
            self._add_lockstep(stack, theirs)
        fds = {name: end.fileno() for name, end in theirs.items()}
        argv = qemu.command_line(self.machine, fds, self._console)
        self._errors = stack.enter_context(tempfile.TemporaryFile())  # noqa: SIM115
        # In a session of its own a terminal's Ctrl-C does not reach it; should we be killed, the kernel ends it.
        try:
            self._process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", "--", *argv], stdin=subprocess.DEVNULL, stdout=self._errors,
                stderr=self._errors, pass_fds=list(fds.values()), start_new_session=True,
            )
        except FileNotFoundError as err:
            raise VmError("setpriv is not installed; './just setup' installs it") from err
        stack.callback(self._kill)
        for end in theirs.values():
            end.close()
        self.channels = {name: ours[name] for name in self._wanted}
        if self.machine.lockstep is None:
            with contextlib.suppress(BrokenPipeError):  # QEMU is gone already: the loop tells why
                ours["control"].sendall(self.command.request(self.machine))
        self.opened()
        if self._stopped is not None:
            self._process.kill()
        return ours

    def _add_lockstep(self, stack: contextlib.ExitStack, theirs: dict[str, socket.socket]) -> None:
        """Add the plugin's sockets, and write what there is for the guest to read before it begins."""
        for name, outside in qemu.LOOPS.items():
            theirs[name], theirs[outside] = (stack.enter_context(end) for end in socket.socketpair())
            theirs[name].setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _LOOP_BYTES)
        for name, inside in qemu.FEEDS.items():
            self._inputs[name], theirs[inside] = (stack.enter_context(end) for end in socket.socketpair())
            self._inputs[name].setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _LOOP_BYTES)
        self._inputs["control"].sendall(self.command.request(self.machine))
        port = self._inputs["stdin"]
        while not self._input_ended and select.select([], [port], [], 0)[1] and (self._input or _is_readable(0)):
            self._move_input(port)

    def _kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    @property
    def age(self) -> float:
        """Seconds of the host since it was made."""
        return time.monotonic() - self._begin

    def opened(self) -> None:
        """QEMU runs, and the channels are there."""

    def started(self) -> None:
        """The command is being started."""

    def output(self, name: str, data: bytes) -> None:
        """The command has written to its "stdout" or "stderr"."""
        _write_all(1 if name == "stdout" else 2, data)

    def abort(self, reason: VmError) -> None:
        """End run() with this error, at once; for other threads."""
        self._stopped = reason
        if self._process is not None:
            self._process.kill()

    def _boot_s(self) -> float:
        """How long it may take to boot; guests in lock-step wait for each other, and share the host."""
        return _BOOT_S * (self.machine.lockstep.count if self.machine.lockstep else 1)

    def _deadline(self) -> float:
        """Return the moment to give up, and remember in whose name."""
        started = self.uptime > 0
        deadline = float("inf") if started else self._begin + self._boot_s()
        return min(deadline, self._begin + self.timeout if self.timeout else deadline)

    def _loop(self, ours: dict[str, socket.socket]) -> None:
        """Carry all streams until the command's end is reported and all its output is here."""
        assert self._process is not None
        pidfd = os.pidfd_open(self._process.pid)
        selector = selectors.PollSelector()  # epoll refuses regular files, which stdin may be
        try:
            for name in ("control", "stdout", "stderr", "out"):
                selector.register(ours[name], selectors.EVENT_READ, name)
            selector.register(pidfd, selectors.EVENT_READ, "dead")
            while not self._complete():
                self._watch_input(selector, self._inputs["stdin"])
                left = self._deadline() - time.monotonic()
                if left <= 0:
                    raise self._too_late()
                for key, _ in selector.select(min(left, 3600)):
                    self._handle(key.data, selector, ours)
        finally:
            selector.close()
            os.close(pidfd)

    def _handle(self, name: str, selector: selectors.BaseSelector, ours: dict[str, socket.socket]) -> None:
        if name == "stdin":
            if not self._move_input(self._inputs["stdin"]):
                for key in [key for key in selector.get_map().values() if key.data == "stdin"]:
                    selector.unregister(key.fileobj)
        elif name == "dead":
            self._drain(ours)
            if not self._complete():
                raise self._stopped or VmError(self._death(), self.console())
        elif not self._take(name, ours[name]):
            selector.unregister(ours[name])

    def _drain(self, ours: dict[str, socket.socket]) -> None:
        """Read the bytes that an ended guest has left in the sockets."""
        for name in ("stdout", "stderr", "out", "control"):
            while _is_readable(ours[name].fileno()) and self._take(name, ours[name]):
                pass

    def _take(self, name: str, port: socket.socket) -> bool:
        """Take one piece from a port; false at its end."""
        try:
            data = port.recv(_CHUNK)
        except ConnectionResetError:
            data = b""
        if not data:
            return False
        if name == "control":
            self._hear(data)
            return True
        self._counts[name] += len(data)
        if name == "out":
            if self._archive is not None:
                self._archive.write(data)
        else:
            self.output(name, data)
        return True

    def _hear(self, data: bytes) -> None:
        *lines, self._lines = (self._lines + data).split(b"\n")
        for line in lines:
            word, _, rest = line.decode(errors="replace").partition(" ")
            if word == "start":
                self.uptime, self.wall = float(rest), time.monotonic() - self._begin
                self.started()
            elif word == "end":
                status, oom, *counts = (int(number) for number in rest.split())
                self._ending = status, bool(oom), dict(zip(("stdout", "stderr", "out"), counts, strict=True))
                self._told = time.monotonic()
            else:
                raise VmError(f"the guest cannot run the command: {rest}", self.console())

    def _complete(self) -> bool:
        if self._ending is None:
            return False
        if self._counts == self._ending[2]:
            return True
        if time.monotonic() - self._told > _TRAILING_S:
            raise VmError(f"the guest announced {self._ending[2]} bytes of output and {self._counts} arrived")
        return False

    # The host's standard input.

    def _has_input(self) -> bool:
        """Tell whether there is an input to carry: a terminal only when the command has one too."""
        try:
            return self.has_input and (self.command.tty or not os.isatty(0))
        except OSError:
            return False

    def _watch_input(self, selector: selectors.BaseSelector, port: socket.socket) -> None:
        """Wait for the side that must act next: our input, or the guest when it still has to take some."""
        wanted = None if self._input_ended else port if self._input else 0
        for key in [key for key in selector.get_map().values() if key.data == "stdin" and key.fileobj is not wanted]:
            selector.unregister(key.fileobj)
        if wanted is not None and not any(key.data == "stdin" for key in selector.get_map().values()):
            selector.register(wanted, selectors.EVENT_WRITE if self._input else selectors.EVENT_READ, "stdin")

    def _move_input(self, port: socket.socket) -> bool:
        """Move one piece of input; false at its end, when the port closes and the guest reads the end of the file."""
        try:
            if not self._input:
                self._input = os.read(0, 4096)
                if self._input:
                    return True
            else:
                self._input = self._input[port.send(self._input, socket.MSG_DONTWAIT):]
                return True
        except BlockingIOError:
            return True
        except OSError:
            self._input = b""
        self._input_ended = True
        port.shutdown(socket.SHUT_WR)  # after a full close QEMU would drop bytes that the guest has not read yet
        return False

    # The end.

    def console(self) -> str:
        """Return the last lines of the guest's console, a panic from its first on, and QEMU's own messages."""
        text = self._console.read_bytes() if self._console.exists() else b""
        self._errors.seek(0)
        lines = text.decode(errors="replace").replace("\r", "").splitlines()
        panic = next((i for i, line in enumerate(lines) if "Kernel panic" in line), len(lines))
        shown = lines[min(panic, max(0, len(lines) - _CONSOLE_LINES)):][:_PANIC_LINES]
        return "\n".join([*shown, *self._errors.read().decode(errors="replace").splitlines()[-5:]])

    def _too_late(self) -> VmError:
        if self.timeout and time.monotonic() - self._begin >= self.timeout:
            return TimedOutError(f"the command did not end within {self.timeout:g} s", self.console())
        return VmError(f"the guest did not start the command within {self._boot_s():g} s", self.console())

    def _death(self) -> str:
        assert self._process is not None
        status = self._process.wait()
        if status != 0:
            self._errors.seek(0)
            told = [line for line in self._errors.read().decode(errors="replace").splitlines() if _LOCKSTEP in line]
            return told[-1].partition(_LOCKSTEP)[2] if told else f"QEMU ended with status {status}"
        console = self._console.read_bytes() if self._console.exists() else b""
        if b"Oops: int3" in console:
            return ("the guest's kernel died of a breakpoint that the emulator went on executing after it was taken "
                    "out: run it again, or with --one-thread")
        if b"Kernel panic" in console:
            return "the guest's kernel panicked"
        return "the guest was shut down before the command ended"

    def _finish(self) -> int:
        assert self._ending is not None
        status, oom, _ = self._ending
        if self._archive is not None and self.command.out is not None:
            self.command.out.mkdir(parents=True, exist_ok=True)
            self._archive.flush()
            if self._counts["out"]:
                run(["tar", "-x", "--no-same-owner", "-C", self.command.out, "-f", self._archive.name],
                    "unpacking /out")
        if oom:
            raise VmError("the guest ran out of memory and its kernel killed the command; give it more with --memory",
                          self.console())
        return status


def _is_readable(fd: int) -> bool:
    return bool(select.select([fd], [], [], 0)[0])


def _write_all(fd: int, data: bytes) -> None:
    while data:
        try:
            data = data[os.write(fd, data):]
        except BlockingIOError:
            select.select([], [fd], [])
