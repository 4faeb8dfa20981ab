# SPDX-License-Identifier: Apache-2.0
"""Latencies in consecutive parts of a run, which show how far a quantile would differ by chance.

Deliveries that follow each other resemble each other: a burst is slow as a whole.  Intervals that take them as
independent are far too narrow.  Quantiles of long consecutive parts ("batch means") hardly depend on each other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

import pyarrow as pa
import pyarrow.compute as pc

from busq.trace.run import Run
from busq.trace.schema import Kind

__all__ = ["BLOCKS", "Blocks", "blocks_of"]

BLOCKS = 20
_P50_LEAST = 5 * BLOCKS
_P99_LEAST = 100 * BLOCKS
_SENT = {"latency_us": "time_ns", "queueing_us": "commit_ns"}


@dataclass(frozen=True)
class Blocks:
    """Quantiles of each part, in us; None where the parts have too few deliveries for that."""

    p50_us: tuple[float, ...]
    p99_us: tuple[float, ...] | None


def blocks_of(run: Run) -> Mapping[tuple[str, str], Blocks]:
    """Return the quantiles of the parts, by figure ("latency_us", "queueing_us") and receiver.

    Receivers of fewer than 100 messages whose times are known are left out.  Cost: about 0.5 us per delivery.

    >>> from busq import sim
    >>> from busq.trace.executions import from_execution
    >>> result = sim.run(sim.Config(order="none", processes=2, messages_per_process=200, record=True))
    >>> parts = blocks_of(from_execution(result.execution))
    >>> sorted({figure for figure, _ in parts}), len(parts["latency_us", "p0"].p50_us)
    (['latency_us', 'queueing_us'], 20)
    """
    logs = [log for log in run.logs if log.num_rows and "time_ns" in log.column_names]
    blocks_by_figure: dict[tuple[str, str], Blocks] = {}
    for figure, column in _SENT.items():
        sends = [_rows(log, Kind.SEND, column) for log in logs if column in log.column_names]
        sent = pa.concat_tables(sends) if sends else None
        if sent is None or not sent.num_rows:
            continue
        for process, log in zip(run.processes, run.logs, strict=True):
            if "time_ns" in log.column_names:
                parts = _parts(_latencies(_rows(log, Kind.DELIVER, "time_ns"), sent))
                if parts is not None:
                    blocks_by_figure[figure, process] = parts
    return blocks_by_figure


def _rows(log: pa.Table, kind: Kind, column: str) -> pa.Table:
    """Return the messages and times of the events of a kind."""
    chosen = log.select(["message", column]).filter(pc.equal(log["kind"], int(kind)))
    return chosen.rename_columns(["message", "time_ns"]).drop_null()


def _latencies(delivered: pa.Table, sent: pa.Table) -> pa.Array:
    """Return what each delivery took, in us; 0 for one that came before its send."""
    places = pc.index_in(delivered["message"], value_set=sent["message"].combine_chunks())
    took_ns = pc.drop_null(pc.subtract(delivered["time_ns"], sent["time_ns"].take(places)))
    took_us = pc.divide(pc.cast(pc.max_element_wise(took_ns, 0), pa.float64()), 1e3)
    return took_us.combine_chunks() if isinstance(took_us, pa.ChunkedArray) else took_us


def _parts(took_us: pa.Array) -> Blocks | None:
    count = len(took_us)
    if count < _P50_LEAST:
        return None
    wanted = [0.5, 0.99] if count >= _P99_LEAST else [0.5]
    ends = [count * number // BLOCKS for number in range(BLOCKS + 1)]
    quantiles = [pc.quantile(took_us.slice(begin, end - begin), q=wanted).to_pylist() for begin, end in pairwise(ends)]
    p99_us = tuple(values[1] for values in quantiles) if len(wanted) == 2 else None
    return Blocks(tuple(values[0] for values in quantiles), p99_us)
