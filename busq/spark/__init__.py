# SPDX-License-Identifier: Apache-2.0
"""Audits and grids on Spark: the public name of `busq.audit.spark`."""

import importlib
from typing import TYPE_CHECKING, Any

from busq.audit.spark import SparkFailed, Unavailable, busy, session

if TYPE_CHECKING:
    from busq.spark import catalog as catalog
    from busq.spark import checks as checks
    from busq.spark import clocks as clocks
    from busq.spark import follow as follow
    from busq.spark import huge as huge
    from busq.spark import islands as islands
    from busq.spark import load as load
    from busq.spark import pace as pace
    from busq.spark import results as results
    from busq.spark import runs as runs
    from busq.spark import sweep as sweep
    from busq.spark import views as views

__all__ = ["SparkFailed", "Unavailable", "busy", "follow", "runs", "session"]

_MODULES = (
    "catalog",
    "checks",
    "clocks",
    "follow",
    "huge",
    "islands",
    "load",
    "pace",
    "results",
    "runs",
    "sweep",
    "views",
)


def __getattr__(name: str) -> Any:
    """Give the modules of this package, imported when they are asked for: each needs pyspark."""
    if name in _MODULES:
        return importlib.import_module(f"busq.spark.{name}")
    raise AttributeError(f"module 'busq.spark' has no attribute {name!r}")
