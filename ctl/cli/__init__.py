# SPDX-License-Identifier: GPL-2.0-or-later
"""`ctl`, the command line: one file for each group of commands. Commands are thin; the other rooms do the work."""
