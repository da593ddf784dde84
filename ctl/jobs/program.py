# SPDX-License-Identifier: GPL-2.0-or-later
"""The program that a job is about: what its history (history.py) is looked up by."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Sequence
from typing import Final

__all__ = ["executable_of", "program_of"]

# programs that start another one: `mpiexec -n 4 ./sim` is a run of sim
_LAUNCHER: Final = re.compile(
    r"(mpiexec|mpirun|orterun|prterun)(\.\w+)?|srun|env|nice|taskset|numactl|stdbuf|time|timeout|setsid|nohup"
)
# what a launcher starts on other nodes: which program it is about, only the launcher knows
_DAEMON: Final = re.compile(r"hydra_\w+|prted|orted")
_INTERPRETER: Final = re.compile(r"(python|perl|ruby|Rscript|julia|bash|sh|dash|zsh)[\d.]*")


def program_of(command: Sequence[str]) -> str:
    """The program that a job's command is about, by its path; for a script, interpreter and script. Empty: unknown,
    as what an interpreter was given with -c, or what a daemon of mpiexec starts on another node.

    >>> program_of(["mpiexec.mpich", "-n", "4", "/bin/cat", "/etc/motd"]).endswith("/cat")
    True
    """
    words = list(command)
    while words:
        word = words.pop(0)
        path = shutil.which(word)
        name = os.path.basename(word)
        if path is None:  # an option of a launcher, or its value
            continue
        if _DAEMON.fullmatch(name):
            return ""
        if _INTERPRETER.fullmatch(name):
            script = next((one for one in words if os.path.isfile(one)), "")
            return f"{os.path.realpath(path)} {os.path.realpath(script)}" if script else ""
        if not _LAUNCHER.fullmatch(name) or not any(map(shutil.which, words)):
            return os.path.realpath(path)
    return ""


def executable_of(program: str) -> str:
    """The file that a process of this program executes: of a script, its interpreter.

    >>> executable_of("/usr/bin/env /home/eve/sim.py")
    '/usr/bin/env'
    """
    return program if os.path.isfile(program) else program.partition(" ")[0]
