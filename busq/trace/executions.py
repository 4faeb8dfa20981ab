# SPDX-License-Identifier: Apache-2.0
"""Executions as traces: what a simulation, a stage or a scenario did, ready for an audit."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from busq.lab.execution import Event, Execution
from busq.trace.run import Run, Source
from busq.trace.schema import SCHEMA, Kind

__all__ = ["from_execution"]

SOURCE = "busq execution"


def from_execution(execution: Execution, name: str = "") -> Run:
    """Return an execution as a run: deaths, deliveries, and sends, called when they were submitted, decided when sent.

    Where an order knows only messages with one destination, the copies of a multicast are messages of their own.

    Parameters: `name`, of the run (the order's).  Cost: about 2 us per event.

    >>> from busq import sim
    >>> found = sim.run(sim.Config(order="none", processes=2, messages_per_process=3, record=True))
    >>> [log.num_rows for log in from_execution(found.execution).logs]
    [6, 6]
    """
    called_ns: dict[int, int] = {}
    rows: list[list[dict[str, Any]]] = [[] for _ in execution.processes]
    for event in execution.events:
        if event.kind == "submit":
            called_ns.setdefault(event.message, _time_ns(event))
        elif event.kind in ("sent", "deliver", "die"):
            rows[event.process].append(_row(execution, event, called_ns, len(rows[event.process])))
    run = name or execution.order
    for log in rows:
        for row in log:
            row["run"] = run
    return Run(
        Source(run, SOURCE, (), 0),
        execution.processes,
        tuple(pa.Table.from_pylist(log, schema=SCHEMA) for log in rows),
        order=execution.order,
    )


def _time_ns(event: Event) -> int:
    return round(event.time_s * 1e9)


def _row(execution: Execution, event: Event, called_ns: dict[int, int], position: int) -> dict[str, Any]:
    now_ns = _time_ns(event)
    row: dict[str, Any] = {
        "process": event.process,
        "position": position,
        "kind": Kind.DELIVER,
        "message": event.message,
        "time_ns": now_ns,
        "label": execution.labels.get(event.message),
    }
    if event.kind == "sent":
        called = called_ns.get(event.message, now_ns)
        row |= {"kind": Kind.SEND, "time_ns": called, "commit_ns": now_ns}
        row["destinations"] = list(execution.destinations.get(event.message, ()))
    elif event.kind == "die":
        row |= {"kind": Kind.DIE, "message": None}
    return row
