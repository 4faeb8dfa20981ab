# SPDX-License-Identifier: Apache-2.0
"""Finding traces: which files there are, what format each has, and which of them make a run.

A format is recognised from what a file begins with; its name decides only where the content does not.  In a folder,
what is no log is passed over (configuration, notes); a path that is given itself must be one.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import ModuleType

from busq._util import arguments
from busq.trace import csv_log, epfl, ndjson, otlp, parquet_head, places, shiviz
from busq.trace.dataset import RUNS_BY, WAYS, Group, Part, Parts, Sample, dataset_of, grouped, hive_keys
from busq.trace.described import beside, options_in
from busq.trace.errors import TraceError
from busq.trace.expressions import parsed
from busq.trace.field_names import FIELDS
from busq.trace.finding import Finding
from busq.trace.parsed_records import sample
from busq.trace.run import Source
from busq.trace.tables import kinds
from busq.trace.text import beginning, is_binary, stem

__all__ = ["FORMATS", "Found", "find", "named_apart", "settled"]

FORMATS = ("busq", "epfl", "shiviz", "otlp", "ndjson", "csv")

SHAPES = ("events", "messages")

_LOG_SUFFIXES = (".output", ".out")
_NO_LOGS = (".md", ".html", ".py", ".json", ".toml", ".yaml", ".yml")
_NO_RUN: list[tuple[str, set[str]]] = [("", set())]  # reading it reports what is wrong with it
_HOSTS = ("hosts", "hosts.txt", "membership")


@dataclass(frozen=True)
class Found:
    """The runs that stand under some paths, and what is remarkable about the files themselves."""

    sources: list[Source]
    findings: list[Finding]


@dataclass(frozen=True)
class _File:
    """A file, and the path it was found under."""

    path: str
    root: str
    format: str = ""
    is_empty: bool = False

    @property
    def folder(self) -> str:
        return os.path.dirname(self.path)


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
    kind means), "shape" ("events" or "messages");
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
    if format is not None and format not in FORMATS:
        raise TraceError(f"unknown format {format!r}: known are {', '.join(FORMATS)}")
    given = [places.plain(path) for path in arguments.paths("paths", paths)]
    if not given:
        raise TraceError("no paths: expected files or folders with logs")
    described = places.plain(arguments.path("fields", fields)) if fields is not None else beside(given)
    its = settled(options, described, runs_by)
    findings: list[Finding] = []
    files = [file for root in given for file in _logs(root, format, its, findings)]
    sources: list[Source] = []
    for name, gather in _GATHER.items():
        mine = list({places.real(file.path): file for file in files if file.format == name}.values())
        if mine:
            sources += gather(mine, its, findings)
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
    known = (*shiviz.OPTIONS, "shape", RUNS_BY, "kind.WORD", *(f"field.{name}" for name in FIELDS))
    for name, value in options.items():
        if name not in known and not name.startswith("kind."):
            raise TraceError(f"unknown option {name!r}: known are {', '.join(known)}")
        arguments.text(f"options[{name!r}]", value)
        if name.startswith("field."):
            parsed(value)
        if name.startswith("kind.") and kinds(value) is None:
            raise TraceError(f"{name} is {value!r}: expected send, deliver, local or the like")
    if options.get("shape", "events") not in SHAPES:
        raise TraceError(f"shape {options['shape']!r}: expected {' or '.join(SHAPES)}")


# ---- files ----


def _logs(root: str, wanted: str | None, options: Mapping[str, str], findings: list[Finding]) -> list[_File]:
    """Return the logs under a path; TraceError if there are none."""
    if not places.exists(root):
        raise TraceError(f"{root}: no such file or folder")
    if not places.is_folder(root):
        return [_given(root, wanted, options)]
    files = [_recognised(path, root, wanted, options) for path in places.walk(root)]
    logs = [file for file in files if file.format]
    empty = [file for file in files if file.is_empty and not file.format]
    logs += [file for file in _with_names_of(empty, logs) if wanted in (None, "epfl")]
    if not logs:
        looked = f"{len(files)} files, none of which" if files else "nothing that"
        raise TraceError(f"{root}: found {looked} is a log: expected {_expected(wanted)}")
    findings += _left_out(files, logs)
    return logs


def _left_out(files: Sequence[_File], logs: Sequence[_File]) -> Iterator[Finding]:
    """Report files that are called like tables among the logs, and in which no event was recognised."""
    suffixes = {os.path.splitext(file.path)[1] for file in logs if file.format in _RECORDS} - {""}
    others = [file.path for file in files if not (file.format or file.is_empty)]
    left_out = [path for path in others if os.path.splitext(path)[1] in suffixes]
    if left_out:
        text = f"{left_out[0]}: no event was recognised in its first lines: left out; --field names columns"
        yield Finding("left-out", text, len(left_out), left_out[0], is_error=False)


def _expected(wanted: str | None) -> str:
    return f"the format {wanted}" if wanted else f"one of the formats {', '.join(FORMATS)}"


def _given(path: str, wanted: str | None, options: Mapping[str, str]) -> _File:
    """Return a file that was named itself: it must be a log."""
    file = _recognised(path, path, wanted, options)
    if file.is_empty and not file.format and wanted in (None, "epfl") and epfl.number_in(os.path.basename(path)):
        return _File(path, path, "epfl", True)
    if file.format:
        return file
    what = "an empty file" if file.is_empty else "a binary file" if is_binary(beginning(path)) else "a file"
    raise TraceError(f"{path}: found {what} that is no log: expected {_expected(wanted)}")


def _recognised(path: str, root: str, wanted: str | None, options: Mapping[str, str]) -> _File:
    """Return a file with its format, "" if it is no log (of the format that is wanted)."""
    head = beginning(path)
    if not head.strip():
        is_parquet = path.endswith(".parquet") and wanted in (None, "busq")
        return _File(path, root, "busq" if is_parquet else "", True)
    for name, looks_like in _LOOKS_LIKE.items():
        if wanted in (None, name) and (name == "busq" or not is_binary(head)) and looks_like(path, head, options):
            return _File(path, root, name)
    return _File(path, root)


_RECORDS = frozenset({"ndjson", "csv"})  # whose fields may have names that are not recognised
_LOOKS_LIKE: dict[str, Callable[[str, bytes, Mapping[str, str]], bool]] = {  # of text, but for "busq"
    "busq": lambda path, head, options: head.startswith(b"PAR1") or path.endswith(".parquet"),
    "epfl": lambda path, head, options: epfl.is_log(head),
    "otlp": lambda path, head, options: otlp.is_log(head),
    "ndjson": lambda path, head, options: ndjson.is_log(head, options, hive_keys(path)),
    "csv": lambda path, head, options: csv_log.is_log(head, options, hive_keys(path)),
    "shiviz": lambda path, head, options: shiviz.is_log(head) or ("parser" in options and not path.endswith(_NO_LOGS)),
}


def _with_names_of(empty: Sequence[_File], logs: Sequence[_File]) -> Iterator[_File]:
    """Give the empty files that are logs nevertheless: they are named like one that is not empty, or as logs are."""
    families = {numbered[0] for file in logs if file.format == "epfl" and (numbered := epfl.number_in(file.path))}
    for file in empty:
        numbered = epfl.number_in(file.path)
        if numbered and (numbered[0] in families or file.path.endswith(_LOG_SUFFIXES)):
            yield _File(file.path, file.root, "epfl", True)


# ---- runs ----


def _gather_epfl(files: Sequence[_File], options: dict[str, str], findings: list[Finding]) -> list[Source]:
    """Make a run of all logs whose names differ in a number only; logs without one are left out, if others have one."""
    left_out: list[Finding] = []
    families: dict[tuple[str, str], list[_File]] = {}
    for file in files:
        numbered = epfl.number_in(file.path)
        if numbered is None:
            text = f"{file.path}: expected the number of the process in the name of its log, as in proc01.output"
            left_out.append(Finding("unnamed-log", f"{text}: left out", path=file.path))
            continue
        families.setdefault((file.root if places.is_folder(file.root) else "", numbered[0]), []).append(file)
    findings += left_out
    if not families:
        raise TraceError(left_out[0].text.removesuffix(": left out"))
    by_folder: dict[str, list[str]] = {}
    for (_, family), _members in families.items():
        by_folder.setdefault(os.path.dirname(family), []).append(family)
    sources = []
    for (root, family), members in families.items():
        folder = os.path.dirname(family)
        alone = len(by_folder[folder]) == 1
        name = _name(folder, root) if alone else f"{_name(folder, root)}/{os.path.basename(family)}"
        hosts = next((path for path in (os.path.join(folder, n) for n in _HOSTS) if os.path.isfile(path)), "")
        its = options | ({"hosts": hosts} if hosts else {})
        members = sorted(members, key=lambda file: (epfl.number_in(file.path) or ("", 0))[1])
        sources.append(_source(name, "epfl", [file.path for file in members], its))
    for folder, names in by_folder.items():
        if len(names) > 1:
            listed = " and ".join(os.path.basename(name) for name in names)
            text = f"{folder}: holds the logs of {len(names)} runs, {listed}: each is judged on its own"
            findings.append(Finding("mixed-runs", text, count=len(names), path=folder))
    return sources


def _gather_parquet(files: Sequence[_File], options: dict[str, str], findings: list[Finding]) -> list[Source]:
    """Make a run of busq's own files in a folder that name the same run; of others, as `dataset` finds out."""
    own: dict[tuple[str, str], list[str]] = {}
    others: list[tuple[_File, parquet_head.Head]] = []
    broken: dict[str, list[tuple[str, Finding]]] = {}
    roots = {file.folder: file.root for file in files}
    for file in files:
        file_head = parquet_head.head(file.path, options)
        if isinstance(file_head, Finding):
            broken.setdefault(dataset_of(file.folder), []).append((file.path, file_head))
        elif file_head.is_ours or file_head.run:
            for run in parquet_head.runs_of(file_head, options):
                own.setdefault((file.folder, run), []).append(file.path)
        else:
            others.append((file, file_head))
    if own and RUNS_BY in options:
        path = next(iter(own.values()))[0]
        raise TraceError(f"{path}: a recording of busq says itself which run it is: leave --runs-by out")
    groups: list[tuple[str, str, str, list[str], Sequence[Finding]]] = []
    for (folder, run), paths in own.items():
        name = _name(folder, roots[folder]) if places.is_folder(roots[folder]) else stem(paths[0])
        groups.append((run or name, run, dataset_of(folder), paths, ()))
    rows = max((head.rows for _, head in others), default=0)
    parts = [
        Part(
            file.path, file.root, parquet_head.runs_of(head, options), partial(parquet_head.sample, head, options, rows)
        )
        for file, head in others
    ]
    for group in _grouped(parts, options, findings):
        paths = [part.path for part in group.parts]
        groups.append((group.name, group.run, dataset_of(os.path.dirname(paths[0])), paths, group.findings))
    sources = []
    for name, run, folder, paths, about in groups:
        lost = broken.pop(folder, []) if sum(1 for _, _, other, _, _ in groups if other == folder) == 1 else []
        its = [*paths, *(path for path, _ in lost)]
        sources.append(_source(name, "busq", its, options, trace=run, findings=about))
    for them in broken.values():
        findings += [finding for _, finding in them]
    if not sources:
        raise TraceError("; ".join(finding.text for finding in findings))
    return sources


