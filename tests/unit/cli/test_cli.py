# SPDX-License-Identifier: GPL-2.0-or-later
"""The command line without a kernel behind it: help, wrong usage, and what each says."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctl import policy
from ctl.cli.main import cli, main
from ctl.cli.run import OPTIONS, read
from ctl.errors import USAGE
from ctl.process.service import EMERGENCY, what_follows
from tests.unit.cli.conftest import Ctl, refused
from tests.unit.screen import Agent
from vm import deb

ROOT = Path(__file__).resolve().parents[3]
_CONTEXT = click.Context(cli)
COMMANDS = sorted(cli.list_commands(_CONTEXT))


def test_a_missing_module_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The cluster's libraries are not in the virtual machine's image."""
    monkeypatch.setitem(sys.modules, "cryptography", None)
    for name in [name for name in sys.modules if name.startswith(("ctl.cluster", "cryptography."))]:
        monkeypatch.delitem(sys.modules, name)
    assert main(["cluster", "init"]) == 1
    said = capsys.readouterr().err
    assert said == "Error: this needs Python's cryptography, which is missing: pip install cryptography\n"


def test_the_contract_of_commands() -> None:
    wanted = "load unload switch status get set policies run jobs tasks top trace agent"
    assert set(wanted.split()) <= set(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_with_an_example(name: str) -> None:
    command = cli.get_command(_CONTEXT, name)
    assert command
    assert command.help is not None
    assert "Example" in command.help
    assert f"ctl {name}" in command.help


@pytest.mark.parametrize("name", sorted(set(COMMANDS) - {"agent", "run", "config", "cluster", "history", "sim"}))
def test_every_command_that_prints_has_json(name: str) -> None:
    command = cli.get_command(_CONTEXT, name)
    assert command and any("--json" in option.opts for option in command.params)


def test_run_imports_little(tmp_path: Path) -> None:
    """Each rank of each job is started through `ctl run`: 0.05 s of CPU time would be 0.1 with click."""
    heavy = {"asyncio", "cffi", "click", "ctl.cli.main", "ctl.policy", "inspect", "logging", "pyroute2", "rich", "ssl"}
    heavy |= {"subprocess", "tempfile"}
    code = "import sys; from ctl.cli.front import main; main()"
    code += f"; print(sorted({heavy} & set(sys.modules)))"
    environment = {**os.environ, "COSCHED_RUN_DIR": str(tmp_path)}
    command = [sys.executable, "-c", code, "run", "--job", "j", "--memory=48M", "--", "true"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert (done.stdout, "agent is not running" in done.stderr) == ("[]\n", True)


def _all_commands(group: click.Group, path: str = "ctl") -> Iterator[tuple[str, click.Command]]:
    for name in group.list_commands(_CONTEXT):
        command = group.get_command(_CONTEXT, name)
        assert command
        yield f"{path} {name}", command
        if isinstance(command, click.Group):
            yield from _all_commands(command, f"{path} {name}")


def test_a_letter_is_one_option_in_the_whole_program() -> None:
    meant: dict[str, set[str]] = {}
    for path, command in _all_commands(cli):
        for option in (one for one in command.params if isinstance(one, click.Option) and not one.hidden):
            assert not {"--file", "--raw", "--out", "--period"} & set(option.opts), path
            for letter in (name for name in option.opts if name[:2] != "--"):
                meant.setdefault(letter, set()).add(max((name for name in option.opts if name[:2] == "--"), key=len))
    assert {letter: names for letter, names in meant.items() if len(names) > 1} == {}
    assert meant["-p"] == {"--policy"} and meant["-s"] == {"--set"} and meant["-o"] == {"--output"}


@pytest.mark.parametrize(
    ("command", "old", "new"),
    [
        ("netmon", "-d 20 -t 1 -f a.csv --by task -s", "-i 20ms -t 1 -o a.csv --each task --show"),
        ("netmon", "-d20 --file=a lo -- -d", "--interval 0.02 -oa lo -- -d"),
        ("netmon", "--period=1s -fa", "-i1 --output a"),
        ("top", "-p queue -n3", "--page queue --count 3"),
        ("trace", "--raw a -n 3", "--output a -n 3"),
        ("sim experiment", "a -n 3 --out b", "a --replications 3 -o b"),
        ("sim workload", "a --out b", "a --output b"),
    ],
)
def test_old_names_of_options_stay_and_no_help_shows_them(command: str, old: str, new: str) -> None:
    found = dict(_all_commands(cli))[f"ctl {command}"]
    assert found.make_context(command, old.split()).params == found.make_context(command, new.split()).params
    shown = found.get_help(click.Context(found)).split("Options:")[1]
    assert not set(shown.replace(",", " ").split()) & {"-d", "--file", "--by", "--raw", "--out", "--period"}


@given(st.lists(st.sampled_from(["-j", "a", "--job=b", "-v", "--now", "--memory", "--memory=2G", "48", "--nodes", "2",
                                 "--nodes=3", "--per-node", "0", "--by", "mem", "--", "--job", "-x", "-vj", "--no",
                                 "-j=c", "-v=1", "-N", "-N3", "--mem", "--ntasks-per-node=4", "-J", "--job-name=c"])))
def test_run_reads_its_options_as_click_does(words: list[str]) -> None:
    """Where it reads them at all: the rest is click's."""
    command = cli.get_command(_CONTEXT, "run")
    assert command
    known = read(words)
    if known is not None:
        defaults = {one.argument: one.default if one.metavar else False for one in OPTIONS}
        assert command.make_context("run", words).params == defaults | known


@pytest.mark.parametrize(
    ("words", "told"),
    [("-n 4 ./sim", "no option -n, as Slurm has: mpiexec starts the ranks"), ("-t5 true", "timeout 30m"),
     ("--partition=batch true", "no option --partition"), ("--mem-per-cpu 1G true", "--mem is what the job needs"),
     ("--oversubscribe true", "jobs share nodes"), ("--frob true", "no option '--frob': see `ctl run --help`"),
     ("-j a -J b true", "'a' and --job-name 'b' are two names"), ("--mem 0 true", "'0' is no size above 0")],
)  # fmt: skip
def test_an_option_that_run_does_not_have_is_refused_with_what_there_is(ctl: Ctl, words: str, told: str) -> None:
    refused(ctl("run", *words.split()), told)


def test_a_job_name_makes_a_jid_of_its_own(ctl: Ctl) -> None:
    """Two jobs of one name are two jobs, as for Slurm."""
    said = [ctl("run", "-J", "my sim", "--", "true").stderr.splitlines()[0] for _ in range(2)]
    assert all(re.fullmatch(r"job my_sim-\d+", one) for one in said) and said[0] != said[1]


def test_every_head_of_a_table_is_in_the_help_of_its_command(ctl: Ctl, tmp_path: Path) -> None:
    """In words that the table of `ctl top` has, too; --json has the papers'."""
    view = json.loads((ROOT / "tests/unit/monitor/recorded.json").read_text())
    task = dict.fromkeys(("cpu", "position", "de", "mes", "com", "rec", "flt", "swapin_ms", "thrashing_ms"))
    (tmp_path / "run").mkdir()
    answers = {"jobs": view["jobs"], "tasks": [{"tid": 1, "comm": "sim", "jid": "a", "state": "runs", **task}]}
    with Agent(tmp_path / "run" / "agent.sock", answers):
        heads = {command: re.split("  +", ctl(command).stdout.splitlines()[0].strip()) for command in answers}
    plain = {"job", "tasks", "CPU time s", "memory MiB", "swap MiB", "faults/s", "tid", "command", "swap-in ms",
             "thrashing ms"}  # fmt: skip
    for command, names in heads.items():
        told = " ".join(ctl(command, "--help").stdout.split())
        assert [name for name in names if name not in plain and not re.search(rf"\b{name}\b[:,]", told)] == [], command
    assert not {"given", "suffered", "from", "de", "mes", "com", "rec", "flt"} & {*heads["jobs"], *heads["tasks"]}


def test_the_version_is_the_packages(ctl: Ctl) -> None:
    assert ctl("--version").stdout == f"cosched {deb.VERSION}\n"


def test_help_exits_0(ctl: Ctl) -> None:
    done = ctl("--help")
    assert done.returncode == 0
    assert "ctl load --policy csm" in done.stdout
    for name in COMMANDS:
        assert f"\n  {name} " in done.stdout
    assert ctl("load", "--help").returncode == 0


def test_no_command(ctl: Ctl) -> None:
    done = ctl()
    assert done.returncode == 2
    assert "Usage" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("load --policy nope", ["'nope'", "csm-bounded"]),
        ("load --policy csm --set mno=0", ["mno", "'0'", "1 to 64 overtakes"]),
        ("load --policy csm --set mno=65", ["'65'", "1 to 64 overtakes"]),
        ("load --policy csm --set mno", ["'mno'", "KNOB=VALUE"]),
        ("load --policy csm --set nope=1", ["'nope'", "quantum_ms"]),
        ("load --policy csm --set p=1.5", ["'1.5'", "0 to 1"]),
        ("load --policy csm --set overload=maybe", ["'maybe'", "auto, on or off"]),
        ("load --policy csm --set watchdog_ms=40000", ["'40000'", "1000 to 30000 ms"]),
        ("agent --policy nope", ["'nope'"]),
        ("switch nope", ["'nope'", "csm"]),
        ("switch csm --set watchdog_ms=2000", ["watchdog_ms", "ctl unload"]),
        ("set quantum_ms=fast", ["'fast'", "whole number, 1 to 1000 ms"]),
        ("set mno=2 nope=1", ["'nope'"]),
        ("get nope", ["'nope'", "mno"]),
        ("run --job a/b -- true", ["'a/b'", "A-Z"]),
        ("run --job .. -- true", ["'..'"]),
        ("run --job x/../y -- true", ["'x/../y'"]),
        ("trace --json --raw out", ["--output"]),
        ("top --interval 0", ["interval", "0.1"]),
    ],
)
def test_wrong_values(ctl: Ctl, arguments: str, words: list[str]) -> None:
    refused(ctl(*arguments.split()), *words)


