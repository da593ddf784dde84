# SPDX-License-Identifier: GPL-2.0-or-later
"""What a job's command is about: the key of its history (history.py), its executable, and its ranks.

The key is the first program that only starts no other one, by its path. What tells one use of a program from another
stands behind it:

    /usr/bin/make /home/eve/sim small                        make: the directory, or the file of -f, and the targets
    /usr/bin/python3.13 /home/eve/sim.py                     an interpreter: its script; also of ./sim.py by its #!
    /usr/bin/python3.13 -m sim                               Python: a module
    /usr/bin/dash /home/eve/run.sh small                     a shell: its script, and a first word that is a name
    /usr/bin/java /home/eve/sim.jar                          Java: the jar, the class or the module
    /usr/bin/stress-ng --vm                                  stress-ng: its first stressor
    /usr/bin/apptainer /home/eve/image.sif sim               a container: the image, and the key of what runs in it
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from ctl.kernel.launchers import MPI_DAEMON, MPI_LAUNCHER
from ctl.protocol import LONGEST_KEY

__all__ = ["executable_of", "program_of", "ranks_of"]

def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_RANKS: Final = ("-n", "-np", "--np", "--n")
_HOSTS: Final = frozenset(
    dash + name
    for name in _words("host hosts hostlist hostfile default-hostfile machine machinefile f ppn npernode map-by")
    for dash in ("-", "--")
)
_DEEPEST: Final = 8  # wrappers of wrappers: a script may name itself as its interpreter
_SHEBANG: Final = 256  # bytes that the kernel reads of it


# Programs that start another one, `nice -n 5 ./sim` is a run of sim, each with the options whose value may be a word
# that names some program. No regular expressions here: to compile them would take a tenth of the time of `ctl run`.
_NONE: Final = frozenset[str]()
_MPI_VALUES: Final = _HOSTS | _words("-x -wd -wdir --wd --wdir")
_WRAPPERS: Final = {
    **dict.fromkeys(_words("choom chrt ionice nice nohup numactl prlimit setarch setsid stdbuf taskset"), _NONE),
    "env": _words("-u -C --unset --chdir"),
    "srun": _words(
        "-A -C -D -J -L -M -d -e -i -o -p -q -w -x --account --chdir --constraint --error "
        "--job-name --output --partition"
    ),
    "time": _words("-o -f --output --format"),
    **dict.fromkeys(_words("timeout xvfb-run"), _NONE),
}
_CONDA: Final = _words("conda mamba micromamba")
_CONDA_VALUES: Final = _words("-n -p --name --prefix --cwd")
_CONTAINER: Final = _words("apptainer singularity")
_CONTAINER_VALUES: Final = _words(
    "-B -H -S -W -o -c -u --app --apply-cgroups --bind --config --cpus --cwd --dns --env --env-file --home --hostname "
    "--memory --mount --network --overlay --pwd --scratch --security --workdir"
)
_MAKE_VALUES: Final = _words("-I -W -j -k -l -o --include-dir --old-file --what-if")
_JAVA_VALUES: Final = _words("-classpath -cp -p --add-exports --add-modules --add-opens --class-path --module-path")
_STRESS_VALUES: Final = _words(
    "-Y -b -t -x --backoff --exclude --log-file --seed --taskset --temp-path --timeout --yaml"
)
_STRESS_FLAGS: Final = _words(
    "-k -n -q -v --aggressive --maximize --metrics --metrics-brief --quiet --times --tz --verbose --verify"
)


class _Interpreter(NamedTuple):
    """How an interpreter is told what to run."""

    code: str  # letters of the options that are followed by code
    values: frozenset[str]  # options whose value is the next word
    has_modules: bool = False  # -m MODULE
    has_targets: bool = False  # a first word behind the script says which use of it this is


_PYTHON: Final = _Interpreter("c", _words("-W -X"), has_modules=True)
_SHELL: Final = _Interpreter("c", _words("-o +o -O +O --rcfile --init-file"), has_targets=True)
_PERL: Final = _Interpreter("eE", _words("-I -r"))
_JULIA: Final = _Interpreter("eE", _words("-C -J -L -p -r -t"))
_INTERPRETERS: Final = {
    **dict.fromkeys(("python", "pypy"), _PYTHON),
    **dict.fromkeys(_words("sh bash dash ksh zsh"), _SHELL),
    **dict.fromkeys(("perl", "ruby"), _PERL),
    **dict.fromkeys(_words("Rscript julia lua node"), _JULIA),
}


def program_of(command: Sequence[str]) -> str:
    """The key of the history of a job's command, as above, at most LONGEST_KEY printable characters. Empty: unknown,
    as what an interpreter was given with -c, or what a daemon of mpiexec starts on another node.

    >>> program_of(["mpiexec.mpich", "-n", "4", "/bin/cat", "/etc/motd"]).endswith("/cat")
    True
    """
    key = _key(list(command), False, _DEEPEST)
    return "".join(one if one.isprintable() else "?" for one in key[:LONGEST_KEY])


def _key(command: list[str], inside: bool, deepest: int) -> str:
    """The key of a command; `inside`: of a container or an environment, whose programs this machine may not have."""
    word, *words = command or [""]
    found, name = shutil.which(word), os.path.basename(word)
    path, plain = os.path.realpath(found) if found else word, name.rstrip("0123456789.")
    if MPI_DAEMON.fullmatch(name) or not deepest:
        return ""
    rest = _wrapped(name, words, inside)
    if rest is not None:
        return _key(rest, inside or name in _CONDA, deepest - 1) if rest else path
    if found is None and not inside:
        return ""
    if interpreter := _INTERPRETERS.get(plain):
        return _script(interpreter, path, words, inside)
    if told := _TOLD.get(plain):
        return told(path, words)
    if name in _CONTAINER:
        return _image(path, words, deepest)
    first = _shebang(path)
    return _key([*first, path, *words], False, deepest - 1) if first else path


def _behind_options(words: list[str], values: frozenset[str]) -> list[str]:
    """The words from the first one on that is no option, and not the value of one of these options."""
    rest = list(words)
    while rest and rest[0][:1] in ("-", "+"):
        del rest[: 2 if rest[0] in values else 1]
    return rest


def _wrapped(name: str, words: list[str], inside: bool) -> list[str] | None:
    """The command that a wrapper of this name is to start, empty if it has none; None: it is no wrapper.

    Words before it that are no programs are the wrapper's own, as a time or a mask.
    """
    if name in _CONDA:
        return _behind_options(words[1:], _CONDA_VALUES) if words[:1] == ["run"] else []
    values = _MPI_VALUES if MPI_LAUNCHER.fullmatch(name) else _WRAPPERS.get(name)
    if values is None:
        return None
    rest = _behind_options(words, values)
    while rest and (rest[0].isdigit() or "=" in rest[0] if inside else shutil.which(rest[0]) is None):
        rest = _behind_options(rest[1:], values)
    return rest


def _shebang(path: str) -> list[str]:
    """The words behind #! of a script; empty: it is none, or cannot be read."""
    try:
        with open(path, "rb") as file:
            line = file.read(_SHEBANG).partition(b"\n")[0]
    except OSError:
        return []
    return os.fsdecode(line[2:]).split() if line[:2] == b"#!" else []


