# SPDX-License-Identifier: GPL-2.0-or-later
"""LoadShare's claims as rows (results/loadshare.md). Claims are judged by the defaults; a row reports the results of
the other readings.

The readings (experiments.py): `arrival`, the arriving job's demand is part of the test (B-LS-2); `small`, no job needs
much more memory than the others; `ct6`, the CPU threshold is 6 instead of 4 (B-LS-3); `work`, each program makes as
much work as any (B-LS-25); `growth`, growing jobs have nearly all faults (B-LS-17); `literal`, migrations go by the
condition as printed (B-LS-19), any number at a time; `useful`, nodes that thrash get six times as much done.
"""

from __future__ import annotations

from ctl.sim.claim import Claim, Test, by_reading
from ctl.sim.loadshare import claims_groups as groups
from ctl.sim.loadshare import claims_known as known
from ctl.sim.loadshare import claims_unknown as unknown
from ctl.sim.loadshare.experiments import KNOWN_READINGS, SPEC_READINGS, TRACE_READINGS, UNKNOWN_READINGS
from ctl.sim.loadshare.readings import each, named

__all__ = ["CLAIMS"]

_Row = tuple[str, str, str, tuple[str, ...], Test | None]
_KNOWN, _UNKNOWN = tuple(KNOWN_READINGS), tuple(UNKNOWN_READINGS)


def _known(id_: str, says: str, holds_if: str, figure: str, test: Test) -> _Row:
    return id_, f"synthetic months: {says}", holds_if, each(_KNOWN, figure), by_reading(test, named(_KNOWN))


def _unknown(id_: str, says: str, holds_if: str, figures: tuple[str, ...], test: Test) -> _Row:
    return id_, says, holds_if, each(_UNKNOWN, *figures), by_reading(test, named(_UNKNOWN))


def _traces(id_: str, says: str, holds_if: str, figure: str, test: Test) -> _Row:
    readings = tuple(TRACE_READINGS)
    return id_, says, holds_if, each(readings, figure), by_reading(test, named(readings))


def _spec(id_: str, says: str, holds_if: str, figures: tuple[str, ...], test: Test) -> _Row:
    return id_, says, holds_if, each(SPEC_READINGS, *figures), by_reading(test, named(SPEC_READINGS))


def _group(id_: str, says: str, holds_if: str, experiment: str, test: Test) -> _Row:
    return id_, says, holds_if, (f"loadshare-{experiment}",), test


def _not(id_: str, says: str, why: str) -> _Row:
    return id_, says, why, (), None


_FOUR, _FIVE, _SIX = ("fig4",), ("fig5",), ("fig6",)
_GROWTH = ("", "-growth")
_AUGUST_4, _AUGUST_8 = (
    "1.04, 1.84, 1.62 ± 25 %, HP < HT < MEM < CPU",
    "1.09, 2.03, 1.75 ± 25 %, order, larger than at 4",
)

