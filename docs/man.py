#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Write man pages, shells' completions and a first cosched.conf into a directory: `just man`, and packages, call it.

    man1/ctl.1, ctl-COMMAND.1    from the commands' declarations (click): a page a command, a group's with all its own
    man5/cosched.conf.5          from the tables of ctl/policy
    man7/cosched.7               written by hand, docs/cosched.7
    completions/                 ctl.bash, _ctl (zsh), ctl.fish: click's
    cosched.conf                 an example, all of it commented out

`man --manpath DIRECTORY ctl-load` shows one. Options, knobs and defaults are declared once, so no page is in git but
the one by hand.
"""

from __future__ import annotations

import datetime
import inspect
import os
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import click  # noqa: E402
from click.shell_completion import get_completion_class  # noqa: E402

from ctl import __version__, policy, protocol  # noqa: E402
from ctl.cli.main import cli  # noqa: E402
from ctl.cluster.place import DIRECTORY  # noqa: E402
from ctl.jobs.history import FILE as HISTORY  # noqa: E402
from ctl.policy import config  # noqa: E402
from ctl.policy.values import modules  # noqa: E402
from ctl.process.run_files import LOG  # noqa: E402

__all__ = ["EXAMPLE", "completions", "conffile", "main", "pages"]

BY_HAND: Final = ROOT / "docs" / "cosched.7"
SHELLS: Final = {"bash": "ctl.bash", "zsh": "_ctl", "fish": "ctl.fish"}
EXAMPLE: Final = """\
# Jobs wait until their memory fits; half of each CPU is theirs while a user is here.
policy = "fit"

[knobs]
share_l = 0.5
turn_s = 60
local_idle_s = 300
"""

_WHAT: Final = (
    "`ctl load` and `ctl agent` take policy and knobs from this file. The file is TOML: policy = NAME, and below a "
    "line [knobs] a line NAME = VALUE for each knob. Words are in double quotes; for a knob that is on or off, true "
    "and false are allowed, too."
)
_WHICH: Final = (
    "The command line wins over the file, the file over the policy's own contract and share_l, these over the defaults "
    "of the knobs. While anything is wrong with the file, a load is refused, unless --no-config leaves the whole file "
    "out. `ctl config check` tells all that is wrong, `ctl config show` what would be loaded and where each value "
    "comes from; `ctl config set` writes values into the file."
)
_STATUS = re.compile(r"Exit status: (.*)\Z", re.DOTALL)
_FILES: Final = {
    config.FILE: "policy and knobs at load; see [cosched.conf(5)]",
    DIRECTORY: "this node's membership of a cluster, for root only",
    protocol.SOCKET: "the agent's socket, for root and group cosched",
    LOG: "what the agent tells, and the kernel's dump after it ended a scheduler",
    HISTORY: "what programs needed so far, for policy fit",
}


# text to roff


def _roff(text: str) -> str:
    """Text of help and tables as roff: `words` and [page(1)] in bold, no line that begins as a request."""
    text = text.replace("\\", r"\e").replace("-", r"\-")
    text = re.sub(r"`([^`]+)`|\[([a-z.\\-]+\(\d\))\]", lambda found: rf"\fB{found[1] or found[2]}\fP", text)
    return "\n".join(rf"\&{line}" if line.startswith((".", "'")) else line for line in text.splitlines())


def _head(name: str, section: int, what: str) -> list[str]:
    """The first lines of a page."""
    seconds = os.environ.get("SOURCE_DATE_EPOCH")  # of a reproducible build
    day = datetime.datetime.fromtimestamp(int(seconds), datetime.UTC).date() if seconds else datetime.date.today()
    return [
        f'.TH {_roff(name.upper())} {section} "{day}" "cosched {__version__}" "cosched"',
        ".SH NAME",
        rf"{_roff(name)} \- {_roff(what)}",
    ]


def _entry(term: str, *paragraphs: str) -> list[str]:
    """A term with its explanation."""
    first, *rest = (_roff(paragraph) for paragraph in paragraphs if paragraph)
    return [".TP", term, first, *(line for paragraph in rest for line in (".IP", paragraph))]


def _verbatim(text: str) -> list[str]:
    return [".EX", _roff(text), ".EE"]


def _see_also(*names: str) -> list[str]:
    return [".SH SEE ALSO", ", ".join(rf"\fB\%{_roff(name[:-3])}\fP{name[-3:]}" for name in names)]


# commands


def _paragraphs(command: click.Command) -> list[str]:
    return inspect.cleandoc(command.help or "").split("\n\n")


def _title(command: click.Command) -> str:
    """The first sentence of a command's help, as the line of apropos(1)."""
    first = " ".join(_paragraphs(command)[0].split())
    sentence = re.split(r"[.,;] (?=[A-Z])|\.$|, so ", first)[0]
    return sentence[:1].lower() + sentence[1:]


