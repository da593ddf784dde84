# SPDX-License-Identifier: GPL-2.0-or-later
"""`ctl config`, and `ctl load` with a file."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ctl.cli.main import main
from ctl.process import daemon
from ctl.process.daemon import Options
from tests.unit.cli.conftest import ROOT, Ctl, refused

WRONG = 'policy = "csm"\n[knobs]\nmno = 0\nnope = 1\n'


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The file that `ctl` of the fixture reads."""
    return tmp_path / "cosched.conf"


def test_check_tells_all_faults_one_a_line(ctl: Ctl, file: Path) -> None:
    file.write_text(WRONG)
    done = ctl("config", "check")
    assert (done.returncode, done.stdout) == (2, "")
    first, second = done.stderr.splitlines()
    assert first.startswith(f"{file}: knob mno cannot be '0'")
    assert second.startswith(f"{file}: no knob is called 'nope'")
    done = ctl("config", "check", "--json")
    assert done.returncode == 2
    answer = json.loads(done.stdout)
    assert (answer["file"], answer["exists"], len(answer["faults"])) == (str(file), True, 2)


def test_check_of_a_good_file_and_of_none(ctl: Ctl, file: Path, tmp_path: Path) -> None:
    done = ctl("config", "check")
    assert done.returncode == 0 and f"there is no {file}" in done.stdout
    other = tmp_path / "other.conf"
    refused(ctl("config", "check", str(other)), f"there is no file {other}")
    other.write_text('policy = "fit"\n[knobs]\nmno = 3\n')
    done = ctl("config", "check", str(other))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"{other}: policy fit, 2 knobs; nothing is wrong\n"


def test_show_tells_where_each_value_comes_from(ctl: Ctl, file: Path) -> None:
    file.write_text('policy = "fit"\n[knobs]\nmno = 3\n')
    shown = json.loads(ctl("config", "show", "--set", "mnol=5", "--json").stdout)
    assert shown["policy"] == {"name": "fit", "from": str(file)}
    assert shown["knobs"]["mnol"] == {"value": 5, "from": "command line"}
    assert shown["knobs"]["mnod"] == {"value": 3, "from": str(file)}
    assert shown["knobs"]["contract"] == {"value": "class", "from": "policy fit"}
    assert shown["knobs"]["p"] == {"value": 0.3, "from": "default"}
    text = ctl("config", "show", "--policy", "rr").stdout
    assert text.startswith("policy rr, from: command line\n")
    assert f"\nmnod                     3  overtakes  {file}\n" in text
    assert "contract             queue             policy rr" in text


@pytest.mark.parametrize("command", ["load", "agent"])
@pytest.mark.parametrize(
    ("words", "wanted"),
    [("", "csm"), ("rr", "rr"), ("--policy rr", "rr"), ("-p rr rr", "rr"), ("--set mno=4 fit", "fit")],
)
def test_load_and_agent_begin_with_the_same_policy(
    monkeypatch: pytest.MonkeyPatch, command: str, words: str, wanted: str
) -> None:
    """By word or by option; csm without one, as a service begins with a file that sets nothing."""
    begun: list[Options] = []

    def begin(options: Options) -> int:
        begun.append(options)
        return 0

    monkeypatch.setattr(daemon, "start", begin)
    monkeypatch.setattr(daemon, "foreground", begin)
    assert main([command, "--no-config", *(["--json"] if command == "load" else []), *words.split()]) == 0
    assert [options.policy for options in begun] == [wanted]


def test_a_policy_may_be_a_word_or_an_option(ctl: Ctl) -> None:
    for words in (["ccs"], ["--policy", "ccs"]):
        assert ctl("config", "show", *words).stdout.startswith("policy ccs, from: command line\n")
        refused(ctl("switch", *words), "the agent is not running")
    assert ctl("config", "show").stdout.startswith("policy csm, from: default\n")
    for command in ("load", "switch", "agent"):
        refused(ctl(command, "csm", "--policy", "rr"), "named twice, 'csm' and --policy 'rr'")
    refused(ctl("switch"), "no policy is named", "`ctl policies`")


