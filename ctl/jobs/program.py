# SPDX-License-Identifier: GPL-2.0-or-later
"""The program that a job is about: what its history (history.py) is looked up by."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from ctl.kernel.launchers import MPI_DAEMON, MPI_LAUNCHER

__all__ = ["executable_of", "program_of", "ranks_of"]

# programs that start another one: `mpiexec -n 4 ./sim` is a run of sim
_LAUNCHER: Final = re.compile(
    rf"{MPI_LAUNCHER.pattern}|srun|env|nice|taskset|numactl|stdbuf|time|timeout|setsid|nohup"
)
_RANKS: Final = ("-n", "-np", "--np", "--n")
_HOSTS: Final = re.compile(r"--?(hosts?|hostlist|(default-)?hostfile|machine(file)?|f|ppn|npernode|map-by)")
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
        if MPI_DAEMON.fullmatch(name):
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


def ranks_of(command: Sequence[str]) -> int:
    """The ranks that mpiexec starts on this node; 0: unknown, as where it is told of hosts or of several programs.

    >>> ranks_of(["mpiexec.mpich", "-n", "4", "cat"]), ranks_of(["mpirun", "-hosts", "a,b", "-n", "4", "cat"])
    (4, 0)
    """
    words = list(command)
    while words and not MPI_LAUNCHER.fullmatch(os.path.basename(words.pop(0))):
        pass
    if ":" in words:
        return 0
    ranks = 0
    for word, value in pairwise(words):
        if _HOSTS.fullmatch(word):
            return 0
        if word in _RANKS and value.isascii() and value.isdigit():
            ranks = int(value) if len(value) < 5 else 0
        elif shutil.which(word) is not None:  # the program: what follows is its own
            break
    return ranks
