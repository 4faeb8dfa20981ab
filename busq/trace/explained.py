# SPDX-License-Identifier: Apache-2.0
"""What a search takes for what: fields, words for kinds, rows as read; and a `busq.toml` that pins it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import islice
from typing import Any

import numpy as np
import pyarrow.compute as pc

from busq.trace import parquet_head, shiviz
from busq.trace.dataset import RUNS_BY, WAYS, hive_keys
from busq.trace.errors import TraceError
from busq.trace.field_names import FIELDS, Fields, counts_nanoseconds, is_nan
from busq.trace.finding import Finding
from busq.trace.formats import TABLE
from busq.trace.message_column import is_own
from busq.trace.reader import read
from busq.trace.run import Run, Source
from busq.trace.schema import Kind
from busq.trace.time_units import EXCEL, SECOND, floor_of, how_days, unit_of
from busq.trace.values import is_whole

__all__ = ["Explained", "explained", "toml_of"]

_FILES_MAX = 16
_TIMES = ("time_ns", "commit_ns", "end_ns", "sent", "received")
_ROWS_MAX = 1000  # of a file, in which words are looked for
_COUNTED = {"sends": Kind.SEND, "deliveries": Kind.DELIVER, "repetitions": Kind.REDELIVER}
_PLAIN_KEY = re.compile(r"[A-Za-z0-9_-]+")


@dataclass
class Explained:
    """What was made of a run; of formats without columns, `fields` and `words` are empty.

    `fields` has the column or the expression of each field that was found; `unused` are the other columns, and
    `missing` has the nearest of them for each field that events need and that was not found, or ""; `words` what each
    word in the place of a kind means, as "send", or "" for nothing known; `times` what the values of each column of
    times count, and why; `counts` numbers of events; `rows` a few
    events as they were read; `is_plain`: the columns are those of busq's own traces, and naming them would change that.
    """

    run: str
    format: str
    paths: Sequence[str]
    processes: Sequence[str] = ()
    fields: dict[str, str] = field(default_factory=dict)
    unused: list[str] = field(default_factory=list)
    missing: dict[str, str] = field(default_factory=dict)
    words: dict[str, str] = field(default_factory=dict)
    times: dict[str, str] = field(default_factory=dict)
    is_rows_of_messages: bool = False
    is_plain: bool = False
    counts: dict[str, int] = field(default_factory=dict)
    rows: list[dict[str, Any]] = field(default_factory=list)
    findings: Sequence[Finding] = ()

    def as_json(self) -> dict[str, Any]:
        """Return it for --json."""
        return asdict(self) | {"findings": [each.as_json() for each in self.findings]}


def explained(source: Source, *, rows: int = 6, doubts: Callable[[Run], Iterable[Finding]] | None = None) -> Explained:
    """Return what reading a run makes of it, with so many rows; a run that can't be read has a finding "unreadable".

    Parameters: `doubts` gives all findings about a run, with those on columns that may be others, which are not pinned.
    Errors: OSError.
    Cost: that of reading the run, and of `doubts`.

    >>> import pathlib, tempfile
    >>> from busq.trace import find
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     path = pathlib.Path(directory, "log.csv")
    ...     _ = path.write_text("node,event,id,to,size\\nann,sent,m1,bob,7\\nbob,got,m1,,7\\n")
    ...     found = explained(find(path).sources[0])
    >>> found.fields["process"], found.unused, found.words, found.counts["sends"]
    ('node', ['size'], {'sent': 'send', 'got': ''}, 1)
    """
    found = Explained(source.name, source.format, source.paths, findings=source.findings)
    _tell_fields(source, found)
    try:
        run = read(source)
    except TraceError as error:
        found.findings = [*source.findings, Finding("unreadable", str(error), path=source.paths[0])]
        return found
    found.processes, found.findings = run.processes, tuple(doubts(run)) if doubts else run.findings
    found.counts = _counts(run)
    found.rows = list(islice(_rows(run, rows), rows))
    found.is_plain = source.format == "busq" and any(map(_is_plain, source.paths))
    return found


def _is_plain(path: str) -> bool:
    """Return whether a table has the columns of busq's own traces."""
    its = parquet_head.head(path)
    return isinstance(its, parquet_head.Head) and its.is_plain


# ---- fields ----


