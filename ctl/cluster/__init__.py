# SPDX-License-Identifier: GPL-2.0-or-later
"""Cooperating nodes: a job that one node slows down or stops is slowed down or stopped on every node that holds it."""
