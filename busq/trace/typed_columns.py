# SPDX-License-Identifier: Apache-2.0
"""Columns of strangers, in the types that events need: names, lists of them, kinds and times."""

from __future__ import annotations

from collections.abc import Collection, Container, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from busq.trace.field_names import Fields, counts_nanoseconds
from busq.trace.name_lists import destinations_in
from busq.trace.tables import UNKNOWN_KIND
from busq.trace.text import TOLD
from busq.trace.time_units import SECOND, UNITS, floor_of, nanoseconds_of_days, nanoseconds_of_digits, unit_of
from busq.trace.values import nanoseconds

__all__ = [
    "DIGITS",
    "Counting",
    "Counts",
    "destinations_of",
    "ends_of",
    "in_numbers",
    "kinds_of",
    "names_of",
    "plain_of",
    "text_of",
    "times_of",
    "whole_times",
]

_WHOLE, _NUMBER = "^-?[0-9]{1,18}$", r"^-?[0-9]{1,18}(\.[0-9]*)?$"
DIGITS = 18  # of decimals that are numbers of 64 bits, whatever they are


@dataclass(frozen=True)
class Counts:
    """What numbers count as times: `small` is the unit of whole ones that are too small for times since 1970; `ends`,
    by column, the least of the run, but for 0, and the greatest; `days` are columns of days of Excel, `perhaps_days`
    those of seconds that may be such days."""

    small: int
    ends: Mapping[str, tuple[int, int]]
    days: Container[str] = ()
    perhaps_days: Collection[str] = ()
    dates: str = ""  # as in `busq.trace.dates`


class Counting:
    """Gathers `Counts` of a run, file by file.

    >>> counting = Counting()
    >>> for ends in (0, 0), (3, 9), (2, 5):
    ...     counting.add_whole("ts", ends)
    >>> counting.counts().ends
    {'ts': (2, 9)}
    """

    def __init__(self) -> None:
        self._ends: dict[str, tuple[int, int]] = {}
        self._days: dict[str, tuple[bool, bool]] = {}

    def add_whole(self, called: str, ends: tuple[int, int]) -> None:
        """Take in the ends of a column of whole numbers (`ends_of`)."""
        least, greatest = self._ends.get(called, (0, 0))
        self._ends[called] = min(filter(None, (least, ends[0])), default=0), max(greatest, ends[1])

    def add_fractions(self, called: str, *, may_be: bool, are: bool) -> None:
        """Take in whether a column of fractions has days (`busq.trace.time_units.how_days`)."""
        before = self._days.get(called, (True, False))
        self._days[called] = before[0] and may_be, before[1] or are

    def counts(self) -> Counts:
        """Return what was found."""
        may_be = {called: are for called, (may, are) in self._days.items() if may and called not in self._ends}
        days = frozenset(called for called, are in may_be.items() if are)
        return Counts(1, self._ends, days, frozenset(may_be) - days)


def ends_of(column: Any) -> tuple[int, int]:
    """Return the least size of whole numbers, but for 0, and the greatest; zeros for none."""
    numbers = column.cast(pa.decimal128(20, 0)) if pa.types.is_uint64(column.type) else column.cast(pa.int64())
    sizes = pc.abs(numbers)
    # Above 0: the least number of 64 bits, which means that there is none, has itself for its size.
    ends = pc.min_max(sizes.filter(pc.greater(sizes, 0))).as_py()
    return int(ends["min"] or 0), int(ends["max"] or 0)


