# SPDX-License-Identifier: Apache-2.0
"""Runs: what an audit is about.  A source is the place of one; reading it gives its logs as Arrow tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from busq.trace.finding import Finding

__all__ = ["ROWS", "UNORDERED", "Run", "Source"]

ROWS, UNORDERED = "rows", "unordered"  # the option of a source whose rows stand in no order


@dataclass(frozen=True)
class Source:
    """Where a run stands, before it is read; small, and it can be pickled.

    `paths` are its files; `options` what its format needs to know to read them ("parser", "delimiter", ...); `trace` is
    the label of the execution where one file holds several (ShiViz), or the run where one folder does.
    """

    name: str
    format: str  # "busq", "epfl", "shiviz", "otlp", "ndjson", "csv", "machines"
    paths: tuple[str, ...]
    size_bytes: int
    options: Mapping[str, str] = field(default_factory=dict)
    trace: str = ""
    findings: Sequence[Finding] = ()

    @property
    def tells_runs(self) -> bool:
        """Its files may hold other runs: only events of `trace` are its own."""
        return self.options.get("runs-by", "") not in ("file", "folder", "none")

    @property
    def has_order(self) -> bool:
        """A later row is a later event, where nothing contradicts that: not in tables, whose rows have no order."""
        return self.options.get(ROWS) != UNORDERED


@dataclass(frozen=True)
class Run:
    """A run in memory: `logs` has a table for every process, in program order, with the columns of the schema.

    `tied`: the messages of events whose order is not known, as an Arrow array; None if there are none, or if it is not
    known which they are.
    """

    source: Source
    processes: tuple[str, ...]
    logs: tuple[pa.Table, ...]
    order: str = ""  # the protocol under which it was made, if it is known
    findings: Sequence[Finding] = ()
    is_derived: bool = False  # its messages are those that follow from its clocks
    tied: Any = None
    is_live: bool = False  # it was recorded from a bus
