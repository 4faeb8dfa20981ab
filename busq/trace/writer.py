# SPDX-License-Identifier: Apache-2.0
"""Writing traces: a folder for each run, a Parquet file for each segment of the log of a process.

A segment is written to a hidden file and then renamed, so a reader sees all of it or nothing of it, even if the writer
is killed.  Segments hold what they are given: nothing waits here for more.
"""

from __future__ import annotations

import hashlib
import json
import os
import urllib.parse
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from busq._port.arguments import whole_number
from busq._util import arguments
from busq._util.files import replacing
from busq.trace.errors import TraceError
from busq.trace.run import Run
from busq.trace.schema import metadata
from busq.trace.tables import conform

__all__ = ["Writer", "file_name", "write"]

_ROWS_PER_GROUP = 1 << 20
_NAME_BYTES_MAX = 200  # of what a name of a file begins with
_DICTIONARIES = ["run", "process", "kind", "label", "destinations.list.element"]


class Writer:
    """Writes the logs of one run, segment by segment.

    Parameters: `directory`, made if it is not there; `run`, the name of the run; `names`, those of the processes by
    index; `order`, the protocol under which the run was made; `source`, its writer.
    Errors: FileExistsError if the run is there already, OSError, TraceError.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as directory, Writer(directory, run="a", names=["ann"]) as writer:
    ...     writer.write(0, {"kind": [2], "message": [None], "label": ["started"]}).name
    'ann-000000.parquet'
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        *,
        run: str = "run",
        names: Sequence[str] = (),
        order: str = "",
        source: str = "busq",
    ) -> None:
        """Make the folder of the run."""
        self._folder = Path(arguments.path("directory", directory)) / file_name(arguments.text("run", run))
        self._run = run
        self._order, self._source = arguments.text("order", order), arguments.text("source", source)
        self._names = arguments.each_typed("names", names, str, "str, the name of a process")
        self._stems: dict[str, int] = {}
        self._segments: dict[int, int] = {}
        self._next_positions: dict[int, int] = {}
        self._closed = False
        self._folder.mkdir(parents=True, exist_ok=True)
        if any(self._folder.glob("*.parquet")):
            raise FileExistsError(f"{self._folder}: there is a trace already: choose another directory, or another run")

    @property
    def folder(self) -> Path:
        """Where the files of the run stand."""
        return self._folder

    def name(self, process: int, name: str) -> None:
        """Name a process that was not known at the start; its later segments carry the name.

        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as directory, Writer(directory) as writer:
        ...     writer.name(1, "bob")
        ...     writer.write(1, {"kind": [], "message": []}).name
        'bob-000000.parquet'
        """
        index = whole_number("process", process, 16)  # a history has no more of them
        arguments.text("name", name)
        self._names.extend(f"p{other}" for other in range(len(self._names), index + 1))
        self._names[index] = name

    def write(self, process: int, columns: pa.Table | pa.RecordBatch | Mapping[str, Any]) -> Path:
        """Write the next segment of the log of a process, and return its file.

        Parameters: `process`, its index; `columns`, a table or columns by name, of which `kind` and `message` must be
        there; positions that are missing go on from the segment before.
        Errors: TraceError for columns that do not fit the schema, OSError, ValueError after close.
        Cost: about 0.1 us per event, and 1 ms per segment.
        """
        if self._closed:
            raise ValueError("the writer is closed")
        process = whole_number("process", process, 31)
        expected = "a table, or a mapping of names to columns"
        arguments.typed("columns", columns, (pa.Table, pa.RecordBatch, Mapping), expected)
        table = conform(columns, run=self._run, process=process, start=self._next_positions.get(process, 0))
        segment = self._segments.get(process, 0)
        path = self._folder / f"{self._stem(process)}-{segment:06}.parquet"
        facts = {
            "run": self._run,
            "names": json.dumps(self._names, ensure_ascii=False),
            "order": self._order,
            "source": self._source,
            "process": process,
            "segment": segment,
        }
        _write_file(path, table.replace_schema_metadata(metadata(facts)))
        self._segments[process] = segment + 1
        if table.num_rows:
            self._next_positions[process] = table["position"][-1].as_py() + 1
        return path

    def _stem(self, process: int) -> str:
        """Return how the files of a process begin, which differs from those of all others."""
        stem = file_name(self._names[process]) if process < len(self._names) else str(process)
        return stem if self._stems.setdefault(stem, process) == process else f"{stem}@{process}"

    def close(self) -> None:
        """End the trace; what was written stays readable without it."""
        self._closed = True

    def __enter__(self) -> Writer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def file_name(name: str) -> str:
    """Return a name as it may stand in a path: never hidden, nothing that separates, one name for each.

    The end of a long one gives way to a digest, behind a sign that stands in no other: there is room for a number and
    an ending within the 255 bytes that a file system gives a name.

    >>> file_name("p1/a"), file_name(".x"), file_name("ann")
    ('p1%2Fa', '%2Ex', 'ann')
    >>> len(file_name("x" * 200)), len(file_name("x" * 201)), len(file_name("x" * 10_000))
    (200, 200, 200)
    """
    quoted = urllib.parse.quote(name, safe=" @+=,()*")
    if len(quoted) > _NAME_BYTES_MAX:
        digest = hashlib.sha256(name.encode()).hexdigest()[:32]
        quoted = f"{quoted[: _NAME_BYTES_MAX - 1 - len(digest)]}!{digest}"
    return f"%{ord(quoted[0]):02X}{quoted[1:]}" if quoted[:1] in ("", ".", "_") and quoted else quoted or "%"


def _write_file(path: Path, table: pa.Table) -> None:
    with replacing(path) as file:
        pq.write_table(
            table,
            file,
            row_group_size=_ROWS_PER_GROUP,
            compression="zstd",
            compression_level=1,
            use_dictionary=_DICTIONARIES,
            column_encoding={"position": "DELTA_BINARY_PACKED"},
        )


def write(run: Run, directory: str | os.PathLike[str]) -> list[Path]:
    """Write a run that is in memory, a file for each process, and return the files.

    Errors: FileExistsError if the run is there already, TraceError, OSError.  Cost: about 0.1 us per event.

    >>> import tempfile
    >>> from busq.trace import SCHEMA, Source
    >>> run = Run(Source("a", "busq", (), 0), ("ann",), (SCHEMA.empty_table(),))
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     [path.name for path in write(run, directory)]
    ['ann-000000.parquet']
    """
    arguments.typed("run", run, Run, "a Run, as busq.trace.read gives it")
    if len(run.processes) != len(run.logs):
        raise TraceError(f"{len(run.processes)} processes and {len(run.logs)} logs: expected a log for each process")
    with Writer(
        directory, run=run.source.name, names=run.processes, order=run.order, source=run.source.format
    ) as writer:
        return [writer.write(process, log.drop_columns(["run"])) for process, log in enumerate(run.logs)]
