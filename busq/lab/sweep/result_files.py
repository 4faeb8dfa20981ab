# SPDX-License-Identifier: Apache-2.0
"""The results of a sweep on disk: Parquet files, each written at once by the task that measured what is in it.

Guarantee.  A file that can be seen is whole.  A sweep that is killed at any instant loses what runs, and no more: there
is no other record of what is done than these files.

Mechanism.  A task writes a hidden file and renames it.  The name is a hash of the cells in it, so that a task that runs
twice writes the same file twice.  Not guaranteed: that a cell is measured only once where a task of a killed sweep
lives on while the next begins; both rows are the same then, and one of them counts.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import importlib
import os
import socket
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from busq.errors import BusqError
from busq.lab.sim import run
from busq.lab.sweep.cells import simulator
from busq.lab.sweep.grid import PARAMETERS, RESULTS, Value, config, kind_of

__all__ = [
    "Done",
    "NoArrow",
    "SweepError",
    "columns",
    "finished",
    "holding",
    "listed",
    "measure",
    "need_arrow",
    "place_of",
    "watching",
    "write",
]

FOLDER = "cells"
TICK_S = 0.25
_WHOLE = ("packets", "bytes", "waiting_max", "held_max", "events", "messages", "copies", "deliveries", "unsent", "jobs")
_KINDS = {bool: "bool_", int: "int64", float: "float64", str: "string"}


class SweepError(BusqError):
    """A sweep can't go on; the text says why."""


class NoArrow(SweepError, ImportError):
    """There is no pyarrow here."""


@dataclass(frozen=True)
class Done:
    """What a directory holds: identities of cells that are done, files to read, and what is wrong with others."""

    identities: frozenset[str]
    files: tuple[Path, ...]
    notes: tuple[str, ...] = field(default=())


def need_arrow() -> Any:
    """Return pyarrow; NoArrow names what to install."""
    try:
        return importlib.import_module("pyarrow")
    except ImportError:
        raise NoArrow("busq sweep needs pyarrow: pip install 'busq[spark]'") from None


def columns() -> dict[str, str]:
    """Return the columns of the files, and the name of the Arrow type of each.

    >>> columns()["processes"], columns()["execution_time_s"]
    ('int64', 'float64')
    """
    results = {name: "int64" if name in _WHOLE else "float64" for name in RESULTS}
    return {
        "cell": "string",
        "simulator": "string",
        "seed": "int64",
        **{name: _KINDS[kind_of(name)] for name in PARAMETERS},
        **results,
        "packets_by_kind": "string",
        "ok": "bool_",
        "error": "string",
        "seconds": "float64",
    }


def place_of(directory: str | os.PathLike[str]) -> Path:
    """Return where the files stand in the directory of a sweep."""
    return Path(directory) / FOLDER


# ---- measuring ----


def measure(identity: str, parameters: Mapping[str, Value], seed: int, refused: str = "") -> dict[str, Any]:
    """Simulate a cell, and return its row; an error is in the row, not raised.  `seconds` is of processor time."""
    row: dict[str, Any] = {"cell": identity, "simulator": simulator(), "seed": seed, **parameters}
    begin = time.process_time()
    try:
        if not refused:
            result = run(config(parameters, seed))
            row |= {name: getattr(result, name) for name in RESULTS if name not in ("packets", "bytes")}
            row |= {"packets": sum(result.packets.values()), "bytes": sum(result.bytes.values()), "ok": result.ok}
            row["packets_by_kind"] = " ".join(f"{name}={count}" for name, count in result.packets.items())
            refused = f"got stuck: {result.unsent:,} of {result.copies:,} were never sent" if result.unsent else ""
    except (BusqError, ValueError, MemoryError, OSError) as error:
        refused = f"{type(error).__name__}: {error}"
    row |= {"error": refused or None, "seconds": time.process_time() - begin}
    return row


