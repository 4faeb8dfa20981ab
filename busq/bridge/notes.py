# SPDX-License-Identifier: Apache-2.0
"""What a bridge writes for its operator: a line each, on standard error."""

from __future__ import annotations

import sys


def note(text: str) -> None:
    """Write a line."""
    print(f"busq bridge: {text}", file=sys.stderr, flush=True)
