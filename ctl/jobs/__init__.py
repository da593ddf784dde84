# SPDX-License-Identifier: GPL-2.0-or-later
"""Jobs, before the kernel orders their tasks: how their processes get into them."""
