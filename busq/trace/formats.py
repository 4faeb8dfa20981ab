# SPDX-License-Identifier: Apache-2.0
"""The formats of traces, one row each: how a file of it is recognised, how files make runs, and how a run is read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from busq.trace import (
    csv_log,
    epfl,
    jaeger,
    jepsen,
    machines,
    ndjson,
    otlp,
    parquet,
    parquet_head,
    shiviz,
    text_log,
    zipkin,
)
from busq.trace.dataset import hive_keys
from busq.trace.finding import Finding
from busq.trace.gather import (
    File,
    gather_csv,
    gather_epfl,
    gather_histories,
    gather_ndjson,
    gather_parquet,
    gather_shiviz,
    gather_spans,
    gather_text,
)
from busq.trace.run import Run, Source

__all__ = ["TABLE", "Format"]

_NO_LOGS = (".md", ".html", ".py", ".json", ".toml", ".yaml", ".yml")


@dataclass(frozen=True)
class Format:
    """What is done with the files of one format.

    `looks_like` is given a path, what the file begins with, and the options of the search.
    """

    looks_like: Callable[[str, bytes, Mapping[str, str]], bool]
    gather: Callable[[Sequence[File], dict[str, str], list[Finding]], list[Source]]
    read: Callable[[Source, Sequence[str] | None], Run]
    # Its first records, where their fields may have names that are not recognised.
    records: Callable[[str, Mapping[str, str]], Iterable[Mapping[str, Any]]] | None = None
    is_text: bool = True


def _is_parquet(path: str, head: bytes, options: Mapping[str, str]) -> bool:
    return head.startswith(b"PAR1") or path.endswith(".parquet")


def _is_shiviz(path: str, head: bytes, options: Mapping[str, str]) -> bool:
    return shiviz.is_log(head) or ("parser" in options and not path.endswith(_NO_LOGS))


def _is_text(path: str, head: bytes, options: Mapping[str, str]) -> bool:
    return not path.endswith(_NO_LOGS) and text_log.is_log(head, options)


def _is_ndjson(path: str, head: bytes, options: Mapping[str, str]) -> bool:
    return ndjson.is_log(head, options, hive_keys(path))


def _is_csv(path: str, head: bytes, options: Mapping[str, str]) -> bool:
    return csv_log.is_log(head, options, hive_keys(path))


# In this order they are tried: a text that may be of several formats is of the first.
TABLE = {
    "busq": Format(_is_parquet, gather_parquet, parquet.read, parquet_head.first_records, is_text=False),
    "text": Format(_is_text, gather_text, text_log.read, text_log.first_records),
    "epfl": Format(lambda path, head, options: epfl.is_log(head), gather_epfl, epfl.read),
    "otlp": Format(lambda path, head, options: otlp.is_log(head), partial(gather_spans, "otlp"), otlp.read),
    "jaeger": Format(lambda path, head, options: jaeger.is_log(head), partial(gather_spans, "jaeger"), jaeger.read),
    "zipkin": Format(lambda path, head, options: zipkin.is_log(head), partial(gather_spans, "zipkin"), zipkin.read),
    "jepsen": Format(lambda path, head, options: jepsen.is_log(head), gather_histories, jepsen.read),
    "ndjson": Format(_is_ndjson, gather_ndjson, ndjson.read, ndjson.first_records),
    "csv": Format(_is_csv, gather_csv, csv_log.read, csv_log.first_records),
    "shiviz": Format(_is_shiviz, gather_shiviz, shiviz.read),
    "machines": Format(_is_parquet, machines.gather, machines.read, is_text=False),  # where it is asked for
}
