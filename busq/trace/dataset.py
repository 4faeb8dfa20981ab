# SPDX-License-Identifier: Apache-2.0
"""Which files make a run, where they do not name it themselves.

The files of one dataset are one run: those of a folder, and of its Hive folders such as day=1.  Something in the data
may show otherwise: a column or a Hive key called `run`; or the files hold the same events, by process and position:
then every file (or every folder of them) is a run of its own.  Wherever that is a guess, a finding names it.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from busq.trace import places
from busq.trace.errors import TraceError
from busq.trace.finding import Finding
from busq.trace.tables import in_one_piece
from busq.trace.text import stem

__all__ = [
    "RUNS_BY",
    "WAYS",
    "Group",
    "Part",
    "Parts",
    "Sample",
    "dataset_of",
    "grouped",
    "hive_keys",
    "sample_of",
    "told_apart",
]

RUNS_BY = "runs-by"  # the option for what makes a run: a word of WAYS, or a column
WAYS = ("file", "folder", "none")

_NOBODY = "__HIVE_DEFAULT_PARTITION__"
_LOOKED_AT = 16  # files that are compared before it is settled whether all hold the same events
_SAME_SHARE = 0.5  # of the events of a file that another one has, too: less is a fault of the log
_SAMPLE = 1 << 20  # events of a file that are compared, about
_MIX = 0x9E3779B97F4A7C15


@dataclass(frozen=True)
class Sample:
    """Numbers for events, the same for the same ones in any file: of all of a few, of some of many; and processes."""

    events: pa.Array
    processes: frozenset[int]


@dataclass(frozen=True)
class Part:
    """A file that does not name the run that it is a part of.

    `root` is the path under which it lies; `runs` are the values of its column of runs, [""] without one; `sample`
    is one of its events, None where they are not distinct.
    """

    path: str
    root: str
    runs: Sequence[str]
    sample: Callable[[], Sample | None]
    told_by: str = ""  # the column of runs, if that is a guess
    processes: frozenset[str] = frozenset()  # if they are known: files with one each, another one each, are one run

    @property
    def folder(self) -> str:
        """Where it stands."""
        return os.path.dirname(self.path)


@dataclass(frozen=True)
class Group:
    """The files of a run; `run` is the value of the column or the key for runs, "" without one."""

    name: str
    run: str
    parts: Sequence[Part]
    findings: Sequence[Finding] = ()


@dataclass
class Parts:
    """The files to group, how the user wants them grouped, and findings about all of them."""

    parts: Sequence[Part]
    runs_by: str = ""
    column: str = "run"  # the column or the key for runs, if a file or a folder has it
    findings: list[Finding] = field(default_factory=list)


def hive_keys(path: str) -> dict[str, str]:
    """Return the keys and values in the folders of a path, as Hive writes them.

    >>> hive_keys("logs/day=1/run=a%2Fb/part-0.parquet")
    {'day': '1', 'run': 'a/b'}
    """
    pairs = (part.partition("=") for part in os.path.dirname(path).split("/"))
    return {key: "" if value == _NOBODY else unquote(value) for key, equals, value in pairs if key and equals}


def dataset_of(folder: str) -> str:
    """Return the folder of a dataset, without the Hive folders in it.

    >>> dataset_of("logs/day=1/hour=2")
    'logs'
    """
    while "=" in os.path.basename(folder):
        folder = os.path.dirname(folder)
    return folder


def sample_of(processes: Any, *others: Any, rows: int) -> Sample:
    """Return a sample of events.

    Parameters: `processes` and `others`, columns that together identify an event of a run; `rows`, of
    the largest file that is compared.
    """
    its = mixed = _numbers(processes)
    with np.errstate(over="ignore"):
        for column in others:
            mixed = (mixed * np.uint64(_MIX)) ^ _numbers(column)
        mixed = mixed * np.uint64(_MIX)
        mixed ^= mixed >> np.uint64(29)
    share = np.uint64(max(1, rows // _SAMPLE))
    return Sample(pa.array(np.unique(mixed[mixed % share == 0])), frozenset(np.unique(its).tolist()))


def _numbers(column: Any) -> Any:
    """Return numbers for the values of a column, which do not depend on what else is in it."""
    values = in_one_piece(column)
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if pa.types.is_integer(values.type):
        return pc.fill_null(values, 0).cast(pa.int64(), safe=False).to_numpy(zero_copy_only=False).view(np.uint64)
    encoded = pc.dictionary_encode(values.cast(pa.string()), null_encoding="encode")
    words = [(value or "").encode() for value in encoded.dictionary.to_pylist()]
    hashed = np.array([zlib.crc32(word) << 32 | zlib.adler32(word) for word in words] or [0], np.uint64)
    return hashed[encoded.indices.to_numpy(zero_copy_only=False)]


# ---- runs ----


def grouped(given: Parts) -> Iterator[Group]:
    """Give the runs that files make; what is remarkable about all of them is added to `given.findings`.

    Errors: TraceError if no file has the column for runs.
    Cost: nothing where there is a column or a key; else, of several files, what it takes to read their events.
    """
    if given.runs_by == "file":
        yield from (Group(stem(part.path), "", [part]) for part in given.parts)
    elif given.runs_by == "folder":
        yield from (Group(_name(folder, its), "", its) for folder, its in _by(given.parts, lambda p: p.folder).items())
    elif given.runs_by == "none":
        folder = os.path.commonpath([part.folder for part in given.parts])
        yield Group(_name(folder, given.parts), "", given.parts)
    else:
        if given.runs_by and not any(_runs(part, given.column) != [""] for part in given.parts):
            words = ", ".join(WAYS)
            raise TraceError(
                f"{given.parts[0].path}: no column {given.runs_by!r} to tell runs by: expected one, or {words}"
            )
        yield from _told(given)


def _told(given: Parts) -> Iterator[Group]:
    """Give the runs that a column or a key names, and guess the others, by dataset."""
    unnamed: dict[str, list[Part]] = {}
    for folder, parts in _by(given.parts, lambda part: dataset_of(part.folder)).items():
        named: dict[str, list[Part]] = {}
        for part in parts:
            for run in _runs(part, given.column):
                named.setdefault(run, []).append(part)
        _settle_empty(named)
        if len(named) > 1 and (column := next((part.told_by for part in parts if part.told_by), "")):
            given.findings.append(told_apart(column, parts[0].path, len(named)))
        for run, its in named.items():
            if run:
                yield Group(run, run, its)
            else:
                unnamed[folder] = its
    yield from _guessed(unnamed, given)


def _settle_empty(named: dict[str, list[Part]]) -> None:
    """Let files without events, which can't name a run, make none of their own beside those that do."""
    if len(named) == 1 or "" not in named:
        return
    empty = [part for part in named[""] if _is_empty(part)]
    named[""] = [part for part in named[""] if part not in empty]
    if not named[""]:
        del named[""]
    if len(named) == 1:
        next(iter(named.values())).extend(empty)


