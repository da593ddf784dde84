# SPDX-License-Identifier: GPL-2.0-or-later
"""What people look at: the live dashboard, the network monitor, the metrics exporter."""
