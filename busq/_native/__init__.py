# SPDX-License-Identifier: Apache-2.0
"""The C core as cffi sees it: ffi and lib, and nothing else."""

from importlib.machinery import PathFinder as _PathFinder

# Python looks into the current directory first, and in the root of a checkout it finds these sources there.
if _PathFinder.find_spec(f"{__name__}._fast", __path__) is None:
    raise ImportError(
        f"busq was imported from its sources ({__path__[0]}), which hold no compiled core: "
        "start Python in another directory, or install the sources in editable mode (.ci/task install)",
        name=__name__,
    )

from busq._native import _interpreter  # noqa: F401  (first of all: it refuses other interpreters than the main one)
from busq._native._busq import ffi, lib

__all__ = ["ffi", "lib"]
