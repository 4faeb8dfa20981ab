# SPDX-License-Identifier: Apache-2.0
"""Inputs that are wrong, on Spark: the errors of the engine in C, and no stack of Java."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from test_audit_wrong_input import assert_no_traceback, audit, file_of, rewrite, small_run

from busq.trace import write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    write(small_run(), tmp_path / "trace")
    return tmp_path / "trace"


def without_messages(trace: Path) -> None:
    rewrite(file_of(trace), lambda table: table.drop_columns(["message"]))


def of_another_version(trace: Path) -> None:
    rewrite(file_of(trace), lambda table: table, {b"busq.trace": b"2"})


def of_something_else(trace: Path) -> None:
    pq.write_table(pa.table({"city": ["Lausanne"]}), file_of(trace))


def with_words_for_messages(trace: Path) -> None:
    rewrite(
        file_of(trace),
        lambda table: table.set_column(table.schema.get_field_index("message"), "message", pa.array(["one"] * 6)),
    )


def with_clocks_that_are_no_lists(trace: Path) -> None:
    rewrite(
        file_of(trace),
        lambda table: table.set_column(table.schema.get_field_index("clock"), "clock", pa.array([1] * 6)),
    )


def cut_off(trace: Path) -> None:
    file_of(trace).write_bytes(file_of(trace).read_bytes()[:-100])


def damaged_inside(trace: Path) -> None:
    whole = bytearray(file_of(trace).read_bytes())
    whole[4:400] = bytes(396)
    file_of(trace).write_bytes(whole)


def of_no_bytes(trace: Path) -> None:
    file_of(trace).write_bytes(b"")


@pytest.mark.parametrize(
    "spoil",
    [
        without_messages,
        of_another_version,
        of_something_else,
        with_words_for_messages,
        with_clocks_that_are_no_lists,
        cut_off,
        damaged_inside,
        of_no_bytes,
    ],
)
def test_one_file_of_two_is_wrong(spark: SparkSession, trace: Path, spoil: Callable[[Path], None]) -> None:
    spoil(trace)
    in_c, on_spark = audit(trace, "--engine", "c"), audit(trace, "--engine", "spark")
    for result in (in_c, on_spark):
        assert_no_traceback(result)
        assert result.exit_code in (1, 2)
        assert file_of(trace).name in "".join(result.output.split())  # a table breaks long names
        for word in ("java.", "org.apache", "Py4J"):
            assert word not in result.output
    # Spark stops at a file that turns out to be damaged while it is read; C goes on with the others.
    assert on_spark.exit_code == in_c.exit_code or spoil is damaged_inside


def test_nothing_there(spark: SparkSession, tmp_path: Path) -> None:
    result = audit(tmp_path / "nothing", "--engine", "spark")
    assert_no_traceback(result)
    assert result.exit_code == 2
    assert str(tmp_path / "nothing") in result.stderr