@pytest.mark.parametrize(
    "arguments",
    [
        "get",
        "get mno",
        "set mno=2",
        "switch csm",
        "unload",
        "jobs",
        "tasks",
        "trace --count 1",
        "top",
        "run -j a -- true",
    ],
)
def test_no_agent(ctl: Ctl, arguments: str) -> None:
    refused(ctl(*arguments.split()), "the agent is not running", "ctl load")


@pytest.mark.parametrize(
    "arguments", ["switch", "run true", "run --job a", "set", "bogus", "trace --count 0", "get --nope"]
)
def test_wrong_usage(ctl: Ctl, arguments: str) -> None:
    done = ctl(*arguments.split())
    assert done.returncode == 2
    assert "Error: " in done.stderr
    assert done.stdout == ""


def test_a_mistyped_command_is_told_its_neighbour(ctl: Ctl) -> None:
    assert "did you mean 'status'?" in ctl("stauts").stderr


def test_command_not_found(ctl: Ctl) -> None:
    done = ctl("run", "--job", "a", "--", "no-such-program")
    assert done.returncode == 127
    assert "'no-such-program' is not found" in done.stderr


def test_policies_as_json_is_the_whole_table(ctl: Ctl) -> None:
    table = json.loads(ctl("policies", "--json").stdout)
    assert [row["name"] for row in table["policies"]] == list(policy.POLICIES)
    assert {row["name"]: row["default"] for row in table["knobs"]} == {
        name: knob.default for name, knob in policy.KNOBS.items()
    }


