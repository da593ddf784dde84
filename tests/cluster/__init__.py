# SPDX-License-Identifier: GPL-2.0-or-later
"""Cooperating nodes on one host: real brokers (nats-server), a relay for each node. `just test-cluster`."""
