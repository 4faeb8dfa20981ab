# SPDX-License-Identifier: Apache-2.0
"""How many partitions a shuffle of Spark has: by the rows of a run, not by Spark's default."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from pyspark.sql import SparkSession

from busq.audit.spark.sessions.driver import setting

__all__ = ["shuffled_in_parts"]

_ROWS, _ROWS_MIN = 1_000_000, 100_000  # of a partition


@contextlib.contextmanager
def shuffled_in_parts(spark: SparkSession, n_rows: int) -> Iterator[None]:
    """Let shuffles have as many partitions as so many rows are worth, while a block lasts.

    Spark's 200 are too many for few rows: each costs a task wherever something is kept.
    """
    name = "spark.sql.shuffle.partitions"
    former = spark.conf.get(name)
    usual = int(former) if former and former.isdigit() else 200
    count = max(2, min(n_rows // _ROWS_MIN, max(usual, n_rows // _ROWS)))
    with setting(spark, name, str(count)):
        yield
