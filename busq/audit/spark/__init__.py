# SPDX-License-Identifier: Apache-2.0
"""Audits and grids on Spark: for many runs, for traces larger than memory, for clusters.

A trace that fits into memory is audited faster without it (``busq.audit.native``): Spark needs seconds to start.

>>> import busq.spark                                                                            # doctest: +SKIP
>>> with busq.spark.session() as spark:                                                          # doctest: +SKIP
...     busq.spark.runs.audit(spark, busq.trace.find(["traces"]).sources)
"""

from __future__ import annotations

from busq.audit.spark.sessions.available import Unavailable, require

__all__ = ["SparkFailed", "Unavailable", "busy", "session"]

require()

from busq.audit.spark.sessions.session import SparkFailed, busy, session  # noqa: E402
