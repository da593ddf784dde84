# SPDX-License-Identifier: GPL-2.0-or-later
"""The parameters of models `loadshare` and `loadshare-unknown` (LoadShare §2.2 with T. 1, §3.4 with T. 2 and 5)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ctl.errors import USAGE, CoschedError
from ctl.sim.loadshare.programs import GROUPS, SETS, TRACES
from ctl.sim.params import Parameter, Value, by_name

__all__ = ["KNOWN", "MONTHS", "UNKNOWN", "check_unknown"]

MONTHS = {
    "may": (4177, 10_166_236, 1006),
    "june": (3738, 9_783_912, 735),
    "july": (8639, 5_121_149, 552),
    "august": (3209, 11_428_627, 901),
}
"""LoadShare T. 1: jobs, mean CPU demand in million instructions (B-LS-6), mean memory demand in MB."""

_LOG = (".swf", ".swf.gz", ".txt.gz")


@dataclass(frozen=True)
class _TraceParameter(Parameter):
    """A word, or the path of a log."""

    @property
    def range(self) -> str:
        return f"{super().range}, or the path of a log in Standard Workload Format ({', '.join(_LOG)})"

    def check(self, value: object) -> Value:
        """The word or path; raises CoschedError (status 2)."""
        if isinstance(value, str) and value.endswith(_LOG):
            return value
        return super().check(value)


_P = Parameter


def _common(memory: Parameter, ct: int, remote: Parameter) -> tuple[Parameter, ...]:
    """The parameters of both parts."""
    return (
        _P("nodes", 32, "nodes", 1, 10_000, "all alike", "LoadShare §2.2.1"),
        memory,
        _P("ct", ct, "jobs", 1, 1_000_000, "CT, the CPU threshold of a node", "B-LS-3 default:"),
        _P("fault_ms", 10.0, "ms", 1e-3, 1e4, "service of a page fault, first come first served", "LoadShare §2.2.1"),
        _P("switch_ms", 0.1, "ms", 0, 100, "cost of putting another job on the CPU", "LoadShare §2.2.1"),
        _P("quantum_ms", 10.0, "ms", 1e-2, 1e4, "of the round robin", "default:"),
        remote,
        _P("refresh_s", 1.0, "s", 1e-3, 1e7, "period in which load information is renewed", "B-LS-3 default:"),
    )


KNOWN = by_name(
    *_common(
        _P("memory_mb", 1024.0, "MB", 1, 1e9, "RAM of a node", "LoadShare §2.2.1"),
        4,
        _P("remote_s", 0.05, "s", 0, 1e4, "r: of a remote execution", "LoadShare §2.2.1"),
    ),
    _TraceParameter("trace", "may", "", 0, 0, "the month: its number of jobs and their mean demands, or a log",
       "LoadShare T. 1; default: a synthetic month, the log is not to be had", tuple(MONTHS)),
    _P("first_day", 0, "days", 0, 100_000, "of a log: the day of node 1, from the start", "LoadShare §2.2.2"),
    _P("jobs", 0, "jobs", 0, 10_000_000, "jobs of a synthetic month; 0: as in Table 1", "LoadShare T. 1"),
    _P("cpu_cv", 2.0, "", 0, 20, "coefficient of variation of CPU demands, lognormal", "default:"),
    _P("memory_cv", 2.0, "", 0, 20, "the same for memory demands, lognormal, independent", "default:"),
    _P("day_ratio", 3.0, "", 1e-3, 1e3, "arrivals from 8 to 18 h against the rest of the day", "default:"),
    _P("sigma", 4.0, "faults/MI", 0, 1000, "page faults per million instructions if allocation = load",
       "LoadShare §2.2.1: 1 to 10"),
    _P("mips", 800.0, "MI/s", 1, 1e9, "million instructions in a second", "LoadShare §2.2.1, B-LS-6"),
    _P("load_share", 0.4, "", 1e-3, 1, "memory load, part of the requested memory", "LoadShare §2.2.3"),
    _P("include_arrival", "no", "", 0, 0, "count the arriving job's memory load in the test", "B-LS-2 default:",
       ("no", "yes")),
    _P("all_refuse", "hold", "", 0, 0, "cpu and mem, when no node is below its threshold: the job is held, or "
       "placed on the most lightly loaded node", "B-LS-8 default:", ("hold", "place")),
)  # fmt: skip

UNKNOWN = by_name(
    *_common(
        _P("memory_mb", 0.0, "MB", 0, 1e9, "memory for jobs on a node; 0: 121 of 128, for spec 363 of 384",
           "LoadShare §3.4.1, B-LS-16"),
        8,
        _P("remote_s", 0.0, "s", 0, 1e4, "r: cost of a remote submission; 0: 0.1 up to 10 Mbps, else 0.05",
           "LoadShare §3.4.1"),
    ),
    _P("swap_mb", 0.0, "MB", 0, 1e9, "swap of a node; 0: 128, for spec 380", "LoadShare §3.4.1, §3.6"),
    _P("trace", "trace1", "", 0, 0, "arrivals", "LoadShare §3.4.2, B-LS-24", tuple(TRACES)),
    _P("programs", "seven", "", 0, 0, "that are submitted", "LoadShare T. 2, T. 5", tuple(SETS)),
    _P("mix", "uniform", "", 0, 0, "all programs equally often; or so that all programs make equal work",
       "B-LS-25 default:", ("uniform", "work")),
    _P("jobs", 0, "jobs", 0, 1_000_000, "0: the trace's", "LoadShare §3.4.2"),
    _P("growth", 0.5, "", 1e-3, 1, "part of its CPU time at which a growing program is at its largest", "default:"),
    _P("network_mbps", 10.0, "Mbps", 1e-3, 1e7, "B", "LoadShare §3.4.1"),
    _P("bus", "shared", "", 0, 0, "one migration at a time; or any number", "default:",
       ("shared", "none")),
    _P("mt", 0.0, "%", -100, 1000, "MT, the memory threshold", "LoadShare §3.5.1"),
    _P("internal", 5.0, "%", 0, 1000, "by how much Q_o must pass MT for a migration, if MT > 0", "B-LS-21 default:"),
    _P("delay_s", 1.0, "s", 0, 1e6, "delay of a migration, if MT = 0", "B-LS-21 default:"),
    _P("tick_ms", 10.0, "ms", 1e-3, 1e6, "interval of decisions on migration", "default:"),
    _P("check_s", 1.0, "s", 1e-3, 1e6, "least time between two decisions of a node", "default:"),
    _P("target", "fits", "", 0, 0, "a node on which the job fits with Q_o < MT; or either of both", "B-LS-19 default:",
       ("fits", "literal")),
    _P("block_at", 65.0, "%", -100, 1000, "Q_o from which `blocking` blocks", "default:"),
    _P("r_max", 120.0, "faults/s", 0, 1e6, "R_max", "LoadShare eq. 3.1"),
    _P("alpha", 4.0, "", 0, 1e6, "R_p(Q_o) = R_max - alpha / (beta Q_o^2 + gamma Q_o + delta)", "LoadShare eq. 3.1"),
    _P("beta", 0.31, "", 0, 1e6, "of Q_o^2", "LoadShare eq. 3.1"),
    _P("gamma", 0.19, "", 0, 1e6, "of Q_o", "LoadShare eq. 3.1"),
    _P("delta", 0.034, "", 1e-9, 1e6, "at Q_o = 0", "LoadShare eq. 3.1"),
    _P("eta", -174.98, "faults/s", -1e6, 1e6, "R_p(N_io) = eta + mu N_io", "LoadShare eq. 3.2"),
    _P("mu", 0.061, "faults/s", 0, 1e6, "of each read or write", "LoadShare eq. 3.2"),
    _P("rate", "clamped", "", 0, 0, "R_p: both terms at least 0, none while Q_o <= 0; the second also then; or eq. 3.4",
       "B-LS-10, B-LS-11 default: no program pages alone (LS-14)", ("clamped", "sum", "literal")),
    _P("stable", 0.1, "1/s", 0, 1e3, "weight of a job's working set beside its growth in a second, for its faults",
       "B-LS-17 default:"),
    _P("useful", 0.05, "", 1e-6, 1, "CPU share of a node whose jobs all thrash", "B-LS-13 default: little (LS-19)"),
    _P("group", "trace", "", 0, 0, "jobs of a trace; or on one node at once: one program, those of T. 3, or `count` "
       "alike that oversize memory", "LoadShare T. 2, T. 3", ("trace", "alone", *GROUPS, "equal")),
    _P("program", "bit-r", "", 0, 0, "of group alone", "LoadShare T. 2, T. 5",
       tuple(name for programs in SETS.values() for name in programs)),
    _P("count", 4, "jobs", 1, 100, "of group equal", "LoadShare §3.2.2"),
    _P("oversize", 50.0, "%", -99, 1000, "Q_o of group equal", "LoadShare §3.2.2"),
)  # fmt: skip


def check_unknown(values: Mapping[str, Value]) -> None:
    """Refuse values that do not go together."""
    if values["group"] == "alone" and values["program"] not in SETS[str(values["programs"])]:
        allowed = ", ".join(SETS[str(values["programs"])])
        raise CoschedError(
            f"parameter program cannot be {values['program']!r} with programs={values['programs']}: "
            f"allowed is {allowed}",
            USAGE,
        )
