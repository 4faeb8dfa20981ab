# SPDX-License-Identifier: Apache-2.0
"""Spans of OpenTelemetry on Spark: what they leave open is unknown there, too."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from samples import Spans, orders

import busq.spark
from busq.audit import native
from busq.trace import find, read

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def sound() -> Spans:
    return orders()


def late() -> Spans:
    return orders(late=True)


def at_equal_times() -> Spans:
    spans = Spans()
    for _ in range(2):
        spans.span("store", "process", 20, 20, links=(spans.span("shop", "send", 10, 10),))
    return spans


def with_an_unlinked_consumer() -> Spans:
    spans = late()
    spans.span("store", "process", 400, 401)
    return spans


def with_a_batch() -> Spans:
    spans = Spans()
    sent = spans.span("shop", "send", 10, 11, **{"messaging.batch.message_count": 2})
    for at in (20, 30):
        spans.span("store", "process", at, at + 1, links=(sent,))
    return spans


@pytest.mark.parametrize("made", [sound, late, at_equal_times, with_an_unlinked_consumer, with_a_batch])
def test_all_engines_say_the_same_of_spans(spark: SparkSession, tmp_path: Path, made: Callable[[], Spans]) -> None:
    path = tmp_path / "spans.json"
    path.write_text(made().text())
    source = find(path).sources[0]
    expected = {name: (one.verdict, one.count) for name, one in native.audit(read(source)).checks.items()}
    for found in (busq.spark.runs.audit(spark, [source])[0], busq.spark.huge.audit(spark, source)):
        assert {name: (one.verdict, one.count) for name, one in found.checks.items()} == expected
