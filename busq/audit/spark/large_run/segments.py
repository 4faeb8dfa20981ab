# SPDX-License-Identifier: Apache-2.0
"""A look at busq's own files where they stand, a file at a time: no row moves, only summaries do.

Each file holds a segment of the log of one process, in program order.  What a check has to know of everything before an
event is a maximum; so is what it has to know of a segment, and segments are put together in order afterwards.  What
comes out is what `checks.fingerprints` and `islands.stepped` find, as far as the certificate needs it: sums of hashes
per sender and receiver, and whether the stamps fall anywhere.  A hot receiver has longer files, and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from busq.trace.errors import TraceError
from busq.trace.numbering import PROCESSES_MAX
from busq.trace.schema import Kind
from busq.trace.tables import BROKEN

__all__ = ["Summary", "look_at", "put_together", "summarise"]

BATCH_ROWS = 1 << 18
STAMP_MAX = (1 << 62) // PROCESSES_MAX
LEAST = -(1 << 62)

_COLUMNS = (
    *("position", "kind", "message", "destinations", "stamp", "time_ns", "commit_ns", "end_ns", "clock", "label"),
    "group",
)
_ROW = "process int, facts map<string,bigint>, senders array<int>, receivers array<int>, sums array<bigint>"
_SUMS = 10  # for each sender and receiver: sent, delivered, and two hashes in four parts of 16 bits
_ARROW = pa.schema(
    [
        ("process", pa.int32()),
        ("facts", pa.map_(pa.string(), pa.int64())),
        ("senders", pa.list_(pa.int32())),
        ("receivers", pa.list_(pa.int32())),
        ("sums", pa.list_(pa.int64())),
    ]
)

Ints: TypeAlias = npt.NDArray[np.int64]


@dataclass
class Summary:
    """The summary of all files of a run.

    `profile` has the facts of each process, as `case.Case` wants them; `differing` the senders and receivers whose
    copies differ; `are_restamped`: stamps differ somewhere, too, or copies do.  `is_rising`: no stamp falls, by
    property ("total", "causal"), if there are stamps everywhere.  `is_in_order`: no position falls; `are_named`: names
    are those that `checks` relies on, without which copies and stamps are not judged.
    """

    profile: dict[int, dict[str, int | None]] = field(default_factory=dict)
    differing: list[tuple[int, int]] = field(default_factory=list)
    are_restamped: bool = False
    is_rising: dict[str, bool] = field(default_factory=dict)
    is_in_order: bool = True
    are_named: bool = True

    def total(self, name: str) -> int:
        """Return the sum of a figure over all processes."""
        return sum(facts[name] or 0 for facts in self.profile.values())


def summarise(spark: SparkSession, logs: Sequence[tuple[int, str]]) -> Summary:
    """Look at the files of a run, given as processes and paths in program order.

    Cost: 0.3 us per event, shared by the cores; the files must be where the executors are.
    """
    rows = [(place, process, path) for place, (process, path) in enumerate(logs)]
    frame = spark.createDataFrame(rows, "place int, process int, path string").repartition(len(rows), "place")
    answers = frame.mapInArrow(_look, "place int, " + _ROW).toArrow().to_pylist()
    return put_together(sorted(answers, key=lambda row: row["place"]))


def put_together(rows: Iterable[dict[str, Any]]) -> Summary:
    """Put the summaries of `look_at` together, in program order."""
    summary, sums = Summary(is_rising={"total": True, "causal": True}), dict[tuple[int, int], Ints]()
    carried: dict[int, dict[str, int]] = {}
    for row in rows:
        facts = dict(row["facts"])
        if not facts["rows"]:
            continue
        before = carried.setdefault(row["process"], {})
        _follow(summary, facts, before)
        _add(summary.profile.setdefault(row["process"], {}), facts)
        parts = np.array(row["sums"], np.int64).reshape(-1, _SUMS)
        for pair, part in zip(zip(row["senders"], row["receivers"], strict=True), parts, strict=True):
            sums[pair] = sums.get(pair, np.zeros(_SUMS, np.int64)) + part
    summary.differing = sorted(pair for pair, part in sums.items() if part[0] != part[1] or part[2:6].any())
    summary.are_restamped = any(part[0] != part[1] or part[2:].any() for part in sums.values())
    return summary


def _follow(summary: Summary, facts: dict[str, int], before: dict[str, int]) -> None:
    """Hold a segment against those before it, of the same process."""
    delivered, sent = before.get("delivered_high", LEAST), before.get("sent_high", LEAST)
    first, last = facts["first"], before.get("last")
    summary.is_in_order &= not facts["back"] and (last is None or first >= last)
    facts["doubled"] += first == last
    falls = facts.get("delivered_low", -LEAST) <= delivered
    summary.is_rising["total"] &= not facts["delivered_falls"] and not falls
    precedes = facts.get("sent_low", -LEAST) <= max(delivered, sent)
    summary.is_rising["causal"] &= summary.is_rising["total"] and not facts["sent_falls"] and not precedes
    summary.are_named &= (
        not facts["misnamed"] and not facts["strange"] and facts.get("lowest", -LEAST) > before.get("highest", LEAST)
    )
    for name in ("delivered_high", "sent_high", "last", "highest"):
        if name in facts:
            before[name] = max(facts[name], before.get(name, LEAST))


_LEAST_OF = {"first", "stamp_low", "time_low", "lowest", "delivered_low", "sent_low"}
_GREATEST_OF = {"last", "highest", "farthest", "stamp_high", "time_high", "delivered_high", "sent_high"}
_GREATEST_OF |= {"died_high", "joined_high"}
_COUNTS = (
    *("rows", "sends", "deliveries", "unsettled", "repetitions", "gaps", "waits", "unstamped", "delivery_times"),
    *("send_times", "ends", "commits", "clocks", "labels", "passes", "grouped"),
    *("back", "doubled", "delivered_falls", "sent_falls", "misnamed", "strange"),
)
_ALWAYS = ("first", "last", "highest", "farthest", "stamp_low", "stamp_high", "time_low", "time_high")


def _add(known: dict[str, int | None], facts: dict[str, int]) -> None:
    for name in _ALWAYS:
        known.setdefault(name, None)
    for name, value in facts.items():
        old = known.get(name)
        if old is None:
            known[name] = value
        elif name in _LEAST_OF:
            known[name] = min(old, value)
        elif name in _GREATEST_OF:
            known[name] = max(old, value)
        else:
            known[name] = old + value


# ---- inside of a task ----


def _look(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    schema = pa.schema([("place", pa.int32()), *_ARROW])
    for batch in batches:
        for row in batch.to_pylist():
            facts = look_at(row["process"], row["path"])
            pa.default_memory_pool().release_unused()  # the worker stays, and others judge what it found
            yield pa.RecordBatch.from_pylist([{"place": row["place"], **facts}], schema=schema)


def look_at(process: int, path: str) -> dict[str, Any]:
    """Look at a file, which holds a segment of the log of one process: a row of a summary."""
    return _Segment(process).read(path)


class _Segment:
    """Return the content of a file, batch by batch."""

    def __init__(self, process: int) -> None:
        self.process = process
        self.facts: dict[str, int | None] = {}
        self.sums: dict[tuple[int, int], Ints] = {}
        self.delivered = self.sent = self.named = LEAST
        self.last: int | None = None
        self.are_strange = False

    def read(self, path: str) -> dict[str, Any]:
        """Read the file, once."""
        _add(self.facts, dict.fromkeys(_COUNTS, 0))
        try:
            with pq.ParquetFile(path) as file:
                there = [name for name in _COLUMNS if name in file.schema_arrow.names]
                for batch in file.iter_batches(BATCH_ROWS, columns=there, use_threads=False):
                    if batch.num_rows:
                        self._read(batch)
        except BROKEN as error:
            reason = str(error).splitlines()[0]
            raise TraceError(f"{path}: the file is damaged or cut off: {reason}") from None
        pairs = sorted(self.sums)
        return {
            "process": self.process,
            "facts": [(name, value) for name, value in self.facts.items() if value is not None],
            "senders": [sender for sender, _ in pairs],
            "receivers": [receiver for _, receiver in pairs],
            "sums": np.concatenate([self.sums[pair] for pair in pairs]).tolist() if pairs else [],
        }

    def _read(self, batch: pa.RecordBatch) -> None:
        column = {name: batch.column(name) for name in batch.schema.names}
        kinds = column["kind"].to_numpy(zero_copy_only=False)
        send, delivery = kinds == Kind.SEND, kinds == Kind.DELIVER
        has = {name: _valid(column.get(name), len(kinds)) for name in _COLUMNS}
        both = send | delivery
        positions = column["position"].to_numpy(zero_copy_only=False)
        self._note_positions(positions)
        times, stamps = _numbers(column.get("time_ns"), len(kinds)), _numbers(column.get("stamp"), len(kinds))
        _add(
            self.facts,
            {
                "rows": len(kinds),
                "sends": int(send.sum()),
                "deliveries": int(delivery.sum()),
                "unsettled": int(((kinds == Kind.ABORT) | (kinds == Kind.REDELIVER)).sum()),
                "repetitions": int((kinds == Kind.REDELIVER).sum()),
                "gaps": int((kinds == Kind.GAP).sum()),
                "waits": int((kinds == Kind.BLOCK).sum()),
                "unstamped": int((both & ~has["stamp"]).sum()),
                "delivery_times": int((delivery & has["time_ns"]).sum()),
                "send_times": int((send & has["time_ns"]).sum()),
                "ends": int((send & has["end_ns"]).sum()),
                "commits": int((send & has["commit_ns"]).sum()),
                "clocks": int(has["clock"].sum()),
                "passes": int((kinds == Kind.PASS).sum()),
                "grouped": int(has["group"].sum()),
                "labels": int((send & has["label"]).sum()),
                **_ends("died", positions[kinds == Kind.DIE]),
                **_ends("joined", positions[kinds == Kind.JOIN]),
                **_ends("time", times[send & has["time_ns"]]),
                **_ends("stamp", stamps[both & has["stamp"]]),
            },
        )
        messages = _numbers(column["message"], len(kinds))
        self._note_names(messages[send])
        self._note_stamps(stamps, messages, send, delivery)
        arrived = delivery | ((kinds == Kind.PASS) & has["message"])  # what was passed is as little lost
        self._note_deliveries(messages[arrived], stamps[arrived])
        if has["clock"].any():  # which may know of more processes
            _add(self.facts, {"farthest": (pc.max(pc.list_value_length(column["clock"])).as_py() or 0) - 1})
        if send.any():
            chosen = column["destinations"].filter(pa.array(send))
            self._note_sends(messages[send], stamps[send], chosen)

    def _note_positions(self, positions: Ints) -> None:
        steps = np.diff(positions) if self.last is None else np.diff(positions, prepend=self.last)
        self.last = int(positions[-1])
        moved = {"back": int((steps < 0).sum()), "doubled": int((steps == 0).sum())}
        _add(self.facts, {"first": int(positions.min()), "last": int(positions.max()), **moved})

    def _note_names(self, messages: Ints) -> None:
        if not len(messages):
            return
        wrong = (messages >> 32) != self.process
        wrong |= np.diff(messages, prepend=self.named) <= 0
        self.named = int(messages[-1])
        _add(
            self.facts,
            {"misnamed": int(wrong.sum()), "lowest": int(messages.min()), "highest": int(messages.max())},
        )

    def _note_stamps(self, stamps: Ints, messages: Ints, send: Any, delivery: Any) -> None:
        """Whether an event ranks below one before it, in this segment."""
        if stamps.max(initial=0) >= STAMP_MAX or stamps.min(initial=0) < 0:
            _add(self.facts, {"delivered_falls": 1, "sent_falls": 1})
            return
        ranks = stamps * PROCESSES_MAX + (messages >> 32) % PROCESSES_MAX
        delivered = np.maximum.accumulate(np.concatenate([[self.delivered], np.where(delivery, ranks, LEAST)]))
        sent = np.maximum.accumulate(np.concatenate([[self.sent], np.where(send, ranks, LEAST)]))
        falls = delivery & (ranks <= delivered[:-1])
        precedes = send & (ranks <= np.maximum(delivered[:-1], sent[:-1]))
        self.delivered, self.sent = int(delivered[-1]), int(sent[-1])
        _add(
            self.facts,
            {
                "delivered_falls": int(falls.sum()),
                "sent_falls": int(precedes.sum()),
                **_ends("delivered", ranks[delivery]),
                **_ends("sent", ranks[send]),
            },
        )

    def _note_deliveries(self, messages: Ints, stamps: Ints) -> None:
        self._note(messages, stamps, (messages >> 32).astype(np.int64), sign=-1)

    def _note_sends(self, messages: Ints, stamps: Ints, destinations: Any) -> None:
        counts = pc.fill_null(pc.list_value_length(destinations), 0).to_numpy(zero_copy_only=False)
        flat = destinations.flatten().to_numpy(zero_copy_only=False).astype(np.int64)
        if len(flat):
            _add(self.facts, {"farthest": int(flat.max())})
        owner = np.repeat(np.arange(len(messages)), counts)
        keys = owner * PROCESSES_MAX + flat
        if len(keys) > 1 and (np.diff(keys) <= 0).any():  # a process may be named twice
            keys = np.sort(keys)
            keys = keys[np.diff(keys, prepend=-1) > 0]
            owner, flat = keys // PROCESSES_MAX, keys % PROCESSES_MAX
        self._note(messages[owner], stamps[owner], flat, sign=1)

    def _note(self, messages: Ints, stamps: Ints, others: Ints, *, sign: int) -> None:
        """Add up, by the process on the other side, numbers and hashes of copies."""
        if not len(messages) or self.are_strange:
            return
        least = int(others.min())
        if int(others.max()) - least < PROCESSES_MAX:
            names, places = np.arange(least, int(others.max()) + 1), others - least
        else:  # some are no processes
            names, places = np.unique(others, return_inverse=True)
        if (
            len(names) > PROCESSES_MAX or self.facts["misnamed"]
        ):  # names contain no senders: there is nothing to add up by
            self.are_strange = True
            self.sums.clear()
            _add(self.facts, {"strange": 1})
            return
        counts = np.bincount(places)
        columns = [counts if sign > 0 else 0 * counts, counts if sign < 0 else 0 * counts]
        name = _hash(messages)
        for hashed in (name, _hash(name ^ _hash(stamps))):
            for shift in (0, 16, 32, 48):
                part = ((hashed >> np.uint64(shift)) & np.uint64(0xFFFF)).astype(np.float64)
                columns.append(sign * np.bincount(places, part).astype(np.int64))
        table = np.stack(columns, axis=1)
        for place in np.flatnonzero(counts).tolist():
            other, row = int(names[place]), table[place]
            pair = (self.process, other) if sign > 0 else (other, self.process)
            self.sums[pair] = self.sums.get(pair, np.zeros(_SUMS, np.int64)) + row


def _valid(column: Any, count: int) -> Any:
    if column is None or column.null_count == count:
        return np.zeros(count, bool)
    if not column.null_count:
        return np.ones(count, bool)
    return column.is_valid().to_numpy(zero_copy_only=False)


def _numbers(column: Any, count: int) -> Ints:
    if column is None or column.null_count == count:
        return np.zeros(count, np.int64)
    numbers: Ints = (column.fill_null(0) if column.null_count else column).to_numpy(zero_copy_only=False)
    return numbers


def _ends(name: str, values: Ints) -> dict[str, int]:
    return {f"{name}_low": int(values.min()), f"{name}_high": int(values.max())} if len(values) else {}


def _hash(values: Any) -> npt.NDArray[np.uint64]:
    """Mix 64 bits, so that sums of different sets differ (the finalizer of splitmix64, by Sebastiano Vigna)."""
    with np.errstate(over="ignore"):
        mixed = values.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        hashed: npt.NDArray[np.uint64] = mixed ^ (mixed >> np.uint64(31))
        return hashed
