# SPDX-License-Identifier: GPL-2.0-or-later
"""What scheduling costs, against the kernel's own scheduler and its example schedulers, in guest time."""
