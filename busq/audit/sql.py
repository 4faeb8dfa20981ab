# SPDX-License-Identifier: Apache-2.0
"""Checks as SQL, for those whose events stand in a warehouse: a script for DuckDB or Spark SQL that counts faults.

The script counts what `busq audit` counts for lost, duplicated, phantom, fifo and side.  Causal order is looked at over
one hop: a delivery is late if something was delivered before it that was sent by a process which had sent or delivered
the late message before; chains of more hops take the engines.  Nothing is guessed and no verdict is given: the rows
need positions (or times without ties), and names of messages have to be of one sender each.  Messages that were sent
more than once are only counted (`resent`), as it is not known which of the sends was delivered, and rows of other kinds
than sends and first deliveries (redelivered, abort) are left out.  Rows of unknown kinds that name a message are only
counted, too (`vague`): any of the faults may come from them, or not show because of them; and so are rows without a
kind (`no kind`), which are damaged.  Names are compared as they stand: those with blanks around them, which the engines
leave out, and empty ones, which are none there, are counted (`blanks`).  Deliveries of what had not been sent yet are
judged as all others, which the engines do not do.

Destinations may be lists, text, or single numbers, if the types of the columns are given.  Text is cut as `busq audit`
cuts it, at blanks, commas, semicolons and bars, or read as a list in JSON; names that hold such a separator themselves,
which SQL cuts, too, are counted (`separators`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from busq.errors import BusqError
from busq.trace.field_names import Fields
from busq.trace.schema import Kind

__all__ = ["DIALECTS", "NoSql", "script"]

DIALECTS = {"duckdb": "unnest", "spark": "explode"}  # and what makes rows of a list

_MAKE = "CREATE OR REPLACE TEMPORARY"
_BEFORE = "ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING"
_KINDS = (Kind.SEND, Kind.DELIVER, Kind.JOIN, Kind.DIE)


class NoSql(BusqError):
    """Raised where there is no SQL for the checks of a table; the text gives the reason."""


def script(
    dialect: str,
    table: str,
    columns: Sequence[str],
    options: Mapping[str, str],
    kinds: Mapping[str, pa.DataType] | None = None,
) -> str:
    """Return a script whose last query has a row for each check: its name, and how many faults there are.

    Parameters: `dialect`, of DIALECTS; `table`, as it stands behind FROM; `columns`, of the table; `options` as in
    `busq.trace.find`: which columns have which field, and what words mean; `kinds`, types of columns, of which those
    of names have to be alike, and destinations lists, if they are not given.
    Errors: NoSql for tables without a process, kind, message, or order, and for columns of names that hold none.

    >>> print(script("duckdb", "events", ["process", "kind", "message", "position"], {}).splitlines()[-1])
    UNION ALL SELECT 'fifo' AS name, count(*) AS faults FROM busq_late_of_sender;
    """
    fields = Fields(options)
    there = fields.expressions(columns)
    if fields.are_messages(there):
        raise NoSql(f"{table}: a row is a message, and SQL takes rows that are events: make a view with a row for each")
    for name in ("process", "kind", "message"):
        if name not in there:
            raise NoSql(f"{table}: {fields.lacking_in(columns)}")
    if odd := [name for name, each in there.items() if not each.is_plain and name in _USED]:
        raise NoSql(f"{odd[0]} in {there[odd[0]].text!r}: expected a column; make a view that has it as one")
    order = next((name for name in ("position", "time_ns") if name in there), "")
    if not order:
        raise NoSql(f"{table}: no position and no time: SQL has no order of rows, so nothing tells that of events")
    its = {name: _quoted(dialect, there[name].text) for name in _USED if name in there}
    types = {name: _plain((kinds or {}).get(there[name].text, pa.null())) for name in its}
    is_cut = _is_text(types.get("destinations", pa.null()))
    if "destinations" in its and kinds is not None:
        its |= _names_alike(dialect, its, types, {name: there[name].text for name in its})
    steps = [_HEAD.format(table=table), _events(its, order, table, fields), _FIRST]
    queries = ["resent", "vague", "no kind", "blanks", "duplicated"]
    if "destinations" in its:
        steps += [_copies(DIALECTS[dialect], is_cut=is_cut), _CLEAN_OF_COPIES]
        queries += ["lost", "phantom"] if not is_cut else ["separators", "lost", "phantom"]
        if kinds is None:
            steps.insert(1, _OF_LISTS)
    else:
        steps.append("-- No column tells destinations: what was lost or invented is not known.")
        steps.append(_CLEAN)
    steps.append(_FIFO)
    queries.append("fifo")
    if "destinations" in its:
        steps.append(_CAUSAL)
        queries.append("causal, one hop")
    if {"time_ns", "end_ns"} <= set(its):
        steps.append(_SIDE)
        queries.append("side")
    names = _NAMES + (_OF_COPIES if "destinations" in its else "")
    steps.append(f"{_BLANKS}{names}) AS each;")
    rows = "\nUNION ALL ".join(_QUERIES[name] for name in queries)
    text = "\n".join([*steps, f"{rows};"])
    # DuckDB works a view out anew wherever it stands, six times in all; Spark SQL has no temporary tables.
    return text.replace(f"{_MAKE} VIEW busq_", f"{_MAKE} TABLE busq_") if dialect == "duckdb" else text


def _quoted(dialect: str, name: str) -> str:
    mark = '"' if dialect == "duckdb" else "`"
    return f"{mark}{name.replace(mark, mark * 2)}{mark}"


def _plain(kind: pa.DataType) -> pa.DataType:
    """Return a type without a dictionary."""
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _names_alike(
    dialect: str, its: Mapping[str, str], types: Mapping[str, pa.DataType], called: Mapping[str, str]
) -> dict[str, str]:
    """Return the process and its destinations as one type: text, where one of them is; destinations as lists."""
    to, process = types["destinations"], types["process"]
    if pa.types.is_null(to):
        return {"destinations": f"CAST(NULL AS {'VARCHAR[]' if dialect == 'duckdb' else 'ARRAY<STRING>'})"}
    item = _plain(to.value_type) if _is_list(to) else to
    for name, kind in (("destinations", item), ("process", process)):
        if not (_is_text(kind) or pa.types.is_integer(kind) or pa.types.is_null(kind)):
            raise NoSql(
                f"{name} in {called[name]!r} of type {types[name]}: SQL takes names that are text or whole numbers:"
                " make a view that has them so"
            )
    lists = its["destinations"]
    if _is_text(to):
        lists = _cut(dialect, lists)
    elif not _is_list(to):
        lists = f"[{lists}]" if dialect == "duckdb" else f"array({lists})"
    if _is_text(item) == _is_text(process):
        return {"destinations": lists}
    texts = "VARCHAR[]" if dialect == "duckdb" else "ARRAY<STRING>"
    return {"process": f"CAST({its['process']} AS STRING)", "destinations": f"CAST({lists} AS {texts})"}


def _cut(dialect: str, text: str) -> str:
    """Return the names in a text: of a list in JSON, or between separators and what stands around them."""
    if dialect == "duckdb":
        cut, blank, is_json = "string_split_regex", r"[\s,;|]+", f"json_valid({text})"
        items = f"CAST(CAST({text} AS JSON) AS VARCHAR[])"
    else:
        cut, blank, items = "split", r"[\\s,;|]+", f"from_json({text}, 'ARRAY<STRING>')"
        is_json = f"{items} IS NOT NULL"
    bare = f"translate({text}, '[](){{}}\"' || chr(39), '')"
    return f"""
    CASE WHEN trim({text}) LIKE '[%' AND {is_json} THEN {items}
      WHEN left(trim({text}), 1) IN ('[', '(', '{{') THEN {cut}({bare}, '{blank}')
      ELSE {cut}({text}, '{blank}') END"""


def _events(its: Mapping[str, str], order: str, table: str, fields: Fields) -> str:
    """Return the view that gives columns their names, and words their meaning."""
    words = fields.words()
    called = {kind: kind.name.lower() if kind in _KINDS else "other" for kind in Kind}
    text = f"CAST({its['kind']} AS STRING)"
    cases = [f"WHEN coalesce({text}, '') = '' THEN 'none'"]
    for name in ("send", "deliver", "join", "die", "other"):
        numbers = [int(kind) for kind, its_name in called.items() if its_name == name]
        known = [word for word, number in words.items() if number in numbers]
        texts = ", ".join("'" + word.replace("'", "''") + "'" for word in known)
        cases.append(f"WHEN lower(trim({text})) IN ({texts}) THEN '{name}'")
    chosen = [f"{its['process']} AS process", f"{its['message']} AS message", f"{its[order]} AS place"]
    chosen += [f"{its[name]} AS {name}" for name in ("destinations", "time_ns", "end_ns") if name in its]
    return f"""CREATE OR REPLACE TEMPORARY VIEW busq_events AS
  SELECT {", ".join(chosen)},
    CASE {chr(10).join(cases)} ELSE 'vague' END AS kind
  FROM {table};"""


_USED = ("process", "kind", "message", "destinations", "position", "time_ns", "end_ns")

_HEAD = """-- Faults of the order of messages in {table}, as `busq audit` counts them.
-- Each message has one sender; where several use one name, put the sender into it in the first view."""

_OF_LISTS = """-- Destinations are taken for a list of names, of the type of the process.  Where they are none, make
-- a view that has them as such a list, with split(...) or CAST(... AS ...)."""

_FIRST = """-- Messages that were sent more than once: tried again, or several of one name. They are left out.
CREATE OR REPLACE TEMPORARY VIEW busq_resent AS
  SELECT message, count(*) AS times FROM busq_events WHERE kind = 'send' GROUP BY message HAVING count(*) > 1;
