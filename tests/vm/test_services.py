# SPDX-License-Identifier: GPL-2.0-or-later
"""What needs systemd. The broker as a service: a user of its own in a sandbox, on one address; its certificate is
renewed. `ctl run` from services of a user, with limits: no job has more than the service. The agent as a service."""

from __future__ import annotations

import json
import subprocess
import textwrap
from typing import Any

import pytest

from vm.host import REPO

pytestmark = pytest.mark.vm

_LIMIT_S = 540  # on an idle host it takes a minute
_MOST_EXPOSED = 1.5  # of 10, by `systemd-analyze security`: the network is what a broker is for
_SCRIPT = """
    import json, os, signal, subprocess, sys, time
    from pathlib import Path

    from ctl.cluster.certificates import LIFE, end_of

    def said(*words):
        return subprocess.run(words, capture_output=True, text=True).stdout.strip()

    def shown(unit, name):
        return said("systemctl", "show", "--value", "--property", name, unit)

    def certificate():
        return end_of(Path("/run/cosched/broker/broker.pem").read_text())

    def owners(*places):
        paths = [path for place in places for path in (place, *place.rglob("*"))]
        return {str(path): [path.stat().st_uid, path.stat().st_mode & 0o77] for path in paths if path.exists()}

    found = {}
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    subprocess.run(["ip", "address", "add", "10.9.0.1/24", "dev", "lo"], check=True)
    found["init"] = subprocess.run(["ctl", "cluster", "init", "--address", "10.9.0.1"], capture_output=True).returncode
    keeper = int(shown("cosched-broker", "MainPID"))
    server = int(Path(f"/proc/{keeper}/task/{keeper}/children").read_text().split()[0])
    for name, pid in (("keeper", keeper), ("server", server)):
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        found[name] = {key: value.split() for key, _, value in (line.partition(":") for line in lines)}
    found["state"], found["tells"] = shown("cosched-broker", "ActiveState"), shown("cosched-broker", "StatusText")
    found["timer"] = shown("cosched-renew.timer", "ActiveState")
    found["security"] = said("systemd-analyze", "security", "--no-pager", "cosched-broker").splitlines()[-1]
    found["renewer"] = said("systemd-analyze", "security", "--no-pager", "cosched-renew").splitlines()[-1]
    found["listens"] = [line.split()[3] for line in said("ss", "-Hltn").splitlines()]
    found["owners"] = owners(Path("/run/cosched/broker"), Path("/var/lib/private/cosched/broker"))

    authority = Path("/etc/cosched/cluster/authority.json")
    text = json.dumps({**json.loads(authority.read_text()), "life": 4 * LIFE})  # so more than two thirds are over
    authority.write_text(text)
    before = certificate()
    found["renewed"] = subprocess.run(["systemctl", "start", "cosched-renew"]).returncode
    found["later"] = certificate() - before
    subprocess.run(["systemctl", "restart", "cosched-broker"])
    found["kept"] = certificate() - before
    found["log"] = said("journalctl", "-o", "cat", "-u", "cosched-broker", "-u", "cosched-renew")
    found["leave"] = subprocess.run(["ctl", "cluster", "leave"], capture_output=True).returncode
    found["left"] = [shown("cosched-broker", "ActiveState"),
                     *owners(Path("/run/cosched/broker"), Path("/var/lib/private/cosched/broker"))]

    # the user alice, in group cosched, with a service manager of her own, though here are neither D-Bus nor logind
    runtime_dir = ("ExecStart=", "ExecStart=install -d -m 700 -o %i /run/user/%i", "ExecStop=")
    for unit, lines in (("user@", ("Delegate=yes", "Environment=XDG_RUNTIME_DIR=/run/user/%i")),
                        ("user-runtime-dir@", runtime_dir)):
        place = Path(f"/run/systemd/system/{unit}.service.d")
        place.mkdir(parents=True)
        (place / "alone.conf").write_text("\\n".join(("[Service]", *lines)))
    for words in ("groupadd -f cosched", "useradd -m -u 1000 -G cosched alice", "systemctl daemon-reload",
                  "systemctl start user@1000.service", "ctl load --wait --policy csm --set sensors=off"):
        subprocess.run(words.split(), check=True, stdout=subprocess.DEVNULL)
    as_alice = ("setpriv", "--reuid=alice", "--regid=alice", "--init-groups", "env", "XDG_RUNTIME_DIR=/run/user/1000")
    for name, limits in LIMITS.items():
        log = Path(f"/home/alice/{name}")
        limits = ["Type=oneshot", f"StandardError=append:{log}", f"StandardOutput=append:{log}", *limits]
        words = [*as_alice, "systemd-run", "--user", "--quiet", *(f"--property={limit}" for limit in limits),
                 "/usr/local/bin/ctl", "run", "--job", name, "--", "cat", f"/sys/fs/cgroup/cosched/{name}/pids.max"]
        subprocess.run(words, capture_output=True)
        found[name] = log.read_text() if log.exists() else "it has not run"
    subprocess.run(["ctl", "unload"], check=True, stdout=subprocess.DEVNULL)

    # the agent as a service: SysRq-S is for good, and whoever is killed again and again is left off
    Path("/etc/default/cosched").write_text("COSCHED_OPTIONS=--policy csm --set sensors=off\\n")
    place = Path("/run/systemd/system/cosched.service.d")
    place.mkdir(parents=True)
    (place / "two.conf").write_text("[Unit]\\nStartLimitBurst=2\\n")
    subprocess.run(["systemctl", "daemon-reload"], check=True)

    def end(how):
        subprocess.run(["systemctl", "start", "cosched"], check=True)
        supervisor = int(shown("cosched", "MainPID"))
        how(int(Path(f"/proc/{supervisor}/task/{supervisor}/children").read_text().split()[0]))
        while shown("cosched", "MainPID") == str(supervisor) or shown("cosched", "SubState") == "auto-restart":
            time.sleep(0.1)
        time.sleep(2)  # more than RestartSec
        return [shown("cosched", "ActiveState"), Path("/sys/kernel/sched_ext/state").read_text(), said("ctl", "status")]

    found["emergency"] = end(lambda agent: Path("/proc/sysrq-trigger").write_text("S"))
    found["killed"] = end(lambda agent: os.kill(agent, signal.SIGKILL))
    json.dump(found, sys.stdout)
"""
_LIMITS = {
    "memory": ["MemoryMax=150M", "TasksMax=30"],
    "cpus": ["AllowedCPUs=0"],
    "share": ["CPUQuota=20%"],
    "tasks": ["TasksMax=30"],
    "free": [],
}
_REFUSED = {"memory": "memory.max 157286400", "cpus": "cpuset.cpus 0", "share": "cpu.max 20000 100000"}


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    """What one guest has seen."""
    script = f"LIMITS = {_LIMITS}\n{textwrap.dedent(_SCRIPT)}"
    words = [str(REPO / "vm" / "run"), "--init", "systemd", "--timeout", str(_LIMIT_S), "--", "python3", "-c", script]
    done = subprocess.run(words, capture_output=True, check=False, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stderr.decode()
    return dict(json.loads(done.stdout))


def test_it_runs_as_a_user_of_its_own(found: dict[str, Any]) -> None:
    assert (found["init"], found["state"], found["tells"], found["timer"]) == (0, "active", "ready", "active"), found
    users = {name: set(found[name]["Uid"]) for name in ("keeper", "server")}
    assert users["keeper"] == users["server"] != {"0"}
    for name in ("keeper", "server"):
        assert {int(found[name][f"Cap{which}"][0], 16) for which in ("Inh", "Prm", "Eff", "Bnd", "Amb")} == {0}
        assert (found[name]["NoNewPrivs"], found[name]["Seccomp"]) == (["1"], ["2"])


def test_it_is_in_a_sandbox_and_on_one_address(found: dict[str, Any]) -> None:
    for unit in ("security", "renewer"):
        print(found[unit])
        assert float(found[unit].split(":")[1].split()[0]) <= _MOST_EXPOSED, found[unit]
    assert found["listens"] == ["10.9.0.1:4222"]


def test_nobody_else_reads_its_files(found: dict[str, Any]) -> None:
    keys = {path: owner for path, owner in found["owners"].items() if path.endswith(("key", "pem", "conf"))}
    assert len(keys) == 4
    user = int(found["server"]["Uid"][0])
    assert all(owner == [user, 0] for owner in keys.values()), keys
    assert all(not mode & 0o066 for _, mode in found["owners"].values()), found["owners"]


def test_its_certificate_is_renewed_and_kept(found: dict[str, Any]) -> None:
    assert found["renewed"] == 0, found["log"]
    assert abs(found["later"] - 3 * 365 * 86_400) < 600, found["log"]
    assert found["kept"] == found["later"]


def test_nothing_is_left(found: dict[str, Any]) -> None:
    assert (found["leave"], found["left"]) == (0, ["inactive"])


@pytest.mark.parametrize("name", _REFUSED)
def test_no_job_has_more_than_the_service_it_comes_from(found: dict[str, Any], name: str) -> None:
    said = found[name]
    assert said.startswith("Error: ") and said.count("\n") == 1, said
    assert _REFUSED[name] in said and "/user.slice/user-1000.slice/user@1000.service/" in said, said


@pytest.mark.parametrize(
    ("end", "then"),
    [("emergency", "SysRq-S, the emergency stop, ended it: it stays off"), ("killed", "leaves it off now")],
)
def test_the_agent_is_not_started_for_ever(found: dict[str, Any], end: str, then: str) -> None:
    unit, kernel, status = found[end]
    assert (unit, kernel) == ("failed", "disabled\n")
    assert then in status


def test_a_number_of_tasks_goes_with_it(found: dict[str, Any]) -> None:
    assert found["tasks"] == "30\n"
    assert found["free"].strip() == "max" or int(found["free"]) > 30, "the limit of all of alice's services"
