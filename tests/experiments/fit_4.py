# SPDX-License-Identifier: GPL-2.0-or-later
"""`just experiment fit-4`: see ccs_plan.py."""

from tests.experiments.ccs import main

if __name__ == "__main__":
    main("fit-4")
