# SPDX-License-Identifier: GPL-2.0-or-later
"""ctl/jobs/launch: a command that mpiexec hands to its ssh runs on the other node unchanged, but below `ctl run`."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from ctl.jobs.launcher import LAUNCH, environment, wait_policy

# An ssh that runs its command here as the login shell there would, and a ctl that tells and executes.
SSH = """#!/bin/sh
while [ "${1#-}" != "$1" ]; do case $1 in -[ilop]) shift ;; esac; shift; done
echo "host $1"; shift
exec "$SHELL" -c "$*"
"""
CTL = '#!/bin/sh\necho "ctl $1 $2 $3"; shift 4; exec "$@"\n'


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    for name, text in (("ssh", SSH), ("ctl", CTL)):
        path = tmp_path / name
        path.write_text(text)
        path.chmod(0o755)
    return tmp_path


def launch(programs: Path, *arguments: str, shell: str = "/bin/sh", **more: str) -> subprocess.CompletedProcess[str]:
    env = {"PATH": f"{programs}:{os.environ['PATH']}", "SHELL": shell, "COSCHED_JOB": "sim", **more}
    return subprocess.run([LAUNCH, *arguments], env=env, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(("arguments", "output"), [
    (("-x", "node2", '"/bin/echo"', "--rmk", "user"), "--rmk user"),  # as Hydra calls it
    (("node2", "a=5", ";", "export a;", "/bin/echo", '"$a"'), "5"),  # as PRRTE does
    (("-p", "22", "-lme", "-o", "BatchMode yes", "node2", "echo", "it\\'s", "'a  b'"), "it's a  b"),
    (("-i", "node9", "node2", "echo", "'$HOME \"'", "-x"), '$HOME " -x'),
])
@pytest.mark.parametrize("shell", ["/bin/sh", "/bin/bash"])
def test_command_runs_over_there_in_the_job(
    programs: Path, arguments: tuple[str, ...], output: str, shell: str
) -> None:
    done = launch(programs, *arguments, shell=shell)
    assert done.stdout == f"host node2\nctl run --job sim\n{output}\n", done.stderr


def test_status_is_the_commands(programs: Path) -> None:
    assert launch(programs, "node2", "exit", "7").returncode == 7


def test_another_ssh_is_used(programs: Path) -> None:
    (programs / "ssh").rename(programs / "our-ssh")
    done = launch(programs, "node2", "true", COSCHED_SSH="our-ssh -p 2222")
    assert done.stdout.startswith("host node2\n")


def test_no_command_is_refused(programs: Path) -> None:
    done = launch(programs, "-x", "node2")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "launch: no host and command in: -x node2\n"


def test_environment_for_both_launchers() -> None:
    made = environment("sim", {"HOME": "/root"})
    assert made["HOME"] == "/root"
    assert made["COSCHED_JOB"] == "sim"
    assert made["HYDRA_LAUNCHER_EXEC"] == made["PRTE_MCA_plm_ssh_agent"] == str(LAUNCH)
    assert "COSCHED_SSH" not in made
    assert environment("sim", made) == made  # a command of the job may start another


def test_open_mpis_ranks_yield_unless_the_user_says_otherwise() -> None:
    assert environment("sim", {})["OMPI_MCA_mpi_yield_when_idle"] == "1"
    own = {"OMPI_MCA_mpi_yield_when_idle": "0"}
    assert environment("sim", own)["OMPI_MCA_mpi_yield_when_idle"] == "0"


@pytest.mark.parametrize(
    ("own", "ranks", "sleep"),
    [
        ({}, 0, False),  # a thread for each CPU
        ({}, 2, True),
        ({"OMP_NUM_THREADS": "1"}, 4, False),
        ({"OMP_NUM_THREADS": "1"}, 5, True),
        ({"OMP_NUM_THREADS": "8,2"}, 0, True),
        ({"OMP_NUM_THREADS": "x"}, 1, False),
        ({"OMP_WAIT_POLICY": "active"}, 8, False),
        ({"KMP_BLOCKTIME": "0"}, 8, False),
    ],
)
def test_threads_beyond_the_cpus_sleep_while_they_wait(own: dict[str, str], ranks: int, sleep: bool) -> None:
    assert wait_policy(own, ranks, 4) == ({"OMP_WAIT_POLICY": "passive"} if sleep else {})


@pytest.mark.parametrize("own", [{"HYDRA_LAUNCHER": "slurm"}, {"HYDRA_BOOTSTRAP": "lsf"}, {"SLURM_JOB_ID": "7"}])
def test_a_batch_systems_launcher_stays(own: dict[str, str]) -> None:
    assert "HYDRA_LAUNCHER_EXEC" not in environment("sim", own)


@pytest.mark.parametrize("name", ["HYDRA_LAUNCHER_EXEC", "HYDRA_BOOTSTRAP_EXEC", "PRTE_MCA_plm_ssh_agent"])
def test_the_users_own_ssh_is_kept_below_ours(name: str) -> None:
    made = environment("sim", {name: "/opt/ssh -q : rsh"})
    assert made["COSCHED_SSH"] == "/opt/ssh -q"
    assert made["HYDRA_LAUNCHER_EXEC"] == str(LAUNCH)