@pytest.mark.parametrize("command", [("load",), ("load", "--policy", "csm"), ("agent",), ("config", "show")])
def test_a_wrong_file_is_refused_with_the_way_out(ctl: Ctl, file: Path, command: tuple[str, ...]) -> None:
    file.write_text(WRONG)
    refused(ctl(*command), f"{file}: knob mno", "(and 1 more)", "ctl config check", "--no-config")


def test_no_config_leaves_the_file_out(ctl: Ctl, file: Path) -> None:
    file.write_text(WRONG)
    assert ctl("config", "show", "--no-config", "--policy", "rr").returncode == 0
    refused(ctl("load", "--no-config", "--policy", "nope"), "'nope'")


def test_the_file_and_the_command_line_are_judged_together(ctl: Ctl, file: Path) -> None:
    file.write_text('[knobs]\ncontract = "class"\n')
    refused(ctl("load", "--policy", "prio"), "policy prio", "contract=queue")


CLASS = """# Of the lab.
policy = "csm"  # as agreed

[knobs]
# the owners' part
share_l = 0.25 # at least
mno = 2

# later: gang_ms
"""


def test_set_changes_lines_and_leaves_the_rest(ctl: Ctl, file: Path) -> None:
    file.write_text(CLASS)
    file.chmod(0o640)
    words = ["mno=4", "policy=fit", "share_l=0.5", "overload=on", "turn_s=60"]
    assert ctl("config", "set", *words).stdout == f"{file}: {', '.join(words)}, from the next load on\n"
    changed = CLASS.replace('"csm"', '"fit"').replace("0.25", "0.5")
    assert file.read_text() == changed.replace("mno = 2\n", 'mno = 4\noverload = "on"\nturn_s = 60\n')
    assert file.stat().st_mode & 0o777 == 0o640
    assert [path.name for path in file.parent.iterdir() if "cosched.conf" in path.name] == [file.name]


@pytest.mark.parametrize(
    ("before", "words", "after"),
    [
        (None, "mno=4", "[knobs]\nmno = 4\n"),
        ("", "policy=rr", 'policy = "rr"\n'),
        ("# none yet", "policy=rr mnol=3", '# none yet\npolicy = "rr"\n\n[knobs]\nmnol = 3\n'),
        ("# us\n[knobs] # all\nmno = 3\n", "policy=rr", '# us\npolicy = "rr"\n\n[knobs] # all\nmno = 3\n'),
        ("policy = 'rr'\n[knobs]\n'a b' = 1\n", "mno=65", None),
        ("[knobs]\nmno = 70\n", "mno=7", "[knobs]\nmno = 7\n"),
        ("[knobs]\nmno = 70\n", "policy=rr", None),  # what was wrong stays wrong
        ("knobs = {mno = 3}\n", "mno=4", None),
        ("knobs.mno = 3\n", "mno=4", None),
        ("[knobs]\nmno = 3\nmnol = 5\n", "mno=4", None),  # mnol would have its own way
        ('policy = """\nrr"""\n', "policy=csm", None),
        ('[knobs]\ncontract = "class"\n', "policy=prio", None),
        ("policy = \"csm\"", "nope=1", None),
        ("policy = \"csm\"", "mno", None),
    ],
)
def test_set_writes_a_right_file_or_none(
    ctl: Ctl, file: Path, before: str | None, words: str, after: str | None
) -> None:
    if before is not None:
        file.write_text(before)
    done = ctl("config", "set", *words.split())
    if after is None:
        refused(done)
        assert file.read_text() == before
    else:
        assert (done.returncode, file.read_text()) == (0, after), done
        assert ctl("config", "check").returncode == 0


def test_set_is_for_who_may_write_the_file(file: Path) -> None:
    drop = "os.setuid(65534)" if os.geteuid() == 0 else "pass"
    code = "import os, sys, tomllib, ctl.cli.config, ctl.policy.config_edit; from ctl.cli.main import main; "
    code += f"{drop}; sys.exit(main(['config', 'set', 'mno=4']))"
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "COSCHED_CONFIG": "/etc/none.conf"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False)
    refused(done, "cannot write /etc/none.conf", "be root, or use sudo")
