# SPDX-License-Identifier: Apache-2.0
"""What can go wrong with a trace as a whole.  What is wrong inside of one is a finding, and does not stop anybody."""

from __future__ import annotations

from busq.errors import BusqError

__all__ = ["TraceError"]


class TraceError(BusqError, ValueError):
    """An input that cannot be used at all; the text names the file, what was found, what was expected."""
