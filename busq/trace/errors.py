# SPDX-License-Identifier: Apache-2.0
"""Errors of a trace as a whole.  A fault inside one is a finding, and stops nothing."""

from __future__ import annotations

from busq.errors import BusqError

__all__ = ["TraceError"]


class TraceError(BusqError, ValueError):
    """An input that cannot be used at all; the text names the file, what was found, what was expected."""
