# SPDX-License-Identifier: GPL-2.0-or-later
"""One node's agent: owns the scheduler link, decides overload, keeps the jobs, answers `ctl`."""
