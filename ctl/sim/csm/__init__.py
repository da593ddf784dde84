# SPDX-License-Identifier: GPL-2.0-or-later
"""Model `csm` (CSM §5): a cluster of nodes with every ready queue, page fault and message."""
