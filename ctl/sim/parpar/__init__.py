# SPDX-License-Identifier: GPL-2.0-or-later
"""Model `parpar` (ParPar §3 and §4): gang scheduling with and without memory admission."""
