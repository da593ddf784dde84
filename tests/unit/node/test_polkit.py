# SPDX-License-Identifier: GPL-2.0-or-later
"""Who may administer where polkit runs: a real polkitd on a bus of its own, in a mount namespace with our action.

It needs root and Debian's polkitd; the files of this machine's own polkit are not touched.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ctl import protocol
from ctl.node import polkit
from ctl.node.authority import Peer
from ctl.node.server import Server, open_socket

POLICY = Path(__file__).parents[3] / "vm" / "org.cosched.policy"
POLKITD = Path("/usr/lib/polkit-1/polkitd")
NOBODY = 65534
pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or not POLKITD.exists() or shutil.which("dbus-daemon") is None,
    reason="needs root, polkitd and dbus-daemon",
)
BUS = """
<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig>
  <type>system</type>
  <listen>unix:path={}/bus</listen>
  <auth>EXTERNAL</auth>
  <policy context="default">
    <allow user="*"/> <allow own="*"/> <allow send_destination="*"/> <allow receive_sender="*"/>
  </policy>
</busconfig>
"""
RULE = """
polkit.addRule(function(action, subject) {
    if (action.id == "org.cosched.administer" && subject.user == "nobody" && action.lookup("operation") == "set")
        return polkit.Result.YES;
});
"""
STARTED = """
mount --bind {0}/actions /usr/share/polkit-1/actions
mount --bind {0}/rules /etc/polkit-1/rules.d
exec /usr/lib/polkit-1/polkitd --no-debug
"""
CLIENT = """
import socket, sys
with socket.socket(socket.AF_UNIX) as link:
    link.connect(sys.argv[1])
    link.sendall(sys.argv[2].encode() + b"\\n")
    print(link.makefile().readline())
"""


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Path, subprocess.Popen[bytes]]]:
    """A folder with actions, rules and bus; and polkit's process."""
    with tempfile.TemporaryDirectory(prefix="cosched-polkit-") as name:
        directory = Path(name)
        directory.chmod(0o755)
        for folder in ("actions", "rules"):
            (directory / folder).mkdir(mode=0o755)
        shutil.copy(POLICY, directory / "actions")
        (directory / "bus.conf").write_text(BUS.format(directory))
        monkeypatch.setenv("DBUS_SYSTEM_BUS_ADDRESS", f"unix:path={directory}/bus")
        bus = subprocess.Popen(
            ["dbus-daemon", f"--config-file={directory}/bus.conf", "--nofork", "--nopidfile"], stderr=subprocess.DEVNULL
        )
        until((directory / "bus").exists, "the bus is there")
        words = ["unshare", "--mount", "sh", "-e", "-c", STARTED.format(directory)]
        process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            ask = ["pkaction", "--action-id", polkit.ACTION]
            until(lambda: not subprocess.run(ask, capture_output=True, check=False).returncode, "it knows our action")
            yield directory, process
        finally:
            for one in (process, bus):
                one.kill()
                one.wait()


def until(condition: Callable[[], bool], what: str) -> None:
    """Wait until it holds, half a minute at most."""
    for _ in range(300):
        if condition():
            return
        time.sleep(0.1)
    raise AssertionError(f"not so: {what}")


async def _done(_peer: Peer, _arguments: dict[str, Any]) -> object:
    return "done"


async def _say(directory: Path, op: str, uid: int) -> dict[str, Any]:
    """The answer of a server of ours to a process of this user."""
    words = ["setpriv", f"--reuid={uid}", "--clear-groups", "/usr/bin/python3", "-c", CLIENT]
    request = protocol.encode_request(op).decode().strip()
    process = await asyncio.create_subprocess_exec(
        *words, str(directory / "socket"), request, stdout=asyncio.subprocess.PIPE
    )
    said, _ = await process.communicate()
    return dict(json.loads(said))


def answers(directory: Path, *asked: tuple[str, int]) -> list[dict[str, Any]]:
    """What the server says to each of these operations, by user."""

    async def work() -> list[dict[str, Any]]:
        server = Server({"set": _done, "switch": _done, "jobs": _done}, {})
        await server.start(open_socket(directory / "socket"))
        (directory / "socket").chmod(0o666)
        try:
            return [await _say(directory, op, uid) for op, uid in asked]
        finally:
            await server.close()

    return asyncio.run(work())


def test_a_rule_lets_a_user_do_one_operation(machine: tuple[Path, subprocess.Popen[bytes]]) -> None:
    directory, process = machine
    nobody = answers(directory, ("set", NOBODY), ("set", 0), ("jobs", NOBODY))
    assert [one["ok"] for one in nobody] == [False, True, True]
    assert nobody[0]["error"].startswith(
        "set is root's, not user nobody's, and polkit does not grant it (org.cosched.administer): "
    )
    rule = directory / "rules" / "10-nobody.rules"
    rule.write_text(RULE)
    rule.chmod(0o644)
    until(lambda: answers(directory, ("set", NOBODY))[0]["ok"], "polkit has read the rule")
    assert not answers(directory, ("switch", NOBODY))[0]["ok"], "the rule is for set"
    assert not answers(directory, ("set", NOBODY - 1))[0]["ok"], "the rule is for nobody"
    process.kill()
    process.wait()
    assert not answers(directory, ("set", NOBODY))[0]["ok"], "nobody answers for polkit"


def test_another_process_with_the_number_is_not_meant(machine: tuple[Path, subprocess.Popen[bytes]]) -> None:
    directory, _ = machine
    rule = directory / "rules" / "10-nobody.rules"
    rule.write_text(RULE)
    rule.chmod(0o644)
    with subprocess.Popen(["setpriv", f"--reuid={NOBODY}", "--clear-groups", "sleep", "100"]) as sleeper:
        start = polkit.start_of(sleeper.pid)
        assert start is not None

        def granted(start: int, uid: int = NOBODY) -> bool:
            return asyncio.run(polkit.grants(sleeper.pid, start, uid, "set"))

        until(lambda: granted(start), "polkit has read the rule")
        assert not granted(start - 1), "it began at another time"
        assert not granted(start, NOBODY - 1), "it is another user's"
        sleeper.send_signal(signal.SIGKILL)
        sleeper.wait()
        assert not granted(start), "it has ended"
        assert polkit.start_of(sleeper.pid) is None
