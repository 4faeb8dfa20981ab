# SPDX-License-Identifier: Apache-2.0
"""`busq audit`: judge recorded traces."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import click

from busq._util.files import check_place
from busq._util.on_demand import is_of_trace
from busq.cli.base import (
    JSON,
    TIMEOUT,
    Failure,
    Number,
    Refusal,
    check_name,
    examples,
    leave_at_once,
    option,
    os_error,
    print_json,
    split,
)
from busq.trace.format_names import FORMATS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from busq.audit import Audit, RunAudit
    from busq.audit.spark.sessions.memory import Shares
    from busq.audit.spark.tables.catalog import Tables
    from busq.trace import Finding, Source

ENGINES = ("auto", "c", "spark")
UNREADABLE = "unreadable"


@click.command(
    "audit",
    epilog=examples(
        "busq audit traces/monday",
        "busq audit traces --order bus1 --report monday.html",
        "busq audit runs/*.parquet --allow lost --ask total",
        "busq audit s3://logs/orders --field process=node --runs-by day",
        "busq audit events.csv --explain",
        "busq audit chord.log --parser '(?<host>\\S*) (?<clock>{.*})\\n(?<event>.*)'",
        "busq audit huge --engine spark --memory 8g",
        "busq audit --table db.events --field process=node --master sc://head",
        "busq audit traces --output results",
        "busq audit --compare results/monday results/tuesday",
    ),
)
@click.argument("paths", metavar="PATH...", nargs=-1)
@click.option("--format", "format_name", type=click.Choice(FORMATS), help="Of the logs.  [default: recognised]")
@click.option("--parser", "--regex", metavar="REGEX", help="ShiViz: how to read an event: groups host, clock, event.")
@click.option("--delimiter", metavar="REGEX", help="ShiViz: what stands between executions.")
@click.option("--send", metavar="REGEX", help="Events whose text matches this send a message.")
@click.option("--deliver", metavar="REGEX", help="Events whose text matches this deliver one.")
@click.option(
    "--field", "fields", metavar="NAME=COLUMN", multiple=True, help="What a column is called, or an expression."
)
@click.option(
    "--fields",
    "fields_file",
    metavar="FILE",
    callback=check_name,
    help="A file that says so.  [default: busq.toml beside them]",
)
@click.option("--broadcast", is_flag=True, help="Where no send tells its destinations, each went to all.")
@click.option("--runs-by", metavar="COLUMN", help="What makes a run of tables: file, folder, none, or a column.")
@click.option("--order", metavar="ORDER", help="Whose promises are held against it.  [default: what the trace says]")
@click.option("--ask", metavar="CHECKS", callback=split, help="Expect these as well.")
@click.option("--allow", metavar="CHECKS", callback=split, help="Do not expect these.")
@click.option("--checks", metavar="CHECKS", callback=split, help="Judge only these.  [default: all]")
@click.option("--strict", is_flag=True, help="Stop at the first line that cannot be read, or anything else amiss.")
@click.option("--run", "chosen", metavar="NAME", multiple=True, help="Judge only this run.")
@click.option("--engine", type=click.Choice(ENGINES), default="auto", help="What judges.")
@click.option(
    "--master", metavar="URL", help="Spark: local[N], spark://..., sc://..., k8s://...; implies --engine spark."
)
@click.option("--memory", metavar="SIZE", help="Spark: what Java and Python may take together, as 6g.")
@click.option(
    "--table",
    "tables",
    metavar="NAME",
    multiple=True,
    help="Instead of PATHS: a table of Spark's catalog, as db.events; implies --engine spark.",
)
@click.option("--conf", metavar="NAME=VALUE", multiple=True, help="Spark: a setting, as that of a catalog.")
@click.option(
    "--staging",
    metavar="DIR",
    help="Spark: a folder that this machine and all executors of a cluster see, for tables and huge runs.  "
    "[default: where Spark spills]",
)
@click.option(
    "--sql",
    type=click.Choice(("duckdb", "spark")),
    help="Judge nothing: print the checks of a table, of Parquet files or by --table, as SQL.",
)
@click.option(
    "--explain", is_flag=True, help="Judge nothing: show what would be taken for what, and some rows as read."
)
@click.option("--pin", is_flag=True, help="With --explain: write busq.toml beside them, which says so.")
@click.option("--report", metavar="FILE", callback=check_name, help="Write a page for the browser here: .html.")
@click.option(
    "--shiviz", metavar="FILE", callback=check_name, help="Write what stands around the worst witness here, for ShiViz."
)
@click.option(
    "--diagram", metavar="FILE", callback=check_name, help="Draw the worst witness: .svg, .png or .pdf; -: as text."
)
@click.option(
    "--output", metavar="DIR", help="Add verdicts, findings and figures to the Parquet tables in this folder."
)
@click.option(
    "--output-table",
    metavar="DB",
    help="The same as tables of this database of Spark's catalog; implies --engine spark.",
)
@click.option("--compare", is_flag=True, help="What got worse from the first path to the second? Outputs, or traces.")
@click.option(
    "--tolerance",
    type=Number(min=0),
    default=0.1,
    show_default=True,
    help="With --compare: by which share latencies may grow.",
)
@click.option("--follow", is_flag=True, help="Go on as it is written: one folder; what busq records, on Spark.")
@click.option("--once", is_flag=True, help="With --follow: judge what is there, and end.")
@click.option("--seconds", type=TIMEOUT, help="With --follow: end this long after the first look.  [default: Ctrl-C]")
@option("--delay", type=TIMEOUT, default=5.0, help="With --follow: how long to wait for more.")
@click.option("--checkpoint", metavar="DIR", help="With --follow: keep the state here, and go on from it.")
@JSON
def audit(paths: tuple[str, ...], **options: Any) -> int:
    """Judge the traces under PATHS: what was lost, doubled, or delivered out of order?

    A trace is a folder of `busq record`, logs of another system (tables in Parquet, CSV or NDJSON, ShiViz, spans of
    OpenTelemetry, Jaeger and Zipkin, histories of Jepsen, text by regular expressions, the EPFL course's), or a folder
    of many of them; PATHS may be URIs, as s3://bucket/logs.  Without --order, and where the trace names none, it is
    expected that nothing is lost, doubled or invented, and that FIFO and causal order hold.

    CHECKS are names separated by commas: lost, duplicated, phantom, fifo, causal, consistent, total, synchronous,
    side, clock, views.  Exit code 1 means that something expected does not hold, 2 that the input cannot be used, or
    holds nothing that could be judged.
    """
    with _errors():
        return _Command(paths, options).run()


@contextlib.contextmanager
def _errors() -> Iterator[None]:
    """Turn what may go wrong into a line and an exit code: an input that cannot be used is 2."""
    from busq.errors import BusqError

    try:
        yield
    except click.ClickException:
        raise
    except ImportError as error:
        if is_of_trace(error):
            raise Refusal("busq audit needs pyarrow: pip install 'busq[trace]'") from None
        raise Refusal(str(error).replace("busq.trace needs", "busq audit needs")) from None
    except OSError as error:
        raise Refusal(os_error(error)) from None
    except (BusqError, ValueError) as error:
        raise Refusal(str(error)) from None


class _Command:
    """One call of the command."""

    def __init__(self, paths: Sequence[str], options: Mapping[str, Any]) -> None:
        self.paths = paths
        self.options = options
        self.found: Audit
        self.settings: dict[str, str] = {}
        self.spark: tuple[SparkSession, Shares | None] | None = None  # if it is there for the whole command
        self.tables: Tables | None = None  # that hold the runs
        self.asked = {
            "order": options["order"],
            "allow": tuple(options["allow"] or ()),
            "ask": tuple(options["ask"] or ()),
        }
        if options["checks"]:
            self.asked["checks"] = tuple(options["checks"])

    def run(self) -> int:
        from busq.audit import claims
        from busq.audit.order_claims import known
        from busq.cli import audit_explain, audit_tables

        claims(self.asked["order"] or "", allow=self.asked["allow"], ask=self.asked["ask"])
        known(self.asked.get("checks", ()))
        self._check_files()
        audit_explain.check(self.options)
        if self.options["sql"]:
            return self._print_sql()
        audit_tables.check(self.paths, self.options)
        self.settings = audit_tables.settings(self.options)
        if self.options["explain"]:
            return audit_explain.explain(self.paths, *self._find(), self.options)
        if self.options["compare"]:
            return self._compare()
        if self.options["follow"]:
            return self._follow()
        for name in ("once", "seconds", "checkpoint"):
            if self.options[name] not in (None, False):
                raise Refusal(f"--{name} is for --follow: leave it out")
        with contextlib.ExitStack() as stack:
            if self.options["tables"] or self.options["output_table"]:
                self.spark = audit_tables.start(stack, self._session(), self.options)
            sources, findings = self._stage(stack) if self.options["tables"] else self._find()
            self._check_output(sources)
            found = self._judge(sources, findings)
            code = self._tell(found)
            self._draw(sources)
        return code

    def _print_sql(self) -> int:
        import pyarrow as pa

        from busq.audit.sql import script
        from busq.trace import parquet_head
        from busq.trace.dataset import hive_keys
        from busq.trace.foreign import parquet_file

        dialect, options = self.options["sql"], self._format_options()
        if bool(self.paths) == bool(self.options["tables"]) or len(self.paths) + len(self.options["tables"]) > 1:
            raise Refusal("--sql takes one table: a folder or file of Parquet, or --table NAME")
        if self.options["tables"]:
            (table,) = self.options["tables"]
            names = [name.removeprefix("field.") for name in options if name.startswith("field.")]
            given = [options[f"field.{name}"] for name in names]
            plain = ("process", "kind", "message", "destinations", "position")
            click.echo(script(dialect, table, [*given, *(name for name in plain if name not in names)], options))
            return 0
        sources, _ = self._find()
        if sources[0].format != "busq":
            raise Refusal(f"--sql reads tables in Parquet, and {sources[0].paths[0]} is {sources[0].format}")
        head = parquet_head.head(sources[0].paths[0], sources[0].options)
        if not isinstance(head, parquet_head.Head):
            raise Refusal(head.text)
        with parquet_file(head.path) as file:
            kinds = {field.name: field.type for field in file.schema_arrow}
        keys = hive_keys(head.path)
        path = self.paths[0].rstrip("/").replace("'", "''")
        path = f"{path}/**/*.parquet" if os.path.isdir(self.paths[0]) and dialect == "duckdb" else path
        of_keys = ", hive_types_autocast = false" if keys else ""
        table = f"read_parquet('{path}'{of_keys})" if dialect == "duckdb" else f"parquet.`{path}`"
        kinds = dict.fromkeys(keys, pa.string()) | kinds
        click.echo(script(dialect, table, [*head.columns, *keys], dict(sources[0].options), kinds))
        return 0

    def _judge(self, sources: Sequence[Source], findings: Sequence[Finding]) -> Audit:
        from busq.audit import Audit

        began_s = time.monotonic()
        engine = self._engine(sources)
        runs = self._on_spark(sources) if engine == "spark" else self._in_c(sources)
        return Audit(runs, engine, time.monotonic() - began_s, findings)

    def _compare(self) -> int:
        from busq.cli import audit_compare, audit_pages

        def judge(path: str) -> tuple[Audit, audit_pages.Reader]:
            self.paths = (path,)
            sources, findings = self._find()
            found = self._judge(sources, findings)
            _refuse_unreadable(found)
            return found, audit_pages.Reader(sources)

        audit_compare.check(self.paths, self.options)
        return audit_compare.compare(self.paths, self.options["tolerance"], self.options["as_json"], judge)

    # ---- what is asked for ----

    def _check_files(self) -> None:
        """Refuse, before a long run, what can't be written."""
        report, diagram = self.options["report"], self.options["diagram"]
        if report and not report.endswith((".html", ".htm")):
            raise Refusal(f"--report {report}: expected a name that ends with .html")
        for path in filter(None, (report, None if diagram == "-" else diagram, self.options["shiviz"])):
            folder = os.path.dirname(path) or "."
            if not os.path.isdir(folder):
                raise Refusal(f"{path}: there is no folder {folder}")
            if os.path.isdir(path):
                raise Refusal(f"{path}: found a folder, expected a file")
            check_place(path)
        if diagram and diagram != "-":
            from busq.lab import picture_path

            if fault := picture_path.fault(diagram):
                raise Refusal(f"--diagram {fault}")

    def _check_output(self, sources: Sequence[Source]) -> None:
        """Refuse, before a long run, an output that has no room for these runs."""
        runs = [(one.name, one.paths[0] if one.paths else "") for one in sources]
        if self.tables is not None:
            runs = [(name, self.tables.source_of(path)) for name, path in runs]
        if self.options["output"] is not None:
            from busq.audit.output import check_apart, check_room

            check_apart(self.options["output"], self.paths)
            check_room(self.options["output"], runs)
        if self.spark is not None and self.options["output_table"]:
            from busq.audit.spark.tables import results

            results.prepare(self.spark[0], self.options["output_table"], runs)

    def _find(self) -> tuple[list[Source], Sequence[Finding]]:
        from busq.trace import find

        asked = self.options
        found = find(
            self.paths,
            format=asked["format_name"],
            options=self._format_options(),
            runs_by=asked["runs_by"],
            fields=asked["fields_file"],
        )
        return self._chosen(found.sources, found.findings)

    def _stage(self, stack: contextlib.ExitStack) -> tuple[list[Source], Sequence[Finding]]:
        """Return the runs in tables, which stay files until the stack ends."""
        from busq.cli import audit_tables

        assert self.spark is not None
        self.tables = audit_tables.stage(stack, self.spark[0], self.options, self._format_options())
        return self._chosen(self.tables.sources, self.tables.findings)

    def _chosen(self, sources: Sequence[Source], findings: Sequence[Finding]) -> tuple[list[Source], Sequence[Finding]]:
        """Return the runs that are asked for, and what is remarkable about all."""
        if self.options["strict"]:
            _stop_at_error(findings)
        chosen = self.options["chosen"]
        unknown = [name for name in chosen if name not in {source.name for source in sources}]
        if unknown:
            names = [source.name for source in sources]
            listed = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
            raise Refusal(f"no run {unknown[0]!r}: found {listed}")
        return [source for source in sources if not chosen or source.name in chosen], findings

    def _format_options(self) -> dict[str, str]:
        from busq.trace.shiviz import OPTIONS

        found = {name: self.options[name] for name in OPTIONS if self.options[name] is not None}
        for field in self.options["fields"]:
            name, equals, column = field.partition("=")
            if not (name and equals and column):
                raise Refusal(f"--field {field}: expected NAME=COLUMN, as process=node")
            found[f"field.{name}"] = column
        return found | ({"broadcast": "true"} if self.options["broadcast"] else {})

    def _engine(self, sources: Sequence[Source]) -> str:
        from busq.audit.many import fits
        from busq.cli import audit_tables

        asked: str = self.options["engine"]
        if asked != "auto":
            return asked
        return "spark" if audit_tables.of_spark(self.options) or not all(map(fits, sources)) else "c"

    def _session(self) -> AbstractContextManager[tuple[SparkSession, Shares | None]]:
        """Give Spark while a block lasts: the one that is there already for the whole command, if there is one."""
        from busq.audit.spark.sessions.memory import within

        if self.spark is not None:
            return contextlib.nullcontext(self.spark)
        return within(self.options["master"], self.options["memory"], config=self.settings)

    # ---- judging ----

    def _in_c(self, sources: Sequence[Source]) -> list[RunAudit]:
        from busq.audit.many import BadLog, audit_sources
        from busq.cli import show

        try:
            with show.steps() as progress:
                return audit_sources(sources, strict=self.options["strict"], progress=progress, **self.asked)
        except BadLog as error:
            raise Failure(str(error)) from None
        except KeyboardInterrupt:
            leave_at_once(130)

    def _on_spark(self, sources: Sequence[Source]) -> list[RunAudit]:
        from busq.audit.many import fits, unreadable
        from busq.audit.spark import busy, many_runs
        from busq.audit.spark.large_run import huge, repack
        from busq.cli import show
        from busq.trace import TraceError

        found: dict[str, RunAudit] = {}
        place = self.options["staging"] if self.tables is None else None  # tables stand there already
        with self._session() as (spark, shares), repack.staged_in(spark, place):
            budget = shares.observers if shares else None
            small = [source for source in sources if fits(source) and (len(sources) > 1 or source.format != "busq")]
            with show.steps() as progress:
                judged = many_runs.audit(spark, small, progress=progress, **self.asked) if small else []
            found |= {source.name: audit for source, audit in zip(small, judged, strict=True)}
            for source in sources:
                if source.name in found:
                    continue
                with show.steps() as progress, busy(spark, source.name, progress):
                    try:
                        found[source.name] = huge.audit(spark, source, memory_bytes=budget, **self.asked)
                    except TraceError as error:
                        found[source.name] = unreadable(source, error)
        if self.tables is not None:
            found = {name: self.tables.named(audit) for name, audit in found.items()}
        if self.options["strict"]:
            for audit in found.values():
                _stop_at_error(audit.findings)
        return [found[source.name] for source in sources]

    def _follow(self) -> int:
        from busq.cli import audit_follow

        def judge() -> Audit:
            from busq.audit import Audit
            from busq.audit.many import audit_sources

            began_s = time.monotonic()
            sources, findings = self._find()
            runs = audit_sources(sources, is_followed=True, **self.asked)
            return Audit(runs, "c", time.monotonic() - began_s, findings)

        return audit_follow.follow(self.paths, self.options, self.asked, judge)

    # ---- output ----

    def _tell(self, found: Audit) -> int:
        from busq.cli import audit_show

        self.found = found
        _refuse_unreadable(found)
        has_errors = any(finding.is_error for run in found.runs for finding in run.findings)
        code = int(not found.ok or (has_errors and self.options["strict"]))
        if not code and not found.could_judge:
            code = 2
        if self.options["as_json"]:
            print_json(self.found.as_json())
        else:
            audit_show.audit(self.found, code)
        return code

    def _draw(self, sources: Sequence[Source]) -> None:
        """Write what was asked for besides."""
        from busq.cli import audit_pages

        load = audit_pages.Reader(sources)
        if self.options["report"]:
            title = self.paths[0] if len(self.paths) == 1 else ""
            audit_pages.write_report(self.found, load, self.options["report"], title)
        if self.options["shiviz"]:
            audit_pages.write_shiviz(self.found, load, self.options["shiviz"])
        if self.options["diagram"]:
            audit_pages.write_diagram(self.found, load, self.options["diagram"])
        if self.options["output"]:
            from busq.cli import audit_compare

            audit_compare.write_output(self.found, load, self.options["output"])
        if self.spark is not None and self.options["output_table"]:
            from busq.cli import audit_tables

            audit_tables.write(self.found, load, self.spark[0], self.options["output_table"])


def _refuse_unreadable(found: Audit) -> None:
    """Where no run could be read, there is no audit."""
    unreadable = [finding for run in found.runs for finding in run.findings if finding.kind == UNREADABLE]
    if unreadable and len(unreadable) == len(found.runs):
        raise Refusal("; ".join(finding.text for finding in unreadable[:3]))


def _stop_at_error(findings: Sequence[Finding]) -> None:
    for finding in findings:
        if finding.is_error:
            raise Failure(finding.text)
