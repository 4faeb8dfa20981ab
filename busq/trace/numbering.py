# SPDX-License-Identifier: Apache-2.0
"""The mapping of foreign names: processes become indices, and messages their sender and a number.

All readers whose processes and messages may have any names hand over `busq.trace.events.Events`; everything after that
happens here and in `busq.trace.ordering`, column by column: `named` gives indices to processes, `mapped` makes the run.
Where a log leaves something open, the guess and its finding are made here:

- a destination such as "*" means all processes, unless a process has that name;
- where no send has destinations, a message was sent to those that delivered it, and losses are unknown; several
  receivers may each read a choice of their own, unless by the option `broadcast` each was to all;
- a name that several senders use means one message of each; a delivery without a sender means the first;
- a delivered message that was never sent gets a number that no sent message has.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from busq._util.humanize import amount
from busq.trace.builder import FAILED, PHANTOM, UNKNOWN_SENDER, as_list, by_nature, wanted
from busq.trace.errors import TraceError
from busq.trace.events import Events, Rows
from busq.trace.field_names import EVERYBODY
from busq.trace.finding import Finding
from busq.trace.guesses import NO_DESTINATIONS, RECEIVERS_DERIVED, alike, derived, one_sided
from busq.trace.ordering import by_clocks, in_order
from busq.trace.own_names import SHORT_NUMBER, are_counted, own_numbers_of
from busq.trace.run import Run, Source
from busq.trace.schema import SCHEMA, Kind, message_of
from busq.trace.tables import in_one_piece
from busq.trace.vague_rows import pass_vague
from busq.trace.vector_clocks import Event, messages

__all__ = ["PROCESSES_MAX", "Processes", "indexed", "longest_list", "mapped", "named", "numbered", "same_type"]

PROCESSES_MAX = 65536
_MAPPED = frozenset({"process", "kind", "message", "destinations", "sender"})
_KEPT = ("time_ns", "commit_ns", "end_ns", "stamp")  # columns that stay as they are
_NUMBER = re.compile(r"-?\d{1,99}", re.ASCII)
_NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True)
class Processes:
    """Processes by index: `names` as the log has them, `labels` as people read them.

    `are_indices`: the log calls them by these indices.  `words` stand for all processes, and have the indices after
    them.  `unheard` are those that only clocks mention.
    """

    names: Sequence[str]
    labels: Sequence[str]
    are_indices: bool
    words: Sequence[str] = ()
    unheard: frozenset[int] = frozenset()

    @property
    def called(self) -> dict[str, str]:
        """The labels of processes by their names."""
        return dict(zip(self.names, self.labels, strict=True))


# ---- processes become indices ----


def named(source: Source, events: Events) -> tuple[Rows, Processes]:
    """Return events with indices for processes, and the processes; TraceError if there are too many."""
    its = events.columns
    lists: Any = its.get("destinations")
    has_lists = lists is not None and not pa.types.is_null(lists.type)
    flat = lists.flatten() if has_lists else pa.array([], pa.int64())
    alike = same_type(its["process"], flat, its.get("sender", pa.nulls(0)))
    encoded = pc.dictionary_encode(pa.chunked_array(alike))
    dictionary = encoded.chunk(0).dictionary if encoded.num_chunks else pa.array([], pa.int64())
    codes = np.concatenate([_codes(chunk) for chunk in encoded.chunks]) if encoded.num_chunks else np.zeros(0, int)
    values = dictionary.to_pylist()
    log_in = set(np.flatnonzero(np.bincount(codes[: len(its["process"])] + 1)) - 1)
    words = [n for n, value in enumerate(values) if str(value).lower() in EVERYBODY and n not in log_in]
    heard = [value for n, value in enumerate(values) if n not in words]
    unheard = _named_by_clocks(events.clocks or (), heard)
    messages_ = pc.dictionary_encode(its["message"])
    own_numbers = own_numbers_of(events, messages_.dictionary)
    has_own = events.are_lines and own_numbers is not None
    if has_own and all(map(SHORT_NUMBER.fullmatch, [*heard, *unheard])):
        heard, unheard = list(map(int, heard)), list(map(int, unheard))
    elif own_numbers is None and not are_counted(heard, longest_list(its.get("clock"))):
        heard = list(map(str, heard))
    names, labels, places = indexed([*heard, *unheard], SHORT_NUMBER if events.are_lines else _NUMBER)
    are_indices = places == [*heard, *unheard]
    if are_indices:  # clocks may know of more
        more = range(len(names), longest_list(its.get("clock")))
        names, labels = [*names, *map(str, more)], [*labels, *(f"p{index}" for index in more)]
    if len(names) > PROCESSES_MAX:
        raise TraceError(f"{source.name}: {len(names):,} processes: expected at most {PROCESSES_MAX:,}")
    index = np.full(len(values) + 1, -1, np.int32)
    index[[n for n in range(len(values)) if n not in words]] = places[: len(heard)]
    index[words] = len(names) + np.arange(len(words))
    codes = index[codes]
    ends = np.cumsum([len(array) for array in alike])
    process, to, sender = codes[: ends[0]], codes[ends[0] : ends[1]], codes[ends[1] :]
    if not len(sender) or (has_own and not are_indices):  # then the name of a message contains its sender
        sender = np.full(len(process), -1, np.int32)
    rows = Rows(
        **vars(events) | {"columns": {name: column for name, column in its.items() if name not in _MAPPED}},
        process=process,
        kind=its["kind"].to_numpy(zero_copy_only=False),
        message=_codes(messages_),
        sender=np.where(sender < len(names), sender, np.int32(-1)),
        to=to,
        lengths=_lengths(lists) if len(flat) else np.zeros(len(process), np.int32),
        tells=pc.is_valid(lists).to_numpy(False) if has_lists else np.zeros(len(process), bool),
        messages=messages_.dictionary,
        own_numbers=own_numbers,
    )
    its_words = [str(values[n]) for n in words]
    return rows, Processes(names, labels, are_indices, its_words, frozenset(places[len(heard) :]))


def _named_by_clocks(clocks: Sequence[Any], values: Sequence[Any]) -> list[Any]:
    """Return the processes that only clocks mention."""
    known = set(map(str, values))
    names = {name: None for clock in clocks if isinstance(clock, Mapping) for name in clock}
    lists = [clock for clock in clocks if isinstance(clock, list)]
    if lists and all(map(SHORT_NUMBER.fullmatch, known | set(names))):
        first = 0 if "0" in known | set(names) else 1
        names |= dict.fromkeys(str(first + index) for index in range(max(map(len, lists))))
    return [name for name in names if name not in known]


def indexed(values: Sequence[Any], number: re.Pattern[str] = _NUMBER) -> tuple[list[str], list[str], list[int]]:
    """Return names of processes by index, what people read for them, and the index of each of these values.

    Small numbers are indices: then there are also those below the greatest that the log does not mention; numbers in
    text are names.

    >>> indexed([2, 0]), indexed(["2", "-1"])
    ((['0', '1', '2'], ['p0', 'p1', 'p2'], [2, 0]), (['-1', '2'], ['p-1', 'p2'], [1, 0]))
    """
    are_numbers = bool(values) and isinstance(values[0], int)
    if are_numbers and min(values) >= 0 and max(values) < 4 * len(values) + 16:
        names = [str(index) for index in range(max(values) + 1)]
        return names, [f"p{name}" for name in names], list(values)
    names = list(map(str, values))
    names = sorted(names, key=int) if all(map(_NUMBER.fullmatch, names)) else by_nature(names)
    places = {name: place for place, name in enumerate(names)}
    labels = [f"p{name}" for name in names] if all(map(number.fullmatch, names)) else names
    return names, labels, [places[str(value)] for value in values]


def same_type(*arrays: Any) -> list[Any]:
    """Return names with one type: numbers, if all of them are, or text."""
    kinds = {array.type for array in arrays if not pa.types.is_null(array.type)}
    kind = kinds.pop() if len(kinds) == 1 else pa.string()
    return [pc.cast(array, kind) for array in arrays]


def longest_list(lists: Any) -> int:
    """Return the length of the longest list in a column."""
    return 0 if lists is None or pa.types.is_null(lists.type) else pc.max(pc.list_value_length(lists)).as_py() or 0


def _lengths(lists: Any) -> Any:
    return pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False).astype(np.int32)


def _codes(encoded: Any) -> Any:
    """Return the indices of a column with a dictionary, -1 for nulls."""
    return pc.fill_null(in_one_piece(encoded).indices, -1).to_numpy(zero_copy_only=False)


# ---- a run ----


def mapped(
    source: Source, rows: Rows, processes: Processes, findings: list[Finding], columns: Sequence[str] | None
) -> Run:
    """Return the run that events make; what had to be guessed is added to `findings`.

    Cost: about 0.3 us per event, and twice its size in memory.
    """
    for names in (pa.array(processes.names, pa.string()), rows.messages):
        findings += alike(source.paths[0], names)
    rows = _with_one_send_each(rows)
    rows = _with_all_for_words(source, rows, processes, findings)
    in_order(source, rows, processes.labels, findings)
    if rows.clocks:
        events = by_clocks(source, rows, processes.names, processes.labels, findings)
        if not np.isin(rows.kind, (Kind.SEND, Kind.DELIVER)).any():
            return _of_clocks(source, rows, processes, events, findings, columns)
        clocks = {event.origin: as_list(event.clock, len(processes.names)) for log in events for event in log}
        its = [clocks[row] if any(clocks[row]) else None for row in range(len(rows.kind))]
        rows.columns["clock"] = pa.array(its, SCHEMA.field("clock").type)
    findings += one_sided(source, int(rows.is_send.sum()), int(rows.is_delivery.sum()))
    numbers, labels = _message_numbers(rows, processes, findings)
    rows = _with_destinations(source, rows, numbers, processes, findings)
    pass_vague(source, rows, numbers, len(processes.names), findings)
    return _run(source, rows, processes, numbers, labels, findings, columns)


def _of_clocks(
    source: Source,
    rows: Rows,
    processes: Processes,
    events: Sequence[list[Event]],
    findings: list[Finding],
    columns: Sequence[str] | None,
) -> Run:
    """Return the run with the messages that follow from its clocks."""
    logs = messages(events)
    findings += derived(logs, rows.nameless)
    tables = tuple(log.table(source.name, index, columns) for index, log in enumerate(logs))
    return Run(source, tuple(processes.labels), tables, findings=tuple(findings), is_derived=True)


def _with_one_send_each(rows: Rows) -> Rows:
    """Return rows with one send for each message, to all of its destinations, at the earliest time: where a row is a
    message, it may have a row for each destination."""
    places = np.flatnonzero(rows.of_messages & rows.is_send & (rows.message >= 0))
    _, first, back = np.unique(rows.keys[places], return_index=True, return_inverse=True)
    if len(first) == len(places):
        return rows
    count = len(rows.kind)
    owner = np.arange(count)
    owner[places] = places[first[back.reshape(-1)]]
    size = int(rows.to.max(initial=0)) + 1
    pairs = np.unique(owner[rows.owners] * size + rows.to)
    columns = rows.columns
    if "time_ns" in columns:
        times = pc.fill_null(columns["time_ns"], _NEVER).to_numpy(zero_copy_only=False).copy()
        np.minimum.at(times, owner[places], times[places])
        columns = columns | {"time_ns": pa.array(times, pa.int64(), mask=times == _NEVER)}
    lengths = np.bincount(pairs // size, minlength=count)
    rows = replace(rows, to=pairs % size, lengths=lengths, columns=columns)
    rows.arrange(np.flatnonzero(owner == np.arange(count)))
    return rows


def _with_all_for_words(source: Source, rows: Rows, processes: Processes, findings: list[Finding]) -> Rows:
    """Put all processes where a word means them; their senders too, if one delivered what it sent to such a word."""
    count = len(processes.names)
    chosen = np.zeros(len(rows.kind), bool)
    chosen[rows.owners[rows.to >= count]] = True
    if not chosen.any():
        return rows
    is_chosen_send = chosen & rows.is_send  # a word may stand in the rows of deliveries, too
    sent = rows.keys[is_chosen_send & (rows.message >= 0)]
    is_own = (rows.sender < 0) | (rows.sender == rows.process)
    own = bool(((rows.kind == int(Kind.DELIVER)) & is_own & np.isin(rows.keys, sent)).any())
    everybody = np.array([index for index in range(count) if index not in processes.unheard], np.int64)
    lists = np.split(rows.to, np.cumsum(rows.lengths)[:-1])
    first = int(np.flatnonzero(chosen)[0])
    path, line = source.paths[rows.file[first]], int(rows.line[first])
    shown = " ".join([*processes.names, *processes.words][index] for index in lists[first])
    text = f"{path}:{line}: sent to {shown!r}: taken as all processes{'' if own else ' but the sender'}"
    findings.append(Finding("no-destinations", text, int(is_chosen_send.sum()), path, line, is_error=False))
    for row in np.flatnonzero(chosen):
        lists[row] = everybody if own else everybody[everybody != rows.process[row]]
    return replace(rows, to=np.concatenate(lists), lengths=np.array([len(one) for one in lists]))


# ---- messages become numbers ----


def _message_numbers(rows: Rows, processes: Processes, findings: list[Finding]) -> tuple[Any, Any]:
    """Return the numbers of messages, -1 for none, and the names that stay as labels, None if they are the numbers."""
    if processes.are_indices and rows.own_numbers is not None:
        given = np.append(rows.own_numbers, -1)[rows.message]
        if rows.are_lines:  # a name of another kind means a message only where it was delivered
            strange = given >= message_of(UNKNOWN_SENDER, PHANTOM)
            told = strange & (rows.sender >= 0)
            given[told] = (rows.sender[told].astype(np.int64) << 32) | (given[told] & 0xFFFFFFFF)
            given[strange & ~rows.is_delivery] = -1
        if _are_own(rows, given):
            return given, None
    numbers, vague = numbered(rows.process, rows.kind, rows.message, rows.sender)
    if len(vague):
        name = min(rows.messages.take(pa.array(vague)).to_pylist())
        text = (
            f"{len(vague)} names, such as {name!r}, are given to messages of several senders, and deliveries"
            " do not tell the sender: they are taken as the first one's"
        )
        findings.append(Finding("ambiguous", text, count=len(vague)))
    if rows.are_lines:
        shown = rows.kind != int(Kind.LOCAL)
    else:  # a large table: each name once or so
        shown = rows.is_send | ((numbers >= 0) & (numbers & 0xFFFFFFFF >= PHANTOM))
    shown &= rows.message >= 0
    chosen = pa.array(np.where(shown, rows.message, 0), pa.int64(), mask=~shown)
    return numbers, pc.cast(rows.messages, pa.string()).take(chosen)


def _are_own(rows: Rows, numbers: Any) -> bool:
    """Return whether messages are called as busq does: the sender's index, shifted, and a number."""
    mine, sender = numbers[rows.is_send], rows.sender[rows.is_delivery]
    return bool(
        len(mine)
        and (mine >> 32 == rows.process[rows.is_send]).all()
        and (mine & 0xFFFFFFFF).all()
        and (rows.are_lines or (numbers[rows.message >= 0] >= 0).all())
        and (rows.are_lines or ((sender < 0) | (sender == numbers[rows.is_delivery] >> 32)).all())
    )


