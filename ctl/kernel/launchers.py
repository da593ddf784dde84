# SPDX-License-Identifier: GPL-2.0-or-later
"""MPI's launchers and daemons, by the names of their files."""

from __future__ import annotations

import os
import re
from typing import Final

__all__ = ["MPI_DAEMON", "MPI_LAUNCHER", "is_launcher"]

MPI_LAUNCHER: Final = re.compile(r"(mpiexec|mpirun|orterun|prterun)(\.\w+)?")
MPI_DAEMON: Final = re.compile(r"hydra_\w+|prted?|orted")
"""What a launcher starts on other nodes: which program it is about, only the launcher knows."""


def is_launcher(path: str) -> bool:
    """Whether the file is mpiexec or one of its daemons.

    >>> [is_launcher(f"/usr/bin/{name}") for name in ("hydra_pmi_proxy", "mpiexec.hydra", "prte", "sleep")]
    [True, True, True, False]
    """
    name = os.path.basename(path)
    return bool(MPI_LAUNCHER.fullmatch(name) or MPI_DAEMON.fullmatch(name))