def test_policies_as_text(ctl: Ctl) -> None:
    done = ctl("policies")
    for name in [*policy.POLICIES, *policy.KNOBS]:
        assert f"\n{name} " in "\n" + done.stdout
    assert "\x1b" not in done.stdout


def test_status_without_agent(ctl: Ctl) -> None:
    done = ctl("status", "--json")
    assert done.returncode == 0
    answer = json.loads(done.stdout)
    assert answer["loaded"] is False
    assert answer["agent"] is None
    assert "ctl load" in ctl("status").stdout


def test_status_tells_why_the_last_agent_ended(ctl: Ctl, tmp_path: Path) -> None:
    dump = "\n".join(f"line {n}" for n in range(20))
    record = {
        "time": 1.7e9,
        "pid": 77,
        "policy": "csm",
        "why": "the kernel ended the scheduler",
        "killed": False,
        "exit": {
            "kind": 1026,
            "kind_name": "error-stall",
            "code": 0,
            "reason": "runnable task stall",
            "msg": "hog[5] failed to run for 30.2s",
            "dump": dump,
        },
    }
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "last_exit.json").write_text(json.dumps(record))
    assert json.loads(ctl("status", "--json").stdout)["last_exit"] == record
    text = ctl("status").stdout
    for word in ("runnable task stall", "error-stall", "hog[5] failed", "line 7\n", "12 more lines in", "agent.log"):
        assert word in text
    assert "line 8\n" not in text


def test_after_the_emergency_stop_status_says_that_it_stays_off(ctl: Ctl, tmp_path: Path) -> None:
    end = {"kind": 66, "kind_name": "sysrq", "code": 0, "reason": "disabled by sysrq-S", "msg": "", "dump": ""}
    record = {"time": 1.7e9, "pid": 77, "policy": "csm", "why": "the kernel ended it", "killed": False, "exit": end}
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "last_exit.json").write_text(json.dumps(record))
    assert "stays off until `ctl load`, or `systemctl start cosched`" in ctl("status").stdout


