# SPDX-License-Identifier: Apache-2.0
"""Tables that a session's catalog knows, as runs: `db.events`, `lake.db.events`, views, whatever has a name there.

A table is put into Parquet files once, a folder for each run, with the columns that an audit reads and no others; they
go when it ends.  From there it is judged like any trace, by all engines.  Rows of a table stand in no order, so
positions or times show it, or the verdicts on order are "unknown".
"""

from __future__ import annotations

import contextlib
import difflib
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow.parquet as pq
from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from busq._util.humanize import amount, listed
from busq.audit.result import TABLE, RunAudit
from busq.audit.spark.large_run.expression_columns import column_of
from busq.audit.spark.large_run.repack import is_possible, staged_in, workplace
from busq.audit.spark.sessions.driver import Progress, interruptible
from busq.audit.spark.sessions.session import busy
from busq.errors import BusqError
from busq.trace import parquet_head
from busq.trace.dataset import RUNS_BY, hive_keys, told_apart
from busq.trace.errors import TraceError
from busq.trace.expressions import parsed
from busq.trace.field_names import Fields
from busq.trace.finding import Finding
from busq.trace.locate import named_apart, settled
from busq.trace.run import ROWS, UNORDERED, Source
from busq.trace.schema import REQUIRED, SCHEMA

__all__ = ["Tables", "is_plain", "opened", "staged"]

NAMES_MAX = 3  # of tables that may be meant

_RUN = "busq_run"  # the column for runs, among those of the table
_PART = re.compile(r"`[^`]*`|[^.`]+")  # of a name


@dataclass
class Tables:
    """The runs that stand in some tables, as sources, and what is remarkable about the tables themselves.

    `folder` has the files, those of each table of `names` in a folder called by its number.
    """

    folder: Path
    names: Sequence[str]
    sources: list[Source] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)

    def gather(self, options: Mapping[str, str]) -> None:
        """Find the runs in the files."""
        its = dict(options) | {RUNS_BY: "none", ROWS: UNORDERED}
        runs = [(table, run, paths) for table in self.names for run, paths in self._runs(table)]
        if options.get(RUNS_BY) == "none":
            self.sources.append(_source(", ".join(self.names), [path for _, _, paths in runs for path in paths], its))
            return
        names = Counter(run or table for table, run, _ in runs)
        told = {table for table, run, _ in runs if run}
        for table, run, paths in runs:
            name = f"{table}/{run}" if run and names[run] > 1 else run or table
            findings = [_nameless(table, paths)] if table in told and not run else []
            self.sources.append(_source(name, paths, its, findings))
        self.sources = named_apart(self.sources)
        if len(self.names) > max(1, len(told)):
            guessed = [table for table in self.names if table not in told]
            text = (
                f"{listed(guessed)}: nothing tells runs apart: each table is taken for one; --runs-by none: all are one"
            )
            self.findings.append(Finding("runs-guessed", text, len(guessed), is_error=False))

    def _runs(self, table: str) -> list[tuple[str, list[Path]]]:
        """Return the runs of a table, by name, and their files."""
        folder = self.folder / str(self.names.index(table))
        runs = {hive_keys(f"{part.name}/")[_RUN]: part for part in folder.glob(f"{_RUN}=*")} or {"": folder}
        return [(run, sorted(part.glob("*.parquet"))) for run, part in sorted(runs.items())]

    def only(self) -> Source:
        """Return the run, where there is one; TraceError where there are several."""
        if len(self.sources) > 1:
            shown = listed([source.name for source in self.sources[:NAMES_MAX]])
            raise TraceError(
                f"{', '.join(self.names)}: found {amount(len(self.sources), 'run')}, as {shown}: expected one; take "
                "the rows of one, or have busq.spark.runs judge what busq.spark.catalog.staged gives"
            )
        return self.sources[0]

    def told(self, text: str) -> str:
        """Return a text that names tables where it named the files that they were put into."""
        place = re.escape(str(self.folder))
        return re.sub(rf"{place}/(\d+)(?:/.*?\.parquet(?::\d+)?(?:: row \d+)?)?", self._name, text)

    def _name(self, match: re.Match[str]) -> str:
        return self.names[int(match[1])]

    def source_of(self, path: str) -> str:
        """Return what the source of a run is called, of which this is the first file."""
        return f"{TABLE}{self.told(path)}"

    def named(self, found: RunAudit) -> RunAudit:
        """Return an audit that names tables, not the files that they were put into."""
        checks = {name: replace(check, text=self.told(check.text)) for name, check in found.checks.items()}
        findings = [
            replace(one, text=self.told(one.text), path=self.told(one.path), line=0 if one.path else one.line)
            for one in found.findings
        ]
        return replace(found, source=self.source_of(found.source), checks=checks, findings=findings)


