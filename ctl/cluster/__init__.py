# SPDX-License-Identifier: GPL-2.0-or-later
"""Cooperating nodes: if a node slows down or stops a job, every node that holds the job does so."""
