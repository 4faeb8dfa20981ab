# SPDX-License-Identifier: Apache-2.0
"""An audit with Polars: the checks of `busq.bench.audit_sql` in its expressions, with the same beliefs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from busq.trace.schema import Kind

COPY = ["process", "message"]


def judge(folder: Path, clocks: Path | None) -> dict[str, int]:
    """All checks, one after the other; causal order where the clocks of the messages are given."""
    import polars as pl

    pl.Config.set_engine_affinity("streaming")
    events = pl.scan_parquet(folder / "**/*.parquet")
    deliveries = events.filter(kind=int(Kind.DELIVER))
    sends = events.filter(kind=int(Kind.SEND))
    copies = sends.select("message", pl.col("destinations").alias("process")).explode("process")
    clean = _clean(deliveries, copies)
    checks = {
        "lost": copies.join(deliveries, on=COPY, how="anti").select(pl.len()),
        "phantom": deliveries.join(copies, on=COPY, how="anti").select(pl.len()),
        "duplicated": deliveries.group_by(COPY).len().select((pl.col("len") - 1).sum()),
        "fifo": _fifo(clean),
        "side": _side(clean, sends, deliveries),
        "uncertain": _uncertain(events),
    }
    if clocks is not None:
        checks["causal"] = _causal(clean, pl.scan_parquet(clocks), len(pq.read_schema(clocks)) - 1)
    return {name: int(check.collect().item()) for name, check in checks.items()}


def _clean(deliveries: Any, copies: Any) -> Any:
    """What was sent to its receiver, the first time that it came; in program order."""
    columns = ["process", "position", "message"]
    first = deliveries.select(columns).sort("process", "position").unique(COPY, keep="first", maintain_order=True)
    return first.join(copies, on=COPY, how="semi").sort("process", "position")


def _before(column: Any, *of: str) -> Any:
    """The highest value of all rows before this one, of the same group."""
    return column.cum_max().shift(1).over(*of)


def _fifo(clean: Any) -> Any:
    import polars as pl

    sender = clean.with_columns(sender=pl.col("message") // 2**32)
    before = _before(pl.col("message"), "process", "sender")
    return sender.select((pl.col("message") < before).sum())


def _side(clean: Any, sends: Any, deliveries: Any) -> Any:
    import polars as pl

    heard = deliveries.group_by("message").agg(first=pl.col("time_ns").min())
    known = sends.join(heard, on="message", how="left").select(
        "message", called="time_ns", known=pl.min_horizontal("end_ns", "first")
    )
    in_order = clean.join(known, on="message").sort("process", "position")
    return in_order.select((_before(pl.col("called"), "process") > pl.col("known")).sum())


def _uncertain(events: Any) -> Any:
    """Places where the stamps prove nothing; equal ones are ordered by their senders."""
    import polars as pl

    is_send, is_delivery = pl.col("kind") == int(Kind.SEND), pl.col("kind") == int(Kind.DELIVER)
    rank = pl.col("stamp") * 65536 + pl.col("message") // 2**32
    ranked = events.filter(is_send | is_delivery).sort("process", "position").with_columns(rank=rank)
    delivered = pl.when(is_delivery).then(pl.col("rank")).cum_max().forward_fill().shift(1).over("process")
    before = pl.when(is_send).then(_before(pl.col("rank"), "process")).otherwise(delivered)
    return ranked.select((pl.col("rank") <= before).sum())


def _causal(clean: Any, clocks: Any, n_processes: int) -> Any:
    """A delivery is late if something was delivered before it that has its message in its past."""
    import polars as pl

    in_order = clean.join(clocks, on="message").sort("process", "position")
    own: Any = pl
    for q in range(n_processes):
        own = own.when(pl.col("message") // 2**32 == q).then(_before(pl.col(f"v{q}"), "process"))
    return in_order.select((own.otherwise(None) >= pl.col("message") % 2**32).sum())
