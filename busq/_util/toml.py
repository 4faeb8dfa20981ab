# SPDX-License-Identifier: Apache-2.0
"""TOML on every Python: the standard library reads it from 3.11 on, the package tomli before."""

from __future__ import annotations

import importlib
import sys
from typing import Any

__all__ = ["loads"]


def loads(text: str) -> dict[str, Any]:
    """Return what a TOML text holds.

    Errors: ValueError where it is no TOML; ImportError before Python 3.11 without tomli.

    >>> loads("seeds = [1, 2]")
    {'seeds': [1, 2]}
    """
    module: Any = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    found: dict[str, Any] = module.loads(text)
    return found