@pytest.mark.parametrize(
    ("state", "said"),
    [
        ({}, ""),
        ({"LoadState": "not-found", "ActiveState": "inactive", "SubState": "dead", "NRestarts": "0"}, ""),
        ({"LoadState": "loaded", "ActiveState": "inactive", "SubState": "dead", "NRestarts": "0"}, ""),
        ({"LoadState": "loaded", "ActiveState": "activating", "SubState": "auto-restart", "NRestarts": "2"},
         "tried 2 times to start it again and goes on: `systemctl stop"),
        ({"LoadState": "loaded", "ActiveState": "failed", "SubState": "failed", "NRestarts": "3"},
         "tried 3 times to start it again and leaves it off now"),
    ],
)  # fmt: skip
def test_status_tells_what_systemd_does(state: dict[str, str], said: str) -> None:
    told = what_follows(None, lambda: state)
    assert said in told and bool(said) == bool(told)


def test_the_unit_knows_the_exit_status_of_the_emergency_stop() -> None:
    assert f"RestartPreventExitStatus={USAGE} {EMERGENCY}\n" in (ROOT / "vm" / "cosched.service").read_text()


def test_status_tells_that_an_agent_was_killed(ctl: Ctl, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "agent.json").write_text('{"pid": 77, "policy": "csm", "since": 0}')
    text = ctl("status").stdout
    assert "the agent (pid 77, policy csm) was killed" in text
    assert "ctl load" in text


def test_load_needs_root(tmp_path: Path) -> None:
    drop = "os.setuid(65534)" if os.geteuid() == 0 else "pass"  # after the imports: nobody may not read root's files
    imports = "import os, sys, ctl.cli.control, ctl.process.daemon; from ctl.cli.main import main"
    code = f"{imports}; {drop}; sys.exit(main(['load', '--policy', 'csm']))"
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "COSCHED_RUN_DIR": str(tmp_path / "run")}
    environment["COSCHED_CONFIG"] = "/nonexistent"  # nobody may not look into tmp_path
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False)
    refused(done, "needs root", "sudo")


def test_a_reader_that_leaves_early_gets_no_complaint(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        ["bash", "-c", f"{sys.executable} -m ctl policies | head -1"],
        capture_output=True,
        text=True,
        env=environment,
        cwd=tmp_path,
        check=False,
    )
    assert done.stdout.startswith("policy")
    assert done.stderr == ""


def test_history_lists_and_forgets(ctl: Ctl, tmp_path: Path) -> None:
    """Without a command it lists; a word of one key alone names that key."""
    (tmp_path / "run").mkdir()
    rows = [{"program": f"/usr/bin/make /src {target}", "user": "eve", "ranks": 0, "runs": 2, "most": 375809638,
             "working": 0, "estimate": 375809638} for target in ("big", "small")]  # fmt: skip
    answers = {"history": rows, "forget": {"program": rows[0]["program"], "runs": 2}}
    with Agent(tmp_path / "run" / "agent.sock", answers):
        for words in ((), ("make",), ("list",)):
            assert json.loads(ctl("history", *words, "--json").stdout) == rows
        assert json.loads(ctl("history", "list", "big", "--json").stdout) == rows[:1]
        head, line, _ = ctl("history").stdout.splitlines()
        assert " ".join(head.split()) == "key user ranks runs most MiB working set MiB estimate MiB"
        assert line.split() == ["/usr/bin/make", "/src", "big", "eve", "-", "2", "358.4", "-", "358.4"]
        told = "2 runs of /usr/bin/make /src big forgotten\n"
        for key in (["big"], ["/usr/bin/make /src big"], ["/usr/bin/make", "/src", "big"]):
            assert ctl("history", "forget", *key).stdout == told
        refused(ctl("history", "forget", "/src"), "'/src' is in 2 keys", "`ctl history`", "the whole of one")
        refused(ctl("history", "forget", "sim"), "no run of 'sim' is known")


@pytest.mark.parametrize("key", ["", " ", "a\nb", "a" * 4097])
def test_a_key_that_cannot_be_printed_is_refused(ctl: Ctl, key: str) -> None:
    refused(ctl("run", "--estimate-as", key, "--", "true"), "--estimate-as", "1 to 4096 printable characters")
