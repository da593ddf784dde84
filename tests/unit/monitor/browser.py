# SPDX-License-Identifier: GPL-2.0-or-later
"""A headless Chromium that measures a page: in a frame of a given width, by a script beside the page and not in it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import threading
from functools import partial
from html import unescape
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

import pytest

__all__ = ["Seen", "look"]

_HARNESS = """<!DOCTYPE html><body><iframe src="page.html" width="{width}" height="800"></iframe><script>
document.querySelector("iframe").onload = event => {{
  const page = event.target.contentDocument, style = event.target.contentWindow.getComputedStyle(page.body);
  const root = page.documentElement;
  document.title = JSON.stringify({{
    width: root.clientWidth, needed: root.scrollWidth, paper: style.backgroundColor, ink: style.color,
    text: page.body.innerText, heads: getComputedStyle(page.querySelector("thead") || page.body).display,
    charts: [...page.querySelectorAll("svg")].map(one => one.getBoundingClientRect())
      .map(box => [box.width, box.height]),
    sizes: [...page.querySelectorAll("span,td,p,dd,b")].filter(one => one.getClientRects().length)
      .map(one => parseFloat(event.target.contentWindow.getComputedStyle(one).fontSize)),
  }});
}};
</script>"""


class Seen(NamedTuple):
    """What the browser saw."""

    page: dict[str, Any]
    asked: set[str]  # the paths that it asked for


def _chromium() -> str:
    """The browser; skips the test where there is none, and fails it where COSCHED_BROWSER says that there must be."""
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if found is None:
        why = "no Chromium here, so no browser has looked at the page: `just test-browser` installs one"
        (pytest.fail if os.environ.get("COSCHED_BROWSER") else pytest.skip)(why)
    return found


def look(text: str, directory: Path, *, width: int, dark: bool = False) -> Seen:
    """Show a page in a frame of so many pixels."""
    browser = _chromium()
    (directory / "page.html").write_text(text)
    (directory / "look.html").write_text(_HARNESS.format(width=width))
    asked: set[str] = set()

    class Handler(SimpleHTTPRequestHandler):
        """Notes what is asked for."""

        def log_message(self, *_: object) -> None:
            """Keep quiet."""
            asked.add(self.path)

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(directory)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    scheme = f"--blink-settings=preferredColorScheme={0 if dark else 1}"
    profile = f"--user-data-dir={directory / 'profile'}"
    options = (
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        profile,
        scheme,
        "--virtual-time-budget=10000",
        "--dump-dom",
    )
    address = f"http://127.0.0.1:{server.server_port}/look.html"
    try:
        done = subprocess.run([browser, *options, address], capture_output=True, text=True, check=True, timeout=300)
    finally:
        server.shutdown()
        server.server_close()
    title = re.search(r"<title>(.*?)</title>", done.stdout, re.DOTALL)
    assert title, f"the browser saw no page: {done.stdout[:500]} {done.stderr[-500:]}"
    return Seen(json.loads(unescape(title[1])), asked)
