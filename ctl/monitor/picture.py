# SPDX-License-Identifier: GPL-2.0-or-later
"""Draw recorded views as `ctl top` shows them, for the documentation: SVG by rich, PNG from the SVG by cairosvg.

    ctl top --json --interval 1 --count 40 > views.json       on a node that works
    python -m ctl.monitor.picture views.json docs/dashboard   writes docs/dashboard.svg and .png

The frame is the newest view with overloaded memory and the most jobs and queued tasks, for the page of the queue that
with the most states and jobs. The views before it are its history, as on a screen.
"""

from __future__ import annotations

import importlib
import io
import json
import re
from pathlib import Path

import click
from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.terminal_theme import TerminalTheme

from ctl.contract import View
from ctl.monitor.panels import PAGES, History, Page
from ctl.monitor.text import UNICODE
from ctl.monitor.top import KEYS, Frame

__all__ = ["svg"]

_FONT = "DejaVu Sans Mono"  # what Debian's terminals have; rich's own format loads one from elsewhere
_THEME = TerminalTheme(
    (24, 26, 31),
    (206, 210, 217),
    [
        (24, 26, 31), (224, 108, 117), (152, 195, 121), (229, 192, 123),
        (97, 175, 239), (198, 120, 221), (86, 182, 194), (206, 210, 217),
    ],
)  # fmt: skip


def svg(views: list[View], width: int, height: int, page: Page = PAGES[0], title: str = "ctl top") -> str:
    """Return the frame of the last view, `width` x `height` cells, as an SVG document."""
    history = History()
    for view in views:
        history.add(view)
    console = Console(
        record=True,
        width=width,
        height=height,
        file=io.StringIO(),
        force_terminal=True,
        color_system="truecolor",
    )
    console.print(Frame(views[-1], history, glyphs=UNICODE, page=page, keys=KEYS))
    layout = re.sub(r"@font-face \{\{.*?\}\}\s*", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
    return console.export_svg(
        title=title, theme=_THEME, code_format=layout.replace("Fira Code", _FONT), font_aspect_ratio=0.602
    )


def _best(views: list[View], page: str) -> int:
    """The number of the view to draw, from 1: of the queue the one with the most states, else one with overload."""

    def worth(view: View) -> tuple[int, ...]:
        if page == "queue" and (queue := view.get("queue")):
            return len({job["state"] for job in queue["jobs"]}), len(queue["jobs"])
        return int(view["overload"]["verdict"]), len(view["jobs"]), sum(cpu["nr_queued"] for cpu in view["cpus"])

    return max(range(1, len(views) + 1), key=lambda number: (worth(views[number - 1]), number))


@click.command()
@click.argument("recording", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("target", type=click.Path(path_type=Path))
@click.option("--size", default="112x32", show_default=True, help="Columns and lines of the terminal drawn.")
@click.option("--frame", default=0, help="Which view to draw, counted from 1; 0: the one that shows most.")
@click.option("--page", type=click.Choice([page.name for page in PAGES]), default=PAGES[0].name, show_default=True)
def main(recording: Path, target: Path, size: str, frame: int, page: str) -> None:
    """Draw RECORDING, views as `ctl top --json` wrote them, to TARGET.svg and TARGET.png."""
    cairosvg = importlib.import_module("cairosvg")  # only pictures need it, so nothing else has it installed

    views = [json.loads(line) for line in recording.read_text().splitlines() if line.strip()]
    asked = re.fullmatch(r"(\d+)x(\d+)", size)
    if not asked:
        raise click.UsageError(f"size {size!r} is not COLUMNSxLINES, as in 112x36")
    if not 0 <= frame <= len(views) or not views:
        raise click.UsageError(f"frame {frame} is out of range: the recording holds {len(views)} views")
    shown = frame or _best(views, page)
    drawn = next(one for one in PAGES if one.name == page)
    document = svg(views[:shown], int(asked[1]), int(asked[2]), drawn)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.with_suffix(".svg").write_text(document)
    cairosvg.svg2png(bytestring=document.encode(), write_to=str(target.with_suffix(".png")))


if __name__ == "__main__":
    main()
