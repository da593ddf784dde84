# SPDX-License-Identifier: GPL-2.0-or-later
"""The Python control plane of the coscheduler."""

__version__ = "0.1.0"
