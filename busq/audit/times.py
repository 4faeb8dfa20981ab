# SPDX-License-Identifier: Apache-2.0
"""Reads the times of a trace: the order of sends that the world could see, and how long messages took."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from busq._native import ffi, lib
from busq._port.through_cffi import check as check_result
from busq._port.through_cffi import held, owned
from busq._util.humanize import amount
from busq.audit.columns import Rows
from busq.audit.message_names import Words
from busq.audit.result import INVALID, UNKNOWN, VALID, Check
from busq.lab.observers import History, core_of
from busq.trace.finding import Finding
from busq.trace.run import Run
from busq.trace.schema import Kind

__all__ = ["Pace", "blocked", "sent"]

_HOLDS = "no message was delivered before one that was known to be sent when it was called"
_WHAT = {"latency_us": lib.BUSQ_LATENCY, "queueing_us": lib.BUSQ_QUEUEING}


class Pace:
    """The times of a run: side channels that they show, and figures."""

    def __init__(self, history: History, rows: Sequence[Sequence[Rows]]) -> None:
        self._history = history
        self._rows = rows
        self._has_times = any(part.has("times_ns") for parts in rows for part in parts)
        if self._has_times:
            owner = owned("busq_times")
            check_result(lib.busq_times_new(core_of(history), owner))
            self._times = held(owner)
            self._each(lib.busq_times_note_rows)

    def _each(self, function: Any) -> None:
        for process, parts in enumerate(self._rows):
            for part in parts:
                check_result(function(self._times, process, part.pointer))

    def side(self, words: Words) -> Check:
        """Return the verdict about side channels."""
        if not self._has_times:
            return Check("side", UNKNOWN, text="the logs have no times")
        side = ffi.new("busq_side *")
        check_result(lib.busq_times_judge_side(self._times, side))
        unknown = (
            f"of {side.n_unknown:,} of {amount(side.n_messages, 'message')} some time is not known: of the send, "
            "of its return (end_ns), or of a delivery"
        )
        if side.count:
            return Check(
                "side",
                INVALID,
                side.count,
                text=_tell_side(side, words),
                messages=(side.late, side.other),
                processes=tuple(words.run.processes[index] for index in side.processes),
                at_least=bool(side.n_unknown),
            )
        if side.n_unknown:
            return Check("side", UNKNOWN, text=f"nothing was found, but {unknown}")
        return Check("side", VALID, text=_HOLDS)

    def findings(self, words: Words) -> Iterator[Finding]:
        """Whose clock goes back."""
        row = ffi.new("uint64_t *")
        for process, name in enumerate(words.run.processes if self._has_times else ()):
            count = lib.busq_times_count_backwards(self._times, process, row)
            if count:
                text = f"the times of {name} go back, for the first time at row {row[0] + 1} of its log"
                yield Finding("clock-backwards", text, count, line=row[0] + 1, process=name)

    def figures(self, processes: Sequence[str]) -> Iterator[tuple[str, Sequence[Mapping[str, Any]]]]:
        """Tables of latency and queueing, in microseconds, by receiver and by number of destinations."""
        if not self._has_times:
            return
        self._each(lib.busq_times_measure_rows)
        for name, what in _WHAT.items():
            by_receiver = [
                {"process": process, **row}
                for index, process in enumerate(processes)
                if (row := self._quantiles(lib.busq_times_read_receiver, what, index))
            ]
            by_fan_out = [
                {"fan_out": fan_out, **row}
                for fan_out in range(len(processes) + 1)
                if (row := self._quantiles(lib.busq_times_read_fan_out, what, fan_out))
            ]
            if by_receiver:
                yield name, by_receiver
                yield f"{name}_by_fan_out", by_fan_out

    def _quantiles(self, function: Any, what: int, index: int) -> dict[str, float]:
        quantiles = ffi.new("busq_quantiles *")
        function(self._times, what, index, quantiles)
        if not quantiles.count:
            return {}
        names = ("p50", "p90", "p99", "max")
        return {"count": quantiles.count} | {name: round(getattr(quantiles, f"{name}_ns") / 1e3, 3) for name in names}


def _tell_side(side: Any, words: Words) -> str:
    names = [words.run.processes[index] for index in side.processes]
    late, other = words.message(side.late), words.message(side.other)
    how = f"{names[3]} had delivered {late}" if side.was_delivered else f"the send of {late} by {names[1]} had returned"
    after_us = (side.called_ns - side.known_ns) / 1e3
    return f"{names[0]} delivered {other} before {late}, but {names[2]} sent {other} {after_us:,.3f} us after {how}"


def sent(run: Run) -> list[dict[str, Any]]:
    """Return what each process sent: messages, copies of them, receivers of one at most, and for how long."""
    rows = []
    for name, log in zip(run.processes, run.logs, strict=True):
        sends = log.filter(pc.equal(log["kind"], int(Kind.SEND)))
        if not sends.num_rows:
            continue
        widths = pc.fill_null(pc.list_value_length(sends["destinations"]), 0)
        row = {"messages": sends.num_rows, "copies": pc.sum(widths).as_py(), "widest": pc.max(widths).as_py()}
        times = pc.min_max(sends["time_ns"]).as_py() if "time_ns" in sends.column_names else {"min": None}
        lasted = None if times["min"] is None else round((times["max"] - times["min"]) / 1e9, 6)
        rows.append({"process": name, **row, "seconds": lasted})
    return rows


def blocked(run: Run, counts: Sequence[Sequence[int]]) -> list[dict[str, Any]]:
    """Return how often and how long each process waited: to send, because there was no room, and to receive.

    Nothing for processes that did not, or whose waits have no times.
    """
    rows = []
    for name, log, kinds in zip(run.processes, run.logs, counts, strict=True):
        if not kinds[Kind.BLOCK] or not {"time_ns", "end_ns"} <= set(log.column_names):
            continue
        waits = log.filter(pc.equal(log["kind"], int(Kind.BLOCK)))
        durations = pc.subtract(waits["end_ns"], waits["time_ns"])
        to_send = pc.is_valid(waits["message"])
        for what, chosen in (("send", to_send), ("receive", pc.invert(to_send))):
            times = pc.drop_null(durations.filter(chosen)).cast(pa.int64())
            if len(times):
                total, longest = pc.sum(times).as_py() / 1e6, pc.max(times).as_py() / 1e6
                row = {"count": len(times), "total": round(total, 6), "longest": round(longest, 6)}
                rows.append({"process": name, "to": what, **row})
    return rows