def _tell_fields(source: Source, found: Explained) -> None:
    """Put in which columns are which fields, and what the words for kinds mean."""
    records = TABLE[source.format].records
    if records is None:
        return
    raw = [
        {**hive_keys(path), **record}
        for path in source.paths[:_FILES_MAX]
        for record in islice(records(path, source.options), _ROWS_MAX)
    ]
    fields = Fields(source.options)
    names = list(dict.fromkeys(name for record in raw for name in record))
    there = {name: each.text for name, each in fields.expressions(names).items()}
    for name, each in fields.expressions(names).items():
        values = [each.value(record) for record in raw] if name in _TIMES else []
        if how := _counted(each.text, values, are_messages=fields.are_messages(there)):
            found.times[each.text] = how
    used = {root for each in fields.expressions(names).values() for root in each.roots(names)}
    for outer, inner in ((name, value) for record in raw for name, value in record.items() if isinstance(value, dict)):
        for name, key in fields.plan(inner).items():
            if name != "kind" and name not in there:
                there[name] = f"{outer}.{key}"
                used.add(outer)
    found.is_rows_of_messages = fields.are_messages(there)
    if not found.is_rows_of_messages and "kind" in there and "field.kind" not in source.options:
        there["kind"], found.words = _words(raw, fields, there["kind"])
    elif "kind" in there:
        found.words = _meanings([value for record in raw for value in fields.kinds(record)], fields)
    if any(map(is_own, raw)):
        found.words = {word: kind for word, kind in found.words.items() if not word.isdigit()}
    found.fields = {name: there[name] for name in FIELDS if name in there}
    found.unused = [name for name in names if name not in used and name not in there.values()]
    needed = ("sender", "destinations") if found.is_rows_of_messages else ("process", "kind", "message")
    missing = [name for name in needed if name not in there] if "clock" not in there and names else []
    found.missing = dict.fromkeys(missing, "") | fields.nearest(missing, found.unused)


def _words(raw: Sequence[Mapping[str, Any]], fields: Fields, first: str) -> tuple[str, dict[str, str]]:
    """Return the column of kinds, which of several has most words that mean something, and its words."""
    best: tuple[int, str, dict[str, str]] = (-1, first, {})
    for key in dict.fromkeys(key for record in raw for key in fields.kind_keys(record)):
        values = [record[key] for record in raw if key in record]
        words = _meanings(values, fields)
        known = sum(bool(words.get(str(value))) for value in values)
        if known > best[0]:
            best = (known, key, words)
    return best[1], best[2]


def _meanings(values: Sequence[Any], fields: Fields) -> dict[str, str]:
    words = dict.fromkeys(str(value) for value in values if value not in (None, ""))
    kinds = {word: fields.kind_of(word) for word in words}
    return {word: "" if kind is None else kind.name.lower() for word, kind in kinds.items()}


def _counted(called: str, values: Sequence[Any], *, are_messages: bool) -> str:
    """Return what times count, and why it is thought so; "" without any.

    >>> _counted("ts", [1_700_000_000, 1_700_000_009], are_messages=False)
    'seconds since 1970, by their size'
    >>> _counted("ts", ["7.5"], are_messages=False), _counted("sent_ns", [7], are_messages=False)
    ('seconds, as fractions do', 'nanoseconds, by the name of the column')
    """
    its = [value for value in values if value not in (None, "") and not is_nan(value)]
    if not its:
        return ""
    if counts_nanoseconds(called):
        return "nanoseconds, by the name of the column"
    if all(map(is_whole, its)):
        sizes = [abs(int(value)) for value in its]
        unit = unit_of(max(sizes), SECOND if are_messages else 1, min(filter(None, sizes), default=0))
        if floor_of(max(sizes), min(filter(None, sizes), default=0)):
            return f"{unit.words}{' since 1970' if unit.is_usual else ''}, by their size"
        return f"{unit.words}, as they are too small for times since 1970"
    try:
        numbers = np.array(its, np.float64)
    except (TypeError, ValueError):
        return ""  # dates, as they stand there
    may_be, are = how_days(numbers)
    if may_be and are:
        return f"{EXCEL}, as all are whole milliseconds of this century"
    return f"seconds, as fractions do{', though they may be days of Excel' if may_be else ''}"


# ---- rows ----


def _counts(run: Run) -> dict[str, int]:
    kinds = [log["kind"] for log in run.logs]
    counts = {
        word: sum(pc.sum(pc.equal(its, int(kind))).as_py() or 0 for its in kinds) for word, kind in _COUNTED.items()
    }
    events = sum(log.num_rows for log in run.logs)
    return {"events": events} | counts | {"others": events - sum(counts.values())}