def write(rows: Sequence[dict[str, Any]], directory: str | os.PathLike[str]) -> Path:
    """Write rows as one file of a sweep, whole or not at all, and return its path.

    Errors: OSError.
    """
    arrow = need_arrow()
    parquet = importlib.import_module("pyarrow.parquet")
    schema = arrow.schema([(name, getattr(arrow, kind)()) for name, kind in columns().items()])
    names = hashlib.sha256(" ".join(sorted(row["cell"] for row in rows)).encode()).hexdigest()[:16]
    place = place_of(directory)
    path = place / f"part-{names}-{len(rows)}.parquet"
    hidden = place / f".{path.name}.{socket.gethostname()}.{os.getpid()}"
    try:
        parquet.write_table(arrow.Table.from_pylist(list(rows), schema), hidden, compression="zstd")
        os.replace(hidden, path)
    finally:
        hidden.unlink(missing_ok=True)
    return path


# ---- reading ----


def listed(directory: str | os.PathLike[str]) -> dict[str, int]:
    """Return the names of the files of a sweep, and how many cells each name speaks of."""
    listed = {}
    with contextlib.suppress(FileNotFoundError):
        for entry in os.scandir(place_of(directory)):
            if entry.name.startswith("part-") and entry.name.endswith(".parquet"):
                number = entry.name[: -len(".parquet")].rpartition("-")[2]
                listed[entry.name] = int(number) if number.isdigit() else 0
    return listed


def finished(directory: str | os.PathLike[str], wanted: Collection[str] = ()) -> Done:
    """Look what is done in the directory of a sweep; the `wanted` cells, or all.

    A file that can't be read is left out, with a note; rows of another simulator too.  What failed is not done.
    Cost: a millisecond per file.
    """
    parquet = importlib.import_module(f"{need_arrow().__name__}.parquet")
    names = set(wanted)
    done: set[str] = set()
    files, notes = [], []
    others = 0
    for name in sorted(listed(directory)):
        path = place_of(directory) / name
        try:
            if missing := sorted(set(columns()) - set(parquet.read_schema(path).names)):
                raise ValueError(f"no column {missing[0]}")
            table = parquet.read_table(path, columns=["cell", "simulator", "error"])
        except (OSError, ValueError) as error:
            notes.append(f"{path}: left out, can't be read ({' '.join(str(error).split())[:100]})")
            continue
        rows = table.to_pydict()
        others += sum(one != simulator() for one in rows["simulator"])
        mine = {cell for cell, error in zip(rows["cell"], rows["error"], strict=True) if error is None}
        done |= mine & names if names else mine
        if not names or names & set(rows["cell"]):
            files.append(path)
    if others:
        notes.append(f"{place_of(directory)}: {others:,} cells of another simulator than {simulator()} are left out")
    return Done(frozenset(done), tuple(files), tuple(notes))


@contextlib.contextmanager
def watching(
    directory: str | os.PathLike[str], total: int, progress: Callable[[int, int], None] | None
) -> Iterator[None]:
    """Call `progress(done, total)` while a block lasts, as files with cells appear."""
    if progress is None:
        yield
        return
    before = set(listed(directory))
    ended = threading.Event()

    def look() -> None:
        done = -1
        while done < total:
            now = sum(count for name, count in listed(directory).items() if name not in before)
            if now != done:
                done = now
                progress(done, total)
            if ended.wait(TICK_S):
                return

    watcher = threading.Thread(target=look, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join()


@contextlib.contextmanager
def holding(directory: str | os.PathLike[str]) -> Iterator[Path]:
    """Make the directory of a sweep, and keep others from sweeping into it meanwhile.

    Errors: SweepError where another sweep works there; OSError.
    """
    place = place_of(directory)
    place.mkdir(parents=True, exist_ok=True)
    with open(Path(directory) / ".lock", "w", encoding="ascii") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SweepError(f"{directory}: another sweep works in this directory: wait, or take another one") from None
        _clear(place)
        yield Path(directory)


def _clear(place: Path) -> None:
    """Remove hidden files of tasks on this machine that live no more."""
    for path in place.glob(f".part-*.{socket.gethostname()}.*"):
        number = path.name.rpartition(".")[2]
        if number.isdigit() and not os.path.exists(f"/proc/{number}"):
            path.unlink(missing_ok=True)