def _source(name: str, paths: Sequence[Path], options: Mapping[str, str], findings: Sequence[Finding] = ()) -> Source:
    size = sum(path.stat().st_size for path in paths)
    return Source(name, "busq", tuple(map(str, paths)), size, options, findings=tuple(findings))


def _nameless(table: str, paths: Sequence[Path]) -> Finding:
    rows = sum(map(_rows_in, paths))
    text = f"{table}: {amount(rows, 'row')} of no run beside those that have one: they are taken for one run"
    return Finding("runs-guessed", text, rows, is_error=False)


def opened(spark: SparkSession, name: str) -> DataFrame:
    """Return a table of the session's catalog; TraceError, in a line, for one that is not there.

    >>> opened(spark, "db.events").count()                                                       # doctest: +SKIP
    1000000
    """
    try:
        frame = spark.table(name)
        _ = frame.schema  # through Connect, this is the first question
    except (AnalysisException, ParseException) as error:
        raise TraceError(f"{name}: {_reason(spark, name, error)}") from None
    return frame


def is_plain(frame: DataFrame) -> bool:
    """Whether the columns of a DataFrame are called as in a trace, and processes and messages are numbers."""
    kinds = {column.name: column.dataType for column in frame.schema}
    to = kinds.get("destinations", T.ArrayType(T.IntegerType()))
    numbers = [kinds.get("process"), kinds.get("message"), to.elementType if isinstance(to, T.ArrayType) else to]
    are_numbers = all(isinstance(kind, (T.IntegralType, T.NullType)) for kind in numbers)
    return are_numbers and "sender" not in kinds and set(REQUIRED) <= set(kinds)


def _reason(spark: SparkSession, name: str, error: PySparkException) -> str:
    """Return what is wrong with the name of a table, and what may be meant."""
    if error.getCondition() == "PARSE_SYNTAX_ERROR" or not _PART.search(name):
        return "no name of a table: expected one like db.events; parts with other signs stand in backticks, `my-db`"
    *space, table = _PART.findall(name) or [""]
    place = ".".join(space)
    try:
        rows = spark.sql(f"SHOW TABLES IN {place}" if place else "SHOW TABLES").collect()
    except PySparkException:
        return (
            f"no such table, and no {place!r} in the catalog: SHOW NAMESPACES lists what it knows, --conf adds catalogs"
        )
    known = sorted(row["tableName"] for row in rows if not (place and row["isTemporary"]))
    where = place or "the current database"
    if not known:
        return f"no such table: there is none in {where}; expected one that the session's catalog knows"
    close = difflib.get_close_matches(table.strip("`"), known, NAMES_MAX, 0.4) or known[:NAMES_MAX]
    others = f" (SHOW TABLES lists all {len(known):,})" if len(known) > len(close) else ""
    return f"no such table: found {listed(close)} in {where}{others}; expected one of these"