def _rows(run: Run, count: int) -> Iterator[dict[str, Any]]:
    """Give events as they were read: the first ones of each process, of as many as there is room for."""
    each = max(2, count // max(1, len(run.logs)))
    for name, log in zip(run.processes, run.logs, strict=True):
        for row in log.slice(0, each).to_pylist():
            kind = Kind(row["kind"])
            to = [run.processes[index] for index in row.get("destinations") or ()] if kind == Kind.SEND else []
            shown = {
                "process": name,
                "kind": kind.name.lower(),
                "message": _message(run, row),
                "destinations": to,
                "time_ns": row.get("time_ns"),
            }
            yield {key: value for key, value in shown.items() if value not in (None, "", [])}


def _message(run: Run, row: Mapping[str, Any]) -> str:
    if row.get("label"):
        return str(row["label"])
    message = row.get("message")
    if message is None:
        return ""
    sender = message >> 32
    return f"{run.processes[sender] if sender < len(run.processes) else '?'}.{message & 0xFFFFFFFF}"


# ---- busq.toml ----


_DOUBTED = ("process", "message", "destinations", "sender")  # of which one that is named is no longer in doubt


def toml_of(found: Sequence[Explained], options: Mapping[str, str], column: str = "", *, are_alike: bool = True) -> str:
    """Return a file of fields that pins what was found, but for what is in doubt, and options.

    Parameters: `column`, the one that makes runs, if one does; `are_alike`: all files beside it have one form.

    >>> found = Explained("log", "csv", ["log.csv"], fields={"process": "node"}, words={"got": ""})
    >>> print(toml_of([found], {}), end="")
    # What `busq audit --explain` found.
    format = "csv"
    <BLANKLINE>
    [fields]
    process = "node"
    <BLANKLINE>
    [kinds]
    # "got" = "deliver"   # it means nothing so far: a local event
    """
    formats = {each.format for each in found}
    lines = ["# What `busq audit --explain` found."]
    lines += [f"format = {_text(formats.pop())}"] if are_alike and len(formats) == 1 else []
    runs_by = options.get(RUNS_BY) or column or _runs_by(found)
    lines += [f"runs-by = {_text(runs_by)}"] if runs_by else []
    lines += ['shape = "messages"'] if are_alike and any(each.is_rows_of_messages for each in found) else []
    lines += [f"dates = {_text(options['dates'])}"] if "dates" in options else []
    lines += [f"broadcast = {options['broadcast']}"] if "broadcast" in options else []
    foreign = [each for each in found if not each.is_plain]
    fields = {name: text for each in reversed(foreign) for name, text in each.fields.items()}
    fields.pop("run", None) if runs_by else None
    doubted = {finding.kind for each in found for finding in each.findings}
    unsure = [name for name in _DOUBTED if "other-column" in doubted and f"field.{name}" not in options]
    missing = {name: text for each in found for name, text in each.missing.items() if text and name not in fields}
    if fields:
        lines += ["", "[fields]"]
        lines += [f"{name} = {_text(fields[name])}" for name in FIELDS if name in fields and name not in unsure]
        lines += [f"# {name} = {_text(fields[name])}   # taken, but in doubt" for name in unsure if name in fields]
        lines += [
            f"# {name} = {_text(text)}   # not found: this column is called most like it"
            for name, text in missing.items()
        ]
    words = {word: kind for each in reversed(found) for word, kind in each.words.items()}
    if words and (foreign or not all(words.values())):
        mark = "# " if "kinds-guessed" in doubted else ""
        pinned = [word for word, kind in words.items() if kind and any(word in each.words for each in foreign)]
        known = [f"{mark * word.isdigit()}{_key(word)} = {_text(words[word])}" for word in pinned]
        open_ = [
            f'# {_text(word)} = "deliver"   # it means nothing so far: a local event'
            for word in words
            if not words[word]
        ]
        lines += ["", "[kinds]", *known, *open_[:10]]
    of_clocks = {name: options[name] for name in shiviz.OPTIONS if name in options}
    lines += ["", "[shiviz]", *(f"{name} = {_text(value)}" for name, value in of_clocks.items())] if of_clocks else []
    for table in sorted({name.partition(".")[0] for name in options if name.startswith("text.")}):
        its = {name.partition(".")[2]: value for name, value in options.items() if name.startswith(f"{table}.")}
        lines += ["", f"[{table}]", *(f"{name} = {_text(value)}" for name, value in its.items())]
    return "\n".join(lines) + "\n"


def _runs_by(found: Sequence[Explained]) -> str:
    """Return what made runs of the files: a word of WAYS, "" where there is one file."""
    if len(found) == 1:
        return "none" if len(found[0].paths) > 1 else ""
    return WAYS[0] if all(len(each.paths) == 1 for each in found) else WAYS[1]


def _text(value: str) -> str:
    if "\\" in value and "'" not in value and value.isprintable():
        return f"'{value}'"  # as people write expressions
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _key(word: str) -> str:
    return word if _PLAIN_KEY.fullmatch(word) else _text(word)
