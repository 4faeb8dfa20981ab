# SPDX-License-Identifier: Apache-2.0
"""Writes what an audit found into tables of a session's catalog: those of `busq.audit.tables`, under the same names.

Guarantee.  A run is there once: its rows in each table are a partition, which an audit of the same run replaces, and
the row in `runs` is written last.  Rows of an audit that was killed while it wrote show by an `audit` that `runs` does
not have for that run; `read` leaves them out.  Two audits that write at the same time may lose findings of no run.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from busq.audit import output
from busq.audit.output import OutputError, Parts, Written
from busq.audit.result import Audit
from busq.audit.spark.sessions.driver import frame_of, setting
from busq.audit.tables import MEANINGS, METADATA, TABLES, VERSION, meaning

__all__ = ["prepare", "read", "write"]

_PROPERTY = METADATA.decode()
_NO_CATALOG = (
    "CATALOG_NOT_FOUND",
    "NESTED_DATABASE_UNSUPPORTED_BY_V1_SESSION_CATALOG",
    "REQUIRES_SINGLE_PART_NAMESPACE",
)
_OVERWRITE = "spark.sql.sources.partitionOverwriteMode"  # "dynamic": of the partitions that there are rows for


def prepare(spark: SparkSession, database: str, runs: Sequence[tuple[str, str]]) -> None:
    """Make a database and its tables where there are none, and refuse what `write` could not do, before a long audit.

    Parameters: `database`, as Spark's SQL takes its name, with its catalog where it is not the current one; `runs`,
    names and sources.  Errors: OutputError for what is no name of a database, or one in which there can't be such
    tables; for tables there that no audit has written, or another version of busq, and for another run of one of these
    names.
    """
    there = _tables(spark, database)
    for name in TABLES:
        if name in there:
            _check_is_ours(spark, database, name)
    before = _sources(spark, database) if "runs" in there else {}
    for name, source in runs:
        if not name:
            raise OutputError(f"{database}: a run without a name: expected names, by which audits replace rows")
        if name in before:
            output.check_same(database, "database", name, before[name], source)
    _create(spark, database, there)


def write(spark: SparkSession, found: Audit, database: str, parts: Parts | None = None) -> Written:
    """Add what an audit found to tables of a database, which are made where there are none; rows of the same runs are
    replaced.

    Parameters: `database` as in `prepare`; `parts` as in `busq.audit.output.tables_of`.
    Errors: OutputError as there; SparkFailed inside of `busq.spark.session`.
    Cost: some small jobs, about 5 s.

    >>> with busq.spark.session() as spark:                                                      # doctest: +SKIP
    ...     write(spark, busq.audit.audit("traces"), "lake.audits")
    Written(added=['monday'], replaced=[])
    """
    names = [run.run for run in found.runs]
    prepare(spark, database, [(run.run, run.source) for run in found.runs])
    before = _audits(spark, database)
    tables = output.tables_of(found, parts)
    alive = {audit for run, audit in before.items() if run not in names}
    tables["findings"] = pa.concat_tables([tables["findings"], _of_no_run(spark, database, alive)])
    replaced = [run for run in names if run in before]
    with setting(spark, _OVERWRITE, "dynamic"):
        for name in (*(name for name in TABLES if name != "runs"), "runs"):
            _replace(spark, f"{database}.{name}", tables[name], [*replaced, None] if name == "findings" else replaced)
    return Written([run for run in names if run not in before], replaced)


def read(spark: SparkSession, database: str) -> dict[str, pa.Table]:
    """Return the tables that a database holds; rows of an audit that was killed while it wrote are left out.

    Errors: OutputError if they are not there, or another version wrote them.
    Cost: a pass over them.

    >>> read(spark, "lake.audits")["verdicts"].num_rows                                          # doctest: +SKIP
    20
    """
    if missing := sorted(set(TABLES) - _tables(spark, database)):
        raise OutputError(f"{database}: expected the output of an audit: no table {', '.join(missing)}")
    tables = {}
    for name, schema in TABLES.items():
        _check_is_ours(spark, database, name)
        tables[name] = _arrow(spark.table(f"{database}.{name}"), schema)
    return output.whole(tables)


# ---- what is there ----


def _tables(spark: SparkSession, database: str) -> set[str]:
    """Return the names of the tables in a database; OutputError if it can't be one."""
    try:
        rows = spark.sql(f"SHOW TABLES IN {database}").collect()
        return {row["tableName"] for row in rows if not row["isTemporary"]}
    except ParseException:
        raise OutputError(
            f"{database}: no name of a database: expected one like audits or lake.audits; parts with other signs stand "
            "in backticks, `my-db`"
        ) from None
    except AnalysisException as error:
        if error.getCondition() == "SCHEMA_NOT_FOUND":
            return set()
        if error.getCondition() in _NO_CATALOG:
            catalog = database.partition(".")[0]
            raise OutputError(
                f"{database}: no catalog {catalog}: --conf spark.sql.catalog.{catalog}=... adds it to a session"
            ) from None
        raise OutputError(f"{database}: {_line(error)}") from None


