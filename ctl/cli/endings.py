# SPDX-License-Identifier: GPL-2.0-or-later
"""How a command ends, whatever it raises: a sentence for people, and an exit status."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable

from ctl.errors import FAILED, CoschedError

__all__ = ["INTERRUPTED", "ended"]

INTERRUPTED = 130  # as shells say it, by SIGINT
_PACKAGE = {"nats": "nats-py"}  # packages whose module has another name


def ended(work: Callable[[], object]) -> int:
    """Do this; the exit status: an int that it returns, else 0; 1 failed, 2 wrong request."""
    try:
        result = work()
        sys.stdout.flush()
        return result if isinstance(result, int) else 0
    except CoschedError as error:
        print(f"Error: {error}", file=sys.stderr)
        return error.status
    except ModuleNotFoundError as error:
        package = _PACKAGE.get(error.name or "", error.name)
        print(f"Error: this needs Python's {error.name}, which is missing: pip install {package}", file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # the reader of our output has closed the pipe; click, too, exits silently with 1 then
        with contextlib.suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
