# SPDX-License-Identifier: GPL-2.0-or-later
"""CCS's claims about its modules, techniques and laboratories, as tests of the measurements: results/ccs.md.

Percentages are of the stage before (B-CCS-21). The limits of real users, 400 and 800 ms, are those of a machine whose
quantum is 210 ms, as the model's; system call latency is the proxy that docs/simulator.md describes, its 99th
percentile.
"""

from __future__ import annotations

from ctl.sim.ccs import claims_labs as labs
from ctl.sim.ccs import claims_tests as tests
from ctl.sim.claim import Claim, Test

__all__ = ["CLAIMS"]

_READINGS = ("-node", "-short", "-fine", "-credit")


def _five(test: Test, *readings: str) -> tuple[tuple[str, ...], Test]:
    """Claims of Fig. 5, with the results of these readings."""
    return ("ccs-fig5", *(f"ccs-fig5{r}" for r in readings)), tests.by_reading(test, readings)


def _eight(test: Test) -> tuple[tuple[str, ...], Test]:
    return ("ccs-fig8", "ccs-fig8-node"), tests.by_reading(test, ("-node",))


def _nine(test: Test) -> tuple[tuple[str, ...], Test]:
    return ("ccs-fig9", "ccs-fig9-small"), tests.by_reading(test, ("-small",))


_LOADED = ("-node", "-short")
_LOCAL = ("-node", "-fine", "-credit")
_SIX, _SEVEN, _EIGHT = ("ccs-fig6",), ("ccs-fig7",), ("ccs-fig8",)