def _is_empty(part: Part) -> bool:
    sample = part.sample()
    return sample is not None and not sample.processes


def _runs(part: Part, column: str) -> Sequence[str]:
    key = hive_keys(part.path).get(column, "")
    return [key] if key and list(part.runs) == [""] else part.runs


def _guessed(unnamed: Mapping[str, list[Part]], given: Parts) -> Iterator[Group]:
    """Give the runs of datasets that name none."""
    if len(unnamed) > 1 and (common := _one_of_many(list(unnamed.values()))) is not None:
        parts = [part for its in unnamed.values() for part in its]
        what = f"{len(unnamed)} folders with {len(parts)} files hold the same processes, and no event twice"
        yield _together(common, parts, what)
        return
    if len(unnamed) > 1:
        what = f"the files of {len(unnamed)} folders name no run: each folder is taken for one"
        given.findings.append(_finding(what, next(iter(unnamed)), len(unnamed)))
    for folder, parts in unnamed.items():
        yield from _of_dataset(folder, parts, given)


def _one_of_many(datasets: Sequence[Sequence[Part]]) -> str | None:
    """Return the folder of all datasets if they seem to be parts of one: the same processes, no event twice."""
    roots = {part.root for parts in datasets for part in parts}
    if len(roots) != 1 or not places.is_folder(root := roots.pop()):
        return None
    are_the_same, is_sure = _compared([parts[:1] for parts in datasets])
    return root if not are_the_same and is_sure else None


