# SPDX-License-Identifier: Apache-2.0
"""Finding traces: which files there are, what format each has, and which of them make a run.

A format is recognised from what a file begins with; its name decides only where the content does not.  In a folder,
what is no log is passed over (configuration, notes); a path that is given itself must be one.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from busq._util import arguments
from busq._util.humanize import amount, listed
from busq.trace import csv_log, epfl, ndjson, places, shiviz, text_log
from busq.trace.dataset import RUNS_BY, WAYS, dataset_of, hive_keys
from busq.trace.dates import DATES
from busq.trace.described import NAME, beside, options_in
from busq.trace.errors import TraceError
from busq.trace.expressions import parsed
from busq.trace.field_names import FIELDS, Fields
from busq.trace.finding import Finding
from busq.trace.format_names import FORMATS
from busq.trace.formats import TABLE
from busq.trace.gather import File
from busq.trace.run import Source
from busq.trace.tables import kinds
from busq.trace.text import beginning, decoded, form, is_binary

__all__ = ["FORMATS", "Found", "find", "named_apart", "settled"]

SHAPES = ("events", "messages")

_LOG_SUFFIXES = (".output", ".out")
_WITH_HEADING = (".csv", ".tsv")
_TABLES = (*_WITH_HEADING, ".ndjson", ".jsonl")


@dataclass(frozen=True)
class Found:
    """The runs that stand under some paths, and what is remarkable about the files themselves."""

    sources: list[Source]
    findings: list[Finding]


def find(
    paths: Iterable[str | os.PathLike[str]] | str | os.PathLike[str],
    *,
    format: str | None = None,
    options: Mapping[str, str] | None = None,
    runs_by: str | None = None,
    fields: str | os.PathLike[str] | None = None,
) -> Found:
    """Find the runs under paths.

    Parameters: `paths`, files and folders, or URIs of them (`busq.trace.places`), which are searched with all that is
    in them (not what is hidden); `format`, one of FORMATS, if it is known; `options`, for formats that need some:
    "parser", "delimiter", "send" and "deliver" for "shiviz" (regular expressions), "field.process" and the like for
    tables (which field is which: a name or an expression, `busq.trace.expressions`), "kind.WORD" (what a word for a
    kind means), "shape" ("events" or "messages"), "dates" ("month first" or "day first": what 11/05/2026
    is), "broadcast" ("true": where no send of a table has destinations, each was to all processes);
    `runs_by`, what makes a run of tables: "file", "folder", "none" (all are one), or a column; without it, what
    `busq.trace.dataset` finds; `fields`, a file with such options (`busq.trace.described`; without it, `busq.toml`
    beside tables).  Options go before it.
    Errors: TraceError if a path does not exist, or nothing under it is a log; OSError.
    Cost: what it takes to read the beginning of each file, and the end of those in Parquet.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     for name in ("proc01.output", "proc02.output"):
    ...         _ = pathlib.Path(directory, name).write_text("b 1\\n")
    ...     source = find(directory).sources[0]
    >>> source.format, len(source.paths)
    ('epfl', 2)
    """
    arguments.typed("format", format, str | None, "str, or None to find out")
    given = [places.plain(path) for path in arguments.paths("paths", paths)]
    if not given:
        raise TraceError("no paths: expected files or folders with logs")
    described = places.plain(arguments.path("fields", fields)) if fields is not None else beside(given)
    its = settled(options, described, runs_by)
    format = format or its.pop("format", None)
    if format is not None and format not in FORMATS:
        raise TraceError(f"unknown format {format!r}: known are {', '.join(FORMATS)}")
    if format == "text" and not any(name.startswith(text_log.PREFIX) for name in its):
        raise TraceError(
            "the format text takes regular expressions: expected [text] in busq.toml, with send and deliver"
        )
    findings: list[Finding] = []
    files = [file for root in given for file in _logs(root, format, its, findings)]
    sources: list[Source] = []
    for name in FORMATS:
        mine = list({places.real(file.path): file for file in files if file.format == name}.values())
        if mine:
            sources += TABLE[name].gather(mine, its, findings)
    findings += _mixed(files)
    return Found(named_apart(sources), findings)


def settled(options: Mapping[str, str] | None, described: str = "", runs_by: str | None = None) -> dict[str, str]:
    """Return the options of a search: `options` as in `find`, which go before those of a file of fields, `described`.

    Errors: TraceError for what is not known; OSError.
    """
    its = dict(arguments.mapping("options", {} if options is None else options, "a mapping of names to str"))
    its = (options_in(described) if described else {}) | its
    if runs_by is not None:
        its[RUNS_BY] = arguments.text("runs_by", runs_by)
        its |= {} if runs_by in WAYS else {"field.run": runs_by}
    _check_options(its)
    return its


def _check_options(options: Mapping[str, str]) -> None:
    known = (
        *shiviz.OPTIONS,
        "broadcast",
        "dates",
        "format",
        "shape",
        RUNS_BY,
        "kind.WORD",
        *(f"field.{name}" for name in FIELDS),
    )
    for name, value in options.items():
        if name not in known and not name.startswith(("kind.", text_log.PREFIX)):
            raise TraceError(f"unknown option {name!r}: known are {', '.join(known)}")
        arguments.text(f"options[{name!r}]", value)
        if name.startswith("field."):
            parsed(value)
        if name.startswith("kind.") and kinds(value) is None:
            raise TraceError(f"{name} is {value!r}: expected send, deliver, local or the like")
    if (broadcast := options.get("broadcast", "true")) not in ("true", "false"):
        raise TraceError(f"broadcast {broadcast!r}: expected true or false")
    text_log.check(options)
    for name, its in (("shape", SHAPES), ("dates", DATES)):
        if options.get(name, its[0]) not in its:
            raise TraceError(f"{name} {options[name]!r}: expected {' or '.join(its)}")


# ---- files ----


def _logs(root: str, wanted: str | None, options: Mapping[str, str], findings: list[Finding]) -> list[File]:
    """Return the logs under a path; TraceError if there are none."""
    if not places.exists(root):
        raise TraceError(f"{root}: no such file or folder")
    if not places.is_folder(root):
        if not (places.is_remote(root) or os.path.isfile(root)):
            raise TraceError(f"{root} is a pipe or a device, which can't be read twice: put what it holds into a file")
        return [_given(root, wanted, options)]
    paths = (path for path in places.walk(root) if os.path.basename(path) != NAME)
    files = [_recognised(path, root, wanted, options) for path in paths]
    logs = [file for file in files if file.format]
    empty = [file for file in files if file.is_empty and not file.format]
    logs += [file for file in _with_names_of(empty, logs) if wanted in (None, "epfl")]
    if not logs:
        looked = f"{amount(len(files), 'file')}, none of which" if files else "nothing that"
        forms = ((file.path, form(beginning(file.path), file.path)) for file in files)
        path, why = next((one for one in forms if one[1]), ("", ""))
        if files and not why:
            path, why = files[0].path, text_log.unmatched_in(beginning(files[0].path), options)
        if not why:
            tables = [one.path for one in files if one.path.endswith(_TABLES) or ndjson.names_in(beginning(one.path))]
            path, why = next(((one, its) for one in tables if (its := _lacking(one, wanted, options))), ("", ""))
        why = f" ({path}: {why})" if why else ""
        raise TraceError(f"{root}: found {looked} is a log{why}: expected {_expected(wanted)}")
    findings += _left_out(files, logs)
    return logs


def _left_out(files: Sequence[File], logs: Sequence[File]) -> Iterator[Finding]:
    """Report files that are called like tables among the logs, and in which no event was recognised."""
    of_records = [file for file in logs if TABLE[file.format].records]
    suffixes = {os.path.splitext(file.path)[1] for file in of_records} - {""}
    others = [file.path for file in files if not (file.format or file.is_empty)]
    left_out = [path for path in others if os.path.splitext(path)[1] in suffixes]
    if left_out:
        text = f"{left_out[0]}: no event was recognised in its first lines: left out; --field names columns"
        yield Finding("left-out", text, len(left_out), left_out[0], is_error=False)
    by_form: dict[str, list[str]] = {}
    for path in others:
        by_form.setdefault(form(beginning(path), path), []).append(path)
    by_form.pop("", None)
    for what, paths in by_form.items():
        more = f" (the first of {len(paths):,} such files)" if len(paths) > 1 else ""
        yield Finding("left-out", f"{paths[0]}{more}: left out, as it is {what}", len(paths), paths[0], is_error=False)


def _mixed(files: Sequence[File]) -> Iterator[Finding]:
    """Report folders with tables of several formats: what is sent in one of them is not known in the others."""
    formats: dict[str, dict[str, str]] = {}
    for file in files:
        if TABLE[file.format].records:
            formats.setdefault(dataset_of(file.folder), {}).setdefault(file.format, file.path)
    for folder, paths in formats.items():
        if len(paths) > 1:
            its = listed([os.path.basename(path) for path in paths.values()])
            text = f"{folder}: holds tables of {len(paths)} formats, as {its}: those of each are judged on their own"
            yield Finding("mixed-runs", text, len(paths), folder, is_error=False)


def _expected(wanted: str | None) -> str:
    return (
        f"the format {wanted}" if wanted else f"one of the formats {', '.join(FORMATS)}; [text] in busq.toml reads any"
    )


def _given(path: str, wanted: str | None, options: Mapping[str, str]) -> File:
    """Return a file that was named itself: it must be a log."""
    file = _recognised(path, path, wanted, options)
    if file.is_empty and not file.format and wanted in (None, "epfl") and epfl.number_in(os.path.basename(path)):
        return File(path, path, "epfl", True)
    if file.format:
        return file
    if what := form(beginning(path), path):
        raise TraceError(f"{path} is {what}")
    if lacking := _lacking(path, wanted, options):
        raise TraceError(f"{path}: {lacking}")
    what = "an empty file" if file.is_empty else "a binary file" if is_binary(beginning(path)) else "a file"
    raise TraceError(f"{path}: found {what} that is no log: expected {_expected(wanted)}")


def _lacking(path: str, wanted: str | None, options: Mapping[str, str]) -> str:
    """Return what a table lacks to be a log; "" if the file is none."""
    head = beginning(path)
    if is_binary(head) or wanted not in (None, "csv", "ndjson", "text"):
        return ""
    if unmatched := text_log.unmatched_in(head, options):
        return unmatched
    names = ndjson.names_in(head) or csv_log.columns_in(head)
    if not names and path.endswith(_WITH_HEADING) and (lines := decoded(head).strip().splitlines()):
        return f"its first line is {lines[0][:60]!r}: expected a heading, as process,kind,message,destinations"
    return Fields(options).lacking_in([*names, *hive_keys(path)]) if names else ""


def _recognised(path: str, root: str, wanted: str | None, options: Mapping[str, str]) -> File:
    """Return a file with its format, "" if it is no log (of the format that is wanted)."""
    head = beginning(path)
    if not head.strip():
        is_parquet = path.endswith(".parquet") and wanted in (None, "busq", "machines")
        return File(path, root, (wanted or "busq") if is_parquet else "", True)
    for name, row in TABLE.items():
        if wanted in (None, name) and not (row.is_text and is_binary(head)) and row.looks_like(path, head, options):
            return File(path, root, name)
    return File(path, root)


def _with_names_of(empty: Sequence[File], logs: Sequence[File]) -> Iterator[File]:
    """Give the empty files that are logs nevertheless: they are named like one that is not empty, or as logs are."""
    families = {numbered[0] for file in logs if file.format == "epfl" and (numbered := epfl.number_in(file.path))}
    for file in empty:
        numbered = epfl.number_in(file.path)
        if numbered and (numbered[0] in families or file.path.endswith(_LOG_SUFFIXES)):
            yield File(file.path, file.root, "epfl", True)


# ---- names ----


def named_apart(sources: Sequence[Source]) -> list[Source]:
    """Return sources whose names differ: those that would not are called by their folder as well."""
    counts: dict[str, int] = {}
    for source in sources:
        counts[source.name] = counts.get(source.name, 0) + 1
    taken: dict[str, int] = {}
    named = []
    for source in sources:
        name = source.name
        if counts[name] > 1:
            folder = os.path.basename(os.path.dirname(places.real(source.paths[0])))
            name = f"{folder}/{name}"
        taken[name] = taken.get(name, 0) + 1
        name = f"{name} ({taken[name]})" if taken[name] > 1 else name
        named.append(_renamed(source, name))
    return named


def _renamed(source: Source, name: str) -> Source:
    return Source(name, source.format, source.paths, source.size_bytes, source.options, source.trace, source.findings)