@contextlib.contextmanager
def staged(
    spark: SparkSession,
    tables: Sequence[str] | Mapping[str, DataFrame],
    *,
    options: Mapping[str, str] | None = None,
    runs_by: str | None = None,
    fields: Mapping[str, str] | str | os.PathLike[str] | None = None,
    place: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> Iterator[Tables]:
    """Put tables into files while a block lasts, and give the runs that stand in them.

    Parameters: `tables`, names as Spark's SQL takes them, or DataFrames by name; `options`, `runs_by` and `fields` as
    in `busq.trace.find`, but that `fields` may also be the content of such a file, fields and their columns, and that a
    table has no files: a column makes runs, or "none", that is, all tables are one run; without it, a column `run` does
    where there is one, and else each table is a run; `place`, a folder that this machine and all executors
    see, where it is not one machine; `progress` as in `busq.spark.busy`.
    Errors: TraceError for a table that is not there or can't be a trace, for executors that don't see the files;
    SparkFailed inside of `busq.spark.session`.
    Cost: one pass over the tables, and the size of the columns that are read, on disk.

    >>> with staged(spark, ["db.events"], fields={"process": "node"}) as found:                   # doctest: +SKIP
    ...     [found.named(audit) for audit in busq.spark.runs.audit(spark, found.sources)]
    """
    described = "" if fields is None or isinstance(fields, Mapping) else os.fspath(fields)
    mapped = {f"field.{name}": column for name, column in fields.items()} if isinstance(fields, Mapping) else {}
    its = settled(mapped | dict(options or {}), described, runs_by)
    its.pop("format", None)  # a table has none
    if its.get(RUNS_BY) in ("file", "folder"):
        raise TraceError(f"--runs-by {its[RUNS_BY]}: a table has no files; expected a column, or none")
    given = tables if isinstance(tables, Mapping) else {name: opened(spark, name) for name in tables}
    _check_fields(given, its)
    frames = {name: _pruned(name, frame, its) for name, frame in given.items()}
    for name, frame in frames.items():
        told = its.get("field.run")
        if told and its.get(RUNS_BY) != "none" and _run_of(frame, its) is None:
            raise TraceError(f"{name}: no column {told!r} to tell runs by: found {', '.join(frame.columns)}")
    with staged_in(spark, place), _workplace(spark) as folder:
        found = Tables(folder, list(frames))
        with _ended_with_us(spark, folder):
            for number, (name, frame) in enumerate(frames.items()):
                with busy(spark, f"reading {name}", progress):
                    _put(frame, folder / str(number), _run_of(frame, its))
                if place is not None:
                    _check_all_there(name, frame, folder / str(number))
        found.gather(its)
        columns = {name: Fields(its).guessed_run(frame.columns) for name, frame in frames.items()}
        if its.get(RUNS_BY) != "none" and len(found.sources) > len(frames):
            found.findings += [told_apart(each, name, len(found.sources)) for name, each in columns.items() if each]
        try:
            yield found
        except BusqError as error:
            error.args = (found.told(str(error)),)
            raise


def _check_fields(frames: Mapping[str, DataFrame], options: Mapping[str, str]) -> None:
    """TraceError for a field whose column no table has."""
    for option, text in options.items():
        name = option.removeprefix("field.")
        if name not in (option, "run") and not any(parsed(text).is_in(frame.columns) for frame in frames.values()):
            there = ", ".join(dict.fromkeys(column for frame in frames.values() for column in frame.columns))
            raise TraceError(f"{', '.join(frames)}: no column for {name} in {text!r}: found {there}")


def _pruned(name: str, frame: DataFrame, options: Mapping[str, str]) -> DataFrame:
    """Return the columns that an audit reads; TraceError if they cannot be those of a trace."""
    void = {column.name for column in frame.schema if isinstance(column.dataType, T.NullType)}
    names = [column for column in frame.columns if column not in void]
    parquet_head.check_columns(name, names, options)
    found = Fields(options).expressions(names).values()
    used = {*SCHEMA.names, *(root for each in found for root in each.roots(names))}
    return frame.select(*(F.col(f"`{column}`") for column in names if column in used))


def _run_of(frame: DataFrame, options: Mapping[str, str]) -> Column | None:
    """Return the column for runs, if there is one."""
    told = Fields(options).expressions(frame.columns).get("run")
    if options.get(RUNS_BY) == "none" or told is None:
        return None
    return column_of(told, frame).cast("string")


# ---- files ----


def _workplace(spark: SparkSession) -> contextlib.AbstractContextManager[Path]:
    """Give a folder for tables; TraceError where there is none that executors see."""
    if not is_possible(spark):
        raise TraceError(
            "executors do not see the files of this machine, where a table is put for an audit: --staging DIR names a "
            "folder that both see"
        )
    return workplace(spark)


@contextlib.contextmanager
def _ended_with_us(spark: SparkSession, folder: Path) -> Iterator[None]:
    """End the jobs of a block that is interrupted: they would go on writing into a folder that goes."""
    with interruptible(spark, folder.name) as interrupt:
        try:
            yield
        except BaseException:
            with contextlib.suppress(Exception):  # Java may have ended
                interrupt()
            raise


def _put(frame: DataFrame, folder: Path, run: Column | None) -> None:
    """Write a table into a folder, or the rows of each run into one in it: called by its number, and its name."""
    if run is not None:
        split = frame.withColumn(_RUN, run).hint("rebalance", _RUN)  # a few files for each run, however large it is
        split.write.partitionBy(_RUN).parquet(folder.as_uri())
        if any(folder.glob(f"{_RUN}=*")):
            return
        frame = frame.limit(0)
    frame.write.mode("overwrite").parquet(folder.as_uri())


def _check_all_there(name: str, frame: DataFrame, folder: Path) -> None:
    """TraceError where what executors wrote is not here: then they saw another folder of that name."""
    here, there = sum(map(_rows_in, folder.rglob("*.parquet"))), frame.count()
    if here != there:
        raise TraceError(
            f"{name}: executors wrote {amount(there, 'row')}, and {here:,} are in {folder.parent.parent} here: "
            "expected a folder that this machine and all executors see"
        )


def _rows_in(path: Path) -> int:
    return int(pq.read_metadata(path).num_rows)
