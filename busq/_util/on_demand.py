# SPDX-License-Identifier: Apache-2.0
"""Names of packages whose modules need the extra `trace`, given when they are asked for."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

__all__ = ["given", "is_of_trace"]

_OF_TRACE = ("pyarrow", "numpy")


def given(package: str, places: Mapping[str, str], name: str) -> Any:
    """Return what a package names, out of the module of its own that `places` has for it.

    Errors: AttributeError for another name; ImportError, which names what to install, where that extra is missing.
    """
    if name not in places:
        raise AttributeError(f"module {package!r} has no attribute {name!r}")
    try:
        return getattr(importlib.import_module(f"{package}.{places[name]}"), name)
    except ModuleNotFoundError as error:
        if not is_of_trace(error):
            raise
        raise ImportError(f"{package} needs pyarrow: pip install 'busq[trace]'", name="pyarrow") from None


def is_of_trace(error: ImportError) -> bool:
    """Return whether what is missing is a part of the extra."""
    return isinstance(error, ModuleNotFoundError) and (error.name or "").split(".")[0] in _OF_TRACE
