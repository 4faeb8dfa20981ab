# SPDX-License-Identifier: Apache-2.0
"""New files of a folder, batch by batch, by asking Spark for its list again and again.

Through Spark Connect a stream's batches are handled on the server, where the judge is not.  So the server lists, and
the batches are made here.  Each is written down under its number before it is given away, as a stream does: after a
restart the same files are in the same batches, none is left out, and none comes twice.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Listing"]

FILES_PER_BATCH = 256
POLL_S = 1.0
STOP_S = 30.0
Take = Callable[[Sequence[str], int], None]  # the addresses of files, and the number of their batch


class Listing:
    """Gives new Parquet files below a folder to `take`, in a thread of its own; behaves as a query of a stream.

    `pattern` is the folder as Spark takes it; `place` a folder for the batches; `once` ends it after the files that
    are there.
    """

    def __init__(self, spark: SparkSession, pattern: str, place: Path, take: Take, *, once: bool) -> None:
        self._spark, self._pattern, self._take, self._once = spark, pattern, take, once
        self._place = place
        self._known: set[str] = set()
        self._error: Exception | None = None
        self._ended = threading.Event()
        self._waits = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def isActive(self) -> bool:  # noqa: N802
        """Whether more may come."""
        return self._thread.is_alive()

    @property
    def status(self) -> dict[str, Any]:
        """Its message begins with "Waiting for" while it waits for files, and no data is available then."""
        message = "Waiting for data to arrive" if self._waits else "Processing new data"
        return {"message": message, "isDataAvailable": not self._waits}

    def exception(self) -> Exception | None:
        """Return what ended it, if it was no call of `stop`."""
        return self._error

    def stop(self) -> None:
        """End it; a batch that is being judged is judged first."""
        self._ended.set()
        self._thread.join(STOP_S)

    def _run(self) -> None:
        try:
            number = self._again()
            while not self._ended.is_set():
                for batch in self._new():
                    number += 1
                    self._write(batch, number)
                    self._take(batch, number)
                if self._once:
                    return
                self._waits = True
                self._ended.wait(POLL_S)
                self._waits = False
        except Exception as error:
            if not self._ended.is_set():
                self._error = error

    def _again(self) -> int:
        """Give the batches from before a restart again, as they may not have been judged; return the last."""
        self._place.mkdir(parents=True, exist_ok=True)
        number = -1
        for path in sorted(self._place.glob("[0-9]*.json")):
            number = int(path.stem)
            batch = json.loads(path.read_text())
            self._known.update(batch)
            self._take(batch, number)
        return number

    def _new(self) -> Iterator[list[str]]:
        files = (
            self._spark.read.format("binaryFile")
            .option("pathGlobFilter", "*.parquet")
            .option("recursiveFileLookup", "true")
            .load(self._pattern)
            .select("modificationTime", "path")  # their content is not read
        )
        paths = [path for _, path in sorted(map(tuple, files.collect())) if path not in self._known]
        for begin in range(0, len(paths), FILES_PER_BATCH):
            if self._ended.is_set():
                return
            yield paths[begin : begin + FILES_PER_BATCH]

    def _write(self, batch: list[str], number: int) -> None:
        path = self._place / f"{number:09}.json"
        draft = path.with_suffix(".draft")
        with draft.open("w") as file:
            json.dump(batch, file)
            file.flush()
            os.fsync(file.fileno())
        draft.rename(path)
        self._known.update(batch)
