# SPDX-License-Identifier: Apache-2.0
"""Gathering the files of one format to runs: which of them belong together, and what a run is called."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import ModuleType

from busq.trace import csv_log, epfl, jepsen, ndjson, parquet_head, places, shiviz, text_log
from busq.trace.dataset import RUNS_BY, Group, Part, Parts, Sample, dataset_of, grouped
from busq.trace.errors import TraceError
from busq.trace.field_names import Fields
from busq.trace.finding import Finding
from busq.trace.parsed_records import sample
from busq.trace.run import Source
from busq.trace.text import stem

__all__ = [
    "File",
    "gather_csv",
    "gather_epfl",
    "gather_histories",
    "gather_ndjson",
    "gather_parquet",
    "gather_shiviz",
    "gather_text",
]

_NO_RUN: list[tuple[str, set[str]]] = [("", set())]  # reading it reports what is wrong with it
_HOSTS = ("hosts", "hosts.txt", "membership")


@dataclass(frozen=True)
class File:
    """A file, and the path it was found under."""

    path: str
    root: str
    format: str = ""
    is_empty: bool = False

    @property
    def folder(self) -> str:
        """Return the folder that the file stands in."""
        return os.path.dirname(self.path)


def gather_epfl(files: Sequence[File], options: dict[str, str], findings: list[Finding]) -> list[Source]:
    """Make a run of all logs whose names differ in a number only; logs without one are left out, if others have one."""
    left_out: list[Finding] = []
    families: dict[tuple[str, str], list[File]] = {}
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


def gather_parquet(files: Sequence[File], options: dict[str, str], findings: list[Finding]) -> list[Source]:
    """Make a run of busq's own files in a folder that name the same run; of others, as `dataset` finds out."""
    own: dict[tuple[str, str], list[str]] = {}
    others: list[tuple[File, parquet_head.Head]] = []
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
    fields = Fields(options)
    parts = [
        Part(
            file.path,
            file.root,
            parquet_head.runs_of(head, options),
            partial(parquet_head.sample, head, options, rows),
            fields.guessed_run(head.columns),
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


def gather_shiviz(files: Sequence[File], options: dict[str, str], findings: list[Finding]) -> list[Source]:
    """Make a run of each execution; files of one folder that have a host each, another one each, are one."""
    return _gather_text("shiviz", files, options, [shiviz.traces_in(file.path, options) for file in files])


def gather_spans(
    format_name: str, files: Sequence[File], options: dict[str, str], findings: list[Finding]
) -> list[Source]:
    """Make a run of all files below a folder: a message may be sent in one of them and got in another."""
    folders: dict[str, list[File]] = {}
    for file in files:
        folders.setdefault(file.root if os.path.isdir(file.root) else file.folder, []).append(file)
    sources = []
    for folder, members in folders.items():
        name = _name(folder, folder) if len(members) > 1 else stem(members[0].path)
        its: list[Finding] = []
        if len(members) > 1:
            text = f"{folder or '.'}: the spans of all {len(members)} files are taken for one run"
            its.append(Finding("one-run", text, len(members), folder, is_error=False))
        source = _source(name, format_name, [file.path for file in members], options)
        sources.append(replace(source, findings=its))
    return sources


def gather_histories(files: Sequence[File], options: dict[str, str], findings: list[Finding]) -> list[Source]:
    """Make a run of each key of each history."""
    its = {name: value for name, value in options.items() if name != RUNS_BY}
    sources = []
    for file in files:
        keys = jepsen.runs_in(file.path) or [""]
        names = {key: f"{stem(file.path)}/{key}" if key else stem(file.path) for key in keys}
        sources += [_source(name, "jepsen", [file.path], its, key) for key, name in names.items()]
    return sources


def gather_ndjson(files: Sequence[File], options: dict[str, str], findings: list[Finding]) -> list[Source]:
    """Make the runs of files of JSON lines."""
    return _gather_records("ndjson", ndjson, files, options, findings)


def gather_csv(files: Sequence[File], options: dict[str, str], findings: list[Finding]) -> list[Source]:
    """Make the runs of files of CSV."""
    return _gather_records("csv", csv_log, files, options, findings)


def gather_text(files: Sequence[File], options: dict[str, str], findings: list[Finding]) -> list[Source]:
    """Make the runs of files of text that regular expressions read."""
    return _gather_records("text", text_log, files, options, findings)


def _gather_records(
    format_name: str, reader: ModuleType, files: Sequence[File], options: dict[str, str], findings: list[Finding]
) -> list[Source]:
    """Make the runs of files of records, as `busq.trace.dataset` finds out."""
    parts, fields = [], Fields(options)
    for file in files:
        its: list[tuple[str, set[str]]] = reader.runs_in(file.path, options) or _NO_RUN
        processes = frozenset().union(*(processes for _, processes in its))
        sampled = partial(_sample, reader, file.path, options)
        column = fields.guessed_run(list(next(reader.first_records(file.path, options), {})))
        parts.append(Part(file.path, file.root, [run for run, _ in its], sampled, column, processes))
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
    format_name: str, files: Sequence[File], options: dict[str, str], parts: Sequence[list[tuple[str, set[str]]]]
) -> list[Source]:
    """Make the runs of text files, of which we know the runs in each, and their processes."""
    folders: dict[tuple[str, str], list[tuple[File, list[tuple[str, set[str]]]]]] = {}
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
