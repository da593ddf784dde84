# SPDX-License-Identifier: GPL-2.0-or-later
"""`python -m ctl`."""

import sys

from ctl.cli.front import main

sys.exit(main())
