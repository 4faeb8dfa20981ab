# SPDX-License-Identifier: Apache-2.0
"""The tables of `busq audit --output`: what an audit found, as Parquet files that SQL and dashboards can read.

The folder holds a folder for each table, and in it a file for each run, so that `results/verdicts/*.parquet` is a
table over all runs.  Every row names its `run` and the `audit` that wrote it.  The row in `runs` is written last: an
audit that was killed while it wrote shows by rows whose `audit` is not the one that `runs` has for that run.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

__all__ = ["MEANINGS", "METADATA", "TABLES", "VERSION", "meaning"]

VERSION = 1

METADATA = b"busq.audit"  # the key under which a file's schema names its version

_MEANING = b"meaning"


def _column(name: str, kind: pa.DataType, text: str, *, nullable: bool = True) -> pa.Field:
    return pa.field(name, kind, nullable=nullable, metadata={_MEANING: text.encode()})


def meaning(field: pa.Field) -> str:
    """Return what a column means.

    >>> meaning(TABLES["verdicts"].field("check"))
    'the name of the check'
    """
    return str(field.metadata[_MEANING].decode())


MEANINGS: Mapping[str, str] = {
    "runs": "A row for each run.",
    "verdicts": "A row for each check of each run.",
    "witnesses": "A row for each check that has a witness: who did what with which messages.  `busq.spec.Witness` says "
    "what they mean.",
    "findings": "A row for each thing that is wrong with, or remarkable about, the logs themselves.",
    "latencies": "A row for each receiver, and for each number of destinations, of each run whose log has times.",
    "waits": "A row for each process and direction, of runs in which a process waited.",
}

_KEYS = (
    _column("run", pa.string(), "the name of the run; null for findings about what belongs to no run"),
    _column("audit", pa.string(), "the audit that wrote the row; sorts by the time of its end", nullable=False),
)
_TEXTS = pa.list_(pa.field("item", pa.string(), nullable=False))
_STEP = pa.struct(
    [
        pa.field("message", pa.int64(), nullable=False),
        pa.field("process", pa.string(), nullable=False),
        pa.field("kind", pa.string()),
    ]
)
_BLOCKS = pa.list_(pa.field("item", pa.float64(), nullable=False))

_COLUMNS: Mapping[str, tuple[pa.Field, ...]] = {
    "runs": (
        _column("audited_at", pa.timestamp("us", tz="UTC"), "when the audit ended", nullable=False),
        _column(
            "source",
            pa.string(),
            "the first file of the run, as an absolute path; or table: and a name",
            nullable=False,
        ),
        _column("format", pa.string(), "of the logs", nullable=False),
        _column("order", pa.string(), "whose claims were held against it; null if nobody said"),
        _column("ok", pa.bool_(), "claimed properties hold, and the logs are sound; null if nothing could be judged"),
        _column("processes", _TEXTS, "their names", nullable=False),
        _column("messages", pa.int64(), "sent", nullable=False),
        _column("deliveries", pa.int64(), "of messages", nullable=False),
        _column("events", pa.int64(), "of all kinds", nullable=False),
        _column("engine", pa.string(), "what judged: c or spark", nullable=False),
        _column("seconds", pa.float64(), "the time of the audit, of all its runs together", nullable=False),
        _column("version", pa.string(), "of busq", nullable=False),
    ),
    "verdicts": (
        _column("check", pa.string(), "the name of the check", nullable=False),
        _column("verdict", pa.string(), "valid, invalid or unknown", nullable=False),
        _column("count", pa.int64(), "of faults, as busq.spec counts them", nullable=False),
        _column("claimed", pa.bool_(), "whether a fault makes the audit fail", nullable=False),
        _column("at_least", pa.bool_(), "whether the count is a lower bound", nullable=False),
        _column("engine", pa.string(), "what settled it: certificate, island, c or relational", nullable=False),
        _column("text", pa.string(), "the smallest witness in words, what holds, or why it is unknown", nullable=False),
    ),
    "witnesses": (
        _column("check", pa.string(), "the name of the check", nullable=False),
        _column("text", pa.string(), "the witness in words", nullable=False),
        _column("messages", pa.list_(pa.field("item", pa.int64(), nullable=False)), "as in the trace", nullable=False),
        _column("processes", _TEXTS, "their names", nullable=False),
        _column(
            "steps", pa.list_(pa.field("item", _STEP, nullable=False)), "from the one to the other", nullable=False
        ),
    ),
    "findings": (
        _column("kind", pa.string(), "as bad-line, gap, truncated", nullable=False),
        _column("text", pa.string(), "what was found, in words", nullable=False),
        _column("count", pa.int64(), "of its kind", nullable=False),
        _column("path", pa.string(), "the file; null if it is about none"),
        _column("line", pa.int64(), "of the first one, from 1; null if it is about none"),
        _column("process", pa.string(), "whose log it is about; null if it is about none"),
        _column("is_error", pa.bool_(), "whether it fails an audit with --strict", nullable=False),
    ),
    "latencies": (
        _column(
            "figure",
            pa.string(),
            "latency: from the call of the send to the delivery; queueing: from its commit",
            nullable=False,
        ),
        _column("process", pa.string(), "the receiver; null in rows by fan_out"),
        _column("fan_out", pa.int64(), "the number of destinations; null in rows by receiver"),
        _column("count", pa.int64(), "of deliveries", nullable=False),
        _column("p50_us", pa.float64(), "the median, in us; off by less than 1 %", nullable=False),
        _column("p90_us", pa.float64(), "90 % took no longer", nullable=False),
        _column("p99_us", pa.float64(), "99 % took no longer", nullable=False),
        _column("max_us", pa.float64(), "the longest", nullable=False),
        _column(
            "blocks_p50_us",
            _BLOCKS,
            "the medians of 20 consecutive parts of the receiver's deliveries, from which --compare takes its "
            "intervals; null for fewer than 100 deliveries, and for runs that were not read into memory",
        ),
        _column("blocks_p99_us", _BLOCKS, "the same, of the 99 % quantile; null for fewer than 2,000 deliveries"),
    ),
    "waits": (
        _column("process", pa.string(), "who waited", nullable=False),
        _column("to", pa.string(), "send or receive", nullable=False),
        _column("count", pa.int64(), "of waits", nullable=False),
        _column("total_ms", pa.float64(), "their sum", nullable=False),
        _column("longest_ms", pa.float64(), "the longest", nullable=False),
    ),
}

TABLES: Mapping[str, pa.Schema] = {
    name: pa.schema([*_KEYS, *columns], metadata={METADATA: str(VERSION).encode()})
    for name, columns in _COLUMNS.items()
}
