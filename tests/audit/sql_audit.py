# SPDX-License-Identifier: Apache-2.0
"""An audit in SQL, for DuckDB, written without busq: it has to count what `busq audit` counts.

Stamps, times and the numbers of messages are believed, and a message that was not sent to its receiver is left out of
all judgements of order.  Causal order takes a vector clock for each message (how many messages of each process are in
its past): SQL has no way to find them, so `write_clocks` makes them beforehand.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from busq.trace.schema import Kind

BEFORE = "ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING"

SETUP = f"""
CREATE VIEW events AS SELECT * FROM read_parquet($files);
CREATE VIEW deliveries AS SELECT process, position, message, stamp, time_ns FROM events WHERE kind = {Kind.DELIVER:d};
CREATE VIEW sends AS
  SELECT process, position, message, destinations, stamp, time_ns, end_ns FROM events WHERE kind = {Kind.SEND:d};
CREATE VIEW copies AS SELECT message, unnest(destinations) AS process FROM sends;
"""

# Few rows each, unless all is lost.
ABSENT = """
CREATE TEMP TABLE phantoms AS
  SELECT process, position, message FROM deliveries ANTI JOIN copies USING (process, message);
CREATE TEMP TABLE repeated AS
  SELECT process, message, min(position) AS first, count(*) - 1 AS n FROM deliveries
  GROUP BY process, message HAVING count(*) > 1;
CREATE TEMP VIEW clean AS
  SELECT * FROM deliveries d
  ANTI JOIN phantoms p ON d.process = p.process AND d.position = p.position
  ANTI JOIN repeated r ON d.process = r.process AND d.message = r.message AND d.position > r.first;
"""

QUERIES = {
    "lost": "SELECT count(*) FROM copies ANTI JOIN deliveries USING (process, message)",
    "phantom": "SELECT count(*) FROM phantoms",
    "duplicated": "SELECT coalesce(sum(n), 0)::BIGINT FROM repeated",
    "fifo": f"""
        SELECT count(*) FROM (
          SELECT message, max(message) OVER (PARTITION BY process, message >> 32 ORDER BY position {BEFORE}) AS before
          FROM clean)
        WHERE message < before""",
    "side": f"""
        WITH heard AS (SELECT message, min(time_ns) AS first FROM deliveries GROUP BY message),
             known AS (SELECT message, time_ns AS called, least(end_ns, first) AS known
                       FROM sends LEFT JOIN heard USING (message))
        SELECT count(*) FROM (
          SELECT known, max(called) OVER (PARTITION BY process ORDER BY position {BEFORE}) AS before
          FROM (SELECT process, position, message FROM clean) JOIN known USING (message))
        WHERE before > known""",
    # Places where the stamps prove nothing: they do not rise among deliveries, or a send is not above all before it.
    # Equal ones are ordered by their senders.
    "uncertain": f"""
        WITH ranked AS (SELECT process, position, kind, stamp * 65536 + (message >> 32) AS rank FROM events
                        WHERE kind IN ({Kind.DELIVER:d}, {Kind.SEND:d}))
        SELECT count(*) FROM (
          SELECT kind, rank,
            max(rank) OVER (PARTITION BY process ORDER BY position {BEFORE}) AS any_before,
            max(CASE WHEN kind = {Kind.DELIVER:d} THEN rank END)
              OVER (PARTITION BY process ORDER BY position {BEFORE}) AS before
          FROM ranked)
        WHERE rank <= CASE WHEN kind = {Kind.SEND:d} THEN any_before ELSE before END""",
}


def causal(n_processes: int) -> str:
    """A delivery is late if something was delivered before it that has its message in its past."""
    columns = ", ".join(f"v{q}" for q in range(n_processes))
    maxima = ", ".join(
        f"max(v{q}) OVER (PARTITION BY process ORDER BY position {BEFORE}) AS m{q}" for q in range(n_processes)
    )
    own = " ".join(f"WHEN {q} THEN m{q}" for q in range(n_processes))
    return f"""
        SELECT count(*) FROM (
          SELECT message, {maxima} FROM (
            SELECT process, position, message, {columns} FROM clean JOIN read_parquet($clocks) USING (message)))
        WHERE CASE message >> 32 {own} END >= message & 4294967295"""


def judge(folder: Path, clocks: Path) -> dict[str, int]:
    """All checks, one after the other."""
    import duckdb

    files = f"'{folder}/**/*.parquet'"
    with duckdb.connect() as connection:
        connection.execute(SETUP.replace("$files", files))
        connection.execute(ABSENT)
        n = len(pq.read_schema(clocks)) - 1
        queries = QUERIES | {"causal": causal(n).replace("$clocks", f"'{clocks}'")}
        return {name: int(connection.execute(query).fetchall()[0][0]) for name, query in queries.items()}


def write_clocks(folder: Path, path: Path) -> None:
    """Make the vector clock of every message: all events are played in the order of their times."""
    columns = ["process", "kind", "message", "time_ns"]
    parts = [pq.ParquetFile(file).read(columns=columns) for file in sorted(folder.rglob("*.parquet"))]
    table = pa.concat_tables(parts)
    process, kind, message, when = (table[name].to_numpy() for name in columns)
    order = np.lexsort((kind == Kind.DELIVER, when))
    sent = np.sort(message[kind == Kind.SEND])
    place = np.searchsorted(sent, message)
    is_known = sent[np.minimum(place, len(sent) - 1)] == message
    clocks = _play(process[order], (kind == Kind.SEND)[order], np.where(is_known, place, -1)[order], len(sent))
    made = {"message": pa.array(sent)} | {f"v{q}": pa.array(clocks[:, q]) for q in range(clocks.shape[1])}
    pq.write_table(pa.table(made), path, compression="zstd")


def _play(process: Any, is_send: Any, place: Any, n_messages: int) -> npt.NDArray[np.int32]:
    n = int(process.max()) + 1
    clocks = np.zeros((n_messages, n), dtype=np.int32)
    mine = np.zeros((n, n), dtype=np.int32)
    rows = list(mine)
    maximum = np.maximum
    for p, sends, m in zip(process.tolist(), is_send.tolist(), place.tolist(), strict=True):
        own = rows[p]
        if sends:
            own[p] += 1
            clocks[m] = own
        elif m >= 0:
            maximum(own, clocks[m], out=own)
    return clocks