def _grouped(parts: Sequence[Part], options: Mapping[str, str], findings: list[Finding]) -> list[Group]:
    """Return the runs that files of tables make."""
    runs_by = options.get(RUNS_BY, "")
    given = Parts(parts, runs_by, options.get("field.run", "run"))
    groups = list(grouped(given)) if parts else []
    findings += given.findings
    return groups


def _gather_shiviz(files: Sequence[_File], options: dict[str, str], findings: list[Finding]) -> list[Source]:
    """Make a run of each execution; files of one folder that have a host each, another one each, are one."""
    return _gather_text("shiviz", files, options, [shiviz.traces_in(file.path, options) for file in files])


def _gather_otlp(files: Sequence[_File], options: dict[str, str], findings: list[Finding]) -> list[Source]:
    """Make a run of all files below a folder: a message may be sent in one of them and got in another."""
    folders: dict[str, list[_File]] = {}
    for file in files:
        folders.setdefault(file.root if os.path.isdir(file.root) else file.folder, []).append(file)
    sources = []
    for folder, members in folders.items():
        name = _name(folder, folder) if len(members) > 1 else stem(members[0].path)
        its: list[Finding] = []
        if len(members) > 1:
            text = f"{folder or '.'}: the spans of all {len(members)} files are taken for one run"
            its.append(Finding("one-run", text, len(members), folder, is_error=False))
        source = _source(name, "otlp", [file.path for file in members], options)
        sources.append(replace(source, findings=its))
    return sources


