# SPDX-License-Identifier: GPL-2.0-or-later
"""What all host tests share."""

from hypothesis import HealthCheck, settings

# how long one example takes says more about the host than about the code
settings.register_profile("cosched", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("cosched")
