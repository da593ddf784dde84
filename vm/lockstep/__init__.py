# SPDX-License-Identifier: GPL-2.0-or-later
"""Guests in lock-step: a plugin for QEMU, how it is built, how the host speaks with it. See docs/lockstep.md."""
