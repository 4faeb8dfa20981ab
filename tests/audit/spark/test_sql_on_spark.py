# SPDX-License-Identifier: Apache-2.0
"""The script of `busq audit --sql spark` runs in a session of Spark, and counts what it counts in DuckDB."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("duckdb")

from test_sql import RELAYED, printed, relayed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_the_command_prints_what_spark_takes(spark: SparkSession, tmp_path: Path) -> None:
    relayed(tmp_path)
    *views, query = printed(tmp_path, "spark").rstrip().rstrip(";").split(";\n")
    for view in views:
        spark.sql(view)
    assert {row["name"]: row["faults"] for row in spark.sql(query).collect()} == RELAYED