def _script(kind: _Interpreter, path: str, words: list[str], inside: bool) -> str:
    """An interpreter with its script; empty: it has none."""
    rest = list(words)
    while rest and rest[0][:1] in ("-", "+"):
        option = rest[0]
        if option[1:].isalpha() and option[-1] in kind.code:
            return ""
        if option == "-m" and kind.has_modules:
            return " ".join([path, *rest[:2]])
        del rest[: 2 if option in kind.values else 1]
    if not rest or not (inside or os.path.exists(rest[0])):
        return ""
    names = [one for one in rest[1:2] if kind.has_targets and one[:1].isalpha() and not os.path.exists(one)]
    return " ".join([path, os.path.realpath(rest[0]), *names])


def _target(path: str, words: list[str]) -> str:
    """make: where its rules are, and its targets."""
    where, rules, targets, rest = "", "", list[str](), list(words)
    while rest:
        word = rest.pop(0)
        option, equals, value = word.partition("=")
        if option in ("-C", "--directory", "-f", "--file", "--makefile"):
            value = value if equals else rest.pop(0) if rest else ""
            where, rules = (os.path.join(where, value), rules) if option in ("-C", "--directory") else (where, value)
        elif word in _MAKE_VALUES:
            del rest[: 0 if word in ("-j", "-k", "-l") and not " ".join(rest[:1]).isdigit() else 1]
        elif word[:1] != "-" and not equals:
            targets.append(word)
    return " ".join([path, os.path.realpath(os.path.join(where, rules)), *targets])


def _java(path: str, words: list[str]) -> str:
    """Java with what it runs: a jar, a class, or a module."""
    rest = list(words)
    while rest and rest[0][:1] == "-":
        if rest[0] in ("-jar", "-m", "--module"):
            what = " ".join(rest[1:2])
            return f"{path} {os.path.realpath(what) if rest[0] == '-jar' else what}"
        del rest[: 2 if rest[0] in _JAVA_VALUES else 1]
    return " ".join([path, *rest[:1]])


def _stressor(path: str, words: list[str]) -> str:
    """stress-ng with the first option that says what it does."""
    rest = list(words)
    while rest:
        word = rest.pop(0)
        option, equals, _ = word.partition("=")
        if option in _STRESS_VALUES:
            del rest[: 0 if equals else 1]
        elif word[:1] == "-" and option not in _STRESS_FLAGS:
            return f"{path} {option}"
    return path


def _image(path: str, words: list[str], deepest: int) -> str:
    """A container: its image, and the key of what runs there."""
    what, *rest = _behind_options(words, _CONTAINER_VALUES) or [""]
    image, *command = _behind_options(rest, _CONTAINER_VALUES) or [""]
    if what not in ("exec", "run") or not image:
        return path
    image = os.path.realpath(image) if os.path.exists(image) else image  # or docker://name
    return " ".join([path, image, *([_key(command, True, deepest - 1)] if what == "exec" and command else [])]).strip()


_TOLD: Final[dict[str, Callable[[str, list[str]], str]]] = {
    **dict.fromkeys(_words("make gmake bmake ninja"), _target),
    **dict.fromkeys(("stress", "stress-ng"), _stressor),
    "java": _java,
}


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
        if word in _HOSTS:
            return 0
        if word in _RANKS and value.isascii() and value.isdigit():
            ranks = int(value) if len(value) < 5 else 0
        elif shutil.which(word) is not None:  # the program: what follows is its own
            break
    return ranks
