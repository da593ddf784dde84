# SPDX-License-Identifier: GPL-2.0-or-later
"""Model `dcndc` (Monito §3, §5.3): one node, local and distributed tasks, and messages for these."""