def plain_of(column: Any) -> Any:
    """Return a column in one piece, without a dictionary or an extension."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if isinstance(column.type, pa.BaseExtensionType):
        column = column.storage
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def text_of(column: Any) -> Any:
    """Return a column as text."""
    plain = plain_of(column)
    return plain if pa.types.is_string(plain.type) else pc.cast(plain, pa.string())


def in_numbers(column: Any) -> Any:
    """Return text as numbers, where each is one, or nothing; other columns as `plain_of` does.

    >>> [in_numbers(pa.array(texts)).type for texts in (["7", " ", None], ["7", "8.5"], ["7", "2026-01-05"], [""])]
    [DataType(int64), DataType(double), DataType(string), DataType(string)]
    """
    plain = plain_of(column)
    if not (pa.types.is_string(plain.type) or pa.types.is_large_string(plain.type)):
        return plain
    words = pc.dictionary_encode(pc.utf8_trim_whitespace(plain))
    its = pc.if_else(pc.equal(words.dictionary, ""), pa.scalar(None, words.dictionary.type), words.dictionary)
    for pattern, kind in ((_WHOLE, pa.int64()), (_NUMBER, pa.float64())) if its.null_count < len(its) else ():
        if pc.all(pc.match_substring_regex(its, pattern)).as_py():
            return its.cast(kind).take(words.indices)
    return plain


def names_of(column: Any) -> Any:
    """Return names as whole numbers of 64 bits, or as text."""
    plain = plain_of(column)
    kind = plain.type
    if pa.types.is_floating(kind):  # of whole numbers, where some are missing
        plain = pc.if_else(pc.is_nan(plain), pa.scalar(None, kind), plain)
    if pa.types.is_floating(kind):
        _check_whole(plain)
    if pa.types.is_floating(kind) or (pa.types.is_integer(kind) and kind != pa.uint64()):
        return pc.cast(plain, pa.int64())
    if pa.types.is_uint64(kind):
        highest = pc.max(plain).as_py()
        return pc.cast(plain, pa.int64() if (highest or 0) < 1 << 63 else pa.string())
    if pa.types.is_decimal(kind) and kind.scale == 0 and kind.precision <= DIGITS:
        return pc.cast(plain, pa.int64())
    if pa.types.is_fixed_size_binary(kind):
        return pa.array([None if value is None else value.hex() for value in plain.to_pylist()], pa.string())
    if pa.types.is_nested(kind) or pa.types.is_boolean(kind):
        raise TypeError(f"expected text or whole numbers, found {kind}")
    plain = pc.utf8_trim_whitespace(_decoded(plain) if pa.types.is_binary(kind) else pc.cast(plain, pa.string()))
    is_empty = pc.equal(plain, "")
    return pc.if_else(is_empty, pa.scalar(None, pa.string()), plain) if pc.any(is_empty).as_py() else plain


def _check_whole(column: Any) -> None:
    """ValueError for fractions that are no whole numbers, or so large that several of these are one fraction."""
    most = {pa.float16(): 1 << 11, pa.float32(): 1 << 24}.get(column.type, 1 << 53)
    numbers = column.cast(pa.float64()).drop_null()
    odd = numbers.filter(
        pc.or_(pc.not_equal(pc.floor(numbers), numbers), pc.greater_equal(pc.abs(numbers), float(most)))
    )
    if len(odd):
        raise ValueError(f"expected text or whole numbers, found {odd[0].as_py()!r} in a column of {column.type}")


def _decoded(column: Any) -> Any:
    """Return bytes as text, those that are none as their numbers."""
    try:
        return pc.cast(column, pa.string())
    except pa.ArrowInvalid:
        return pa.array([None if value is None else value.decode(errors=TOLD) for value in column.to_pylist()])


def destinations_of(column: Any) -> Any:
    """Return lists of names: of lists, of text with several names, or of single ones."""
    plain = plain_of(column)
    if pa.types.is_fixed_size_list(plain.type):
        plain = pc.cast(plain, pa.list_(plain.type.value_type))
    if pa.types.is_list(plain.type) or pa.types.is_large_list(plain.type):
        items = names_of(plain.flatten())
        lengths = pc.fill_null(pc.list_value_length(plain), 0).cast(pa.int64())
        if items.null_count:  # a null is no destination
            owners = np.repeat(np.arange(len(plain)), lengths.to_numpy())[pc.is_valid(items).to_numpy(False)]
            items, lengths = items.drop_null(), pa.array(np.bincount(owners, minlength=len(plain)), pa.int64())
        return _lists(items, lengths, plain)
    named = names_of(plain)
    if pa.types.is_string(named.type):
        texts = pc.dictionary_encode(named)
        lists = [None if text is None else destinations_in(text) or () for text in texts.dictionary.to_pylist()]
        return destinations_of(pa.array(lists, pa.list_(pa.string())).take(texts.indices))
    return _lists(named.drop_null(), pc.is_valid(named).cast(pa.int64()), named)


def _lists(items: Any, lengths: Any, column: Any) -> Any:
    """Return lists of these lengths, null where the column is."""
    starts = pa.concat_arrays([pa.array([0], pa.int64()), pc.cumulative_sum(lengths)])
    return pa.LargeListArray.from_arrays(starts, items, mask=column.is_null() if column.null_count else None)


def kinds_of(column: Any, fields: Fields) -> Any:
    """Return kinds as numbers, null where there is none."""
    plain = plain_of(column)
    encoded = pc.dictionary_encode(plain if pa.types.is_integer(plain.type) else text_of(plain))
    words = [word.strip() for word in pc.cast(encoded.dictionary, pa.string()).to_pylist()]
    missing = ("", "nan") if pa.types.is_floating(plain.type) else ("",)  # of fractions, where some are missing
    kinds = list(map(fields.kind_of, words))
    numbers = [
        None if w in missing else UNKNOWN_KIND if k is None else int(k) for w, k in zip(words, kinds, strict=True)
    ]
    return pa.array(numbers, pa.int8()).take(encoded.indices)


def whole_times(numbers: Any, ends: tuple[int, int], small: int) -> Any:
    """Return whole numbers of 64 bits as times in nanoseconds, by the least of the run, but for 0, and the greatest;
    ValueError for what is none."""
    least, greatest = ends
    unit, floor = unit_of(greatest, small, least), floor_of(greatest, least)
    if not unit.holds_in_64_bits(greatest):
        raise ValueError(f"time {greatest}: expected a number of 64 bits, in nanoseconds")
    nothing = pa.scalar(None, pa.int64())
    its = pc.if_else(pc.less(pc.abs(numbers), floor), nothing, numbers)  # with the least of 64 bits, whose size is that
    if unit.is_digits:
        dates = nanoseconds_of_digits(pc.fill_null(its, greatest).to_numpy(zero_copy_only=False))
        return pc.if_else(pc.is_valid(its), pa.array(dates), nothing)
    return pc.multiply_checked(pc.subtract_checked(its, unit.zero), unit.factor)


def times_of(column: Any, called: str, counts: Counts) -> Any:
    """Return times in nanoseconds: whole numbers by the greatest of the run, unless their name has the unit; fractions
    are seconds."""
    plain = plain_of(column) if counts_nanoseconds(called) else in_numbers(column)
    kind = plain.type
    if pa.types.is_duration(kind):
        return pc.cast(pc.cast(plain, pa.duration("ns")), pa.int64())
    if pa.types.is_timestamp(kind):
        return pc.cast(pc.cast(plain, pa.timestamp("ns", kind.tz)), pa.int64())
    if pa.types.is_integer(kind):
        whole = pc.cast(plain, pa.int64())
        if counts_nanoseconds(called):
            return whole
        return whole_times(whole, counts.ends.get(called) or ends_of(whole), counts.small)  # which may be no column
    if pa.types.is_floating(kind):
        plain = pc.if_else(pc.is_nan(plain), pa.scalar(None, kind), plain).cast(pa.float64())
        if counts_nanoseconds(called):
            return pc.cast(plain, pa.int64())
        if called in counts.days:
            days = nanoseconds_of_days(pc.fill_null(plain, 0.0).to_numpy())
            return pa.array(days, mask=plain.is_null().to_numpy(zero_copy_only=False))
        factor: Any = pa.scalar(float(SECOND))
        for bound, its in reversed(UNITS):
            factor = pc.if_else(pc.greater_equal(pc.abs(plain), float(bound)), float(its), factor)
        return pc.cast(pc.round(pc.multiply(plain, factor)), pa.int64())
    if pa.types.is_decimal(kind):
        return times_of(pc.cast(plain, pa.float64()), called, counts)
    text = pc.dictionary_encode(text_of(plain))
    times = [nanoseconds(word.strip(), called, counts.small, counts.dates) for word in text.dictionary.to_pylist()]
    return pa.array(times, pa.int64()).take(text.indices)
