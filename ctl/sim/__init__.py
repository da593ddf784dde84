# SPDX-License-Identifier: GPL-2.0-or-later
"""The discrete-event simulator: models of the papers' clusters, whose queues are ordered by bpf/insert_rq.h itself.

A folder is a model: its parameters, its engine (C, compiled when it is first needed), its experiments and its claims.
What is beside the folders serves all of them: results are kept, plots drawn, claims judged. Nothing here touches a
kernel.

    params, claim, experiment, engine ◄── csm, ... ◄── registry ◄── pool, claims
"""
