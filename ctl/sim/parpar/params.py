# SPDX-License-Identifier: GPL-2.0-or-later
"""The parameters of model `parpar` (ParPar §2 to §4)."""

from __future__ import annotations

from collections.abc import Mapping

from ctl.errors import USAGE, CoschedError
from ctl.sim.params import Parameter, Value, by_name
from ctl.sim.workloads.trace import TraceParameter

__all__ = ["PARAMETERS", "TRIALS", "check"]

TRIALS = ("dynamic", "static", "walk", "replay")
"""Jobs that come (§4.3), all at once (§4.2), the program alone (§4.1), the estimator alone (§2.1.3)."""

_P = Parameter
PARAMETERS = by_name(
    _P("trial", "dynamic", "", 0, 0, "jobs that come, jobs all at once, the program alone, the estimator alone",
       "ParPar §2.1.3, §4", TRIALS),
    _P("nodes", 16, "nodes", 1, 1024, "nodes of the machine, a power of two; a static job takes all", "ParPar §3.1"),
    _P("jobs", 1000, "jobs", 1, 1_000_000, "jobs of a replication; of a log, its first", "ParPar §4.3"),
    TraceParameter("trace", "", "", 0, 0, "jobs come from this log instead of the Lublin-Feitelson model",
                   "ParPar §2.1.3, §4.3"),
    _P("load", 0.5, "", 0, 10, "mean run time x mean nodes / (mean interval x nodes); 0: intervals as they are",
       "ParPar §4.3"),
    _P("mean_run_s", 60.0, "s", 0, 1e7, "run times are scaled to this mean; 0: as they are", "default:"),
    _P("theta", 1.5, "", 1, 2, "locality of the program: 1 least, 2 most", "ParPar §4.1"),
    _P("accesses", 1_000_000, "accesses", 1000, 10**9, "accesses of a static job; the miss ratios count them",
       "default:"),
    _P("access_ns", 2500.0, "ns", 1, 1e9, "CPU time of one access: a random number, a power, two divisions at 200 MHz",
       "default: estimated"),
    _P("k_bytes", 1024, "bytes", 1, 4096, "K of F. 4, the unit of a jump", "B-PP-2 default:"),
    _P("job_mb", 10.0, "MB", 0.01, 128, "memory of each process, if unknown in a log", "ParPar §4.1"),
    _P("node_mb", 55.0, "MB", 0.1, 1e7, "memory of a node in eq. 1", "ParPar §4.2"),
    _P("free_mb", 45.0, "MB", 0.1, 1e7, "memory of a node that is really free", "ParPar §4.2"),
    _P("c", 1.0, "", 1e-4, 1000, "C of eq. 1: the most memory that is given away, part of node_mb", "ParPar eq. 1"),
    _P("skips", 15, "skips", 0, 1_000_000, "how often a queued job may be skipped", "ParPar §3.2"),
    _P("rows", 0, "rows", 0, 1_000_000, "slots of the matrix; 0: as many as jobs need", "ParPar §4.2"),
    _P("estimate", "static", "", 0, 0, "by the executable (a log's request, else job_mb), or by previous runs first",
       "ParPar §2", ("static", "history")),
    _P("used", "measured", "", 0, 0, "used memory of eq. 1: the larger of estimate and measurement, or estimates",
       "B-PP-7", ("measured", "estimates")),
    _P("identify", "executable", "", 0, 0, "a job's kind: executable, nodes, user; or user and nodes",
       "ParPar §2.1.1", ("executable", "user")),
    _P("deviations", 3.0, "", 0, 100, "standard deviations above the mean", "ParPar §2.1.3"),
    _P("period_days", 30.0, "days", 1e-6, 1e5, "length of a period of history", "ParPar §2.1.2"),
    _P("slot_s", 1.0, "s", 1e-6, 1e6, "length of a slot", "B-PP-10 default:"),
    _P("switch_ms", 0.0, "ms", 0, 1e4, "part of a slot lost by the change to another row", "B-PP-10 default:"),
    _P("fault_ms", 10.0, "ms", 0, 1e4, "of bringing a page in", "default:"),
    _P("give_up", 300, "jobs", 0, 10**9, "more in the system at once: saturated, the run ends; 0: never", "default:"),
)  # fmt: skip


def check(values: Mapping[str, Value]) -> None:
    """Refuse values that do not go together."""
    nodes, k = int(values["nodes"]), int(values["k_bytes"])
    if nodes & (nodes - 1):
        near = 1 << nodes.bit_length()
        raise CoschedError(
            f"parameter nodes cannot be {nodes}: controllers are nested powers of two, so allowed is {near // 2} or "
            f"{near}",
            USAGE,
        )
    if 4096 % k:
        raise CoschedError(f"parameter k_bytes cannot be {k}: allowed is a part of a page, 4096 bytes", USAGE)
    if float(values["switch_ms"]) >= 1e3 * float(values["slot_s"]):
        raise CoschedError(
            f"parameter switch_ms cannot be {values['switch_ms']}: allowed is less than a slot, "
            f"{1e3 * float(values['slot_s']):g} ms",
            USAGE,
        )
    if values["trial"] == "replay" and not values["trace"]:
        raise CoschedError("the trial estimator needs a log: --set trace=FILE", USAGE)