def _options(command: click.Command, context: click.Context) -> list[tuple[click.Option, str, str]]:
    """(option, its words in roff, its help) of those that are shown, --help apart."""
    found = []
    for option in command.get_params(context):
        record = option.get_help_record(context)
        if isinstance(option, click.Option) and record and "--help" not in option.opts:
            found.append((option, ", ".join(_words(one) for one in record[0].split(", ")), record[1]))
    return found


def _words(option: str) -> str:
    """An option in bold, its value in italics: "--set KNOB=VALUE"; "--make / --kept" is two in bold."""
    name, _, value = option.removesuffix(" RANGE").partition(" ")
    if value.startswith("/"):
        name, value = option, ""
    return rf"\fB{_roff(name)}\fP" + (rf" \fI{_roff(value)}\fP" if value else "")


def _synopsis(path: str, command: click.Command, context: click.Context) -> str:
    """One line: the command, its options, its arguments."""
    words = [rf"\fB{_roff(path)}\fP"]
    for option, _, _ in _options(command, context):
        value = "" if option.is_flag else f" {option.make_metavar(context)}"
        one = _words(max(option.opts, key=len) + value)
        one = one if option.required else f"[{one}]"
        words.append(one + (r"\&..." if option.multiple else ""))
    for argument in command.get_params(context):
        if isinstance(argument, click.Argument):
            words.append(rf"\fI{_roff(argument.make_metavar(context))}\fP")
    if isinstance(command, click.Group):
        words.append(r"\fICOMMAND\fP [\fIARGUMENTS\fP]")
    return " ".join(words)


def _help(command: click.Command) -> tuple[list[str], str, str]:
    """(paragraphs in roff, examples, exit status) of a command's help."""
    paragraphs: list[str] = []
    examples = status = ""
    for paragraph in _paragraphs(command):
        head, _, rest = paragraph.partition("\n")
        if head != "\b":
            text = " ".join(paragraph.split())
            if found := _STATUS.search(text):
                status, text = found[1], text[: found.start()].rstrip()
            paragraphs += [".PP", _roff(text)] if text else []
        elif rest.startswith("Example"):
            examples = rest.partition("\n")[2]
        else:
            paragraphs += [".PP", *_verbatim(rest)]
    return paragraphs[1:] if paragraphs[:1] == [".PP"] else paragraphs, _dedented(examples), status


def _dedented(text: str) -> str:
    """Lines without the indentation of examples."""
    return "\n".join(line.removeprefix("  ") for line in text.splitlines())


def _commands(group: click.Group, context: click.Context) -> Iterator[tuple[str, click.Command, click.Context]]:
    """(path, command, context) of a group's commands."""
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None, f"a group lists {name} and has no such command"
        inner = click.Context(command, info_name=name, parent=context)
        yield inner.command_path, command, inner


def _section(path: str, command: click.Command, context: click.Context) -> list[str]:
    """A command of a group, as a part of the group's page."""
    paragraphs, examples, status = _help(command)
    lines = [f".SS {_synopsis(path, command, context)}", *paragraphs]
    for _, words, text in _options(command, context):
        lines += _entry(words, text)
    if status:
        lines += [".PP", _roff(f"Exit status: {status}")]
    return [*lines, *([".PP", *_verbatim(examples)] if examples else [])]


def _command_page(path: str, command: click.Command, context: click.Context) -> str:
    """The page of a command of ctl, a group with all its commands."""
    paragraphs, examples, status = _help(command)
    lines = [*_head(path.replace(" ", "-"), 1, _title(command)), ".SH SYNOPSIS", _synopsis(path, command, context)]
    lines += [".SH DESCRIPTION", *paragraphs]
    if options := _options(command, context):
        lines += [".SH OPTIONS", *(line for _, words, text in options for line in _entry(words, text))]
    if isinstance(command, click.Group):
        lines.append(".SH COMMANDS")
        lines += [line for one in _commands(command, context) for line in _section(*one)]
    lines += [".SH EXIT STATUS", _roff(status or (cli.epilog or "").removeprefix("Exit status: "))]
    if examples:
        lines += [".SH EXAMPLES", *_verbatim(examples)]
    return "\n".join([*lines, *_see_also("ctl(1)", "cosched.conf(5)", "cosched(7)")]) + "\n"


