# SPDX-License-Identifier: GPL-2.0-or-later
"""What `ctl run` does, and its options, without click: every rank of every job is started through it, and click takes
more of the CPU than all the rest.

`read` understands a command line in good order. Of any other one, and of --help, click tells what is to be told
(ctl/cli/jobs.py), by the same options.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from ctl.errors import CoschedError, brief
from ctl.jobs.launcher import environment, hosts, wait_policy
from ctl.jobs.program import executable_of, program_of, ranks_of
from ctl.kernel.elf import static_size
from ctl.kernel.jid import check_jid, new_jid
from ctl.protocol import LONGEST_KEY, AgentSilent, Client

__all__ = ["OPTIONS", "Option", "begin", "read", "size_of", "wait_to_begin"]

_UNITS: Final = {"": 20, "K": 10, "M": 20, "G": 30, "T": 40}  # powers of two; a bare number is MiB, as for Slurm
_ASK_S: Final = 0.5  # between two questions of a command that waits for memory
_NOT_FOUND, _NOT_EXECUTABLE = 127, 126  # as shells say it


def size_of(text: str) -> int:
    """The bytes of a size as 48M or 2G. Raises CoschedError (status 2) if it is none above 0.

    >>> size_of("48M") == size_of("48 mib") == size_of("48") == 48 << 20
    True
    """
    number = text.strip().upper().removesuffix("B").removesuffix("I").rstrip()
    unit = number[-1:] if number[-1:] in "KMGT" else ""
    number = number.removesuffix(unit).rstrip()
    size = 0
    if number.replace(".", "0", 1).isdecimal() and number[0] != "." != number[-1] and number.isascii():
        size = int(float(number) * (1 << _UNITS[unit]))
    if not size:
        raise CoschedError(f"--memory {brief(text)} is no size above 0: write 48M or 2G", 2)
    return size


def _key(text: str) -> str:
    """The value of --estimate-as, without blanks around it."""
    if not (text.strip() and text.isprintable() and len(text) <= LONGEST_KEY):
        raise CoschedError(f"--estimate-as {brief(text)} is no key: give 1 to {LONGEST_KEY} printable characters", 2)
    return text.strip()


def _count(text: str) -> int:
    """A number of nodes or ranks. Raises ValueError."""
    if not (text.isascii() and text.isdigit() and int(text)):
        raise ValueError(text)
    return int(text)


class Option(NamedTuple):
    """An option of `ctl run`."""

    argument: str  # of `begin`
    names: tuple[str, ...]
    help: str
    metavar: str = ""  # empty: a flag
    of: Callable[[str], Any] = str  # the value of its word; raises CoschedError or ValueError
    default: Any = None

    @property
    def is_count(self) -> bool:
        """Whether its value is a number above 0."""
        return self.of is _count


OPTIONS: Final = (
    Option("jid", ("--job", "-j"), "the job to start or to join; without, a new one", "JID"),
    Option("name", ("--job-name", "-J"), "a new job, whose JID is this name and a number", "NAME"),
    Option("need", ("--memory", "--mem"), "what the job needs on each node: 48M, 2G", "SIZE", size_of, 0),
    Option("now", ("--now",), "do not wait for memory"),
    Option("count", ("--nodes", "-N"), "run on so many nodes, chosen by load", "N", _count),
    Option("per_node", ("--per-node", "--ntasks-per-node"), "ranks of a node", "R", _count, 1),
    Option("by", ("--by",), "cpu, mem, cpu-mem-hp, cpu-mem-ht or free; default: cpu-mem-hp with --memory, else free",
           "POLICY", str, ""),
    Option("key", ("--estimate-as",), "the job's key in `ctl history`; default: its program, with script or target",
           "NAME", _key),
    Option("verbose", ("--verbose", "-v"), "tell the job's key, and what is set in the command's environment"),
)  # fmt: skip

# what users of Slurm may look for: its options, and what there is instead
_SLURM: Final = {
    "-n --ntasks": "mpiexec starts the ranks, as in `ctl run -- mpiexec -n 4 ./sim`",
    "-c --cpus-per-task --hint": "the jobs of a node share its CPUs; OMP_NUM_THREADS sets the threads of a rank",
    "-t --time --time-min": "a job has no limit of time; `ctl run -- timeout 30m ./sim` gives it one",
    "-p --partition -A --account -q --qos --reservation": "there is one queue for all jobs; `ctl queue` shows it",
    "-w --nodelist -x --exclude -C --constraint": "--nodes chooses nodes by their load; or name them to mpiexec, as in "
                                                  "`ctl run -- mpiexec -hosts node1,node2 ./sim`",
    "-o --output -e --error -i --input": "a job has this terminal; redirect it with > and <",
    "-D --chdir --export": "a job has this directory and environment; change them before",
    "--mem-per-cpu --mem-per-gpu": "--mem is what the job needs on each node",
    "-d --dependency -b --begin -a --array": "`ctl run` ends with its job, so a shell script orders jobs",
    "--exclusive -s --oversubscribe": "jobs share nodes; under policy fit each has the memory that it needs",
}  # fmt: skip


def _no_option(word: str) -> CoschedError:
    """What to say of a word that looks like an option and is none."""
    name = word.partition("=")[0] if word[:2] == "--" else word[:2]
    instead = next((told for names, told in _SLURM.items() if name in names.split()), "")
    if instead:
        return CoschedError(f"ctl run has no option {name}, as Slurm has: {instead}", 2)
    return CoschedError(f"ctl run has no option {brief(word)}: see `ctl run --help`; a command stands behind --", 2)


def read(words: Sequence[str]) -> dict[str, Any] | None:
    """The arguments for `begin` in the words behind `ctl run`; None: click is to read them, or to tell what is wrong.

    >>> read(["-j", "sim", "--memory=48M", "--now", "--", "true"])
    {'jid': 'sim', 'need': 50331648, 'now': True, 'command': ('true',)}
    >>> read(["--help"]), read(["--nodes", "0", "true"]), read(["--job"])
    (None, None, None)
    """
    found: dict[str, Any] = {}
    rest = list(words)
    while rest and rest[0][:1] == "-":
        word = rest.pop(0)
        if word == "--":
            break
        name, equals, value = word.partition("=")
        option = next((one for one in OPTIONS if name in one.names), None)
        if option is None or (equals and (not option.metavar or name[:2] != "--")):
            return None
        if option.metavar and not equals:
            if not rest:
                return None
            value = rest.pop(0)
        try:
            found[option.argument] = option.of(value) if option.metavar else True
        except (ValueError, CoschedError):
            return None
    return {**found, "command": tuple(rest)} if rest else None


def begin(
    command: Sequence[str],
    jid: str | None = None,
    name: str | None = None,
    need: int = 0,
    now: bool = False,
    count: int | None = None,
    per_node: int = 1,
    by: str = "",
    key: str | None = None,
    verbose: bool = False,
) -> int:
    """Become the command, in the job, when it may begin. `name`: of a new job, for its JID; `need`: bytes on each node,
    0: not declared. Raises CoschedError."""
    program = shutil.which(command[0])
    if program is None and command[0][:1] == "-":
        raise _no_option(command[0])
    if jid is not None and name is not None:
        what = f"--job {brief(jid)} and --job-name {brief(name)} are two names"
        raise CoschedError(f"{what}: give --job alone to join a job, --job-name alone for a new one", 2)
    subject = program_of(command)
    key = key or subject
    if jid is None:
        jid = new_jid(name or subject or command[0], os.getpid())
        _tell(f"job {jid}")
    check_jid(jid)
    if program is None:
        found = os.path.exists(command[0])
        why = "is not executable" if found else "is not found"
        raise CoschedError(f"command {command[0]!r} {why}", _NOT_EXECUTABLE if found else _NOT_FOUND)
    with Client() as agent:
        placed: dict[str, str] = {}
        if count is not None:
            nodes: list[str] = agent.call("place", count=count, memory=need, by=by)
            _tell(f"job {jid} runs on {', '.join(nodes)}")
            placed = hosts(nodes, per_node)
        needed_here = need if count is None or os.uname().nodename in nodes else 0
        wish = {"jid": jid, "memory": needed_here, "now": now, "program": key, "can_wait": True}
        ranks = ranks_of(command)
        if count is not None:
            ranks = per_node if os.uname().nodename in nodes else 0
        wish |= {"static": static_size(executable_of(subject)) or 0, "ranks": ranks}
        why = agent.call("enter", **wish).get("wait", "")
    wait_to_begin(wish, why, Client)
    waits = wait_policy(os.environ, ranks, len(os.sched_getaffinity(0)))
    whole = environment(jid, os.environ, need) | placed | waits
    if verbose:
        _tell(f"key in the history: {key or 'none'}\n{_added(whole)}")
    try:
        os.execve(program, [*command], whole)
    except OSError as error:
        raise CoschedError(f"cannot run {program}: {error.strerror}", _NOT_EXECUTABLE) from None


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _added(environment: dict[str, str]) -> str:
    """The variables that differ from this program's, a line each."""
    return "\n".join(f"{name}={value}" for name, value in environment.items() if os.environ.get(name) != value)


def wait_to_begin(wish: dict[str, Any], why: str, connect: Callable[[], Client]) -> None:
    """Tell why a job waits, each reason once, and ask until it may begin.

    An agent that is silent for a while, because it is stopped or short of CPU time, costs nobody the wait: it is asked
    again. Raises CoschedError if it ends, or if the job is cancelled.
    """
    told, agent = "", None
    while why:
        if why != told:
            _tell(f"job {wish['jid']} waits: {why}")
        told = why
        time.sleep(_ASK_S)
        try:
            agent = agent or connect()
            why = agent.call("enter", **wish, again=True).get("wait", "")
        except AgentSilent as silent:
            if agent is not None:
                agent.close()
            agent, why = None, str(silent)
