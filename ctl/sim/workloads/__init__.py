# SPDX-License-Identifier: GPL-2.0-or-later
"""Workloads that no one model owns: job logs in the Standard Workload Format, the Lublin-Feitelson model."""