_ROWS: tuple[_Row, ...] = (
    _known("LS-1", "slowdown grows in proportion to the page fault rate", "R² > 0.9, 16 lines", "fig1", known.linear),
    _known("LS-2", "at a low rate the policies hardly differ", "within 10 % at rate 1", "fig1", known.low_rate),
    _known("LS-3", "at high rates CPU_MEM_* are far better", "ratio > 1.3 from rate 4 on", "fig1", known.far_better),
    _known("LS-4", "MEM is slightly better than CPU", "1 <= CPU/MEM <= 1.15", "fig1", known.mem_slightly),
    _known("LS-5", "AUGUST, rate 4: CPU's slowdown over that of MEM, HP, HT (CT decides)", _AUGUST_4, "fig1",
           known.at_rate(4.0, (1.04, 1.84, 1.62))),
    _known("LS-6", "the same at rate 8", _AUGUST_8, "fig1", known.larger_at_eight),
    _known("LS-7", "CPU time is the same, migration negligible", "± 1 %, < 1 % of the time", "fig2", known.cpu_time),
    _known("LS-8", "AUGUST, rate 6: paging time 3.88, 24.43, 24.27 % below CPU's", "± 10 points, HP and HT below MEM",
           "fig2", known.reduction("paging_s", (3.88, 24.43, 24.27), 10)),
    _known("LS-9", "AUGUST, rate 6: queuing time 7.25, 44.16, 42.43 % below CPU's (CT decides)",
           "± 12 points, HP and HT below MEM", "fig2", known.reduction("queue_s", (7.25, 44.16, 42.43), 12)),
    _known("LS-10", "HP is better than HT, not always (the spread of memory decides)", "at most points, not at all",
           "fig1", known.high_performance),
    _not("LS-11", "T. 1's four months of the CM-5 log", "the log is not to be had here, only its first 40 jobs; the "
         "synthetic months have T. 1's counts and means by construction"),
    _not("LS-12", "what faults and cache misses cost", "cited from others, not a result of this paper's simulators"),
    _group("LS-13", "T. 2: the programs' lifetimes", "alone, ± 1 %", "alone", groups.lifetimes("seven")),
    _group("LS-14", "alone nobody pages; the highest I/O share is r-wing's 58.38 %", "0 s, ± 0.5 points", "alone",
           groups.io_share),
    _group("LS-15", "a read or write takes about 12 ms", "11 to 13 ms, each program", "alone", groups.io_time),
    _group("LS-16", "5.34, 24.75, 64.95 % oversized: 12.52, 44.12, 102.03 faults/s", "R_p ± 30 %", "groups",
           groups.fault_rates),
    ("LS-17", "T. 3: m-sort's paging share 37.4, 43.3, 90.52 %, m-m's 5.05, 13.18 %", "rise so, m-sort above m-m",
     each(_GROWTH, "groups"), by_reading(groups.paging_shares, named(_GROWTH))),
    _group("LS-18", "page faults never cease while memory is oversized", "every second from 5 % on; never falls",
           "fig3", groups.always_faults),
    _group("LS-19", "from 70 % on all thrash, the rate saturates", "useful share < 10 %, rate + 5 % at most", "fig3",
           groups.thrash),
    _group("LS-20", "eq. 3.1 with its constants", "2.35, 106.1, 112.5 faults/s", "fig3", groups.formula),
    _group("LS-21", "eq. 3.2 with its constants", "0 at 2869 reads and writes", "fig3", groups.io_formula),
    _group("LS-22", "the paging rate does not depend on the number of jobs", "within 10 % at one Q_o", "fig3",
           groups.jobs_do_not_matter),
    _not("LS-23", "instrumentation adds 2.3 % to lifetimes", "a measurement of real Linux nodes, not of this model"),
    _traces("LS-24", "no load sharing completes 72, 93, 95 % of the jobs (the mix decides)", "± 8 points, rising",
            "none", unknown.completed),
    _traces("LS-25", "blocking's slowdowns 37.88, 25.58, 22.25 (what thrashing nodes get done decides)",
            "± 40 %, falling", "fig4", unknown.blocked),
    _traces("LS-26", "load sharing is 3 to 10 times better than blocking", "2 to 12, each policy and trace", "fig4",
             unknown.beats_blocking),
    _unknown("LS-27", "combined is best on all three traces", "lowest, with its sign", _FOUR, unknown.best_everywhere),
    _unknown("LS-28", "pf-rate is 100, 30, 10 % above combined", "± 30 points, falling", _FOUR,
             unknown.above_combined("pf-rate", (1.0, 0.3, 0.1))),
    _unknown("LS-29", "worksize is 30, 30, and on trace 3 over 60 % above", "± 30 points, trace 3 worst", _FOUR,
             unknown.worksize_third),
    _unknown("LS-30", "age is 10 to 30 % above combined", "0 to 45 % on each trace", _FOUR, unknown.age_stable),
    _unknown("LS-31", "trace 1: pf-rate pages most, worksize and combined least", "signs", _FOUR, unknown.paging_order),
    _unknown("LS-32", "trace 1: worksize queues least and migrates most, age and pf-rate the reverse", "signs", _FOUR,
             unknown.queue_order),
    _unknown("LS-33", "combined falls to MT -5, is flat to 5, rises at 15", "argmin -5 to 5, ± 10 %", _FIVE,
             unknown.sweep_combined),
    _unknown("LS-34", "age is best at MT -5, worksize at 5", "argmin", _FIVE, unknown.minima),
    _unknown("LS-35", "pf-rate is irregular over MT", "rises and falls", _FIVE, unknown.irregular),
    _unknown("LS-36", "paging time rises with MT, sharply to 15; pf-rate's is higher and flat",
             "monotone, last step largest, < 15 %", _FIVE, unknown.paging_rises),
    _unknown("LS-37", "migration time: age, pf-rate flat; worksize (MT > 0), combined fall", "range < 10 %", _SIX,
             unknown.migration_trends),
    _unknown("LS-38", "queuing time hardly depends on MT, worksize's rises at 15", "± 10 %, sign", _SIX,
             unknown.queue_flat),
    _unknown("LS-39", "100 Mbps: worksize's slowdown -32, -25, -50 %", "± 15 points", ("fig4", "fig7"),
             unknown.faster_worksize),
    _unknown("LS-40", "100 Mbps: combined slightly better, the others as before", "< 10 %", ("fig4", "fig7"),
             unknown.faster_others),
    _unknown("LS-41", "100 Mbps: migration time falls most for worksize, then combined", "order of the changes",
             ("fig6", "fig7-mt"), unknown.less_migration),
    _spec("LS-42", "the SPEC programs' results are like the others'", "LS-26, 27, 33, 36, 37, 38 hold for them",
          ("fig8", "fig9", "fig10", "fig11"), unknown.spec),
    _group("LS-43", "T. 5: the SPEC programs' lifetimes", "alone, ± 1 %", "alone-spec", groups.lifetimes("spec")),
    _spec("LS-44", "MT should be about 0", "best MT in -5 to 5, trace 1 of both sets", ("fig5", "fig9"),
          unknown.about_zero),
    _unknown("LS-45", "which policy when (§3.7)", "each part", ("fig4", "fig7"), unknown.recommended),
    _group("LS-46", "sizes of the traces; r 0.1 and 0.05 s", "exact", "fig4", groups.fixtures),
    _not("LS-47", "remote execution can beat preemptive migration", "a result of another paper ([29]) with known "
         "demands; this paper's first part migrates nothing, so there is nothing to compare"),
)  # fmt: skip

CLAIMS: tuple[Claim, ...] = tuple(Claim(*row) for row in _ROWS)
