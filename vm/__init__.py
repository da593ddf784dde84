# SPDX-License-Identifier: GPL-2.0-or-later
"""Builds the virtual machine image and runs commands in it; needs only Python's standard library on the host."""
