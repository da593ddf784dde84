# SPDX-License-Identifier: GPL-2.0-or-later
"""The arrows between the rooms of ctl/: which room may know which. The list is ARROWS; docs/design.md explains it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

# Five floors, the highest first. A room imports rooms on its own floor or below.
FLOORS = (
    ("cli", "process", "demo"),
    ("cluster", "jobs", "monitor"),
    ("node",),
    ("kernel",),
    ("sim", "policy"),
)
# Files at the top of ctl/ that every room may import, and that import no room; "": the package, which has the version.
GROUND = ("", "contract", "errors", "native", "percentile", "protocol")

ARROWS = {
    "cli": {"process", "jobs", "monitor", "sim", "cluster", "policy", "kernel"},  # kernel: status where no agent runs
    "process": {"cluster", "node", "jobs", "monitor", "policy", "kernel"},  # the only room that knows node and cluster
    "demo": {"kernel", "policy"},
    "cluster": set(),
    "jobs": {"kernel", "policy"},
    "monitor": {"kernel"},
    "node": {"kernel", "policy"},
    "kernel": {"policy"},
    "sim": {"policy"},
    "policy": set(),
}


def modules() -> dict[str, Path]:
    """Every module of ctl/ by its dotted name; a package by its own."""
    paths = {path.relative_to(ROOT).with_suffix(""): path for path in (ROOT / "ctl").rglob("*.py")}
    return {".".join(name.parts).removesuffix(".__init__"): path for name, path in paths.items()}


MODULES = modules()


def imports(path: Path) -> Iterator[str]:
    """The modules of ctl/ that a file imports, at any place."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from (name if name in MODULES else node.module for name in names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def room(module: str) -> str:
    """The room a module is in, or its name where it stands at the top of ctl/."""
    return module.split(".")[1] if "." in module else ""


GRAPH = {name: {other for other in imports(path) if other in MODULES} for name, path in MODULES.items()}


@pytest.mark.parametrize("name", sorted(MODULES))
def test_a_file_imports_only_what_its_room_may_know(name: str) -> None:
    own = room(name)
    if own in ("", "__main__"):
        return
    allowed = {own, *GROUND} if own in ARROWS else set(GROUND)
    allowed |= ARROWS.get(own, set())
    wrong = sorted(other for other in GRAPH[name] if room(other) not in allowed)
    assert not wrong, f"{name} imports {wrong}: the room {own} may know {sorted(allowed)} (ARROWS in {__file__})"


def test_no_arrow_leads_up() -> None:
    floor = {name: number for number, names in enumerate(FLOORS) for name in names}
    assert floor.keys() == ARROWS.keys(), "a room stands on one floor and has its arrows"
    up = [(own, other) for own, others in ARROWS.items() for other in others if floor[other] < floor[own]]
    assert not up


def test_every_arrow_is_used_or_not_in_the_list() -> None:
    """Rooms that the next work fills have their arrows already."""
    drawn = {(room(name), room(other)) for name, others in GRAPH.items() for other in others}
    planned = {("process", "jobs"), ("process", "monitor"), ("jobs", "kernel"), ("jobs", "policy")}
    listed = {(own, other) for own, others in ARROWS.items() for other in others}
    assert listed - drawn - planned == set()


def test_no_files_import_each_other_in_a_circle() -> None:
    done: set[str] = set()

    def visit(name: str, way: tuple[str, ...]) -> None:
        assert name not in way, f"a circle: {' -> '.join((*way[way.index(name):], name))}"
        if name in done:
            return
        for other in GRAPH[name]:
            if other != name:
                visit(other, (*way, name))
        done.add(name)

    for name in GRAPH:
        visit(name, ())


def test_the_top_of_ctl_has_room_for_seven_files() -> None:
    files = sorted(path.name for path in (ROOT / "ctl").iterdir() if path.is_file())
    assert len(files) <= 7, files
