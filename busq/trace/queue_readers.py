# SPDX-License-Identifier: Apache-2.0
"""The readers of shared queues: a delivery shows which of them took a message, and that becomes its destination.

In a recording each reader is a process of its own, and a message is sent to the queue: to the process of its first
reader.  Which reader gets it is open until one takes it.  Once all logs are there, every message for the queue gets the
reader that took it for its destination, so that all that judges, draws or counts sees a message for one receiver:

- What another reader got besides, marked as repeated or not, counts where it was taken first: there it stands at the
  end of the log, behind all that is in order, and what happened is a local event.
- What came back before its first taker could write it down has only deliveries that are marked.  They are out of order
  by nature, so the first of these readers passes it.
- What no reader took is missing at one that lacks events, if there is one; else where the latest message of its
  sender was taken: it is lost as far as something later arrived.

`busq.audit.spark.large_run.readers` is the same in relations.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from busq.trace.schema import Kind
from busq.trace.tables import Ints, numbers, replaced

__all__ = ["queues_of", "readers_of", "resolved"]


_GOT = pa.array([int(Kind.DELIVER), int(Kind.REDELIVER)], pa.int8())


def readers_of(text: str) -> dict[int, list[int]]:
    """Return the readers that a file's facts name, by process: the process of the queue, and a slot.

    >>> readers_of('{"3": [2, 7]}'), readers_of("nonsense")
    ({3: [2, 7]}, {})
    """
    try:
        found = json.loads(text) if text else {}
        return {int(process): [int(queue), int(slot)] for process, (queue, slot) in found.items()}
    except (ValueError, TypeError, AttributeError):
        return {}


def queues_of(readers: Mapping[int, Sequence[int]]) -> dict[int, int]:
    """Return the queue of each process that reads one together with others, and of the first reader.

    >>> queues_of({2: [2, 5], 3: [2, 7], 4: [4, 8]})
    {2: 2, 3: 2}
    """
    shared = {queue for process, (queue, _) in readers.items() if process != queue}
    queues = {queue: queue for queue in shared} | {process: queue for process, (queue, _) in readers.items()}
    return {process: queue for process, queue in sorted(queues.items()) if queue in shared}


def resolved(logs: Sequence[pa.Table], queues: Mapping[int, int]) -> tuple[pa.Table, ...]:
    """Return logs in which every message for a shared queue has the reader that took it for its destination.

    Parameters: `logs`, by process, with kind, message and destinations; `queues`, as `queues_of` gives them.
    Cost: about 0.2 us per event of the readers, and per send of a run that has some.

    >>> sends = pa.table({"kind": [1, 1], "message": [1, 2], "destinations": [[1], [1]]})
    >>> got = [pa.table({"kind": [0], "message": [message], "destinations": [[]]}) for message in (2, 1)]
    >>> resolved([sends, *got], {1: 1, 2: 1})[0]["destinations"].to_pylist()
    [[2], [1]]
    """
    found = list(logs)
    for queue in sorted(set(queues.values())):
        members = [process for process, its in queues.items() if its == queue and process < len(found)]
        taken = _Taken(found, members)
        for process in members:
            found[process] = taken.log(process)
        for process, log in enumerate(found):
            found[process] = taken.sent(log, queue)
    return tuple(found)


class _Taken:
    """What the readers of one queue took: all their deliveries, those of a message together, the first one in front."""

    def __init__(self, logs: Sequence[pa.Table], members: Sequence[int]) -> None:
        self.logs = tuple(logs)  # as they are: the list of the caller changes
        self.torn = [process for process in members if _has(logs[process], Kind.GAP)]
        message, again, process, row = ([np.zeros(0, np.int64)] for _ in range(4))
        for member in members:
            log = logs[member]
            rows = np.flatnonzero(pc.is_in(log["kind"], value_set=_GOT).to_numpy())
            message.append(numbers(log["message"])[rows])
            again.append((numbers(log["kind"])[rows] == int(Kind.REDELIVER)).astype(np.int64))
            process.append(np.full(len(rows), member, np.int64))
            row.append(rows.astype(np.int64))
        columns = [np.concatenate(parts) for parts in (message, again, process, row)]
        order = np.lexsort(columns[::-1])
        self.message, self.again, self.process, self.row = (column[order] for column in columns)
        is_first = np.diff(self.message, prepend=-1) != 0
        self.first = np.maximum.accumulate(np.where(is_first, np.arange(len(order)), 0))

    def log(self, process: int) -> pa.Table:
        """Return the log of a reader, with what counts here and not where it happened."""
        log, first = self.logs[process], self.first
        is_other = np.arange(len(first)) != first
        is_back = self.again[first] == 1
        moves = is_other & ~is_back & (self.process != self.process[first])
        kinds = numbers(log["kind"]).copy()
        mine = self.process == process
        kinds[self.row[mine & (moves | (is_back & is_other))]] = int(Kind.LOCAL)
        kinds[self.row[mine & is_back & ~is_other]] = int(Kind.PASS)
        settled = replaced(log, "kind", pa.array(kinds, pa.int8()))
        added = np.flatnonzero(moves & (self.process[first] == process))
        added = added[np.lexsort((self.row[added], self.process[added]))]
        return _with_more(settled, [self._copy(place) for place in added]) if len(added) else settled

    def _copy(self, place: int) -> pa.Table:
        return self.logs[int(self.process[place])].slice(int(self.row[place]), 1)

    def sent(self, log: pa.Table, queue: int) -> pa.Table:
        """Return a log whose sends name the reader that took a message, in place of the queue."""
        if "destinations" not in log.column_names or not _has(log, Kind.SEND):
            return log
        column = log["destinations"].combine_chunks()
        lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False)
        to = numbers(column.flatten()).copy()
        owners = np.repeat(np.arange(log.num_rows), lengths)
        is_sent = numbers(log["kind"]) == int(Kind.SEND)
        chosen = np.flatnonzero((to == queue) & is_sent[owners])
        if not len(chosen):
            return log
        to[chosen] = self._takers(numbers(log["message"])[owners[chosen]], queue)
        starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
        lists = pa.ListArray.from_arrays(
            starts, pa.array(to, column.type.value_type), type=column.type, mask=pc.is_null(column)
        )
        return replaced(log, "destinations", lists)

    def _takers(self, messages: Ints, queue: int) -> Ints:
        """Return for each message which reader took it; for one that none took, where it is missing."""
        heads = np.flatnonzero(np.arange(len(self.first)) == self.first)
        known, takers = self.message[heads], self.process[heads]
        at = np.minimum(np.searchsorted(known, messages), max(0, len(known) - 1))
        is_taken = (known[at] == messages) if len(known) else np.zeros(len(messages), np.bool_)
        return np.where(is_taken, takers[at] if len(known) else queue, self._missing(messages, known, takers, queue))

    def _missing(self, messages: Ints, known: Ints, takers: Ints, queue: int) -> Ints:
        if self.torn:
            return np.full(len(messages), self.torn[0], np.int64)
        latest = np.searchsorted(known, (messages >> 32 << 32) + (1 << 32)) - 1  # of the sender, or of one below it
        is_its = (
            (latest >= 0) & (known[latest] >> 32 == messages >> 32) if len(known) else np.zeros(len(messages), bool)
        )
        return np.where(is_its, takers[latest] if len(known) else queue, queue)


def _has(log: pa.Table, kind: Kind) -> bool:
    return bool(pc.any(pc.equal(log["kind"], int(kind))).as_py())


def _with_more(log: pa.Table, rows: Sequence[pa.Table]) -> pa.Table:
    """Return a log with rows of others at its end: at places, and of a process, of its own."""
    more = pa.concat_tables([row.select(log.column_names) for row in rows])
    if "position" in log.column_names:
        last = log["position"][-1].as_py() if log.num_rows else -1
        more = replaced(more, "position", pa.array(np.arange(len(rows)) + last + 1, pa.int64()))
    if "process" in log.column_names and log.num_rows:
        more = replaced(more, "process", pa.array(np.full(len(rows), log["process"][0].as_py()), pa.int32()))
    return pa.concat_tables([log, more])