def _line(error: PySparkException) -> str:
    return " ".join(str(error).split("\n\nJVM stacktrace")[0].split())


def _check_is_ours(spark: SparkSession, database: str, name: str) -> None:
    rows = spark.sql(f"SHOW TBLPROPERTIES {database}.{name}").collect()
    version = next((row["value"] for row in rows if row["key"] == _PROPERTY), None)
    if version is None:
        raise OutputError(f"{database}.{name}: found a table that no audit has written: choose another database")
    if version != str(VERSION):
        raise OutputError(f"{database}.{name}: found version {version} of the output of audits, expected {VERSION}")


def _sources(spark: SparkSession, database: str) -> dict[str, str]:
    return {row["run"]: row["source"] for row in spark.table(f"{database}.runs").select("run", "source").collect()}


def _audits(spark: SparkSession, database: str) -> dict[str, str]:
    """Return which audit each run is of."""
    return {row["run"]: row["audit"] for row in spark.table(f"{database}.runs").select("run", "audit").collect()}


def _of_no_run(spark: SparkSession, database: str, audits: set[str]) -> pa.Table:
    """Return the findings about what belongs to no run, of audits that still have one."""
    rows = _arrow(spark.table(f"{database}.findings").where("run IS NULL"), TABLES["findings"])
    return rows.filter(pc.is_in(rows["audit"], pa.array(sorted(audits), pa.string())))


def _arrow(frame: DataFrame, schema: pa.Schema) -> pa.Table:
    return frame.select(*(f"`{name}`" for name in schema.names)).toArrow().cast(schema)


# ---- writing ----


def _create(spark: SparkSession, database: str, there: set[str]) -> None:
    """Make the database, and those of its tables that are not there."""
    try:
        if not there:
            spark.sql(f"CREATE DATABASE IF NOT EXISTS {database}")
        for name in TABLES:
            if name not in there:
                spark.sql(_definition(database, name))
    except AnalysisException as error:
        raise OutputError(f"{database}: {_line(error)}") from None


def _definition(database: str, name: str) -> str:
    kinds = {field.name: field.dataType.simpleString() for field in from_arrow_schema(TABLES[name])}
    columns = ", ".join(
        f"`{field.name}` {kinds[field.name]} COMMENT {_literal(meaning(field))}" for field in TABLES[name]
    )
    return (
        f"CREATE TABLE IF NOT EXISTS {database}.{name} ({columns}) PARTITIONED BY (`run`) "
        f"COMMENT {_literal(MEANINGS[name])} TBLPROPERTIES ({_literal(_PROPERTY)} = '{VERSION}')"
    )


def _literal(text: str | None) -> str:
    if text is None:
        return "NULL"
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _replace(spark: SparkSession, table: str, rows: pa.Table, former: Sequence[str | None]) -> None:
    """Give runs these rows, and those that were there before and have none any more, none; None is no run."""
    if rows.num_rows:
        frame = frame_of(spark, rows).coalesce(1)
        names = [f"`{name}`" for name in spark.table(table).columns]
        frame.select(*names).write.mode("overwrite").insertInto(table)
    there = set(rows["run"].to_pylist())
    if gone := [run for run in former if run not in there]:
        _remove(spark, table, gone)


def _remove(spark: SparkSession, table: str, runs: Sequence[str | None]) -> None:
    """Remove the rows of runs: from a table of files, whole partitions."""
    try:
        for run in runs:
            spark.sql(f"DELETE FROM {table} WHERE `run` <=> {_literal(run)}")
    except AnalysisException:
        partitions = ", ".join(f"PARTITION (`run` = {_literal(run)})" for run in runs)
        spark.sql(f"ALTER TABLE {table} DROP IF EXISTS {partitions}")
