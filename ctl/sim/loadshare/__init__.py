# SPDX-License-Identifier: GPL-2.0-or-later
"""Models `loadshare` and `loadshare-unknown`: load sharing with known and with unknown memory demands (LoadShare)."""
