# SPDX-License-Identifier: GPL-2.0-or-later
"""The discrete-event simulator: models of the papers' clusters, whose queues are ordered by bpf/insert_rq.h itself.

A folder is a model: its parameters, its engine (C, compiled when it is first needed), its experiments and its claims.
The files beside the folders serve all models: they keep results, draw plots, judge claims. The simulator touches no
kernel.

    params, claim, experiment, engine ◄── csm, ... ◄── registry ◄── pool, claims
"""
