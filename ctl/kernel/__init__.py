# SPDX-License-Identifier: GPL-2.0-or-later
"""All that touches the kernel: BPF objects, sensors, cgroups, netlink. This room knows no agents, peers or people."""