-- The send of each of the others, and the first of each of its deliveries to a process.
CREATE OR REPLACE TEMPORARY VIEW busq_sends AS
  SELECT s.* FROM busq_events s LEFT JOIN busq_resent r ON s.message = r.message
  WHERE kind = 'send' AND r.message IS NULL;
CREATE OR REPLACE TEMPORARY VIEW busq_deliveries AS
  SELECT d.process, d.message, min(d.place) AS place, count(*) AS times
  FROM busq_events d LEFT JOIN busq_resent r ON d.message = r.message WHERE kind = 'deliver' AND r.message IS NULL
  GROUP BY d.process, d.message;"""

_CLEAN_OF_COPIES = """-- Where each process died last: the dead are owed nothing, nor is what they sent and nobody got.
CREATE OR REPLACE TEMPORARY VIEW busq_deaths AS
  SELECT process, max(CASE WHEN kind = 'die' THEN place END) AS died,
    max(CASE WHEN kind = 'join' THEN place END) AS joined FROM busq_events GROUP BY process;
-- Deliveries of what was sent there: order is judged among these.
CREATE OR REPLACE TEMPORARY VIEW busq_clean AS
  SELECT d.process, d.message, d.place, s.process AS sender, s.place AS sent
  FROM busq_deliveries d JOIN busq_copies c ON d.message = c.message AND d.process = c.process
  JOIN busq_sends s ON d.message = s.message;"""

_CLEAN = """CREATE OR REPLACE TEMPORARY VIEW busq_clean AS
  SELECT d.process, d.message, d.place, s.process AS sender, s.place AS sent
  FROM busq_deliveries d JOIN busq_sends s ON d.message = s.message;"""

_FIFO = f"""-- Late: a later one of the same sender was delivered before.
CREATE OR REPLACE TEMPORARY VIEW busq_late_of_sender AS
  SELECT process, message FROM (
    SELECT *, max(sent) OVER (PARTITION BY process, sender ORDER BY place {_BEFORE}) AS latest FROM busq_clean) AS c
  WHERE sent < latest;"""

_CAUSAL = f"""-- Late: its sender, or a process that had delivered it, sent something later that was delivered before.
-- `seen` is where a process sent or delivered the message; `latest` the last send of that process that had arrived.
CREATE OR REPLACE TEMPORARY VIEW busq_late_by_one_hop AS
  SELECT DISTINCT process, message FROM (
    SELECT *, max(sent) OVER (PARTITION BY process, via ORDER BY place, is_question DESC {_BEFORE}) AS latest FROM (
      SELECT process, message, place, sender AS via, sent, CAST(NULL AS BIGINT) AS seen, 0 AS is_question
      FROM busq_clean
      UNION ALL
      SELECT c.process, c.message, c.place, k.process, NULL, k.seen, 1
      FROM busq_clean c JOIN (
        SELECT process, message, place AS seen, 0 AS is_send FROM busq_clean
        UNION ALL SELECT process, message, place, 1 FROM busq_sends) AS k
      ON c.message = k.message AND (k.is_send = 1 OR c.process <> k.process)) AS both_) AS asked
  WHERE is_question = 1 AND latest > seen;"""

_SIDE = f"""-- Late: something was delivered before it whose send began when it was known: delivered, or its send over.
-- What was sent elsewhere is never late, but overtakes.
CREATE OR REPLACE TEMPORARY VIEW busq_late_of_time AS
  SELECT process, message FROM (
    SELECT d.process, d.message, t.known, c.sent,
      max(t.called) OVER (PARTITION BY d.process ORDER BY d.place {_BEFORE}) AS latest
    FROM busq_deliveries d JOIN (
      SELECT s.message, s.time_ns AS called, least(s.end_ns, h.heard) AS known
      FROM busq_sends s LEFT JOIN (
        SELECT message, min(time_ns) AS heard FROM busq_events WHERE kind = 'deliver' GROUP BY message) AS h
      ON s.message = h.message) AS t ON d.message = t.message
    LEFT JOIN busq_clean c ON c.message = d.message AND c.process = d.process) AS timed
  WHERE sent IS NOT NULL AND latest > known;"""

_BLANKS = """-- Names with blanks around them, or nothing else: other names here than without these.
CREATE OR REPLACE TEMPORARY VIEW busq_names AS
  SELECT name, trim(BOTH chr(9) || chr(10) || chr(13) || ' ' FROM name) AS bare FROM ("""
_NAMES = """
    SELECT CAST(process AS STRING) AS name FROM busq_events
    UNION ALL SELECT CAST(message AS STRING) FROM busq_events"""
_OF_COPIES = """
    UNION ALL SELECT CAST(process AS STRING) FROM busq_copies"""

_QUERIES = {
    "resent": "SELECT 'resent' AS name, coalesce(sum(times - 1), 0) AS faults FROM busq_resent",
    "vague": "SELECT 'vague' AS name, count(*) AS faults FROM busq_events WHERE kind = 'vague' AND message IS NOT NULL",
    "no kind": "SELECT 'no kind' AS name, count(*) AS faults FROM busq_events WHERE kind = 'none'",
    "blanks": "SELECT 'blanks' AS name, count(*) AS faults FROM busq_names WHERE name <> bare OR bare = ''",
    "separators": """SELECT 'separators' AS name, count(*) AS faults
  FROM (SELECT DISTINCT process FROM busq_events) AS each
  WHERE translate(CAST(process AS STRING), ' ,;|' || chr(9) || chr(10) || chr(13), '') <> process""",
    "duplicated": "SELECT 'duplicated' AS name, coalesce(sum(times - 1), 0) AS faults FROM busq_deliveries",
    "lost": """SELECT 'lost' AS name, count(*) AS faults FROM busq_copies c
  JOIN busq_sends s ON c.message = s.message
  LEFT JOIN busq_deliveries d ON c.message = d.message AND c.process = d.process
  LEFT JOIN (SELECT DISTINCT message FROM busq_deliveries) AS h ON c.message = h.message
  LEFT JOIN busq_deaths r ON c.process = r.process LEFT JOIN busq_deaths o ON s.process = o.process
  WHERE d.message IS NULL AND (r.died IS NULL OR r.died < r.joined)
    AND (o.died IS NULL OR o.died < s.place OR h.message IS NOT NULL)""",
    "phantom": """SELECT 'phantom' AS name, coalesce(sum(d.times), 0) AS faults FROM busq_deliveries d
  LEFT JOIN busq_copies c ON c.message = d.message AND c.process = d.process WHERE c.message IS NULL""",
    "fifo": "SELECT 'fifo' AS name, count(*) AS faults FROM busq_late_of_sender",
    "causal, one hop": "SELECT 'causal, one hop' AS name, count(*) AS faults FROM busq_late_by_one_hop",
    "side": "SELECT 'side' AS name, count(*) AS faults FROM busq_late_of_time",
}


def _copies(rows_of: str, *, is_cut: bool) -> str:
    return f"""-- A row for each message and destination.
CREATE OR REPLACE TEMPORARY VIEW busq_copies AS
  SELECT DISTINCT message, process FROM (SELECT message, {rows_of}(destinations) AS process FROM busq_sends) AS each
  WHERE process IS NOT NULL{" AND process <> ''" if is_cut else ""};"""