def _of_dataset(folder: str, parts: Sequence[Part], given: Parts) -> Iterator[Group]:
    """Give the runs of one dataset that names none: one, unless its files hold the same events."""
    if len(parts) == 1:
        name = _name(folder, parts) if places.is_folder(parts[0].root) else stem(parts[0].path)
        yield Group(name, "", parts)
        return
    if all(len(part.processes) == 1 for part in parts) and len(set().union(*(p.processes for p in parts))) == len(
        parts
    ):
        yield Group(_name(folder, parts), "", parts)
        return
    folders = _by(parts, lambda part: part.folder)
    units = list(folders.values()) if len(folders) > 1 else [[part] for part in parts]
    are_the_same, is_sure = _compared(units)
    if not are_the_same:
        what = f"{len(parts)} files name no run"
        group = _together(folder, parts, what)
        yield Group(group.name, "", parts, () if is_sure and len(folders) == 1 else group.findings)
        return
    kind = "folders" if len(folders) > 1 else "files"
    what = f"{len(units)} {kind} hold the same events, by process and position: each is taken for a run of its own"
    given.findings.append(_finding(what, folder, len(units)))
    for unit in units:
        if len(unit) > 1:
            yield from _of_dataset(unit[0].folder, unit, given)
        else:
            yield Group(_name(unit[0].folder, unit) if len(folders) > 1 else stem(unit[0].path), "", unit)


def _together(folder: str, parts: Sequence[Part], what: str) -> Group:
    finding = _finding(f"{what}: they are taken for one run", folder, len(parts))
    return Group(_name(folder, parts), "", parts, [finding])


def told_apart(column: str, path: str, runs: int) -> Finding:
    """Return the finding about a column that is taken for the one of runs, and is called otherwise."""
    return _finding(f"the column {column!r} has {runs:,} values: each is taken for a run of its own", path, runs)


def _finding(what: str, path: str, count: int) -> Finding:
    how = "--runs-by COLUMN, file, folder or none says what makes a run"
    return Finding("runs-guessed", f"{path}: {what}; {how}", count, path, is_error=False)


def _compared(units: Sequence[Sequence[Part]]) -> tuple[bool, bool]:
    """Return whether most of these hold events of others, and whether the answer is beyond doubt.

    It is where all repeat the events of others, and where they continue the logs of others without repeating any.
    """
    repeated = compared = doubled = continued = 0
    before: Sample | None = None
    for unit in units[:_LOOKED_AT]:
        samples = [sample for part in unit if (sample := part.sample()) is not None and len(sample.events)]
        if not samples:
            return False, False
        mine = Sample(
            pc.unique(pa.chunked_array([sample.events for sample in samples])),
            frozenset().union(*(sample.processes for sample in samples)),
        )
        if before is not None:
            compared += 1
            common = pc.sum(pc.is_in(mine.events, value_set=before.events)).as_py() or 0
            repeated += common >= _SAME_SHARE * min(len(mine.events), len(before.events))
            doubled += common
            continued += not mine.processes.isdisjoint(before.processes)
            mine = Sample(pc.unique(pa.chunked_array([before.events, mine.events])), before.processes | mine.processes)
        before = mine
    are_the_same = bool(compared) and 2 * repeated > compared
    return are_the_same, repeated == compared if are_the_same else not doubled and continued == compared


def _by(parts: Sequence[Part], key: Callable[[Part], str]) -> dict[str, list[Part]]:
    groups: dict[str, list[Part]] = {}
    for part in parts:
        groups.setdefault(key(part), []).append(part)
    return groups


def _name(folder: str, parts: Sequence[Part]) -> str:
    """Return what a run is called that stands in a folder: where it is below the path that was given."""
    root = parts[0].root
    below = os.path.relpath(folder, root) if root and places.is_folder(root) else "."
    if below in (".", "") or below.startswith(".."):
        return os.path.basename(places.real(folder)) or "run"
    return below
