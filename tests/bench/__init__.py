# SPDX-License-Identifier: GPL-2.0-or-later
"""The cost of scheduling, against the kernel's own scheduler and its example schedulers, in guest time."""
