# SPDX-License-Identifier: GPL-2.0-or-later
"""Guests in lock-step: a plugin for QEMU in C, how it is built, and how the host speaks with it. See docs/lockstep.md."""
