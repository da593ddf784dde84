# SPDX-License-Identifier: GPL-2.0-or-later
"""The papers in plain Python, written from the papers and not from bpf/: the reference for the kernel side."""
