# SPDX-License-Identifier: GPL-2.0-or-later
"""`ctl`: the command line. Commands are thin; ctl/process/daemon.py, ctl/node and ctl/monitor do the work.

Imports are late on purpose: an emulated CPU needs a second for rich and for pyroute2, and `ctl get` needs neither. For
the same reason a command's file is imported when the command is run. `ctl run` does without this file, and without
click: ctl/cli/front.py.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from ctl import __version__
from ctl.cli.common import Group
from ctl.cli.endings import INTERRUPTED, ended
from ctl.errors import USAGE

__all__ = ["cli", "main"]

_COMMANDS = {  # in the order of `ctl --help`: the file of ctl/cli, and the command's name in it where it is another one
    "load": "control",
    "agent": "control",
    "unload": "control",
    "switch": "control",
    "get": "control",
    "set": "control:set_",
    "policies": "control",
    "config": "config",
    "doctor": "doctor",
    "status": "watch",
    "trace": "tracing",
    "top": "watch",
    "netmon": "netmon",
    "report": "report",
    "run": "jobs",
    "jobs": "jobs",
    "queue": "jobs",
    "history": "history",
    "hold": "hold",
    "release": "hold",
    "cancel": "cancel",
    "place": "jobs",
    "tasks": "jobs",
    "cluster": "cluster",
    "events": "events",
    "sim": "sim",
}


@click.group(
    cls=Group,
    places={name: f"ctl.cli.{place if ':' in place else f'{place}:{name}'}" for name, place in _COMMANDS.items()},
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit status: 0 done, 1 failed, 2 the request was wrong and changed nothing.",
)
@click.version_option(__version__, prog_name="cosched", message="%(prog)s %(version)s")
def cli() -> None:
    """Coschedule the parallel jobs of this node beside its local users.

    \b
    ctl load --policy csm             the kernel orders its ready queues by CSM from now on
    ctl run --job sim -- mpiexec …    run a command as a job
    ctl top                           watch it
    ctl unload                        back to the kernel's own scheduler
    """


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status: 0 done, 1 failed, 2 wrong request."""
    return ended(lambda: _with_click(arguments))


def _with_click(arguments: Sequence[str] | None) -> object:
    """The result of a command, or the exit status that click gives."""
    try:
        return cli.main(args=arguments, prog_name="ctl", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
        return USAGE
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except click.Abort:
        return INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
