# SPDX-License-Identifier: GPL-2.0-or-later
"""The papers in plain Python, written from them and not from bpf/: what the kernel side is held against."""
