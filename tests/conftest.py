# SPDX-License-Identifier: GPL-2.0-or-later
"""What all host tests share."""

from tests.examples import load_profile

load_profile()
