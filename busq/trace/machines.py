# SPDX-License-Identifier: Apache-2.0
"""Recordings of the machines of a domain, as one run: `--format machines`.

In a recording, what a bridge re-sends is called by its place in the domain's stream (`recorded_files.NAMES`).  So it is
known again on every machine, and what was a message of each bridge becomes one message:

- It is sent by the bridge of the machine that it was sent on; if that was not recorded, by the first that re-sent it.
- All receivers of all machines are its destinations, and so are the other bridges: where they re-send it, they get it.
- A bridge that re-sends messages of one view before and after it should have re-sent it as well.
- It is sent in its view, as machine_views.py has it.

A process is called by its machine and its name, and so is a group.  Times and stamps, which are those of one machine,
are left out, and so is what a bridge sends to queues of its own, which it reads when it likes.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from busq.trace import parquet, places
from busq.trace.errors import TraceError
from busq.trace.finding import Finding
from busq.trace.gather import File, gather_parquet
from busq.trace.machine_views import Views
from busq.trace.run import Run, Source
from busq.trace.schema import SCHEMA, Kind
from busq.trace.tables import Ints, in_one_piece, numbers, replaced

__all__ = ["gather", "merged", "read"]


_PARTS = "machines"  # an option of a source: which of its files are whose
_NEEDED = ("label",)
_OF_ONE_CLOCK = ("stamp", "time_ns", "commit_ns", "end_ns", "clock")
_BRIDGE, _OF_BRIDGES = "bridge@", ("cursor@", "views@")
_NAMED = r"^(?P<elsewhere>elsewhere/)?(?P<place>[0-9]+)\.(?P<index>[0-9]+)(?P<viewed> in view (?P<view>[0-9]+))?$"
_INDEX_BITS = 20  # a batch has fewer messages


def gather(files: Sequence[File], options: dict[str, str], findings: list[Finding]) -> list[Source]:
    """Make one run of all recordings, each that of a machine, which is called as its folder is.

    Errors: TraceError where there is one alone, or two of one name.
    """
    found: list[tuple[str, Source]] = []
    for root in dict.fromkeys(file.root for file in files):
        its = gather_parquet([file for file in files if file.root == root], options, findings)
        called = os.path.basename(places.real(root))
        found += [(called if len(its) == 1 else source.name, source) for source in its]
    names = [name for name, _ in found]
    if len(names) < 2 or len(set(names)) < len(names):
        raise TraceError(
            f"recordings of {', '.join(names)}: expected those of two machines or more, in folders of other names"
        )
    parts = json.dumps([(name, len(source.paths), source.trace) for name, source in found])
    paths = tuple(path for _, source in found for path in source.paths)
    size = sum(source.size_bytes for _, source in found)
    about = tuple(finding for _, source in found for finding in source.findings)
    return [Source("+".join(names), "machines", paths, size, options | {_PARTS: parts}, findings=about)]


def read(source: Source, columns: Sequence[str] | None = None) -> Run:
    """Read the recordings, and make one run of them.  Errors, cost: those of `busq.trace.parquet.read`."""
    wanted = None if columns is None else tuple(dict.fromkeys((*columns, *_NEEDED)))
    machines = {name: parquet.read(one, wanted) for name, one in _sources(source)}
    return merged(source, machines)


def _sources(source: Source) -> Iterator[tuple[str, Source]]:
    begin = 0
    options = {name: value for name, value in source.options.items() if name != _PARTS}
    for name, count, trace in json.loads(source.options[_PARTS]):
        yield name, Source(name, "busq", source.paths[begin : begin + count], 0, options, trace)
        begin += count


def merged(source: Source, machines: dict[str, Run]) -> Run:
    """Return the recordings of some machines as one run.

    >>> from busq.trace import message_of
    >>> def recorded(place, called):
    ...     sent = {"kind": [1], "message": [message_of(0, 1)], "destinations": [[1]], "label": [place]}
    ...     got = {"kind": [0], "message": [message_of(0, 1)], "destinations": [[]], "label": [None]}
    ...     logs = tuple(pa.Table.from_pydict(log, schema=_schema(log)) for log in (sent, got))
    ...     return Run(Source("doc", "busq", (), 0), ("bridge@shop", called), logs)
    >>> runs = {"till1": recorded("elsewhere/7.0", "ann"), "till2": recorded("7.0", "bob")}
    >>> run = merged(Source("doc", "machines", (), 0), runs)
    >>> run.processes
    ('till1/bridge@shop', 'till1/ann', 'till2/bridge@shop', 'till2/bob')
    >>> run.logs[2]["destinations"].to_pylist(), run.logs[0]["kind"].to_pylist()
    ([[0, 1, 3]], [0])
    """
    processes: list[str] = []
    logs: list[pa.Table] = []
    copies: dict[str, list[_Copies]] = {}
    findings: list[Finding] = list(source.findings)
    for machine, (name, run) in enumerate(machines.items()):
        offset = len(processes)
        processes += [f"{name}/{process}" for process in run.processes]
        findings += [replace(one, process=f"{name}/{one.process}" if one.process else "") for one in run.findings]
        cursors = [process for process, called in enumerate(run.processes) if called.startswith(_OF_BRIDGES)]
        for process, log in enumerate(run.logs):
            is_bridge = run.processes[process].startswith(_BRIDGE)
            if is_bridge:  # the next one of that machine re-sends what it has not: nothing dies with it
                log = log.filter(pc.not_equal(log["kind"], int(Kind.DIE)))
            moved = _moved(log.slice(0, 0) if process in cursors else log, offset, name, cursors)
            logs.append(moved)
            if is_bridge:
                domain = run.processes[process].removeprefix(_BRIDGE).partition(" ")[0]
                copies.setdefault(domain, []).append(_Copies.of(moved, machine, offset + process))
    for domain, its in copies.items():
        joined = _Joined(_Copies.together(its))
        logs = Views(logs, processes, domain, joined.copies, joined.first).logs(joined.logs(logs))
    orders = {run.order for run in machines.values()}
    order = orders.pop() if len(orders) == 1 else ""
    is_live = all(run.is_live for run in machines.values())
    return Run(source, tuple(processes), tuple(logs), order, tuple(findings), is_live=is_live)


def _schema(names: Any) -> pa.Schema:
    return pa.schema([SCHEMA.field(name).with_nullable(True) for name in names])


# ---- one machine beside others ----


def _moved(log: pa.Table, offset: int, machine: str, cursors: Sequence[int]) -> pa.Table:
    """Return a log with the numbers that its processes and messages have among all, and without what is left out."""
    columns = {name: log[name] for name in log.column_names if name not in _OF_ONE_CLOCK}
    columns["message"] = pc.add(columns["message"], pa.scalar(offset << 32, pa.int64()))
    for name in ("destinations", "members"):
        if name in columns:
            columns[name] = _moved_lists(columns[name], offset, cursors)
    if "process" in columns:
        columns["process"] = pc.add(columns["process"], pa.scalar(offset, pa.int32()))
    if "group" in columns:
        group = columns["group"].cast(pa.string())
        columns["group"] = pc.binary_join_element_wise(pa.scalar(machine), group, "/").dictionary_encode()
    for name in _OF_ONE_CLOCK:
        if name in log.column_names:
            columns[name] = pa.nulls(log.num_rows, SCHEMA.field(name).type)
    return pa.table({name: columns[name] for name in log.column_names}, schema=_schema(log.column_names))


def _moved_lists(column: Any, offset: int, cursors: Sequence[int]) -> pa.Array:
    lists = in_one_piece(column)
    items, owners = numbers(lists.flatten()), pc.list_parent_indices(lists).to_numpy(zero_copy_only=False)
    stays = ~np.isin(items, cursors)
    moved = np.where(items >= 0, items + offset, items)[stays]  # -1: a member that is not known any more
    lengths = np.bincount(owners[stays], minlength=len(lists))
    starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    return pa.ListArray.from_arrays(starts, pa.array(moved, pa.int32()), type=column.type, mask=pc.is_null(lists))


# ---- messages of all machines ----


@dataclass
class _Copies:
    """What bridges of one domain have re-sent, message by message: columns of equal length."""

    key: Ints  # place and index
    is_other: Ints  # 0: it was sent on that machine
    machine: Ints
    process: Ints  # the bridge
    row: Ints  # in its log
    message: Ints
    view: Ints  # of the group, on all machines; 0: none that is known

    @classmethod
    def of(cls, log: pa.Table, machine: int, process: int) -> _Copies:
        """Return those in the log of a bridge."""
        empty = "label" not in log.column_names or log["label"].null_count == log.num_rows
        named = pa.nulls(log.num_rows, pa.string()) if empty else in_one_piece(log["label"])
        found = pc.extract_regex(named, _NAMED)
        is_one = pc.and_(pc.is_valid(found), pc.equal(in_one_piece(log["kind"]), int(Kind.SEND)))
        rows = np.flatnonzero(pc.fill_null(is_one, False).to_numpy(zero_copy_only=False))
        parts = found.take(pa.array(rows))
        place, index = (numbers(pc.struct_field(parts, name).cast(pa.int64())) for name in ("place", "index"))
        view = pc.struct_field(parts, "view")
        taken = log.take(pa.array(rows))
        return cls(
            key=place << _INDEX_BITS | index,
            is_other=numbers(pc.not_equal(pc.struct_field(parts, "elsewhere"), "").cast(pa.int64())),
            machine=np.full(len(rows), machine, np.int64),
            process=np.full(len(rows), process, np.int64),
            row=rows.astype(np.int64),
            message=numbers(taken["message"]),
            view=numbers(pc.if_else(pc.equal(view, ""), "0", view).cast(pa.int64())),
        )

    @classmethod
    def together(cls, parts: Sequence[_Copies]) -> _Copies:
        """Return all of them, the one that stands for its message in front of the others of it."""
        columns = {name: np.concatenate([getattr(part, name) for part in parts]) for name in cls.__annotations__}
        order = np.lexsort([columns[name] for name in ("row", "machine", "is_other", "key")])
        return cls(**{name: column[order] for name, column in columns.items()})


class _Joined:
    """Makes one message of all copies of it."""

    def __init__(self, copies: _Copies) -> None:
        self.copies = copies
        is_first = np.diff(copies.key, prepend=-1) != 0
        self.first = np.maximum.accumulate(np.where(is_first, np.arange(len(is_first)), 0))  # of each, the one in front
        self.is_first = is_first
        self.by_name = np.argsort(copies.message)

    def logs(self, logs: Sequence[pa.Table]) -> list[pa.Table]:
        """Return the logs of all processes with these messages."""
        bridges = set(np.unique(self.copies.process).tolist())
        lists = self._destinations(logs) if bridges else {}
        return [
            self._renamed(self._bridge(log, process, lists[process]) if process in bridges else log)
            for process, log in enumerate(logs)
        ]

    def _renamed(self, log: pa.Table) -> pa.Table:
        """Return a log in which each copy has the name of the one in front."""
        its = self.copies
        message = numbers(log["message"]).copy()
        if not len(its.key):
            return log
        known = its.message[self.by_name]
        at = np.minimum(np.searchsorted(known, message), len(known) - 1)
        is_copy = known[at] == message
        message[is_copy] = its.message[self.first[self.by_name[at[is_copy]]]]
        return replaced(log, "message", pa.array(message, mask=_nulls(log["message"])))

    def _bridge(self, log: pa.Table, process: int, lists: tuple[Ints, pa.Array]) -> pa.Table:
        """Return the log of a bridge: it sends what it is the first to send, and gets the rest."""
        mine = self.copies.process == process
        kind = numbers(log["kind"]).copy()
        kind[self.copies.row[mine & ~self.is_first]] = int(Kind.DELIVER)
        rows, new = lists
        old = in_one_piece(log["destinations"])
        chosen = np.arange(log.num_rows)
        chosen[rows] = log.num_rows + np.arange(len(rows))
        log = replaced(log, "kind", pa.array(kind))
        return replaced(log, "destinations", pa.concat_arrays([old, new.cast(old.type)]).take(pa.array(chosen)))

    def _destinations(self, logs: Sequence[pa.Table]) -> dict[int, tuple[Ints, pa.Array]]:
        """Return the rows that each bridge sends for all, and their receivers."""
        its = self.copies
        first, to = [self.first[~self.is_first]], [its.process[~self.is_first]]
        for process in np.unique(its.process):
            mine = np.flatnonzero(its.process == process)
            lists = in_one_piece(logs[process]["destinations"]).take(pa.array(its.row[mine]))
            lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False)
            first.append(np.repeat(self.first[mine], lengths))
            to.append(numbers(lists.flatten()))
        for places_, bridges in self._left_out():
            first.append(places_)
            to.append(bridges)
        pairs = np.unique(np.stack([np.concatenate(first), np.concatenate(to)], axis=1), axis=0)
        pairs = pairs[pairs[:, 1] != its.process[pairs[:, 0]]]  # what it sends, it does not get
        found = {}
        for process in np.unique(its.process).tolist():
            heads = np.flatnonzero(self.is_first & (its.process == process))
            starts = np.searchsorted(pairs[:, 0], heads)
            ends = np.searchsorted(pairs[:, 0], heads, side="right")
            items = np.concatenate([np.zeros(0, np.int64), *(pairs[a:b, 1] for a, b in zip(starts, ends, strict=True))])
            offsets = np.concatenate([[0], np.cumsum(ends - starts)]).astype(np.int32)
            found[process] = (its.row[heads], pa.ListArray.from_arrays(offsets, pa.array(items, pa.int32())))
        return found

    def _left_out(self) -> Iterator[tuple[Ints, Ints]]:
        """Give the messages of a view that a machine has left out between two of them; and its bridge."""
        its = self.copies
        for view in np.unique(its.view[its.view > 0]):
            is_its = its.view == view
            heads = np.unique(self.first[is_its])
            for machine in np.unique(its.machine[is_its]):
                here = np.flatnonzero(is_its & (its.machine == machine))  # by place, as all of them
                at = np.searchsorted(its.key[here], its.key[heads])
                inside = (at > 0) & (at < len(here))
                before, after = here[at[inside] - 1], here[at[inside]]
                is_out = its.key[after] != its.key[heads[inside]]
                yield heads[inside][is_out], its.process[before][is_out]


def _nulls(column: Any) -> Any:
    return pc.is_null(column).to_numpy(zero_copy_only=False)
