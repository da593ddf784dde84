# SPDX-License-Identifier: GPL-2.0-or-later
"""The discrete-event simulator: models of the papers' clusters, whose queues are ordered by bpf/insert_rq.h itself.

The engine is C (engine.c and its headers), compiled when it is first needed. Python describes models and
experiments, keeps results, draws plots and checks claims. Nothing here touches a kernel.
"""
