# SPDX-License-Identifier: GPL-2.0-or-later
"""Experiments on clusters of virtual machines; what they measured is kept in results/."""