def numbered(process: Any, kind: Any, message: Any, sender: Any) -> tuple[Any, Any]:
    """Number the messages of each sender as they were sent; return the number for each event, -1 for none, and the
    names of deliveries that may mean several messages.

    Parameters: arrays of the same length, of events in the order of the logs: indices of processes, kinds, small
    numbers for the names of messages (-1: none), and indices of the senders of deliveries (-1: not given).

    >>> kinds = np.array([Kind.SEND, Kind.SEND, Kind.DELIVER, Kind.DELIVER, Kind.DELIVER])
    >>> names, senders = np.array([7, 7, 7, 7, 5]), np.array([-1, -1, 1, -1, 0])
    >>> numbers, vague = numbered(np.array([0, 1, 2, 2, 2]), kinds, names, senders)
    >>> [(number >> 32, number & 0xFFFFFFFF) for number in numbers.tolist()], vague.tolist()
    ([(0, 1), (1, 1), (1, 1), (0, 1), (0, 2147483648)], [7])
    """
    is_send, is_delivery = kind == int(Kind.SEND), np.isin(kind, (Kind.DELIVER, Kind.REDELIVER))
    size = int(message.max(initial=0)) + 1

    def keys(rows: Any, owner: Any = process) -> Any:
        return owner[rows].astype(np.int64) * size + message[rows]

    sends = np.flatnonzero(is_send)
    sent, first, back = np.unique(keys(sends), return_index=True, return_inverse=True)
    ranks = np.empty(len(sent), np.int64)
    ranks[np.argsort(first)] = np.arange(len(sent))
    _, begins, which = np.unique(sent // size, return_index=True, return_inverse=True)
    new = ((sent // size) << 32) | (ranks - begins[which.reshape(-1)] + 1)
    failed = np.isin(sent, keys(np.flatnonzero((kind == int(Kind.ABORT)) & (message >= 0))))
    new[failed] = (UNKNOWN_SENDER << 32) | (FAILED + ranks[failed])
    names, owner = np.unique(sent % size, return_index=True)
    firsts = np.full(size + 1, -1)
    firsts[names] = owner
    meant = firsts[message]
    told = np.flatnonzero((sender >= 0) & (message >= 0))
    meant[told] = _found(sent, keys(told, sender))
    others = np.flatnonzero(~is_send & ~is_delivery & (message >= 0))
    own = _found(sent, keys(others))
    is_told = (sender[others] >= 0) & (meant[others] >= 0)
    meant[others] = np.where((own >= 0) & ~is_told, own, meant[others])
    meant[sends] = back.reshape(-1)
    numbers = np.append(new, -1)[meant]
    unsent = is_delivery & (meant < 0)
    whose = np.where(sender[unsent] >= 0, sender[unsent], np.int64(UNKNOWN_SENDER))
    _, back = np.unique(whose * size + message[unsent], return_inverse=True)
    numbers[unsent] = (whose << 32) | (PHANTOM + back.reshape(-1))
    counts = np.bincount(sent % size, minlength=size)
    if counts.max(initial=0) <= 1:
        return numbers, message[:0]
    return numbers, np.unique(message[is_delivery & (sender < 0) & (counts[message] > 1)])


def _found(where: Any, keys: Any) -> Any:
    """Return the places of keys in a sorted array, -1 for those that are not there."""
    if not len(where):
        return np.full(len(keys), -1)
    place = np.minimum(np.searchsorted(where, keys), len(where) - 1)
    return np.where(where[place] == keys, place, -1)


# ---- destinations where no send has any ----


def _with_destinations(source: Source, rows: Rows, numbers: Any, processes: Processes, findings: list[Finding]) -> Rows:
    """Return rows whose sends have destinations; where none has any, they follow from the deliveries, or are all."""
    sends = int(rows.is_send.sum())
    if not sends or rows.tells[rows.is_send].any():
        return rows
    path = source.paths[rows.file[np.flatnonzero(rows.is_send)[0]]]
    if source.options.get("broadcast") == "true":
        return _with_broadcasts(rows, numbers, processes, path, findings)
    pairs = np.unique(np.stack([numbers[rows.is_delivery], rows.process[rows.is_delivery]]), axis=1)
    delivered, begins, counts = np.unique(pairs[0], return_index=True, return_counts=True)
    why = "those who delivered are taken as such, so no loss can be told"
    findings.append(Finding(RECEIVERS_DERIVED, f"{path}: {NO_DESTINATIONS}: {why}", sends, path, is_error=False))
    place = _found(delivered, numbers[rows.is_send])
    place, is_known = place[place >= 0], place >= 0
    sizes = counts[place]
    lengths = np.zeros(len(rows.kind), np.int64)
    lengths[np.flatnonzero(rows.is_send)[is_known]] = sizes
    within = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return replace(rows, lengths=lengths, to=pairs[1][np.repeat(begins[place], sizes) + within])


def _with_broadcasts(rows: Rows, numbers: Any, processes: Processes, path: str, findings: list[Finding]) -> Rows:
    """Return rows whose sends go to all processes; to their senders too, if one delivered what it sent."""
    own = bool((rows.is_delivery & (numbers >> 32 == rows.process)).any())
    why = f"each is taken as sent to all processes{'' if own else ' but the sender'}, as asked for"
    text = f"{path}: {NO_DESTINATIONS}: {why}"
    findings.append(Finding("no-destinations", text, int(rows.is_send.sum()), path, is_error=False))
    is_call = (
        rows.is_send if rows.is_vague is None else rows.is_send | (rows.is_vague & (rows.message >= 0))
    )  # which may be one, too
    calls = np.flatnonzero(is_call & ~rows.tells)
    everybody = [index for index in range(len(processes.names)) if index not in processes.unheard]
    to = np.tile(np.array(everybody, np.int64), len(calls))
    owners = np.repeat(calls, len(everybody))
    is_meant = own | (to != rows.process[owners])
    to, owners = np.append(rows.to, to[is_meant]), np.append(rows.owners, owners[is_meant])
    return replace(
        rows, lengths=np.bincount(owners, minlength=len(rows.kind)), to=to[np.argsort(owners, kind="stable")]
    )


# ---- tables ----


def _run(
    source: Source,
    rows: Rows,
    processes: Processes,
    numbers: Any,
    labels: Any,
    findings: list[Finding],
    columns: Sequence[str] | None,
) -> Run:
    """Return the run, a table for each process."""
    count = len(rows.kind)
    bounds = np.searchsorted(rows.process, np.arange(len(processes.names) + 1))
    places = np.arange(count) - bounds[rows.process]
    name = source.name if rows.are_lines else source.trace or source.name
    given: dict[str, Any] = {
        "run": pa.DictionaryArray.from_arrays(pa.repeat(pa.scalar(0, pa.int32()), count), pa.array([name])),
        "process": pa.array(rows.process, pa.int32()),
        "position": pa.array(places if rows.positions is None else rows.positions, pa.int64()),
        "kind": pa.array(rows.kind, pa.int8()),
        "message": pa.array(numbers, pa.int64(), mask=numbers < 0),
        "destinations": _lists(rows),
        "label": _labels(rows, labels),
        **{name: rows.columns[name] for name in _KEPT if name in rows.columns},
        "clock": _clocks(source, rows, processes, findings),
    }
    fields = [SCHEMA.field(name) for name in wanted(columns)]
    arrays = [
        pc.cast(given[each.name], each.type) if given.get(each.name) is not None else pa.nulls(count, each.type)
        for each in fields
    ]
    table = pa.Table.from_arrays(arrays, schema=pa.schema(fields))
    logs = [table.slice(begin, end - begin) for begin, end in pairwise(bounds.tolist())]
    tied = None if rows.is_tied is None else pa.array(np.unique(numbers[rows.is_tied & (numbers >= 0)]))
    return Run(source, tuple(processes.labels), tuple(logs), findings=tuple(findings), tied=tied)


def _lists(rows: Rows) -> Any:
    """Return the destinations of sends, in the order of the processes."""
    ends = np.concatenate([[0], np.cumsum(rows.lengths)])
    rises = np.append(rows.to[1:] > rows.to[:-1], True)
    rises[ends[1:][rows.lengths > 0] - 1] = True  # what follows is another list
    to = rows.to if rises.all() else rows.to[np.lexsort((rows.to, rows.owners))]
    offsets, items = pa.array(ends.astype(np.int32)), pa.array(to.astype(np.int32, copy=False))
    return pa.ListArray.from_arrays(offsets, items, mask=pa.array(~rows.is_send))


def _labels(rows: Rows, names: Any) -> Any:
    label = rows.columns.get("label")
    if label is None or pa.types.is_null(label.type):
        return names
    return pc.coalesce(label, names) if rows.are_lines and names is not None else label


def _clocks(source: Source, rows: Rows, processes: Processes, findings: list[Finding]) -> Any:
    """Return the clocks, if it is known whose events each of their components counts."""
    clock = rows.columns.get("clock")
    if clock is None or not clock.null_count < len(clock):
        return None
    if processes.are_indices or rows.are_lines:
        return clock
    longest = longest_list(clock)
    text = (
        f"{source.paths[0]}: clocks are lists of up to {amount(longest, 'number')}, and processes are not"
        f" called by indices from 0 to {longest - 1}: nobody says whose number is whose, so they were left out"
    )
    findings.append(Finding("clocks-left-out", text, len(clock) - clock.null_count, is_error=False))
    return None