def _first_page(context: click.Context) -> str:
    """ctl(1)."""
    paragraphs, _, _ = _help(cli)
    lines = [*_head("ctl", 1, _title(cli)), ".SH SYNOPSIS", _synopsis("ctl", cli, context)]
    lines += [".SH DESCRIPTION", *paragraphs, ".SH COMMANDS"]
    names = []
    for path, command, _ in _commands(cli, context):
        names.append(path.replace(" ", "-") + "(1)")
        lines += _entry(rf"\fB{_roff(names[-1][:-3])}\fP(1)", _title(command))
    lines += [".SH EXIT STATUS", _roff((cli.epilog or "").removeprefix("Exit status: ")), ".SH FILES"]
    for file, what in _FILES.items():
        lines += _entry(rf"\fI{_roff(str(file))}\fP", what)
    return "\n".join([*lines, *_see_also(*names, "cosched.conf(5)", "cosched(7)")]) + "\n"


# the file of settings


def _policy_entry(row: policy.Policy) -> list[str]:
    facts = f"Rule `{row.rule}`; modules: {modules(row) or 'none'}; contracts: {', '.join(policy.contracts(row))}; "
    return _entry(rf"\fB{_roff(row.name)}\fP", f"{row.meaning}.", f"{facts}share_l {row.share_l:g}. {row.reference}.")


def _knob_entry(knob: policy.Knob) -> list[str]:
    kind = "a whole number, " if knob.kind == "integer" else ""
    allowed = f"Allowed: {kind}{knob.range}. Default: {knob.default}. {knob.reference}."
    return _entry(rf"\fB{_roff(knob.name)}\fP", f"{knob.meaning}.", allowed)


def _lines(entries: Iterable[list[str]]) -> list[str]:
    return [line for entry in entries for line in entry]


def _config_page() -> str:
    """cosched.conf(5)."""
    lines = [*_head("cosched.conf", 5, "policy and knobs at load"), ".SH SYNOPSIS", rf"\fI{_roff(str(config.FILE))}\fP"]
    lines += [".SH DESCRIPTION", _roff(_WHAT), ".PP", _roff(_WHICH)]
    lines += [".SH POLICIES", *_lines(map(_policy_entry, policy.POLICIES.values()))]
    lines += [".SH KNOBS", *_lines(map(_knob_entry, policy.KNOBS.values()))]
    lines += [".SH EXAMPLES", *_verbatim(EXAMPLE)]
    return "\n".join([*lines, *_see_also("ctl-config(1)", "ctl-load(1)", "ctl-policies(1)", "cosched(7)")]) + "\n"


def pages() -> dict[str, str]:
    """The text of every page, by its file: "man1/ctl-load.1"."""
    context = click.Context(cli, info_name="ctl")
    made = {"man1/ctl.1": _first_page(context)}
    for path, command, inner in _commands(cli, context):
        made[f"man1/{path.replace(' ', '-')}.1"] = _command_page(path, command, inner)
    return {**made, "man5/cosched.conf.5": _config_page(), "man7/cosched.7": BY_HAND.read_text()}


def completions() -> dict[str, str]:
    """The shells' scripts that complete `ctl`, by their file. bash must be there, because click asks its version."""
    made = {}
    for shell, name in SHELLS.items():
        shell_complete = get_completion_class(shell)
        assert shell_complete is not None, f"click completes nothing in {shell}"
        made[f"completions/{name}"] = shell_complete(cli, {}, "ctl", "_CTL_COMPLETE").source()
    return made


def conffile() -> str:
    """The text of a first /etc/cosched.conf, which sets nothing."""
    lines = ("See cosched.conf(5) and `ctl policies`.", *EXAMPLE.splitlines())
    return "".join(f"# {line}".rstrip() + "\n" for line in lines)


def main() -> int:
    """Write everything below the directory that is named; returns the exit status."""
    if len(sys.argv) != 2:
        print("usage: docs/man.py DIRECTORY", file=sys.stderr)
        return 2
    for name, text in {**pages(), **completions(), "cosched.conf": conffile()}.items():
        path = Path(sys.argv[1], name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
