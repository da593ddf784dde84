# SPDX-License-Identifier: GPL-2.0-or-later
"""A node's processes, composed: the agent with its supervisor and its relay, and the broker.

No other room knows both the agent and the cluster.
"""
