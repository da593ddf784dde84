# SPDX-License-Identifier: GPL-2.0-or-later
"""What is around the simulator's engine: parameters, results that are kept, experiments, claims, the command."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ctl.cli import sim as cli_sim
from ctl.errors import USAGE, CoschedError
from ctl.sim import claims, params, pool
from ctl.sim.csm.model import MODEL
from ctl.sim.evidence import Evidence, Missing, about, less
from ctl.sim.experiment import runs as runs_of
from ctl.sim.intervals import Mean, paired, slope
from ctl.sim.native import load
from ctl.sim.registry import CLAIMS, MODELS, find_experiment
from ctl.sim.store import Run, Store

ROOT = Path(__file__).resolve().parents[3]
SMALL = {"jobs": 30, "tc_local_s": 5, "tc_small_s": 5, "tc_large_s": 10, "local_share": 0.5, "nodes": 16}


def ctl(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT), "HOME": str(Path.home())}
    return subprocess.run(
        [sys.executable, "-m", "ctl", "sim", *arguments],
        capture_output=True, text=True, check=False, cwd=cwd, env=environment, timeout=300,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"mfreq": 20}, "no parameter 'mfreq': did you mean mfreq_ms"),
        ({"mfreq_ms": 0}, "parameter mfreq_ms cannot be 0: allowed is a number, 0.01 to 1e+07 ms"),
        ({"mfreq_ms": "often"}, "mfreq_ms cannot be 'often': allowed is a number, 0.01 to 1e+07 ms"),
        ({"mnod": 2.5}, "mnod cannot be 2.5: allowed is a whole number, 0 to 64 overtakes"),
        ({"mnod": "2.5"}, "allowed is a whole number"),
        ({"p": float("nan")}, "parameter p cannot be nan: allowed is a number, 0 to 1"),
        ({"p": "nan"}, "parameter p cannot be 'nan': allowed is a number, 0 to 1"),
        ({"mnod": True}, "parameter mnod cannot be True"),
        ({"top": "bottom"}, "parameter top cannot be 'bottom': allowed is preempt or next"),
        ({"nodes": 8}, "parameter nodes cannot be 8 in mix three"),
    ],
)
def test_what_a_parameter_may_not_be_is_refused_by_name_range_and_unit(given: dict[str, object], says: str) -> None:
    with pytest.raises(CoschedError) as refused:
        MODEL.complete(given)
    assert says in str(refused.value)
    assert refused.value.status == USAGE


def test_every_default_is_allowed_and_has_a_source() -> None:
    for model in MODELS.values():
        for parameter in model.parameters.values():
            assert parameter.check(parameter.default) == parameter.default
            assert parameter.source and parameter.meaning


def test_a_file_changes_parameters_and_set_changes_the_files(tmp_path: Path) -> None:
    (tmp_path / "p.toml").write_text("[csm]\njobs = 20\nlocal_share = 1\nmnod = 3\n")
    done = ctl("run", "csm", "--policy", "rr", "--params", "p.toml", "--set", "jobs=7", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["jobs_local"] == 7
    (tmp_path / "p.toml").write_text("[cms]\njobs = 20\n")
    done = ctl("run", "csm", "--policy", "rr", "--params", "p.toml", cwd=tmp_path)
    assert done.returncode == USAGE
    assert "may only hold tables named as models: csm" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("run", "csm", "--policy", "sdca"), "model csm has no policy 'sdca': known are rr, pred"),
        (("run", "cms", "--policy", "rr"), "there is no model 'cms'"),
        (("experiment", "csm-fig3"), "there is no experiment 'csm-fig3'"),
        (("claims", "CSM-99"), "there is no claim 'CSM-99'"),
    ],
)
def test_a_wrong_request_is_told_what_is_known(arguments: tuple[str, ...], says: str, tmp_path: Path) -> None:
    done = ctl(*arguments, cwd=tmp_path)
    assert done.returncode == USAGE
    assert says in done.stderr


def test_the_commands_of_a_node_need_neither_numpy_nor_matplotlib_nor_the_engine() -> None:
    code = "import sys, ctl.cli.cluster, ctl.cli.control, ctl.cli.jobs, ctl.cli.main, ctl.cli.watch\n"
    code += "print(sorted({'numpy', 'matplotlib', 'cffi', 'sqlite3', 'rich'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def _runs(n: int) -> list[Run]:
    return [Run("csm", "csm", MODEL.complete(SMALL), seed) for seed in range(1, n + 1)]


def test_what_is_done_when_interrupted_is_kept_and_not_made_again(tmp_path: Path) -> None:
    store = Store(tmp_path / "r.sqlite")

    def interrupt(done: int, _all: int) -> None:
        if done == 3:
            raise KeyboardInterrupt

    with pytest.raises(pool.Interrupted, match="3 of 8 runs are kept"):
        pool.make(_runs(8), store, workers=2, progress=interrupt)
    store.close()
    again = Store(tmp_path / "r.sqlite")
    assert pool.make(_runs(8), again, workers=2) == 5
    assert pool.make(_runs(8), again, workers=2) == 0
    kept = pool.fetch(_runs(8), again)
    fresh = Store(":memory:")
    pool.make(_runs(8), fresh, workers=1)
    assert kept == pool.fetch(_runs(8), fresh)


def test_an_interrupt_ends_a_run_that_is_under_way() -> None:
    endless = Run("csm", "rr", MODEL.complete({"jobs": 10_000_000, "local_share": 1}), 1)
    told: list[int] = []

    def interrupt(done: int, _all: int) -> None:
        told.append(done)
        if done == 1:
            raise KeyboardInterrupt

    with pytest.raises(pool.Interrupted):
        pool.make([*_runs(1), endless], Store(":memory:"), workers=2, progress=interrupt)
    assert told == [0, 1]


def test_intervals() -> None:
    known = Mean.of([2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0])
    assert (known.mean, known.n) == (5.0, 8)
    assert known.half == pytest.approx(2.365 * 2.13809 / 8**0.5, rel=1e-4)
    assert Mean.of([None, 3.0]).half == float("inf")
    assert less(paired([1.0, 2.0, 3.1], [2.0, 3.0, 4.0]))
    assert not less(paired([1.0, 2.0, 4.5], [2.0, 3.0, 4.0]))
    assert about(paired([1.0, 2.0, 4.5], [2.0, 3.0, 4.0]), 3)
    assert about(Mean(0.2, 0.1, 9), 3) and not about(Mean(0.4, 0.1, 9), 3)
    assert slope([0, 1, 2], [[1, 0], [3, 1], [5, 2]]).mean == 1.5


def test_every_claim_of_the_simulator_is_a_row_once() -> None:
    assert [id_ for id_ in CLAIMS if id_.startswith("CSM-")] == [f"CSM-{n}" for n in range(1, 41)]
    for claim in CLAIMS.values():
        for name in claim.experiments:
            find_experiment(name)
        assert claim.test is not None or not claim.experiments


def test_figures_that_show_the_same_runs_share_them() -> None:
    def keys(name: str) -> set[Any]:
        found = runs_of(find_experiment(name))
        return {run.key for runs in found.values() for run in runs}

    assert keys("csm-fig8") == keys("csm-fig9")
    assert keys("csm-fig10") == keys("csm-fig11")
    assert keys("csm-fig12") == keys("csm-fig8") | keys("csm-fig10")
    assert keys("csm-fig5") == keys("csm-fig6")
    assert len(keys("csm-fig8")) == 3 * 6 * 10


def test_an_experiment_ends_in_plots_and_its_claims_in_verdicts(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    small = ("--replications", "2", "--store", "s.sqlite", "--set", "jobs=25", "--set", "tc_small_s=5")
    done = ctl("experiment", "csm-fig5", *small, "--out", "plots", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "60 runs, 60 of them new" in done.stdout
    assert (tmp_path / "plots" / "csm-fig5.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (tmp_path / "plots" / "csm-fig5.svg").read_text()
    assert "60 runs, 0 of them new" in ctl("experiment", "csm-fig6", *small, cwd=tmp_path).stdout
    done = ctl("claims", "CSM-11", "CSM-1", "CSM-23", *small, "--json", cwd=tmp_path)
    verdicts = {row["id"]: row for row in json.loads(done.stdout)}
    assert done.returncode == 1  # one has no runs
    assert verdicts["CSM-1"]["verdict"] == "not checkable here"
    assert verdicts["CSM-23"]["verdict"] == claims.NO_RUNS
    assert verdicts["CSM-11"]["verdict"] in ("reproduced", "not reproduced")
    assert verdicts["CSM-11"]["replications"] == 2
    assert "least over pdt: rr" in verdicts["CSM-11"]["measured"]


def test_a_trial_names_its_jobs(tmp_path: Path) -> None:
    done = ctl("claims", "CSM-3", "--make", "-n", "2", "--store", "s.sqlite", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "J1" in json.loads(done.stdout)[0]["measured"]


@pytest.mark.parametrize("name", cli_sim.sim.commands)
def test_every_command_has_help_with_an_example(name: str) -> None:
    text = cli_sim.sim.commands[name].help
    assert text is not None and "Example" in text and f"ctl sim {name}" in text


def test_parameters_are_told_apart_from_words() -> None:
    assert params.assignments(["a=1", "b = x"]) == {"a": "1", "b": "x"}
    with pytest.raises(CoschedError, match="no NAME=VALUE"):
        params.assignments(["a"])


def test_claims_are_judged_by_the_replications_that_are_whole() -> None:
    found = find_experiment("csm-fig8")
    store, digest = Store(":memory:"), load("csm").digest
    runs = [run for of in runs_of(found, 4).values() for run in of]
    for run in runs[:-1]:  # the last point's fourth replication is missing
        store.add(run, digest, {"correlation": float(run.seed)})
    evidence = Evidence(found, lambda runs: pool.fetch(runs, store), 4)
    assert evidence.replications == 3
    assert evidence.column("rr", 20, "correlation") == [1, 2, 3]
    assert evidence.only({2, 3, 9}).column("rr", 20, "correlation") == [2, 3]
    with pytest.raises(Missing):
        Evidence(find_experiment("csm-fig10"), lambda runs: pool.fetch(runs, store), 4)
