# SPDX-License-Identifier: Apache-2.0
"""Where a picture may be written; whatever draws one needs matplotlib."""

from __future__ import annotations

import importlib
import importlib.util
import os

__all__ = ["SUFFIXES", "fault", "missing"]

SUFFIXES = (".png", ".svg", ".pdf")


def fault(path: str | os.PathLike[str]) -> str | None:
    """Return what keeps a picture from being written there, or None; ask before a long run.

    >>> fault("latency.bmp")
    'latency.bmp: expected a name that ends in .png, .svg or .pdf'
    """
    path = os.fspath(path)
    if os.path.splitext(path)[1].lower() not in SUFFIXES:
        return f"{path}: expected a name that ends in {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}"
    directory = os.path.dirname(path) or "."
    if not os.path.isdir(directory) or not os.access(directory, os.W_OK):
        return f"{path}: {directory} is no directory that can be written to"
    return missing()


def missing() -> str | None:
    """Return what pictures lack here, and how to get it; None where they lack nothing."""
    if importlib.util.find_spec("matplotlib") is None:
        return "pictures need matplotlib: pip install 'busq[plot]'"
    return None
