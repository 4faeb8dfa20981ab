# SPDX-License-Identifier: Apache-2.0
"""What a bridge writes for its operator: a line each, on standard error."""

from __future__ import annotations

import contextlib
import sys


def note(text: str) -> None:
    """Write a line, or none: a disk that is full, or a reader that has gone, ends no bridge."""
    with contextlib.suppress(OSError):
        print(f"busq bridge: {text}", file=sys.stderr, flush=True)