def _gather_records(
    format_name: str, reader: ModuleType, files: Sequence[_File], options: dict[str, str], findings: list[Finding]
) -> list[Source]:
    """Make the runs of files of records, as `busq.trace.dataset` finds out."""
    parts = []
    for file in files:
        its: list[tuple[str, set[str]]] = reader.runs_in(file.path, options) or _NO_RUN
        processes = frozenset().union(*(processes for _, processes in its))
        sampled = partial(_sample, reader, file.path, options)
        parts.append(Part(file.path, file.root, [run for run, _ in its], sampled, processes))
    sources = []
    for group in _grouped(parts, options, findings):
        first = group.parts[0]
        name = group.name
        if len(group.parts) == 1:  # a file is called as it is called
            name = f"{stem(first.path)}/{group.run}" if group.run and len(first.runs) > 1 else stem(first.path)
        paths = [part.path for part in group.parts]
        sources.append(_source(name, format_name, paths, options, group.run, group.findings))
    return sources


def _sample(reader: ModuleType, path: str, options: Mapping[str, str]) -> Sample | None:
    return sample(reader.records_in(path, options))


def _gather_text(
    format_name: str, files: Sequence[_File], options: dict[str, str], parts: Sequence[list[tuple[str, set[str]]]]
) -> list[Source]:
    """Make the runs of text files, of which we know the runs in each, and their processes."""
    folders: dict[tuple[str, str], list[tuple[_File, list[tuple[str, set[str]]]]]] = {}
    for file, its in zip(files, parts, strict=True):
        folders.setdefault((file.folder, file.root if places.is_folder(file.root) else ""), []).append((file, its))
    sources = []
    for (folder, root), members in folders.items():
        traces = {trace for _, its in members for trace, _ in its}
        if len(members) > 1 and len(traces) == 1 and _one_each([its[0][1] for _, its in members]):
            paths = [file.path for file, _ in members]
            sources.append(_source(_name(folder, root), format_name, paths, options, traces.pop()))
            continue
        for file, its in members:
            for trace, _ in its:
                name = f"{stem(file.path)}/{trace}" if trace and len(its) > 1 else stem(file.path)
                sources.append(_source(name, format_name, [file.path], options, trace))
    return sources


def _one_each(processes: Sequence[set[str]]) -> bool:
    """Return whether every file is the log of one process, each of another one."""
    return all(len(its) == 1 for its in processes) and len(set().union(*processes)) == len(processes)


_GATHER: dict[str, Callable[[Sequence[_File], dict[str, str], list[Finding]], list[Source]]] = {
    "busq": _gather_parquet,
    "epfl": _gather_epfl,
    "shiviz": _gather_shiviz,
    "otlp": _gather_otlp,
    "ndjson": partial(_gather_records, "ndjson", ndjson),
    "csv": partial(_gather_records, "csv", csv_log),
}


def _source(
    name: str,
    format_name: str,
    paths: Sequence[str],
    options: Mapping[str, str],
    trace: str = "",
    findings: Sequence[Finding] = (),
) -> Source:
    size = sum(places.size_of(path) for path in paths)
    return Source(name, format_name, tuple(paths), size, dict(options), trace, tuple(findings))


def _name(folder: str, root: str) -> str:
    """Return what a run is called that stands in a folder: where it is below the path that was given."""
    below = os.path.relpath(folder, root) if root and places.is_folder(root) else "."
    if below == ".":
        return os.path.basename(places.real(folder)) or "run"
    return below


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
