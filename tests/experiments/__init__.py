# SPDX-License-Identifier: GPL-2.0-or-later
"""Experiments on clusters of virtual machines; their results are kept in results/."""
