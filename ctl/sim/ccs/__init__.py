# SPDX-License-Identifier: GPL-2.0-or-later
"""Model `ccs` (CCS §5; T. 2 to 4): a non-dedicated, heterogeneous cluster under the social contract.

The model `csm` with additions: epochs, quanta and memory pools, events between nodes, nodes of different speed and
memory, local users that come and go, and the paper's benchmarks as programs that compute, talk and fill memory.
"""
