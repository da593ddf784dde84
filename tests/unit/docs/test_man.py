# SPDX-License-Identifier: GPL-2.0-or-later
"""The man pages have every command, option, policy and knob, and are without faults; the shells complete `ctl`."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from ctl import policy
from ctl.cli.main import cli
from ctl.policy import config

ROOT = Path(__file__).resolve().parents[3]
_SPEC = importlib.util.spec_from_file_location("man", ROOT / "docs" / "man.py")
assert _SPEC is not None and _SPEC.loader is not None
man = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(man)

PAGES: dict[str, str] = man.pages()
_FONT = re.compile(r"\\f[BIPR]|\\%|\\&")


def plain(page: str) -> str:
    """A page's words without roff's escapes."""
    return _FONT.sub("", PAGES[page]).replace(r"\-", "-").replace(r"\e", "\\")


def commands(group: click.Group, context: click.Context) -> Iterator[tuple[list[str], click.Command]]:
    """Every command, with the words that call it; groups, and all in them."""
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        inner = click.Context(command, info_name=name, parent=context)
        yield inner.command_path.split(), command
        if isinstance(command, click.Group):
            yield from commands(command, inner)


COMMANDS = list(commands(cli, click.Context(cli, info_name="ctl")))


@pytest.mark.parametrize(("words", "command"), COMMANDS, ids=[" ".join(words) for words, _ in COMMANDS])
def test_every_command_stands_in_its_page_with_every_option(words: list[str], command: click.Command) -> None:
    page = f"man1/ctl-{words[1]}.1"
    text = plain(page)
    called = " ".join(words)
    assert re.search(rf"^(\.SS )?{re.escape(called)}( |$)", text, re.MULTILINE), f"no synopsis of {called}"
    place = text[text.index(f".SS {called}") :] if len(words) > 2 else text
    for option in command.params:
        if isinstance(option, click.Option) and not option.hidden:
            assert re.search(rf"^\.TP\n(.*, )?{re.escape(option.opts[0])}\b", place, re.MULTILINE), option.opts
    examples = [line.strip() for line in (command.help or "").partition("Example")[2].splitlines()[1:]]
    for line in examples:
        assert line.replace("`", "") in text
    assert f"ctl-{words[1]}(1)" in plain("man1/ctl.1")


def test_every_policy_and_knob_has_an_entry() -> None:
    entries = plain("man5/cosched.conf.5").split("\n.TP\n")
    for row in policy.POLICIES.values():
        assert any(entry.startswith(f"{row.name}\n{row.meaning.replace('`', '')}.") for entry in entries), row.name
    for knob in policy.KNOBS.values():
        start = f"{knob.name}\n{knob.meaning.replace('`', '')}."
        entry = next((entry for entry in entries if entry.startswith(start)), "")
        assert knob.range in entry and f"Default: {knob.default}." in entry


def test_the_example_of_a_file_has_no_fault() -> None:
    found, faults = config.parse(man.EXAMPLE)
    assert faults == [] and found.policy == "fit" and len(found.knobs) == 3
    assert man.EXAMPLE.strip() in plain("man5/cosched.conf.5")


def test_the_first_file_sets_nothing_until_its_lines_are_uncommented(made: Path) -> None:
    text = (made / "cosched.conf").read_text()
    assert config.parse(text) == (config.Config(), [])
    uncommented = "".join(line[2:] + "\n" for line in text.splitlines()[1:])
    assert uncommented == man.EXAMPLE


def test_exit_status_is_each_commands_own() -> None:
    assert "\n.SH EXIT STATUS\nthe command's; 127" in plain("man1/ctl-run.1")
    assert "\n.SH EXIT STATUS\n0 no check fails, 1 any fails." in plain("man1/ctl-doctor.1")
    assert "\n.SH EXIT STATUS\n0 done, 1 failed, 2" in plain("man1/ctl-load.1")
    assert "\nExit status: 0 nothing is wrong, 2 anything is.\n" in plain("man1/ctl-config.1")


def test_names_in_the_page_by_hand_exist() -> None:
    text = plain("man7/cosched.7")
    names = {" ".join(words[1:]) for words, _ in COMMANDS}
    for called in re.findall(r"^\.BR ctl-(\w+)|\bctl ([a-z]+)", text, re.MULTILINE):
        assert (called[0] or called[1]) in names, called
    for knob in ("mnol", "mnod", "spin_ms", "share_l", "local_idle_s", "turn_s", "contract"):
        assert knob in policy.KNOBS and knob in text
    assert {row.name for row in policy.POLICIES.values() if row.memory} == {"ccs", "poly"}, "the page names them"
    for name in ("csm", "fit", "ccs", "poly"):
        assert name in policy.POLICIES and re.search(rf"^\.BR? {name}\b", text, re.MULTILINE)


def test_text_is_no_request_and_no_escape() -> None:
    assert man._roff("a\\b -x `ctl get`\n.TH\n'x") == "a\\eb \\-x \\fBctl get\\fP\n\\&.TH\n\\&'x"


@pytest.mark.parametrize("page", PAGES)
def test_every_example_ends(page: str) -> None:
    """mandoc does not tell that the rest of a page is not filled."""
    requests = re.findall(r"^\.(EX|EE|SH)", PAGES[page], re.MULTILINE)
    open_at = [number for number, request in enumerate(requests) if request == "EX"]
    assert all(requests[number + 1] == "EE" for number in open_at)


@pytest.mark.skipif(shutil.which("mandoc") is None, reason="mandoc is not installed: `just setup` installs it")
@pytest.mark.parametrize("page", PAGES)
def test_mandoc_finds_no_fault(page: str, tmp_path: Path) -> None:
    path = tmp_path / Path(page).name
    path.write_text(PAGES[page])
    done = subprocess.run(["mandoc", "-T", "lint", "-W", "warning", path], capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("", 0)


def test_a_page_says_its_date_as_a_reproducible_build_wants(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    assert '"2023-11-14"' in man.pages()["man1/ctl.1"].splitlines()[0]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All that `just man` writes."""
    directory = tmp_path_factory.mktemp("man")
    subprocess.run([sys.executable, ROOT / "docs" / "man.py", directory], check=True)
    return directory


def test_all_is_written(made: Path) -> None:
    there = {path.relative_to(made).as_posix() for path in made.rglob("*") if path.is_file()}
    assert there == {*PAGES, "completions/ctl.bash", "completions/_ctl", "completions/ctl.fish", "cosched.conf"}
    for page, text in PAGES.items():
        assert (made / page).read_text() == text


def test_the_shells_scripts_complete_ctl(made: Path) -> None:
    for name in ("ctl.bash", "_ctl", "ctl.fish"):
        text = (made / "completions" / name).read_text()
        assert "_CTL_COMPLETE" in text and "ctl" in text
    subprocess.run(["bash", "-n", made / "completions" / "ctl.bash"], check=True)


def test_bash_asks_ctl_for_the_words(made: Path, tmp_path: Path) -> None:
    """The script, sourced by a real bash, with a `ctl` on its path."""
    program = tmp_path / "ctl"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m ctl "$@"\n')
    program.chmod(0o755)
    script = f"""
source {made}/completions/ctl.bash
complete -p ctl | grep -q _ctl_completion || exit 9
COMP_WORDS=(ctl cluster in) COMP_CWORD=2 COMPREPLY=()
_ctl_completion ctl
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, env=environment, check=True)
    assert done.stdout.split() == ["init", "invite"], done.stderr