CLAIMS: tuple[Claim, ...] = (
    Claim("CCS-1", "Insert_RQ doubles DYN's speedup where memory is short", "1.5 to 2.5 times, internet",
          *_five(tests.rq_doubles, *_LOADED)),
    Claim("CCS-2", "and takes some 20 % off local slowdown", "10 to 30 % less",
          *_five(tests.rq_slowdown, *_LOADED)),
    Claim("CCS-3", "which stays above 3", "> 3, shell and internet", *_five(tests.above_three, *_READINGS)),
    Claim("CCS-4", "Set_Memory: slowdown over 50 % less, speedup as before", "40 % or more less, ± 10 %",
          *_five(tests.memory_helps, *_LOADED)),
    Claim("CCS-5", "Set_Quantum: slowdown over 45 % less where memory suffices", "35 % or more less, shell",
          *_five(tests.quantum_helps, *_LOCAL)),
    Claim("CCS-6", "by itself it costs parallel speedup", "sign, shell", *_five(tests.quantum_costs, *_LOCAL)),
    Claim("CCS-7", "events: speedup over 40 % more, slowdown below 2", "30 % or more; < 2, both",
          *_five(tests.events_help, *_READINGS)),
    Claim("CCS-8", "COM_L: three techniques alike, CCS gains with the users", "within 10 %; slope > 0", _SIX,
          tests.low_alike),
    Claim("CCS-9", "COM_M: pred 20 % above dyn, implicit worst, CCS best", "10 to 30 %, order", _SIX,
          tests.medium_order),
    Claim("CCS-10", "COM_H: CCS keeps its speedup as users come, the others lose it", "< 15 %, > 40 % less", _SIX,
          tests.high_constant),
    Claim("CCS-11", "L 100 to 50 % costs 10 % of the speedup", "5 to 15 %", _SIX, tests.half_costs),
    Claim("CCS-12", "L 50 to 25 % costs 25 %", "15 to 35 %, more than CCS-11", _SIX, tests.quarter_costs),
    Claim("CCS-13", "L matters less the more the jobs talk", "falls from COM_L to COM_H", _SIX, tests.effect_falls),
    Claim("CCS-14", "L 100 % gains little and disturbs most", "speedup <= 15 %; SCL, slowdown worst", _SIX,
          tests.whole_disturbs),
    Claim("CCS-15", "SCL within 400 ms at L 25 and 50 %", "99 % within, at each point", _SEVEN, tests.latency_kept),
    Claim("CCS-16", "not with the others: above 800 ms", "each twice CCS-15's worst", _SEVEN,
          tests.latency_unacceptable),
    Claim("CCS-17", "COM_H has the largest gap of SCL between L 100 and 50 %", "order", _SEVEN, tests.latency_gap),
    Claim("CCS-18", "slowdown rises with L and stays below MPL", "monotone, < 3", _SEVEN, tests.slowdown_by_l),
    Claim("CCS-19", "pred loses speedup with heterogeneity", "slope < 0", *_eight(tests.pred_degrades)),
    Claim("CCS-20", "and local slowdown exceeds 3", "> 3 at C(.25), all three", *_eight(tests.others_above_three)),
    Claim("CCS-21", "the gain of CCS and poly grows with it", "slopes > 0", *_eight(tests.gain_grows)),
    Claim("CCS-22", "poly: speedup near CCS, slowdown much worse", "within 15 %; 1.5 times", *_eight(tests.poly_near)),
    Claim("CCS-23", "zhang: slowdown < 2.25, rising at C(.25); speedup < 5", "thresholds, below ccs",
          *_eight(tests.zhang)),
    Claim("CCS-24", "C(.15): 3 on a fast node are 2 on a slow one", "floor(2.1) = 2", _EIGHT, tests.slow_mpl),
    Claim("CCS-25", "MPL times quantum is equal on all nodes", "before rounding", _EIGHT, tests.epochs_equal),
    Claim("CCS-26", "M_Local >= M (1 - L) on every node", "at each node", _EIGHT, tests.pool_kept),
    Claim("CCS-27", "Lab_EDI is best, Lab_Statistic worst", "order, both workloads", *_nine(labs.best_and_worst)),
    Claim("CCS-28", "Dynamic, Predictive reach MPL 2, CCS 4 in Lab_EDI, speedup > 7.5", "mean jobs at once",
          *_nine(labs.mpl_reached)),
    Claim("CCS-29", "CCS gains most in Lab_Open, 45 %", "30 to 60 %, greatest there", *_nine(labs.gain_in_open)),
    Claim("CCS-30", "COM_L in Lab_Statistic loses less than half of the dedicated speedup", "< 50 %",
          *_nine(labs.dedicated_loss)),
    Claim("CCS-31", "users bear a higher load with CCS", "order", ("ccs-mpl",), labs.bears_more),
    Claim("CCS-32", "CCS takes 25 % off the parallel jobs' memory demand", "15 to 35 %", *_nine(labs.withheld)),
    Claim("CCS-33", "Lab_Open, COM_L: CCS uses most CPU and memory", "order", *_nine(labs.usage("COM_L"))),
    Claim("CCS-34", "Lab_Open, COM_H: likewise", "order", *_nine(labs.usage("COM_H"))),
    Claim("CCS-35", "the laboratories' users are T. 4's", "means within 10 %", ("ccs-users",),
          tests.drawn(labs.LABS)),
    Claim("CCS-36", "the workload gains more than each job loses", "at 5 of 6 points or more",
          *_nine(labs.whole_gains)),
    Claim("CCS-37", "speedup is often over half the number of tasks", "most jobs of a workload", _SIX,
          tests.over_half),
    Claim("CCS-38", "with MPL > 1 communication alone cannot protect locals", "slowdown rises", ("ccs-mpl",),
          tests.locals_unprotected),
    Claim("CCS-39", "MNO above 2 hurts local tasks", "slowdown rises", ("ccs-mno",), tests.mno_hurts),
    Claim("CCS-40", "the users are T. 2's (their network traffic is not modelled)", "means within 10 %",
          ("ccs-users",), tests.drawn(("shell", "xwin", "internet"))),
    Claim("CCS-41", "Fig. 3: events balance what jobs get", "parts ± 0.01", ("ccs-fig3",), tests.fig3),
    Claim("CCS-42", "a stop ends or reduces swapping", "faults halved in 5 epochs", ("ccs-stop",),
          tests.stop_ends_paging),
    Claim("CCS-43", "crossing STOPs never deadlock", "every run ends", ("ccs-faulty",), tests.none_deadlocks),
)  # fmt: skip
