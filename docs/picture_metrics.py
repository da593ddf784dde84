#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Draw docs/metrics.png: the board of docs/grafana.json, on a page of a real Prometheus that scrapes a real node.

`just picture-metrics` calls this with a browser and the command that records. That command's output are the scrapes of
an agent's exporter in a virtual machine, a form feed after each (docs/record-metrics). This program hands the newest on
to Prometheus, which scrapes each 2 s. Grafana is neither in Debian nor on PyPI or npm, so the page is one of
Prometheus' own consoles, with the board's panels, expressions and legends. The picture is taken when the last job has
ended. Fails if Prometheus rejects an expression of the board, or knows nothing that it is about.
"""

from __future__ import annotations

import contextlib
import html
import json
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import IO, Any, Final

ROOT: Final = Path(__file__).resolve().parents[1]
BOARD: Final = ROOT / "docs/grafana.json"
PICTURE: Final = ROOT / "docs/metrics.png"
WIDTH, HEIGHT = 1500, 1120  # pixels

_SCRAPE_S: Final = 2
_IDLE: Final = 8  # scrapes without a job, after which no other is to come
_RATE: Final = f"{5 * _SCRAPE_S}s"  # Grafana's $__rate_interval is at least four scrapes
_COLUMNS: Final = 24  # of Grafana's grid
_CONFIG: Final = """
global: {{scrape_interval: {every}s, scrape_timeout: {every}s}}
scrape_configs:
- job_name: cosched
  static_configs: [{{targets: ["127.0.0.1:{port}"], labels: {{instance: node1}}}}]
"""
_PAGE: Final = """<!doctype html><html lang="en"><head><title>cosched</title>
{{{{ template "prom_console_head" }}}}
<style>
body {{ padding: 64px 20px 0 }} main {{ display: grid; grid-template-columns: repeat({columns}, 1fr); gap: 10px 24px }}
h2 {{ font-size: 16px; font-weight: bold; margin: 0 }} p {{ font-size: 14px; margin: 0; flex: 1 }}
section {{ display: flex; flex-direction: column }}
.rickshaw_legend ul {{ display: flex; flex-wrap: wrap }}
</style></head><body>{{{{ template "navbar" . }}}}<main>{panels}</main></body></html>
"""
_SECTION: Final = '<section style="grid-column: {left} / span {span}"><h2>{title}</h2><p>{text}</p>{graph}</section>'
_GRAPH: Final = '<div id="panel{number}"></div><script>new PromConsole.Graph({graph})</script>'
_COLOURS: Final = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#56b4e9", "#777777", "#000000"]
_SHARE: Final = "y => Math.round(100 * y) + ' %'"
_AXIS: Final = "y => y >= 1000 ? PromConsole.NumberFormatter.humanize(y) : +y.toPrecision(2)"


# the page


def _filled(expression: str) -> str:
    """An expression with Grafana's variables filled in: all nodes."""
    return expression.replace("$node", ".*").replace("$__rate_interval", _RATE)


def _panel(number: int, panel: dict[str, Any], seconds: int) -> str:
    """One panel of the board as a part of a console."""
    place, names = panel["gridPos"], [one["legendFormat"].removeprefix("{{instance}}: ") for one in panel["targets"]]
    told, graph = html.escape(panel.get("description", "")), ""
    if panel["type"] == "stat":
        told = "; ".join(map(_value, panel["targets"], names))
    else:
        graph = _GRAPH.format(number=number, graph=_graph(number, panel, names, seconds))
    title = html.escape(panel["title"])
    return _SECTION.format(left=place["x"] + 1, span=place["w"], title=title, text=told, graph=graph)


def _value(target: dict[str, Any], name: str) -> str:
    """The newest value, or the labels of a target whose legend shows labels."""
    words = re.sub(r"\{\{(\w+)\}\}", r"{{ .Labels.\1 }}", html.escape(name))
    value = "" if ".Labels" in words else ": {{ .Value }}"
    return f"{{{{ range query `{_filled(target['expr'])}` }}}}{words}{value}{{{{ end }}}}"


def _graph(number: int, panel: dict[str, Any], names: list[str], seconds: int) -> str:
    """The parameters of a graph: https://prometheus.io/docs/visualization/consoles/#graph-library."""
    unit = panel["fieldConfig"]["defaults"]["unit"]
    known: dict[str, Any] = {
        "expr": [_filled(target["expr"]) for target in panel["targets"]],
        "min": 0,
        "height": 150,
        "width": (WIDTH - 100) * panel["gridPos"]["w"] // _COLUMNS - 50,
        "duration": seconds,
        "colorScheme": _COLOURS,
        "xTitle": "",
    }
    words = [re.sub(r"\{\{(\w+)\}\}", r"${m.\1}", name) for name in names]
    code = {
        **{name: json.dumps(value) for name, value in known.items()},
        "name": f"[{', '.join(f'm => `{one}`' for one in words)}]",
        "node": f"document.querySelector('#panel{number}')",
        "yAxisFormatter": _SHARE if unit == "percentunit" else _AXIS,
    }
    return "{" + ", ".join(f"{name}: {value}" for name, value in code.items()) + "}"


