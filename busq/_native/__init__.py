# SPDX-License-Identifier: Apache-2.0
"""The C core: `_core`, peers and messages of bus1; and ffi and lib, as cffi sees all of it, loaded when asked for."""

__all__ = ["ffi", "lib"]


def __getattr__(name: str) -> object:
    """Load the module that cffi has made; most programs need none of it."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from busq._native import _interpreter  # noqa: F401  (first: it refuses other interpreters than the main one)
    from busq._native._busq import ffi, lib

    globals().update(ffi=ffi, lib=lib)
    return globals()[name]
