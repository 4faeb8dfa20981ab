# SPDX-License-Identifier: Apache-2.0
"""Cutting a small execution out of a large run, around the witness of a check, so that it can be drawn."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from busq.audit.result import Check
from busq.audit.words import Words
from busq.execution import Event, Execution
from busq.spec import History, Verdict, Witness
from busq.trace.run import Run
from busq.trace.schema import Kind, number_of, sender_of

__all__ = ["EVENTS_MAX", "cut", "verdict"]

EVENTS_MAX = 40

_NEIGHBOURS = 6  # rows on each side of a witness's events whose messages may be shown as well
_GETS = (Kind.DELIVER, Kind.REDELIVER)


def cut(run: Run, check: Check, *, events_max: int = EVENTS_MAX) -> Execution:
    """Return the part of a run that shows what a check found, small enough to be drawn.

    That is: the processes of the witness; of its messages, and of those on the way from one to the other, the send
    and all deliveries there; and messages that stand next to these, while no more than `events_max` sends and
    deliveries are shown.  Processes and messages keep their names; events come in an order that fits all logs, or, for
    "side", in that of their times.  Nothing is in it if the check has no witness.  O(events of its processes).

    >>> import pyarrow as pa
    >>> from busq.audit.native import audit
    >>> from busq.trace import Run, Source, message_of
    >>> one, two = message_of(0, 1), message_of(0, 2)
    >>> sent = pa.table({"kind": [1, 1], "message": [one, two], "destinations": [[1], [1]]})
    >>> got = pa.table({"kind": [0, 0], "message": [two, one], "destinations": [[], []]})
    >>> run = Run(Source("doc", "busq", (), 0), ("ann", "bob"), (sent, got))
    >>> execution = cut(run, audit(run).checks["fifo"])
    >>> [execution.label(event.message) for event in execution.events if event.kind == "deliver"]
    ['ann.2', 'ann.1']
    """
    chosen = _Chosen(run, check)
    chosen.add(_messages(check), events_max, must=True)
    chosen.add(_following_loss(run, check), events_max, must=True)
    for message in chosen.neighbours():
        chosen.add([message], events_max)
    return chosen.execution()


def verdict(check: Check) -> Verdict:
    """Return what a check found as `busq.diagram.draw` takes it."""
    witness = Witness(check.messages, check.processes, check.steps, kinds=check.kinds)
    return Verdict(check.ok, check.count, witness if check.count else None, check.text)


def _messages(check: Check) -> list[int]:
    return list(dict.fromkeys((*check.messages, *(message for message, _ in check.steps))))


def _following_loss(run: Run, check: Check) -> list[int]:
    """What shows that a message was lost: the next one of its sender that came."""
    if check.name != "lost" or not check.messages:
        return []
    lost, receiver = check.messages[0], run.processes.index(check.processes[0])
    log = run.logs[receiver]
    later = [
        message
        for message in pc.unique(log["message"].filter(pc.equal(log["kind"], int(Kind.DELIVER)))).to_pylist()
        if message is not None and sender_of(message) == sender_of(lost) and number_of(message) > number_of(lost)
    ]
    return [min(later)] if later else []


@dataclass(frozen=True)
class _Row:
    """A send or a delivery of a log."""

    process: int
    row: int
    kind: Kind
    message: int


class _Chosen:
    """The part of a run that is shown, while it grows."""

    def __init__(self, run: Run, check: Check) -> None:
        self._run = run
        self._check = check
        indices = {name: index for index, name in enumerate(run.processes)}
        named = [*check.processes, *(process for _, process in check.steps)]
        senders = [sender_of(message) for message in _messages(check)]
        found = {indices[name] for name in named if name in indices}
        self._processes = sorted(found | {sender for sender in senders if sender < len(run.processes)})
        self._rows: dict[tuple[int, int], _Row] = {}
        self._messages: set[int] = set()

    def add(self, messages: Iterable[int], events_max: int, *, must: bool = False) -> None:
        """Show messages with all their events at the processes shown, if there is room, or if they must be."""
        wanted = [message for message in messages if message not in self._messages and message < 1 << 63]
        rows = [row for process in self._processes for row in self._find(process, wanted)] if wanted else []
        room = events_max - len(self._rows)
        if rows and (must or len(rows) <= room):
            self._rows |= {(row.process, row.row): row for row in rows[: max(room, 0)]}
            self._messages.update(wanted)

    def _find(self, process: int, messages: Sequence[int]) -> Iterator[_Row]:
        log = self._run.logs[process]
        is_one = pc.is_in(log["message"], value_set=pa.array(messages, pa.int64()))
        for row in pc.indices_nonzero(is_one).to_pylist():
            yield from self._row(process, row)

    def _row(self, process: int, row: int) -> Iterator[_Row]:
        log = self._run.logs[process]
        kind, message = log["kind"][row].as_py(), log["message"][row].as_py()
        if message is not None and kind in (Kind.SEND, *_GETS):
            yield _Row(process, row, Kind.SEND if kind == Kind.SEND else Kind.DELIVER, message)

    def neighbours(self) -> Iterator[int]:
        """The messages of other events, the nearest to those shown first."""
        witness = list(self._rows.values())
        for distance in range(1, _NEIGHBOURS + 1):
            for one in witness:
                for row in (one.row - distance, one.row + distance):
                    if 0 <= row < self._run.logs[one.process].num_rows:
                        yield from (found.message for found in self._row(one.process, row))

    def execution(self) -> Execution:
        """What was chosen, in an order that fits."""
        places = {process: place for place, process in enumerate(self._processes)}
        history = History([self._run.processes[process] for process in self._processes])
        rows = [self._rows[key] for key in sorted(self._rows)]
        for row in rows:
            if row.kind == Kind.SEND:
                history.send(places[row.process], row.message, [places[to] for to in self._to(row) if to in places])
            else:
                history.deliver(places[row.process], row.message)
        words = Words(self._run)
        labels = {message: words.message(message) for message in self._messages}
        execution = Execution.from_history(history, labels=labels)
        if self._check.name != "side":
            return execution
        return _by_time(execution, {(places[row.process], row.kind, row.message): self._time(row) for row in rows})

    def _to(self, row: _Row) -> list[int]:
        return self._run.logs[row.process]["destinations"][row.row].as_py() or []

    def _time(self, row: _Row) -> int | None:
        log = self._run.logs[row.process]
        return log["time_ns"][row.row].as_py() if "time_ns" in log.column_names else None


def _by_time(execution: Execution, times: Mapping[tuple[int, Kind, int], int | None]) -> Execution:
    """Return an execution in the order of its times, if all are known."""
    if None in times.values():
        return execution
    ranks = {time: rank for rank, time in enumerate(sorted({time for time in times.values() if time is not None}))}

    def at(event: Event) -> float:
        kind = Kind.SEND if event.kind in ("sent", "send") else Kind.DELIVER
        return 1.0 + ranks[times[event.process, kind, event.message] or 0]

    events = sorted((replace(event, time_s=at(event)) for event in execution.events), key=lambda event: event.time_s)
    return replace(execution, events=tuple(events))
