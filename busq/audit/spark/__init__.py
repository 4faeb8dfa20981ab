# SPDX-License-Identifier: Apache-2.0
"""Audits and grids on Spark: for many runs, for traces larger than memory, for clusters.

A trace that fits into memory is audited faster without it (``busq.audit.native``): Spark needs seconds to start.

>>> import busq.spark                                                                            # doctest: +SKIP
>>> with busq.spark.session() as spark:                                                          # doctest: +SKIP
...     busq.spark.runs.audit(spark, busq.trace.find(["traces"]).sources)
"""

from __future__ import annotations

import importlib
from typing import Any

from busq.audit.spark.available import Unavailable, require

__all__ = ["SparkFailed", "Unavailable", "busy", "follow", "runs", "session"]

_LATER = (
    "catalog",
    "checks",
    "clocks",
    "follow",
    "huge",
    "islands",
    "load",
    "pace",
    "ready",
    "results",
    "runs",
    "sweep",
    "views",
    "workers",
)


require()

from busq.audit.spark.session import SparkFailed, busy, session  # noqa: E402


def __getattr__(name: str) -> Any:
    """Give the modules of this package, imported when they are asked for."""
    if name in _LATER:
        return importlib.import_module(f"busq.audit.spark.{name}")
    raise AttributeError(f"module 'busq.spark' has no attribute {name!r}")
