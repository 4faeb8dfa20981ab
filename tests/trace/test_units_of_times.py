# SPDX-License-Identifier: Apache-2.0
"""Numbers that count from another time than 1970, and days, as spreadsheets and Windows write them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="needs pyarrow")

import pyarrow as pa
import pyarrow.parquet as pq

from busq.trace import Run, find, read

NOON_NS = 1_678_881_600 * 10**9  # 2023-03-15 12:00 UTC
SECOND = 10**9
# How a time since then, in seconds, is written.
WAYS: dict[str, Callable[[int], int | float]] = {
    "Excel": lambda second: 45000.5 + second / 86400,
    ".NET": lambda second: (NOON_NS // SECOND + 62_135_596_800 + second) * 10**7,
    "Windows": lambda second: (NOON_NS // SECOND + 11_644_473_600 + second) * 10**7,
    "Chrome": lambda second: (NOON_NS // SECOND + 11_644_473_600 + second) * 10**6,
    "dates in digits": lambda second: 20230315120000 + second,
    "digits": lambda second: 20230315120000000 + second * 1000,
}


def write(folder: Path, ending: str, times: Sequence[int | float | str]) -> None:
    """Write that ann sends to bob, and that bob gets all of it later; the sends in a file of their own."""
    half = len(times) // 2
    for name, which, its in (("ann", "send", times[:half]), ("bob", "deliver", times[half:])):
        columns = {
            "process": [name] * half,
            "kind": [which] * half,
            "id": [f"m{at}" for at in range(half)],
            "to": ["bob" if which == "send" else None] * half,
            "ts": its,
        }
        rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        path = folder / f"{name}.{ending}"
        if ending == "parquet":
            pq.write_table(pa.table(columns | {"to": pa.array(columns["to"], pa.string())}), path)
        elif ending == "csv":
            lines = [",".join("" if cell is None else str(cell) for cell in row.values()) for row in rows]
            path.write_text("\n".join([",".join(columns), *lines]) + "\n")
        else:
            path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def times_of(run: Run) -> list[int]:
    return [time for log in run.logs for time in log["time_ns"].to_pylist()]


def read_in(folder: Path) -> Run:
    (source,) = find([folder]).sources
    return read(source)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("ending", ["parquet", "csv", "ndjson"])
def test_what_counts_from_another_year_is_taken_for_it(ending: str, way: str, tmp_path: Path) -> None:
    seconds = [0, 1, 5, 2, 3, 7]
    write(tmp_path, ending, [WAYS[way](second) for second in seconds])
    run = read_in(tmp_path)
    assert sorted(times_of(run)) == sorted(NOON_NS + second * SECOND for second in seconds)
    (text,) = [one.text for one in run.findings if one.kind == "time-unit"]
    assert f"{way}" in text


@pytest.mark.parametrize("ending", ["parquet", "csv", "ndjson"])
@pytest.mark.parametrize(
    ("numbers", "is_open"),
    [
        ([45000.5, 45001.25, 45002.0, 45003.125], True),  # which may be either
        ([45000.59259, 45000.5926, 45000.60001, 45000.7], True),  # so, too, a sheet with few digits
        ([45000.123456, 45000.234567, 45000.5, 45001.0], False),  # seconds of a clock that began half a day ago
        ([45000.500011574, 45000.6, 45001.5, 99000.5], False),  # of which one is no day of this century
    ],
)
def test_fractions_that_may_be_seconds_are(ending: str, numbers: list[float], is_open: bool, tmp_path: Path) -> None:
    write(tmp_path, ending, list(numbers))
    run = read_in(tmp_path)
    assert times_of(run) == [round(number * SECOND) for number in numbers]
    assert ["may be days of Excel" in one.text for one in run.findings if one.kind == "time-unit"] == [True] * is_open


@pytest.mark.parametrize("way", WAYS)
def test_numbers_that_parquet_has_as_text_count_the_same(way: str, tmp_path: Path) -> None:
    write(tmp_path, "parquet", [f"{WAYS[way](second)}" for second in (0, 1, 5, 2, 3, 7)])
    assert times_of(read_in(tmp_path)) == [NOON_NS + second * SECOND for second in (0, 1, 5, 2, 3, 7)]


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_numbers_that_are_no_times_are_refused_alike(ending: str, tmp_path: Path) -> None:
    write(tmp_path, ending, [3 * 10**13 + second for second in range(4)])
    with pytest.raises(Exception, match="time 30000000000003: expected a number of 64 bits, in nanoseconds"):
        read_in(tmp_path)


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_digits_of_no_date_are_refused_alike(ending: str, tmp_path: Path) -> None:
    write(tmp_path, ending, [20260228120000, 20260229120000, 20260301120000, 20260301120001])
    with pytest.raises(Exception, match="time 20260229120000: expected the digits of a date, as 20261231235959"):
        read_in(tmp_path)


@pytest.mark.parametrize("ending", ["parquet", "csv", "ndjson"])
def test_dates_in_digits_may_be_text_and_have_gaps(ending: str, tmp_path: Path) -> None:
    write(tmp_path, ending, ["20230315120000", "20230315120001", "", "20230315120003"])
    assert times_of(read_in(tmp_path)) == [NOON_NS, NOON_NS + SECOND, None, NOON_NS + 3 * SECOND]


@pytest.mark.parametrize("ending", ["parquet", "csv", "ndjson"])
def test_dates_may_have_slashes_or_dots(ending: str, tmp_path: Path) -> None:
    """So Go's logger writes them, and servers of NATS."""
    texts = ["2023/03/15 12:00:00", "2023/03/15 12:00:00.250000", "2023.3.15 12:00:01", "2023/3/15 12:00:02Z"]
    write(tmp_path, ending, texts)
    assert times_of(read_in(tmp_path)) == [NOON_NS + part for part in (0, SECOND // 4, SECOND, 2 * SECOND)]


@pytest.mark.parametrize("ending", ["parquet", "csv", "ndjson"])
def test_a_time_of_another_unit_than_the_others_is_left_out_and_said_to_be(ending: str, tmp_path: Path) -> None:
    write(tmp_path, ending, [NOON_NS // 10**6, 0, NOON_NS, NOON_NS + 1])
    run = read_in(tmp_path)
    assert times_of(run) == [None, None, NOON_NS, NOON_NS + 1]
    (text,) = [one.text for one in run.findings if one.kind == "time-unit"]
    assert f"{NOON_NS // 10**6} and {NOON_NS + 1} count no times in one unit" in text


def test_nanoseconds_of_1990_stay_what_they_are_where_the_column_says_so(tmp_path: Path) -> None:
    times = [638 * 10**15 + at for at in range(4)]
    write(tmp_path, "csv", list(times))
    for path in tmp_path.glob("*.csv"):
        path.write_text(path.read_text().replace(",ts\n", ",t_ns\n"))
    assert times_of(read_in(tmp_path)) == times