def _page(board: dict[str, Any], seconds: int) -> str:
    """The board as a console: https://prometheus.io/docs/visualization/consoles."""
    panels = "".join(_panel(number, panel, seconds) for number, panel in enumerate(board["panels"]))
    return _PAGE.format(columns=_COLUMNS, panels=panels)


# the node, as Prometheus sees it


class _Node:
    """Hands on the newest scrape of those that a command writes."""

    def __init__(self, stream: IO[str]) -> None:
        self._newest = ("", 0.0)  # a scrape, and when it came
        self.since = 0.0  # when the first scrape came
        self.worked = threading.Event()  # all jobs have ended, or the command has
        self._stream = stream
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        text, seen, idle = "", 0, 0
        while piece := self._stream.readline():
            before, mark, piece = piece.partition("\f")
            text += before
            if mark:
                self._newest = text, time.monotonic()
                self.since = self.since or time.time()
                jobs = sum(map(int, re.findall(r"^cosched_jobs_(?:running|waiting) (\d+)", text, re.MULTILINE)))
                seen, idle, text = max(seen, jobs), 0 if jobs else idle + 1, piece
                if seen > 1 and idle == _IDLE:
                    self.worked.set()
        self._newest = "", 0.0
        self.worked.set()

    def scrape(self) -> str:
        """The newest scrape; empty if it is old, or the node is gone: then Prometheus shall see a gap."""
        text, when = self._newest
        return text if time.monotonic() - when < 3 * _SCRAPE_S else ""

    @contextlib.contextmanager
    def served(self) -> Iterator[int]:
        """An address of this machine's for Prometheus: the port."""
        node = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                text = node.scrape()
                self.send_response(200 if text else 503)
                self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
                self.end_headers()
                self.wfile.write(text.encode())

            def log_message(self, *_: object) -> None:
                """Keep quiet."""

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            server.server_close()


@contextlib.contextmanager
def _prometheus(work: Path, port: int) -> Iterator[str]:
    """A Prometheus that scrapes this port: its address."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        own = f"127.0.0.1:{free.getsockname()[1]}"
    (work / "prometheus.yml").write_text(_CONFIG.format(every=_SCRAPE_S, port=port))
    (work / "consoles").mkdir()
    options = {
        "config.file": work / "prometheus.yml",
        "storage.tsdb.path": work / "data",
        "web.listen-address": own,
        "web.console.templates": work / "consoles",
        "web.console.libraries": "/usr/share/doc/prometheus/examples/console_libraries",
    }
    with (work / "log").open("w") as log:
        command = ["prometheus", *(f"--{name}={value}" for name, value in options.items())]
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        yield f"http://{own}"
    finally:
        process.terminate()
        process.wait(30)


def _series(address: str, expression: str, seconds: int) -> int:
    """How many lines Prometheus draws of an expression; raises SystemExit if it rejects it."""
    now = time.time()
    asked = {"query": _filled(expression), "start": now - seconds, "end": now, "step": _SCRAPE_S}
    try:
        with urllib.request.urlopen(f"{address}/api/v1/query_range?{urllib.parse.urlencode(asked)}", timeout=30) as got:
            return len(json.load(got)["data"]["result"])
    except urllib.error.HTTPError as refused:
        raise SystemExit(f"Prometheus rejects {expression}: {refused.read().decode()}") from None


def _check(address: str, board: dict[str, Any], seconds: int) -> None:
    """Say how many lines each panel shows for each of its expressions; raises SystemExit if it is none for one."""
    for panel in board["panels"]:
        counts = [_series(address, target["expr"], seconds) for target in panel["targets"]]
        print(f"{panel['title']}: {' + '.join(map(str, counts))} lines")
        if not all(counts):
            raise SystemExit(f"panel {panel['title']} does not show all that it is for")


def main(browser: str, command: list[str]) -> None:
    """Record, scrape, look."""
    board = json.loads(BOARD.read_text())
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        work = Path(name)
        recorder = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        recording = stack.enter_context(recorder)
        assert recording.stdout is not None
        node = _Node(recording.stdout)
        address = stack.enter_context(_prometheus(work, stack.enter_context(node.served())))
        node.worked.wait()
        if recording.poll() is not None:
            raise SystemExit(f"the recording ended with {recording.returncode} before its jobs did")
        time.sleep(3 * _SCRAPE_S)
        seconds = round(time.time() - node.since)
        (work / "consoles/cosched.html").write_text(_page(board, seconds))
        look = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--virtual-time-budget=20000"]
        look += [f"--user-data-dir={work}/profile", f"--window-size={WIDTH},{HEIGHT}", f"--screenshot={PICTURE}"]
        page = f"{address}/consoles/cosched.html"
        subprocess.run([browser, *look, page], check=True, capture_output=True, timeout=120)
        _check(address, board, seconds)
        if recording.wait():
            raise SystemExit(f"the recording ended with {recording.returncode}")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
