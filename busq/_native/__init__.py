# SPDX-License-Identifier: Apache-2.0
"""The C core: `_core`, peers and messages of bus1; and ffi and lib, as cffi sees all of it, loaded when asked for."""

from importlib.machinery import PathFinder as _PathFinder

# Python looks into the current directory first, and in the root of a checkout it finds these sources there.
if _PathFinder.find_spec(f"{__name__}._core", __path__) is None:
    raise ImportError(
        f"busq was imported from its sources ({__path__[0]}), which hold no compiled core: "
        "start Python in another directory, or install the sources in editable mode (.ci/task install)",
        name=__name__,
    )

__all__ = ["ffi", "lib"]


def __getattr__(name: str) -> object:
    """Load the module that cffi has made; most programs need none of it."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from busq._native import _interpreter  # noqa: F401  (first: it refuses other interpreters than the main one)
    from busq._native._busq import ffi, lib

    globals().update(ffi=ffi, lib=lib)
    return globals()[name]
