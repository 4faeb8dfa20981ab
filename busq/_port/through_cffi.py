# SPDX-License-Identifier: Apache-2.0
"""The core through cffi, for other orders, the recorder and the laboratory.  Its errors are those of `_core`."""

from __future__ import annotations

import functools
from typing import Any

from busq._native import _core as core
from busq._native import ffi, lib

check = core.check


def owned(kind: str) -> Any:
    """Return an empty cell for a handle of that kind.

    A handle that the core puts into it is freed with the cell, so that it has an owner at once, whatever is raised.
    """
    return ffi.gc(ffi.new(f"{kind} **"), getattr(lib, f"{kind}_free_at"))


def held(owner: Any) -> Any:
    """Return the handle in a cell; while it is in use, so is the cell."""
    return ffi.gc(owner[0], functools.partial(lib.busq_keep, owner))


def raw_bus(bus: Any) -> Any:
    """Return the core's handle of a Bus, which keeps the bus open; ShutDown if that was closed."""
    raw = bus._raw()
    return ffi.gc(ffi.cast("busq_bus *", raw.address), functools.partial(lib.busq_keep, ffi.new_handle(raw)))
