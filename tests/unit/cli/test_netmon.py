# SPDX-License-Identifier: GPL-2.0-or-later
"""`ctl netmon` as a process: its forms, its arguments, its end."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.cli.conftest import ROOT, Ctl, refused
from tests.unit.kernel.test_sock_diag import connected


def test_it_prints_so_many_samples_and_what_it_cost(ctl: Ctl) -> None:
    done = ctl("netmon", "lo", "0.05", "3", "--by", "node")
    assert done.returncode == 0, done
    assert len(done.stdout.splitlines()) == 2 + 3
    assert "3 samples in" in done.stderr and "extra execution:" in done.stderr and "overlapped:" in done.stderr


def test_json_and_csv_have_the_same_figures(ctl: Ctl) -> None:
    with connected() as (sender, _):
        sender.sendall(bytes(12_345))
        objects = [
            json.loads(line) for line in ctl("netmon", "lo", "-d", "20ms", "-t", "0.1", "--json").stdout.splitlines()
        ]
        head, first, *_ = ctl("netmon", "lo", "-d", "20", "-t", "0.1", "--csv").stdout.splitlines()
    *samples, report = objects
    assert 1 <= len(samples) <= 5 and report["report"]["period_s"] == 0.02
    assert samples[0]["rows"][0]["sockets"]["rcv_bytes"] >= 12_345
    assert int(dict(zip(head.split(","), first.split(","), strict=True))["sockets.rcv_bytes"]) >= 12_345


def test_a_file_has_the_form_of_its_name(ctl: Ctl, tmp_path: Path) -> None:
    for name, begin in (("a.csv", "time,"), ("a.json", '{"time"')):
        done = ctl("netmon", "lo", "-d", "20ms", "-t", "0.1", "-f", name)
        assert done.returncode == 0 and done.stdout == "", done
        assert (tmp_path / name).read_text().startswith(begin)
    both = ctl("netmon", "lo", "0.02", "2", "-s", "-f", "b.csv")
    assert "rcvB" in both.stdout and (tmp_path / "b.csv").exists()


@pytest.mark.parametrize("name", ["/dev/full", "/nowhere/a.json"])
def test_a_file_that_cannot_be_written_is_told(ctl: Ctl, name: str) -> None:
    done = ctl("netmon", "lo", "0.02", "3", "-f", name)
    assert done.returncode == 1
    assert done.stderr.startswith(f"Error: cannot write {name}: ") and done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("lo", "1", "0"), ("count 0", "at least 1")),
        (("lo", "lo"), ("'lo lo'", "[IFACE] [DELAY [COUNT]]")),
        (("1", "lo"), ("[IFACE] [DELAY [COUNT]]",)),
        (("-d", "3h"), ("'3h'", "100ms")),
        (("-d", "0"), ("0 s is out of range", "0.1 ms")),
        (("-d", "1s", "lo", "1"), ("given twice",)),
        (("-t", "0", "lo"), ("shorter than one period",)),
        (("--csv", "--json"), ("exclude each other",)),
        (("nix0", "1", "1"), ("no interface 'nix0'", "lo")),
    ],
)
def test_a_wrong_request_is_refused(ctl: Ctl, words: tuple[str, ...], told: tuple[str, ...]) -> None:
    refused(ctl("netmon", *words), *told)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_with_its_report(number: signal.Signals) -> None:
    command = [sys.executable, "-m", "ctl", "netmon", "lo", "--json", "-d", "20ms"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout
        first = process.stdout.readline()
        process.send_signal(number)
        lines = [first, *process.stdout]
    assert process.returncode == 0
    assert json.loads(lines[-1])["report"]["samples"] == len(lines) - 1


@pytest.mark.parametrize("no_color", [False, True])
def test_a_terminal_has_colours_unless_told_otherwise(no_color: bool) -> None:
    ours, theirs = pty.openpty()
    environment = {key: value for key, value in os.environ.items() if key != "NO_COLOR"}
    environment |= {"NO_COLOR": "1"} if no_color else {}
    command = [sys.executable, "-m", "ctl", "netmon", "lo", "0.02", "1", "-s"]
    subprocess.run(command, stdout=theirs, stderr=subprocess.DEVNULL, env=environment, cwd=ROOT, check=True)
    os.close(theirs)
    assert (b"\x1b[1m" in os.read(ours, 1 << 16)) != no_color
    os.close(ours)
