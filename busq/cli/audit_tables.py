# SPDX-License-Identifier: Apache-2.0
"""`busq audit --table` and `--output-table`: runs that stand, and results that go, in tables of Spark's catalog."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from typing import TYPE_CHECKING, Any

from busq.cli.base import Refusal

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from busq.audit import Audit
    from busq.audit.spark.sessions.memory import Shares
    from busq.audit.spark.tables.catalog import Tables
    from busq.cli.audit_pages import Reader

    Session = AbstractContextManager[tuple[SparkSession, Shares | None]]

__all__ = ["check", "of_spark", "settings", "stage", "start", "write"]


_OF_SPARK = {
    "master": "master",
    "tables": "table",
    "conf": "conf",
    "output_table": "output-table",
    "staging": "staging",
}


def of_spark(options: Mapping[str, Any]) -> list[str]:
    """Return which options are given that only Spark can follow."""
    return [f"--{word}" for name, word in _OF_SPARK.items() if options[name]]


def check(paths: Sequence[str], options: Mapping[str, Any]) -> None:
    """Refuse what does not go together: there are paths, or tables, and tables need Spark."""
    if options["engine"] == "c" and (given := of_spark(options)):
        raise Refusal(f"{given[0]} is for --engine spark: the engine c knows files alone")
    if options["follow"] and (
        given := [name for name in ("output", "output_table", "tables", "conf", "staging") if options[name]]
    ):
        raise Refusal(f"--{_OF_SPARK.get(given[0], given[0])} does not go with --follow")
    if not options["tables"]:
        _check_files(paths, options)
        return
    if paths:
        raise Refusal(f"--table and {paths[0]}: expected one or the other; audit them one after the other")
    if options["compare"]:
        raise Refusal("--table does not go with --compare, which takes paths")
    if options["format_name"]:
        raise Refusal("--format does not go with --table, which has none")


def _check_files(paths: Sequence[str], options: Mapping[str, Any]) -> None:
    if not paths:
        raise Refusal("nothing to judge: expected PATHs of traces, or --table NAME")


def settings(options: Mapping[str, Any]) -> dict[str, str]:
    """Return the settings of Spark that are asked for."""
    pairs = {}
    for each in options["conf"]:
        name, equals, value = each.partition("=")
        if not (name and equals):
            raise Refusal(f"--conf {each}: expected NAME=VALUE, as spark.sql.catalog.lake=...")
        pairs[name] = value
    return pairs


def start(stack: ExitStack, session: Session, options: Mapping[str, Any]) -> tuple[SparkSession, Shares | None]:
    """Give Spark until the stack ends; refuse an output in a catalog that ends with it."""
    from busq.audit.spark.sessions.driver import active, is_connect

    is_ours = active() is None
    given = stack.enter_context(session)
    database = options["output_table"]
    if database and is_ours and not is_connect(given[0]):
        in_memory = given[0].conf.get("spark.sql.catalogImplementation") == "in-memory"
        catalog = database.partition(".")[0].strip("`") if "." in database else given[0].catalog.currentCatalog()
        if in_memory and catalog == "spark_catalog":
            raise Refusal(
                f"--output-table {database}: this catalog is gone when Spark ends: expected one that stays, of a "
                "server (--master sc://HOST), or by --conf spark.sql.catalog.NAME=..."
            )
    return given


def stage(stack: ExitStack, spark: SparkSession, options: Mapping[str, Any], fields: Mapping[str, str]) -> Tables:
    """Put tables into files until the stack ends, and return the runs in them."""
    from busq.audit.spark.tables.catalog import staged
    from busq.cli import show

    with show.steps() as progress:
        return stack.enter_context(
            staged(
                spark,
                options["tables"],
                options=fields,
                runs_by=options["runs_by"],
                fields=options["fields_file"],
                place=options["staging"],
                progress=progress,
            )
        )


def write(found: Audit, load: Reader, spark: SparkSession, database: str) -> None:
    """Add the audit to tables of a database, and print what became of rows that were there."""
    from busq.audit.spark.tables import results
    from busq.cli import audit_compare

    written = results.write(spark, found, database, audit_compare.parts(found, load))
    audit_compare.tell_written(found, written, database)
