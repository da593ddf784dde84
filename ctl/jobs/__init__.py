# SPDX-License-Identifier: GPL-2.0-or-later
"""Jobs, before the kernel orders their tasks: the way of processes into their job."""
