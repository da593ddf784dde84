# SPDX-License-Identifier: GPL-2.0-or-later
"""Memory in words is in whole MiB. A need is rounded up and what is there down: what does not fit never looks as if it
did, and a --memory that repeats the figure is enough."""

from __future__ import annotations

from typing import Final

__all__ = ["needed", "there"]

_MIB: Final = 1 << 20


def needed(size: int) -> int:
    """So many bytes in MiB, rounded up.

    >>> needed((206 << 20) + 1)
    207
    """
    return -(-size // _MIB)


def there(size: int) -> int:
    """So many bytes in MiB, rounded down.

    >>> there((207 << 20) - 1)
    206
    """
    return size // _MIB
