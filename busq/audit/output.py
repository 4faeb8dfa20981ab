# SPDX-License-Identifier: Apache-2.0
"""Writes what an audit found as tables, and reads them again; `busq.audit.tables` lists the tables.

Guarantee.  A file is there whole or not at all, and a run is there once: its files are called by its name alone, so an
audit of the same run replaces the rows of the one before.  Another run of that name, from another place, is refused.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import busq
from busq._util.files import check_place, replacing
from busq.audit.blocks import Blocks
from busq.audit.result import TABLE, Audit, Check, Finding, RunAudit, signed
from busq.audit.tables import METADATA, TABLES, VERSION
from busq.errors import BusqError
from busq.trace import places

__all__ = [
    "OutputError",
    "Parts",
    "Written",
    "check_apart",
    "check_room",
    "check_same",
    "is_output",
    "read",
    "tables_of",
    "whole",
    "write",
]

Parts = Mapping[str, Mapping[tuple[str, str], Blocks]]  # by run: what `busq.audit.blocks` found

_NAME_MAX = 80


class OutputError(BusqError, ValueError):
    """A folder that can't take, or doesn't hold, the output of an audit."""


@dataclass(frozen=True)
class Written:
    """What was written: the names of runs that were not there, and of those whose rows were replaced."""

    added: Sequence[str] = field(default_factory=list)
    replaced: Sequence[str] = field(default_factory=list)


# ---- tables in memory ----


def tables_of(found: Audit, parts: Parts | None = None) -> dict[str, pa.Table]:
    """Return what an audit found, as tables; `parts` has the latencies of runs in parts, for intervals.

    >>> from busq.audit import Audit, Check, RunAudit
    >>> run = RunAudit("monday", "a", "csv", ("ann",), 1, 1, 2, {"fifo": Check("fifo", "valid", claimed=True)})
    >>> tables_of(Audit([run], "c", 0.1))["verdicts"].select(["run", "check", "verdict"]).to_pylist()
    [{'run': 'monday', 'check': 'fifo', 'verdict': 'valid'}]
    """
    stamp = _Stamp(found)
    together: dict[str, list[pa.Table]] = {name: [] for name in TABLES}
    for run in found.runs:
        for name, table in _tables(run, stamp, (parts or {}).get(run.run, {})).items():
            together[name].append(table)
    together["findings"].append(_table("findings", _findings(None, found.findings, stamp)))
    return {name: pa.concat_tables(them or [TABLES[name].empty_table()]) for name, them in together.items()}


class _Stamp:
    """What all rows of an audit share."""

    def __init__(self, audit: Audit) -> None:
        self.time = datetime.now(timezone.utc)
        self.audit = f"{self.time:%Y%m%dT%H%M%S.%fZ}-{secrets.token_hex(4)}"
        self.engine = audit.engine
        self.seconds = audit.seconds


def _tables(run: RunAudit, stamp: _Stamp, parts: Mapping[tuple[str, str], Blocks]) -> dict[str, pa.Table]:
    keys = {"run": run.run, "audit": stamp.audit}
    rows: dict[str, list[dict[str, Any]]] = {
        "runs": [keys | _run(run, stamp)],
        "verdicts": [keys | _verdict(check) for check in run.checks.values()],
        "witnesses": [keys | _witness(check) for check in run.checks.values() if check.messages or check.steps],
        "findings": list(_findings(run.run, run.findings, stamp)),
        "latencies": [keys | row for row in _latencies(run, parts)],
        "waits": [keys | _wait(row) for row in run.figures.get("blocked_ms", ())],
    }
    return {name: _table(name, its) for name, its in rows.items()}


def _table(name: str, rows: Any) -> pa.Table:
    return pa.Table.from_pylist(list(rows), schema=TABLES[name])


def _run(run: RunAudit, stamp: _Stamp) -> dict[str, Any]:
    return {
        "audited_at": stamp.time,
        "source": _absolute(run.source),
        "format": run.format,
        "order": run.order or None,
        "ok": run.ok if run.checks else None,
        "processes": list(run.processes),
        "messages": run.messages,
        "deliveries": run.deliveries,
        "events": run.events,
        "engine": stamp.engine,
        "seconds": stamp.seconds,
        "version": busq.__version__,
    }


def _verdict(check: Check) -> dict[str, Any]:
    return {
        "check": check.name,
        "verdict": check.verdict,
        "count": check.count,
        "claimed": check.claimed,
        "at_least": check.at_least,
        "engine": check.engine,
        "text": check.text,
    }


def _witness(check: Check) -> dict[str, Any]:
    kinds = [*check.kinds, *[None] * len(check.steps)]
    return {
        "check": check.name,
        "text": check.text,
        "messages": [signed(message) for message in check.messages],
        "processes": list(check.processes),
        "steps": [
            {"message": signed(message), "process": process, "kind": kind}
            for (message, process), kind in zip(check.steps, kinds, strict=False)
        ],
    }


def _findings(run: str | None, findings: Sequence[Finding], stamp: _Stamp) -> Iterator[dict[str, Any]]:
    for finding in findings:
        yield {
            "run": run,
            "audit": stamp.audit,
            "kind": finding.kind,
            "text": finding.text,
            "count": finding.count,
            "path": finding.path or None,
            "line": finding.line or None,
            "process": finding.process or None,
            "is_error": finding.is_error,
        }


def _latencies(run: RunAudit, parts: Mapping[tuple[str, str], Blocks]) -> Iterator[dict[str, Any]]:
    for figure in ("latency_us", "queueing_us"):
        for row in (*run.figures.get(figure, ()), *run.figures.get(f"{figure}_by_fan_out", ())):
            blocks = parts.get((figure, row.get("process", "")))
            yield {
                "figure": figure.removesuffix("_us"),
                "process": row.get("process"),
                "fan_out": row.get("fan_out"),
                "count": row["count"],
                **{f"{name}_us": row[name] for name in ("p50", "p90", "p99", "max")},
                "blocks_p50_us": blocks.p50_us if blocks else None,
                "blocks_p99_us": blocks.p99_us if blocks else None,
            }


def _wait(row: Mapping[str, Any]) -> dict[str, Any]:
    its = {"process": row["process"], "to": row["to"], "count": row["count"]}
    return its | {"total_ms": row["total"], "longest_ms": row["longest"]}


# ---- files ----


def write(found: Audit, folder: str | os.PathLike[str], parts: Parts | None = None) -> Written:
    """Add what an audit found to a folder, which is made where there is none; rows of the same runs are replaced.

    Parameters: `parts` as in `tables_of`.  Errors: OutputError as `check_room`, OSError.
    Cost: about 4 ms per run.

    >>> import tempfile
    >>> from busq.audit import Audit, RunAudit
    >>> audit = Audit([RunAudit("monday", "a", "csv", (), 0, 0, 0, {})], "c", 0.1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write(audit, folder), write(audit, folder)
    (Written(added=['monday'], replaced=[]), Written(added=[], replaced=['monday']))
    """
    check_room(folder, [(run.run, run.source) for run in found.runs])
    stamp = _Stamp(found)
    added: list[str] = []
    replaced: list[str] = []
    for name in TABLES:
        Path(folder, name).mkdir(parents=True, exist_ok=True)
        _begin(Path(folder, name))
    for run in found.runs:
        its = _tables(run, stamp, (parts or {}).get(run.run, {}))
        (replaced if _path(folder, "runs", run.run).exists() else added).append(run.run)
        for name in (*(name for name in TABLES if name != "runs"), "runs"):
            _put(its[name], _path(folder, name, run.run))
    nobodys = _table("findings", _findings(None, found.findings, stamp))
    _put(nobodys, _path(folder, "findings", "\n".join(sorted(run.run for run in found.runs)), prefix="no-run"))
    return Written(added, replaced)


def _begin(folder: Path) -> None:
    """Write a file without rows into an empty table, so that it can be asked even if nothing is ever put there."""
    path = folder / "0-no-rows.parquet"
    if not path.exists():
        _save(TABLES[folder.name].empty_table(), path)


def _put(table: pa.Table, path: Path) -> None:
    """Give a file these rows; one that would have none goes."""
    if table.num_rows:
        _save(table, path)
    else:
        path.unlink(missing_ok=True)


def _save(table: pa.Table, path: Path) -> None:
    with replacing(path) as file:
        pq.write_table(table, file, compression="zstd")


def _path(folder: str | os.PathLike[str], table: str, run: str, prefix: str = "") -> Path:
    """Return the file of a run: called by its name, as far as names of files can be."""
    plain = prefix or re.sub(r"[^A-Za-z0-9.-]+", "-", run).lstrip(".-")[:_NAME_MAX] or "run"
    digest = hashlib.sha256(run.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return Path(folder, table, f"{plain}-{digest}.parquet")


def check_room(folder: str | os.PathLike[str], runs: Sequence[tuple[str, str]]) -> None:
    """Refuse what `write` could not do, before a long audit.

    Parameters: `runs`, names and first files.  Errors: OutputError if `folder` holds something else, or another run of
    one of these names; OSError.
    """
    if not os.fspath(folder):
        raise OutputError("the output has no name: expected a folder")
    path = Path(folder)
    if path.exists() and not path.is_dir():
        raise OutputError(f"{path}: found a file, expected a folder for the output of audits")
    check_place(path / "runs")
    strangers = sorted(one.name for one in path.iterdir()) if path.is_dir() else []
    if strangers and not set(TABLES) & set(strangers):
        raise OutputError(
            f"{path}: found {strangers[0]}, expected an empty folder, or one that an audit has written: choose another"
        )
    for name, source in runs:
        its = _path(folder, "runs", name)
        before = str(_checked(its)["source"][0].as_py()) if its.exists() else ""
        if before:
            check_same(f"{path}", "folder", name, before, source)


def check_apart(folder: str | os.PathLike[str], paths: Sequence[str]) -> None:
    """OutputError for an output among the logs of one of these paths: the next audit would take its tables for some."""
    its = places.real(os.fspath(folder))
    for path in paths:
        root = places.real(path).rstrip("/")
        if its.startswith(f"{root}/"):
            raise OutputError(
                f"{folder} would stand among the logs of {path}, where the next audit would take its tables for some:"
                " choose a folder beside them"
            )


def check_same(place: str, kind: str, name: str, before: str, source: str) -> None:
    """OutputError if a run of one name is not of the source that it was of before, in a place of some kind."""
    now = _absolute(source)
    if not _is_same(before, now):
        raise OutputError(
            f"{place} holds another run called {name!r}, of {before}: this one is of {now}; choose another {kind}"
        )


def _absolute(path: str) -> str:
    return path if "://" in path or path.startswith(TABLE) or not path else os.path.realpath(path)


def _is_same(before: str, now: str) -> bool:
    """Return whether two first files are of one run: of a recording, the first file may be another one later."""
    both_parquet = before.endswith(".parquet") and now.endswith(".parquet")
    return before == now or (both_parquet and os.path.dirname(before) == os.path.dirname(now))


def is_output(path: str | os.PathLike[str]) -> bool:
    """Return whether a folder holds the output of an audit."""
    return all(Path(path, name).is_dir() for name in TABLES)


def read(folder: str | os.PathLike[str]) -> dict[str, pa.Table]:
    """Return the tables that a folder holds; rows of an audit that was killed while it wrote are left out.

    Errors: OutputError if it holds something else, or what another version wrote; OSError.
    Cost: about 2 ms per run.
    """
    if not is_output(folder):
        raise OutputError(f"{os.fspath(folder)}: expected the output of an audit: folders {', '.join(TABLES)}")
    tables = {}
    for name, schema in TABLES.items():
        files = sorted(Path(folder, name).glob("*.parquet"))
        tables[name] = pa.concat_tables([_checked(path) for path in files] or [schema.empty_table()])
    return whole(tables)


def whole(tables: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
    """Return tables without the rows of an audit that was killed while it wrote."""
    audits = {(row["run"], row["audit"]) for row in tables["runs"].select(["run", "audit"]).to_pylist()}
    return {name: _whole(table, audits) for name, table in tables.items()}


def _whole(table: pa.Table, whole: set[tuple[str, str]]) -> pa.Table:
    keys = zip(table["run"].to_pylist(), table["audit"].to_pylist(), strict=True)
    return table.filter(pa.array([run is None or (run, audit) in whole for run, audit in keys], pa.bool_()))


def _checked(path: Path) -> pa.Table:
    """Return the rows of a file of ours."""
    try:
        table = pq.ParquetFile(path).read()
    except (pa.ArrowException, OSError) as error:
        raise OutputError(f"{path}: {error}") from None
    version = (table.schema.metadata or {}).get(METADATA, b"none").decode()
    if version != str(VERSION):
        raise OutputError(f"{path}: found version {version} of the output of audits, expected {VERSION}")
    return table.cast(TABLES[path.parent.name])
